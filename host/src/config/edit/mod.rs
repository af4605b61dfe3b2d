//! Edits `tollgate.toml` as a person would: everything else stays as it was, with its comments.
//! A change that would make the file unreadable is not written.

mod document;

use super::change::{Changes, read};
use super::{Config, in_dir};
use std::path::{Path, PathBuf};
use tollgate_sandbox::FileAccess;
use toml_edit::{DocumentMut, Value};

pub(super) use document::{push, to_text};

/// A configuration file under edit.
#[derive(Debug)]
pub struct Edit {
    path: PathBuf,
    /// The text as it was read.
    text: String,
    /// The text's content with the changes.
    document: DocumentMut,
    /// The changes, which are applied again to the file's current content on save.
    changes: Vec<Change>,
}

/// One change to the grants.
#[derive(Debug)]
enum Change {
    Grant(String, Powers),
    Revoke(String, Powers),
    RevokeAll(String),
}

/// Grants of one component, as they are typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Powers {
    /// Directories.
    pub files: Vec<FileValue>,
    /// Values of the lists, each with its key: `http`, `addresses`, `secrets`, `environment`,
    /// `actions`.
    pub lists: Vec<(&'static str, String)>,
    /// Settings with their values.
    pub settings: Vec<(String, String)>,
    /// State keys of other components, each with `read` or `write`.
    pub state: Vec<(&'static str, String)>,
    /// Agents that its tools may run, by id.
    pub delegates: Vec<String>,
}

/// A directory to grant or revoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileValue {
    /// The host directory; empty if only the guest's path is given.
    pub host: PathBuf,
    /// The path at which the component sees it.
    pub guest: String,
    /// Whether the component may write to it.
    pub access: FileAccess,
    /// The number of bytes that may be written to it; `None` keeps the existing value or the
    /// default.
    pub quota_bytes: Option<u64>,
}

impl Edit {
    /// Opens the configuration file for editing, or starts an empty one if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid configuration.
    pub fn open(path: &Path) -> Result<Self, String> {
        let text = read(path).map_err(|why| format!("{} {why}", path.display()))?.unwrap_or_default();
        Self::of(path, &text)
    }

