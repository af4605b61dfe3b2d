//! Audit records of a person's decisions about powers: one record for each power, with the version
//! that was decided about.

use crate::render::powers::phrase;
use tollgate::config::ComponentGrants;
use tollgate::grants::RequestedGrants;
use tollgate::store::{AuditKind, AuditRecord};
use tollgate_agent::SmolStr;

/// The component that a decision is about, and its version at that time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditSubject<'a> {
    /// The component's id.
    pub(crate) id: &'a str,
    /// The SHA-256 of the version; `None` if the component does not exist.
    pub(crate) digest: Option<&'a str>,
}

impl AuditSubject<'_> {
    /// Returns the records of the powers that a person granted.
    pub(crate) fn granted(self, before: &ComponentGrants, after: &ComponentGrants) -> Vec<AuditRecord> {
        let records = self.each(AuditKind::Grant, "granted", &added(before, after));
        self.or_unchanged(records, AuditKind::Grant, "granted", "it already had all of this")
    }

    /// Returns the records of the powers that a person revoked.
    pub(crate) fn revoked(self, before: &ComponentGrants, after: &ComponentGrants) -> Vec<AuditRecord> {
        let records = self.each(AuditKind::Revocation, "revoked", &added(after, before));
        self.or_unchanged(records, AuditKind::Revocation, "revoked", "it had none of this")
    }

    /// Returns the record that a person approved this version, with what it requests.
    pub(crate) fn approved(self, asked: &[String]) -> AuditRecord {
        let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join("; ") };
        self.record(AuditKind::Grant, "approved").because(&format!("this version asks for: {asked}"))
    }

    /// Returns the records of the powers that a person declined. `news` are the powers that were
    /// offered, in words: requests of the manifest, and further needs of this version.
    pub(crate) fn declined(self, asks: Option<&RequestedGrants>, news: &[String]) -> Vec<AuditRecord> {
        let (asked, needed) = asked_and_needed(asks, news);
        let mut records = self.each(AuditKind::Denial, "declined", &asked);
        let needed = needed.iter().map(|what| self.record(AuditKind::Denial, "declined").because(what));
        records.extend(needed);
        self.or_unchanged(records, AuditKind::Denial, "declined", "it lacks nothing that it asks for")
    }

    /// Returns the record that the decision recorded just before could not be written to the
    /// configuration and has no effect.
    pub(crate) fn not_written(self, why: &dyn std::fmt::Display) -> AuditRecord {
        AuditRecord::new(AuditKind::Revocation, "host", "revoked")
            .of_component(self.id, self.digest.map(SmolStr::new))
            .because(&format!("the decision recorded just before had no effect: {why}"))
    }

    /// Returns one record for each power, which comes with its words.
    fn each(self, kind: AuditKind, decision: &str, powers: &[(String, String)]) -> Vec<AuditRecord> {
        let of_one = |(power, what): &(String, String)| {
            self.record(kind, decision).of_power(power.as_str()).because(what)
        };
        powers.iter().map(of_one).collect()
    }

    /// Returns the records, or one for a decision that changed nothing, with the reason.
    fn or_unchanged(
        self,
        mut records: Vec<AuditRecord>,
        kind: AuditKind,
        decision: &str,
        why: &str,
    ) -> Vec<AuditRecord> {
        if records.is_empty() {
            records.push(self.record(kind, decision).because(why));
        }
        records
    }

    fn record(self, kind: AuditKind, decision: &str) -> AuditRecord {
        AuditRecord::new(kind, "person", decision).of_component(self.id, self.digest.map(SmolStr::new))
    }
}

/// Returns the grants of `after` that `before` lacks, each as its power and in words.
fn added(before: &ComponentGrants, after: &ComponentGrants) -> Vec<(String, String)> {
    let known = before.each();
    let added = after.each().iter().filter(|grant| !known.contains(grant));
    added.map(|grant| (grant.kind.power(), phrase(grant))).collect()
}

/// Returns the news that the manifest requests, each as its power and in words, and the other news.
fn asked_and_needed(asks: Option<&RequestedGrants>, news: &[String]) -> (Vec<(String, String)>, Vec<String>) {
    let requests = asks.map(RequestedGrants::requests).unwrap_or_default();
    let asked = requests.into_iter().filter(|request| news.contains(&request.what));
    let asked: Vec<_> = asked.map(|request| (request.kind.power(), request.what)).collect();
    let is_rest = |what: &&String| asked.iter().all(|(_, known)| known != *what);
    let rest = news.iter().filter(is_rest).cloned().collect();
    (asked, rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::Path;
    use tollgate::config::Config;

    fn granted(text: &str) -> ComponentGrants {
        Config::parse(Path::new("tollgate.toml"), &format!("[grants.it]\n{text}")).unwrap().grants_of("it")
    }

    fn powers_and_details(records: &[AuditRecord]) -> Vec<(&str, &str)> {
        records
            .iter()
            .map(|record| (record.power.as_deref().unwrap_or(""), record.detail.as_deref().unwrap_or("")))
            .collect()
    }

    #[test]
    fn each_power_that_changed_is_a_record_of_its_own() {
        let subject = AuditSubject { id: "it", digest: Some("ab") };
        let before = granted("http = [\"https://a.test/\"]\nsettings = { x = \"1\" }");
        let after = granted(
            "http = [\"https://a.test/\", \"https://b.test/\"]\nsettings = { x = \"2\" }\n\
             state = { read = [\"mail.box\"] }\nactions = [\"add-context\"]\n\
             files = [{ host = \"/h\", guest = \"/x\" }]",
        );
        let records = subject.granted(&before, &after);
        assert!(records.iter().all(|record| record.digest.as_deref() == Some("ab")));
        assert_eq!(
            powers_and_details(&records),
            [
                ("files", "/x is /h (read)"),
                ("http", "http https://b.test/ (reading requests to b.test)"),
                ("settings", "x = 2"),
                ("state-read", "reads mail.box"),
                ("actions", "add-context"),
            ]
        );
        assert_eq!(powers_and_details(&subject.revoked(&after, &before)).len(), 5);
        assert_eq!(
            powers_and_details(&subject.granted(&before, &before)),
            [("", "it already had all of this")]
        );
        // The words of a directory that is only read leave out its quota, but another quota is a change.
        let quota = granted("files = [{ host = \"/h\", guest = \"/x\", quota_bytes = 9 }]");
        let other = granted("files = [{ host = \"/h\", guest = \"/x\", quota_bytes = 10 }]");
        assert_eq!(powers_and_details(&subject.granted(&quota, &other))[0].0, "files");
    }

    #[test]
    fn each_declined_power_is_a_record_of_its_own() {
        let asks: RequestedGrants =
            toml::from_str("http = [\"https://a.test/\"]\nsettings = [\"x\"]").unwrap();
        let news = ["read the setting x".to_owned(), "the power `files`".to_owned()];
        let records = AuditSubject { id: "it", digest: None }.declined(Some(&asks), &news);
        assert_eq!(
            powers_and_details(&records),
            [("settings", "read the setting x"), ("", "the power `files`")]
        );
    }
}
