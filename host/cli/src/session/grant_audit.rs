//! Audit records of a person's decisions about powers: one record for each power, with the version
//! that was decided about.

use crate::render::powers::phrase;
use tollgate::config::ComponentGrants;
use tollgate::grants::RequestedGrants;
use tollgate::store::{AuditKind, AuditRecord};
use tollgate_agent::SmolStr;

/// The component that was decided about, and its version at that time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) id: &'a str,
    /// The SHA-256 of the version; `None` if the component does not exist.
    pub(crate) digest: Option<&'a str>,
}

impl About<'_> {
    /// Returns the records of the powers that a person granted.
    pub(crate) fn granted(self, before: &ComponentGrants, after: &ComponentGrants) -> Vec<AuditRecord> {
        let noted = self.each(AuditKind::Grant, "granted", &more(before, after));
        self.or_nothing(noted, AuditKind::Grant, "granted", "it already had all of this")
    }

    /// Returns the records of the powers that a person revoked.
    pub(crate) fn revoked(self, before: &ComponentGrants, after: &ComponentGrants) -> Vec<AuditRecord> {
        let noted = self.each(AuditKind::Revocation, "revoked", &more(after, before));
        self.or_nothing(noted, AuditKind::Revocation, "revoked", "it had none of this")
    }

    /// Returns the record that a person approved this version, with what it requests.
    pub(crate) fn approved(self, asked: &[String]) -> AuditRecord {
        let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join("; ") };
        self.record(AuditKind::Grant, "approved").because(&format!("this version asks for: {asked}"))
    }

    /// Returns the records of what a person declined: the component's requests, and what else this
    /// version needs.
    pub(crate) fn declined(self, asks: Option<&RequestedGrants>, news: &[String]) -> Vec<AuditRecord> {
        let (asked, needed) = asked_and_needed(asks, news);
        let mut noted = self.each(AuditKind::Denial, "declined", &asked);
        let needed = needed.iter().map(|what| self.record(AuditKind::Denial, "declined").because(what));
        noted.extend(needed);
        self.or_nothing(noted, AuditKind::Denial, "declined", "it lacks nothing that it asks for")
    }

    /// Returns the record that a recorded decision could not be written and has no effect.
    pub(crate) fn not_written(self, why: &dyn std::fmt::Display) -> AuditRecord {
        AuditRecord::new(AuditKind::Revocation, "host", "revoked")
            .of_component(self.id, self.digest.map(SmolStr::new))
            .because(&format!("the decision recorded just before had no effect: {why}"))
    }

    fn each(self, kind: AuditKind, decision: &str, powers: &[(String, String)]) -> Vec<AuditRecord> {
        let of_one = |(power, what): &(String, String)| {
            self.record(kind, decision).of_power(power.as_str()).because(what)
        };
        powers.iter().map(of_one).collect()
    }

    /// Records the decision even if it changed nothing.
    fn or_nothing(
        self,
        mut noted: Vec<AuditRecord>,
        kind: AuditKind,
        decision: &str,
        why: &str,
    ) -> Vec<AuditRecord> {
        if noted.is_empty() {
            noted.push(self.record(kind, decision).because(why));
        }
        noted
    }

    fn record(self, kind: AuditKind, decision: &str) -> AuditRecord {
        AuditRecord::new(kind, "person", decision).of_component(self.id, self.digest.map(SmolStr::new))
    }
}

/// Returns the grants of `after` that `before` lacks, each with its power.
fn more(before: &ComponentGrants, after: &ComponentGrants) -> Vec<(String, String)> {
    let known = before.each();
    let news = after.each().iter().filter(|grant| !known.contains(grant));
    news.map(|grant| (grant.kind.power(), phrase(grant))).collect()
}

/// Returns the part of the news that the manifest requests, each with its power, then the rest.
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

    fn told(records: &[AuditRecord]) -> Vec<(&str, &str)> {
        records
            .iter()
            .map(|record| (record.power.as_deref().unwrap_or(""), record.detail.as_deref().unwrap_or("")))
            .collect()
    }

    #[test]
    fn each_power_that_changed_is_a_record_of_its_own() {
        let about = About { id: "it", digest: Some("ab") };
        let before = granted("http = [\"https://a.test/\"]\nsettings = { x = \"1\" }");
        let after = granted(
            "http = [\"https://a.test/\", \"https://b.test/\"]\nsettings = { x = \"2\" }\n\
             state = { read = [\"mail.box\"] }\nactions = [\"add-context\"]\n\
             files = [{ host = \"/h\", guest = \"/x\" }]",
        );
        let records = about.granted(&before, &after);
        assert!(records.iter().all(|record| record.digest.as_deref() == Some("ab")));
        assert_eq!(
            told(&records),
            [
                ("files", "/x is /h (read)"),
                ("http", "http https://b.test/ (reading requests to b.test)"),
                ("settings", "x = 2"),
                ("state-read", "reads mail.box"),
                ("actions", "add-context"),
            ]
        );
        assert_eq!(told(&about.revoked(&after, &before)).len(), 5);
        assert_eq!(told(&about.granted(&before, &before)), [("", "it already had all of this")]);
        // A quota does not appear in the words, and is a change.
        let quota = granted("files = [{ host = \"/h\", guest = \"/x\", quota_bytes = 9 }]");
        let other = granted("files = [{ host = \"/h\", guest = \"/x\", quota_bytes = 10 }]");
        assert_eq!(told(&about.granted(&quota, &other))[0].0, "files");
    }

    #[test]
    fn what_is_declined_is_noted_with_its_power() {
        let asks: RequestedGrants =
            toml::from_str("http = [\"https://a.test/\"]\nsettings = [\"x\"]").unwrap();
        let news = ["read the setting x".to_owned(), "the power `files`".to_owned()];
        let records = About { id: "it", digest: None }.declined(Some(&asks), &news);
        assert_eq!(told(&records), [("settings", "read the setting x"), ("", "the power `files`")]);
    }
}
