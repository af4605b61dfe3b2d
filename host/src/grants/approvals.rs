//! The record of approvals: for each component its requests and surface at the time of the
//! decision, and the decision itself. It is stored beside the configuration in
//! `tollgate.approved.toml`, so that it can be read and put under version control together with
//! it.

use super::RequestedGrants;
use crate::config::{Changes, Config, ConfigChangeError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use tollgate_agent::descriptor::ToolDescriptor;
use tollgate_agent::name;
use tollgate_agent::surface::{Needs, Surface};

/// The file's first lines.
const HEAD: &str = "\
# The requests of each component when a person decided about it. A version that asks\n\
# for more is not served until a person approves it: tollgate grant COMPONENT --asked\n\n";

/// The record of decisions, by component id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    file: PathBuf,
    components: BTreeMap<String, ComponentApproval>,
    /// The components for which each tool name was decided about, by the case-folded name.
    tools: BTreeMap<String, BTreeSet<String>>,
}

/// The record of approvals cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the record of approvals {} cannot be read: {why}; restore it, or delete it and approve anew",
    file.display()
)]
pub struct ApprovalsError {
    /// The file.
    pub file: PathBuf,
    /// The reason.
    pub why: String,
}

/// The decision about one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentApproval {
    /// How it was decided.
    pub decision: Decision,
    /// The time of the decision, as RFC 3339.
    pub at: String,
    /// The SHA-256 of the version that was examined.
    pub digest: String,
    /// The SHA-256 of a later version that asked for more and was declined. It is not served,
    /// and is not presented for approval again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
    /// The SHA-256 of a version that a person accepted and whose installation has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installing: Option<String>,
    /// The requests of that version; `None` if it had no manifest and asked for whatever it was
    /// granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<RequestedGrants>,
    /// The needs of its imports and its declaration; `None` in a record that was written by
    /// hand without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// The SHA-256 of each tool's text, by tool name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
}

/// The kinds of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// It receives what it requests, as far as the configuration grants it.
    Approved,
    /// It is served without the grants that it lacks, and is not presented for approval again.
    Declined,
    /// Something was granted while this version was installed. Later versions are compared with
    /// it; requests that were not granted are still open.
    Granted,
}

impl ComponentApproval {
    /// Creates a decision, made now, about the version with this digest, these requests and
    /// this surface.
    #[must_use]
    pub fn now(decision: Decision, digest: &str, asks: Option<RequestedGrants>, surface: &Surface) -> Self {
        let words = |tool: &ToolDescriptor| (tool.name.clone(), hash_of(tool));
        Self {
            decision,
            at: jiff::Timestamp::now().to_string(),
            digest: digest.to_owned(),
            declined: None,
            installing: None,
            asks,
            needs: Some(surface.needs()),
            tools: surface.tools.iter().map(words).collect(),
        }
    }
}

impl Approvals {
    /// Reads the record that belongs to a configuration.
    ///
    /// # Errors
    /// The record exists and cannot be read. Without it the approvals are unknown, so no
    /// component with requests may be served.
    pub fn load(config: &Config) -> Result<Self, ApprovalsError> {
        let file = Self::path(config);
        let unreadable =
            |why: &dyn std::fmt::Display| ApprovalsError { file: file.clone(), why: why.to_string() };
        let components = match crate::config::read_text(&file) {
            Ok(text) => toml::from_str(&text).map_err(|e| unreadable(&e.message()))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return Err(unreadable(&e)),
        };
        Ok(Self { file, tools: owners_of_tools(&components), components })
    }

    /// Returns the path of a configuration's record.
    #[must_use]
    pub fn path(config: &Config) -> PathBuf {
        let name = config.file.as_deref().unwrap_or(Path::new(crate::config::FILE_NAME));
        let stem = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        config.base_dir.join(format!("{stem}.approved.toml"))
    }

    /// Returns the decision about a component; `None` if there is none.
    #[must_use]
    pub fn of(&self, component_id: &str) -> Option<&ComponentApproval> {
        self.components.get(component_id)
    }

