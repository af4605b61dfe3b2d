//! What a person has looked at: for each component what it asked for when somebody
//! decided, and how. Kept beside the configuration, in `tollgate.approved.toml`, so
//! that it can be read, and kept with the configuration under version control.

use super::Asks;
use crate::config::{Config, write_atomically};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The file's first lines.
const HEAD: &str = "\
# What each component asked for when a person decided about it. A version that asks\n\
# for more is not served until somebody approves it: tollgate grant COMPONENT --asked\n\n";

/// The record of decisions, by component id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    file: PathBuf,
    components: BTreeMap<String, Approved>,
}

/// What was decided about one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approved {
    /// How it was decided.
    pub decision: Decision,
    /// When, as RFC 3339.
    pub at: String,
    /// The SHA-256 of the version that was looked at.
    pub digest: String,
    /// What that version asked for.
    pub asks: Asks,
}

/// How a person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// It gets what it asks for, as far as the configuration grants it.
    Approved,
    /// It is served without what it asks for, and nobody is asked again.
    Declined,
}

impl Approvals {
    /// Reads the record that belongs to a configuration.
    ///
    /// # Errors
    /// There is one that cannot be read. Without it nobody knows what was approved,
    /// so nothing may be served that asks for something.
    pub fn load(config: &Config) -> Result<Self, String> {
        let file = Self::path(config);
        let unreadable = |why: &dyn std::fmt::Display| {
            format!(
                "the record of approvals {} cannot be read: {why}; restore it, or delete it and approve anew",
                file.display()
            )
        };
        let components = match std::fs::read_to_string(&file) {
            Ok(text) => toml::from_str(&text).map_err(|e| unreadable(&e.message()))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return Err(unreadable(&e)),
        };
        Ok(Self { file, components })
    }

    /// Where the record of a configuration is.
    #[must_use]
    pub fn path(config: &Config) -> PathBuf {
        let name = config.file.as_deref().unwrap_or(Path::new(crate::config::FILE_NAME));
        let stem = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        config.base_dir.join(format!("{stem}.approved.toml"))
    }

    /// What was decided about a component; none where nobody was asked.
    #[must_use]
    pub fn of(&self, component_id: &str) -> Option<&Approved> {
        self.components.get(component_id)
    }

    /// What a version asks for beyond what was approved, in words. Nothing where
    /// nobody has decided about the component yet: it then has what the
    /// configuration grants, and no more.
    #[must_use]
    pub fn beyond(&self, component_id: &str, asks: &Asks) -> Vec<String> {
        self.of(component_id).map(|approved| asks.beyond(&approved.asks)).unwrap_or_default()
    }

    /// Notes a decision and writes the record.
    ///
    /// # Errors
    /// It cannot be written; then nothing has changed.
    pub fn decide(&mut self, component_id: &str, approved: Approved) -> io::Result<()> {
        let mut components = self.components.clone();
        components.insert(component_id.to_owned(), approved);
        let text = toml::to_string(&components).map_err(io::Error::other)?;
        write_atomically(&self.file, &format!("{HEAD}{text}"))?;
        self.components = components;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn approved(asks: &str) -> Approved {
        Approved {
            decision: Decision::Approved,
            at: "2026-01-01T00:00:00Z".to_owned(),
            digest: "ab".to_owned(),
            asks: toml::from_str(asks).unwrap(),
        }
    }

    #[test]
    fn decisions_are_read_back_and_hold_for_what_was_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::parse(&dir.path().join("tollgate.toml"), "").unwrap();
        let mut approvals = Approvals::load(&config).unwrap();
        let more: Asks = toml::from_str("http = [\"https://a.test/\", \"https://b.test/\"]").unwrap();
        assert!(approvals.beyond("fetch", &more).is_empty(), "nobody decided yet");
        approvals.decide("fetch", approved("http = [\"https://a.test/\"]")).unwrap();
        let again = Approvals::load(&config).unwrap();
        assert_eq!(again.of("fetch"), approvals.of("fetch"));
        assert_eq!(again.beyond("fetch", &more), ["send HTTP requests: https://b.test/"]);
        assert!(again.beyond("other", &more).is_empty());
    }

    #[test]
    fn a_record_that_cannot_be_read_is_no_approval() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::parse(&dir.path().join("strict.toml"), "").unwrap();
        std::fs::write(dir.path().join("strict.approved.toml"), "[fetch]\ndecision = \"yes\"").unwrap();
        let why = Approvals::load(&config).unwrap_err();
        assert!(why.contains("strict.approved.toml") && why.contains("approve anew"), "{why}");
    }
}