    fn of(path: &Path, text: &str) -> Result<Self, String> {
        Config::parse(path, text).map_err(|e| e.to_string())?;
        let document = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { path: path.to_owned(), text: text.to_owned(), document, changes: Vec::new() })
    }

    /// Adds to a component's grants. Existing grants stay. An existing directory or setting of
    /// the same name is changed in place and keeps the keys that are not given, such as its
    /// quota.
    pub fn grant(&mut self, component_id: &str, powers: &Powers) {
        self.changes.push(Change::Grant(component_id.to_owned(), powers.clone()));
        let document = &mut self.document;
        for (key, value) in &powers.lists {
            document::add(document, &["grants", component_id, key], None, value, &[]);
        }
        for agent in &powers.delegates {
            let path = ["grants", component_id, "delegates"];
            document::add(document, &path, Some("agent"), agent, &[]);
        }
        for file in &powers.files {
            let path = ["grants", component_id, "files"];
            document::add(document, &path, Some("guest"), &file.guest, &file.pairs());
        }
        for (name, value) in &powers.settings {
            if let Some(settings) = document::table(document, &["grants", component_id, "settings"]) {
                document::set(settings, name, &value.into());
            }
        }
        for (key, value) in &powers.state {
            document::add(document, &["grants", component_id, "state", key], None, value, &[]);
        }
        document::add_header(document, &["grants", component_id]);
    }

    /// Returns whether the file defines this secret.
    #[must_use]
    pub fn has_secret(&self, name: &str) -> bool {
        self.document.get("secrets").is_some_and(|secrets| secrets.get(name).is_some())
    }

    /// Returns whether the file defines this agent.
    #[must_use]
    pub fn has_agent(&self, id: &str) -> bool {
        let config = self.preview();
        id != super::DIRECT_AGENT && config.is_ok_and(|config| config.agents.contains_key(id))
    }

    /// Removes from a component's grants. Returns those that were not granted.
    pub fn revoke(&mut self, component_id: &str, powers: &Powers) -> Vec<String> {
        self.changes.push(Change::Revoke(component_id.to_owned(), powers.clone()));
        let document = &mut self.document;
        let mut absent = Vec::new();
        let mut note = |was_there: bool, what: &str| absent.extend((!was_there).then(|| what.to_owned()));
        for (key, value) in &powers.lists {
            note(document::take(document, &["grants", component_id, key], None, value).is_some(), value);
        }
        for agent in &powers.delegates {
            let path = ["grants", component_id, "delegates"];
            note(document::take(document, &path, Some("agent"), agent).is_some(), agent);
        }
        for FileValue { guest, .. } in &powers.files {
            let path = ["grants", component_id, "files"];
            note(document::take(document, &path, Some("guest"), guest).is_some(), guest);
        }
        for (name, _) in &powers.settings {
            note(document::remove(document, &["grants", component_id, "settings", name]).is_some(), name);
        }
        for (key, value) in &powers.state {
            note(
                document::take(document, &["grants", component_id, "state", key], None, value).is_some(),
                value,
            );
        }
        absent
    }

    /// Removes all grants of a component; returns false if it had none.
    pub fn revoke_all(&mut self, component_id: &str) -> bool {
        self.changes.push(Change::RevokeAll(component_id.to_owned()));
        document::remove(&mut self.document, &["grants", component_id]).is_some()
    }

    /// Returns the configuration with these changes, without writing it.
    ///
    /// # Errors
    /// The result is not a valid configuration.
    pub fn preview(&self) -> Result<Config, String> {
        Config::parse(&self.path, &to_text(&self.document, &self.text)).map_err(|e| e.to_string())
    }

    /// Applies the changes to the file's current content and writes it if the result is a valid
    /// configuration. Readers see the old file in the meantime.
    ///
    /// # Errors
    /// The result is not valid, or the file cannot be written. The file is then unchanged.
    pub fn save(self) -> Result<Config, String> {
        let mut changes = Changes::begin(&self.path)?;
        let config = self.prepare(&mut changes)?;
        changes.commit()?;
        Ok(config)
    }

    /// Applies the changes to the file's current content, as part of changes that are still to
    /// be committed. Returns the resulting configuration.
    ///
    /// # Errors
    /// The result is not valid, or the new text cannot be written.
    pub fn prepare(self, with: &mut Changes) -> Result<Config, String> {
        let Self { path, changes, .. } = self;
        with.prepare(&path, |text| {
            let mut edit = Self::of(&path, text)?;
            changes.iter().for_each(|change| edit.make(change));
            Ok((to_text(&edit.document, text), edit.preview()?))
        })
    }

    fn make(&mut self, change: &Change) {
        match change {
            Change::Grant(component_id, powers) => self.grant(component_id, powers),
            // Grants that another process has revoked in the meantime are gone as well.
            Change::Revoke(component_id, powers) => drop(self.revoke(component_id, powers)),
            Change::RevokeAll(component_id) => {
                self.revoke_all(component_id);
            }
        }
    }
}

impl FileValue {
    /// Returns the keys and values of its table.
    fn pairs(&self) -> Vec<(&'static str, Value)> {
        let access = if self.access == FileAccess::Read { "read" } else { "read-write" };
        let host = self.host.to_string_lossy();
        let mut pairs =
            vec![("host", Value::from(&*host)), ("guest", (&self.guest).into()), ("access", access.into())];
        // The largest integer of TOML is more than any disk holds.
        let quota = self.quota_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        pairs.extend(quota.map(|bytes| ("quota_bytes", bytes.into())));
        pairs
    }
}

/// Resolves the directory of a grant: a relative path is typed relative to the working
/// directory, but the configuration reads it relative to its own.
#[must_use]
pub fn granted_path(typed: &Path, base_dir: &Path) -> PathBuf {
    if in_dir(base_dir, typed) == typed {
        return typed.to_owned();
    }
    std::path::absolute(typed).unwrap_or_else(|_| typed.to_owned())
}

#[cfg(test)]
mod tests;