    /// Returns whether there is any decision about the version with this digest.
    #[must_use]
    pub fn knows(&self, component_id: &str, digest: &str) -> bool {
        self.of(component_id).is_some_and(|approved| approved.digest == digest)
    }

    /// Returns whether a person accepted the version with this digest, even if its installation was
    /// interrupted.
    #[must_use]
    pub fn has_accepted(&self, component_id: &str, digest: &str) -> bool {
        let is_installing = |approved: &ComponentApproval| approved.installing.as_deref() == Some(digest);
        self.knows(component_id, digest) || self.of(component_id).is_some_and(is_installing)
    }

    /// Returns the requests of a component with this manifest. If the manifest is gone, returns
    /// the requests at the time of the decision.
    #[must_use]
    pub fn asks_of(&self, component_id: &str, manifest: Option<RequestedGrants>) -> Option<RequestedGrants> {
        manifest.or_else(|| self.of(component_id)?.asks.clone())
    }

    /// Describes the requests and needs of a version beyond the approved ones: tool names that
    /// were approved for another component, and powers beyond its own approval. A component
    /// without a decision has the grants of the configuration and nothing more.
    #[must_use]
    pub fn excess_over(&self, asks: Option<&RequestedGrants>, surface: &Surface) -> Vec<String> {
        let names = self.names_of_others(surface);
        let Some(approved) = self.of(&surface.id) else { return names };
        let asks = asks.zip(approved.asks.as_ref()).map(|(asks, known)| asks.excess_over(known));
        let needs = approved.needs.as_ref().map(|known| surface.needs().excess_over(known));
        names.into_iter().chain(asks.into_iter().chain(needs).flatten()).collect()
    }

    /// Returns tool names that were approved for another component and not for this one, or
    /// resemble such a name. Rules and remembered answers refer to names, whether the other
    /// component is served or not.
    fn names_of_others(&self, surface: &Surface) -> Vec<String> {
        let taken = surface.tools.iter().filter_map(|tool| {
            let owners = self.tools.get(&name::fold(&tool.name))?;
            let other = owners.first().filter(|_| !owners.contains(&surface.id))?;
            Some(format!(
                "the name of the tool `{}`, which was approved for the component {other}",
                tool.name
            ))
        });
        taken.collect()
    }

    /// Returns the tools of a version whose text differs from the approved one, sorted by name.
    /// Empty if there is no decision about the component.
    #[must_use]
    pub fn reworded(&self, surface: &Surface) -> Vec<String> {
        let Some(approved) = self.of(&surface.id).filter(|approved| approved.needs.is_some()) else {
            return Vec::new();
        };
        let is_new = |tool: &&ToolDescriptor| approved.tools.get(&tool.name) != Some(&hash_of(tool));
        surface.tools.iter().filter(is_new).map(|tool| tool.name.clone()).collect()
    }

    /// Records that a later version of a component was declined, as part of changes that are
    /// still to be committed. The earlier decision stays in force.
    ///
    /// # Errors
    /// Same as [`Approvals::prepare`].
    pub fn prepare_decline(
        &mut self,
        changes: &mut Changes,
        component_id: &str,
        digest: &str,
    ) -> io::Result<()> {
        self.update(changes, |components| {
            if let Some(before) = components.get_mut(component_id) {
                before.declined = Some(digest.to_owned());
            }
        })
    }

    /// Records a decision and writes the record, including concurrent decisions of other
    /// processes.
    ///
    /// # Errors
    /// The record cannot be written. Then nothing has changed.
    pub fn decide(&mut self, component_id: &str, approved: ComponentApproval) -> io::Result<()> {
        let before = self.clone();
        let decided = Changes::begin(&self.file).map_err(io::Error::other).and_then(|mut changes| {
            self.prepare(&mut changes, component_id, approved)?;
            changes.commit().map_err(io::Error::other)
        });
        if decided.is_err() {
            *self = before;
        }
        decided
    }

