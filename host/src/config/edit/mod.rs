//! Edits `tollgate.toml` as a person would: everything else stays as it was, with its comments.
//! A change that would make the file unreadable is not written.

mod block;
mod files;
mod text;

use super::change::{Changes, read};
use super::{Config, in_dir};
use std::path::{Path, PathBuf};
use tollgate_sandbox::FileAccess;
use toml_edit::Value;

/// A configuration file under edit.
#[derive(Debug)]
pub struct Edit {
    path: PathBuf,
    /// The text as it was read, with the changes.
    text: String,
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
        Config::parse(path, &text).map_err(|e| e.to_string())?;
        Ok(Self { path: path.to_owned(), text, changes: Vec::new() })
    }

    /// Adds to a component's grants. Existing grants stay. An existing directory or setting of
    /// the same name is changed in place and keeps the keys that are not given, such as its
    /// quota.
    pub fn grant(&mut self, component_id: &str, powers: &Powers) {
        self.changes.push(Change::Grant(component_id.to_owned(), powers.clone()));
        for (key, value) in &powers.lists {
            self.apply(|text| text::add(text, &["grants", component_id, key], value));
        }
        for agent in &powers.delegates {
            self.apply(|text| files::add_delegate(text, component_id, agent));
        }
        for file in &powers.files {
            for (key, value) in files::pairs(file) {
                self.apply(|text| files::set(text, component_id, file, key, &value));
            }
        }
        for (name, value) in &powers.settings {
            let value = Value::from(value.as_str()).to_string();
            self.apply(|text| text::set(text, &["grants", component_id, "settings", name], &value));
        }
        for (key, value) in &powers.state {
            self.apply(|text| text::add(text, &["grants", component_id, "state", key], value));
        }
    }

    /// Returns whether the file defines this secret.
    #[must_use]
    pub fn has_secret(&self, name: &str) -> bool {
        text::has(&self.text, &["secrets", name])
    }

    /// Returns whether the file defines this agent.
    #[must_use]
    pub fn has_agent(&self, id: &str) -> bool {
        let config = Config::parse(&self.path, &self.text);
        id != super::DIRECT_AGENT && config.is_ok_and(|config| config.agents.contains_key(id))
    }

    /// Removes from a component's grants. Returns those that were not granted.
    pub fn revoke(&mut self, component_id: &str, powers: &Powers) -> Vec<String> {
        self.changes.push(Change::Revoke(component_id.to_owned(), powers.clone()));
        let mut absent = Vec::new();
        let mut note = |was_there: bool, what: &str| absent.extend((!was_there).then(|| what.to_owned()));
        for (key, value) in &powers.lists {
            let path = ["grants", component_id, key];
            note(self.apply(|text| text::take(text, &path, value)), value);
        }
        for agent in &powers.delegates {
            note(self.apply(|text| files::remove(text, component_id, files::DELEGATES, agent)), agent);
        }
        for file in &powers.files {
            let guest = &file.guest;
            note(self.apply(|text| files::remove(text, component_id, files::FILES, guest)), guest);
        }
        for (name, _) in &powers.settings {
            note(self.remove(&["grants", component_id, "settings", name]), name);
        }
        for (key, value) in &powers.state {
            let path = ["grants", component_id, "state", key];
            note(self.apply(|text| text::take(text, &path, value)), value);
        }
        absent
    }

    /// Removes all grants of a component; returns false if it had none.
    pub fn revoke_all(&mut self, component_id: &str) -> bool {
        self.changes.push(Change::RevokeAll(component_id.to_owned()));
        self.remove(&["grants", component_id])
    }

    /// Returns the configuration with these changes, without writing it.
    ///
    /// # Errors
    /// The result is not a valid configuration.
    pub fn preview(&self) -> Result<Config, String> {
        Config::parse(&self.path, &self.text).map_err(|e| e.to_string())
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
            let mut edit = Self { path: path.clone(), text: text.to_owned(), changes: Vec::new() };
            changes.iter().for_each(|change| edit.make(change));
            let config = edit.preview()?;
            Ok((edit.text, config))
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

    /// Applies a change to the text; returns false if there is nothing to change.
    fn apply(&mut self, change: impl FnOnce(&str) -> Option<String>) -> bool {
        let Some(changed) = change(&self.text) else { return false };
        self.text = changed;
        true
    }

    /// Removes everything under a path, which may occur in several places of the text.
    fn remove(&mut self, path: &[&str]) -> bool {
        let was_there = text::has(&self.text, path);
        while self.apply(|text| text::cut(text, path)) {}
        was_there && !text::has(&self.text, path)
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