    /// Records a decision as part of changes that are still to be committed. It takes effect in
    /// this value immediately.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn prepare(
        &mut self,
        changes: &mut Changes,
        component_id: &str,
        approved: ComponentApproval,
    ) -> io::Result<()> {
        self.update(changes, |components| {
            components.insert(component_id.to_owned(), approved);
        })
    }

    fn update(
        &mut self,
        changes: &mut Changes,
        update: impl FnOnce(&mut BTreeMap<String, ComponentApproval>),
    ) -> io::Result<()> {
        let changed: Result<_, ConfigChangeError> = changes.prepare(&self.file, |text| {
            let failed = |what: String| ConfigChangeError { file: self.file.clone(), what };
            let mut components = toml::from_str(text)
                .map_err(|e: toml::de::Error| failed(format!("cannot be read: {}", e.message())))?;
            update(&mut components);
            let text = toml::to_string(&components).map_err(|e| failed(format!("cannot be written: {e}")))?;
            Ok((format!("{HEAD}{text}"), components))
        });
        let components = changed.map_err(io::Error::other)?;
        self.tools = owners_of_tools(&components);
        self.components = components;
        Ok(())
    }
}

fn owners_of_tools(components: &BTreeMap<String, ComponentApproval>) -> BTreeMap<String, BTreeSet<String>> {
    let mut owners = BTreeMap::<String, BTreeSet<String>>::new();
    for (id, approved) in components {
        for tool in approved.tools.keys() {
            owners.entry(name::fold(tool)).or_default().insert(id.clone());
        }
    }
    owners
}

/// Returns the SHA-256 of a tool's text, in hexadecimal.
fn hash_of(tool: &ToolDescriptor) -> String {
    // Its keys are strings, so serialization cannot fail.
    let text = serde_json::to_string(tool).unwrap_or_default();
    tollgate_agent::digest::digest(text.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_agent::descriptor::{ComponentDescriptor, StateAccess};

    fn asks(text: &str) -> Option<RequestedGrants> {
        Some(toml::from_str(text).unwrap())
    }

    /// Creates a component surface with one tool, these imports and these readable state keys.
    fn surface(powers: &[&str], keys: &[&str], words: &str) -> Surface {
        let key =
            |key: &&str| StateAccess { key: (*key).to_owned(), read: true, write: false, defines: None };
        let descriptor = ComponentDescriptor {
            id: "fetch".to_owned(),
            version: "1".to_owned(),
            tools: vec![ToolDescriptor::new("get", "get", words)],
            state: keys.iter().map(key).collect(),
        };
        Surface::new(&descriptor, powers.iter().copied())
    }

    #[test]
    fn decisions_are_read_back_and_hold_for_what_was_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::parse(&dir.path().join("tollgate.toml"), "").unwrap();
        let mut approvals = Approvals::load(&config).unwrap();
        let more = asks("http = [\"https://a.test/\", \"https://b.test/\"]");
        let seen = surface(&["http"], &["mail.box"], "Gets.");
        let beyond = |approvals: &Approvals, surface: &Surface| approvals.excess_over(more.as_ref(), surface);
        assert!(beyond(&approvals, &seen).is_empty(), "undecided");
        let approved =
            ComponentApproval::now(Decision::Approved, "ab", asks("http = [\"https://a.test/\"]"), &seen);
        approvals.decide("fetch", approved).unwrap();
        let again = Approvals::load(&config).unwrap();
        assert_eq!(again.of("fetch"), approvals.of("fetch"));
        assert_eq!(
            beyond(&again, &seen),
            ["send HTTP requests: https://b.test/ (reading requests to b.test)"]
        );
        let curious = surface(&["http", "files"], &["mail.box", "plan.day"], "Gets.");
        assert_eq!(beyond(&again, &curious)[1..], ["the power `files`", "to read the state key `plan.day`"]);
        let nobodys = Surface { id: "other".to_owned(), tools: Vec::new(), ..curious.clone() };
        assert!(again.excess_over(more.as_ref(), &nobodys).is_empty());
        assert_eq!(again.asks_of("fetch", None), asks("http = [\"https://a.test/\"]"), "what was approved");
        assert!(again.reworded(&seen).is_empty());
        assert_eq!(again.reworded(&surface(&["http"], &["mail.box"], "Gets, and tells.")), ["get"]);
    }

    #[test]
    fn r1_a_tools_name_stays_with_the_component_for_which_it_was_approved() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::parse(&dir.path().join("tollgate.toml"), "").unwrap();
        let mut approvals = Approvals::load(&config).unwrap();
        let fetch = surface(&[], &[], "Gets.");
        let mut evil = Surface { id: "evil".to_owned(), ..fetch.clone() };
        evil.tools[0].name = "G-ET".replace('-', "");
        assert!(approvals.excess_over(None, &evil).is_empty());
        approvals.decide("fetch", ComponentApproval::now(Decision::Approved, "ab", None, &fetch)).unwrap();
        for approvals in [&approvals, &Approvals::load(&config).unwrap()] {
            let beyond = approvals.excess_over(None, &evil);
            assert_eq!(beyond, ["the name of the tool `GET`, which was approved for the component fetch"]);
            assert!(approvals.excess_over(None, &fetch).is_empty());
            assert!(approvals.knows("fetch", "ab") && !approvals.knows("fetch", "cd"));
        }
        // A person may let both have it.
        approvals.decide("evil", ComponentApproval::now(Decision::Approved, "cd", None, &evil)).unwrap();
        assert!(
            approvals.excess_over(None, &evil).is_empty() && approvals.excess_over(None, &fetch).is_empty()
        );
    }

    fn decline(approvals: &mut Approvals, component_id: &str) {
        let mut changes = Changes::begin(&approvals.file).unwrap();
        approvals.prepare_decline(&mut changes, component_id, "cd").unwrap();
        changes.commit().unwrap();
    }

    #[test]
    fn a_later_version_that_is_declined_changes_nothing_of_what_was_approved() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::parse(&dir.path().join("tollgate.toml"), "").unwrap();
        let mut approvals = Approvals::load(&config).unwrap();
        let approved =
            ComponentApproval::now(Decision::Approved, "ab", asks(""), &surface(&[], &[], "Gets."));
        approvals.decide("fetch", approved.clone()).unwrap();
        decline(&mut approvals, "fetch");
        let again = Approvals::load(&config).unwrap();
        assert_eq!(
            again.of("fetch"),
            Some(&ComponentApproval { declined: Some("cd".to_owned()), ..approved })
        );
    }

    #[test]
    fn z24_decisions_of_others_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::parse(&dir.path().join("tollgate.toml"), "").unwrap();
        let all: Vec<_> = (0..8).map(|_| Approvals::load(&config).unwrap()).collect();
        std::thread::scope(|scope| {
            for (number, mut approvals) in all.into_iter().enumerate() {
                scope.spawn(move || {
                    let approved =
                        ComponentApproval::now(Decision::Approved, "ab", None, &surface(&[], &[], "Gets."));
                    approvals.decide(&format!("tool-{number}"), approved).unwrap();
                    decline(&mut approvals, &format!("tool-{number}"));
                });
            }
        });
        let approvals = Approvals::load(&config).unwrap();
        for number in 0..8 {
            let approved = approvals.of(&format!("tool-{number}")).unwrap();
            assert_eq!((approved.digest.as_str(), approved.declined.as_deref()), ("ab", Some("cd")));
        }
    }

    #[test]
    fn a_record_that_cannot_be_read_is_no_approval() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::parse(&dir.path().join("strict.toml"), "").unwrap();
        std::fs::write(dir.path().join("strict.approved.toml"), "[fetch]\ndecision = \"yes\"").unwrap();
        let why = Approvals::load(&config).unwrap_err().to_string();
        assert!(why.contains("strict.approved.toml") && why.contains("approve anew"), "{why}");
    }
}
