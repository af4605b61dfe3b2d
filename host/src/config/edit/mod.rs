//! Changes `tollgate.toml` as a person would: what is not meant stays as it was, with
//! its comments. Nothing is written that could not be read back.

mod block;
mod files;
mod text;

use super::change::{Changes, read};
use super::{Config, in_dir};
use std::path::{Path, PathBuf};
use tollgate_sandbox::FileAccess;
use toml_edit::Value;

/// A configuration file that is being changed.
#[derive(Debug)]
pub struct Edit {
    path: PathBuf,
    /// The file as it was read, with the changes.
    text: String,
    /// The changes, to be made again to what the file holds when it is written.
    changes: Vec<Change>,
}

/// One change of grants.
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
    /// Values of the lists, each with its key: `http`, `addresses`, `secrets`,
    /// `environment`, `actions`.
    pub lists: Vec<(&'static str, String)>,
    /// Settings with their values.
    pub settings: Vec<(String, String)>,
    /// Other components' state keys, each behind `read` or `write`.
    pub state: Vec<(&'static str, String)>,
    /// Agents that its tools may run, by id.
    pub delegates: Vec<String>,
}

/// A directory as it is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileValue {
    /// The directory of the host; empty where only the guest's path is meant.
    pub host: PathBuf,
    /// Where the component sees it.
    pub guest: String,
    /// Whether it may be changed.
    pub access: FileAccess,
    /// Bytes that may be written to it; none leaves what is there, or else the default.
    pub quota_bytes: Option<u64>,
}

impl Edit {
    /// Reads the file that a configuration came from, or begins the one that it
    /// would come from.
    ///
    /// # Errors
    /// It cannot be read, or is no configuration.
    pub fn open(path: &Path) -> Result<Self, String> {
        let text = read(path).map_err(|why| format!("{} {why}", path.display()))?.unwrap_or_default();
        Config::parse(path, &text).map_err(|e| e.to_string())?;
        Ok(Self { path: path.to_owned(), text, changes: Vec::new() })
    }

    /// Adds to what a component was granted. What is there already is left alone; a
    /// directory or setting of the same name is changed where it stands, and keeps
    /// what is not named, such as its quota.
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

    /// Whether the file says where this secret is.
    #[must_use]
    pub fn has_secret(&self, name: &str) -> bool {
        text::has(&self.text, &["secrets", name])
    }

    /// Whether the file knows this agent.
    #[must_use]
    pub fn has_agent(&self, id: &str) -> bool {
        let config = Config::parse(&self.path, &self.text);
        id != crate::DIRECT_AGENT && config.is_ok_and(|config| config.agents.contains_key(id))
    }

    /// Takes away from what a component was granted. The answer says what of it was
    /// not there.
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

    /// Takes everything away from a component; false where it had nothing.
    pub fn revoke_all(&mut self, component_id: &str) -> bool {
        self.changes.push(Change::RevokeAll(component_id.to_owned()));
        self.remove(&["grants", component_id])
    }

    /// What the configuration would be with these changes.
    ///
    /// # Errors
    /// What was added cannot be meant.
    pub fn preview(&self) -> Result<Config, String> {
        Config::parse(&self.path, &self.text).map_err(|e| e.to_string())
    }

    /// Makes the changes to what the file holds now, and writes it, if it still is a
    /// configuration; whoever reads it meanwhile reads the old one.
    ///
    /// # Errors
    /// What was added cannot be meant, or the file cannot be written. Then nothing
    /// has changed.
    pub fn save(self) -> Result<Config, String> {
        let mut changes = Changes::begin(&self.path)?;
        let config = self.prepare(&mut changes)?;
        changes.commit()?;
        Ok(config)
    }

    /// Makes the changes to what the file holds now, as a part of changes that are still to
    /// be committed. Returns the configuration as it then is.
    ///
    /// # Errors
    /// What was added cannot be meant, or the new text cannot be written.
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
            // What somebody else has revoked meanwhile is gone as well.
            Change::Revoke(component_id, powers) => drop(self.revoke(component_id, powers)),
            Change::RevokeAll(component_id) => {
                self.revoke_all(component_id);
            }
        }
    }

    /// Changes the text; false where there is nothing to change.
    fn apply(&mut self, change: impl FnOnce(&str) -> Option<String>) -> bool {
        let Some(changed) = change(&self.text) else { return false };
        self.text = changed;
        true
    }

    /// Removes what stands under a path, which may be in several places of the text.
    fn remove(&mut self, path: &[&str]) -> bool {
        let was_there = text::has(&self.text, path);
        while self.apply(|text| text::cut(text, path)) {}
        was_there && !text::has(&self.text, path)
    }
}

/// The directory of a grant, as the configuration is to have it: a relative path is
/// typed where the person is, and read from where the configuration is.
#[must_use]
pub fn granted_path(typed: &Path, base_dir: &Path) -> PathBuf {
    if in_dir(base_dir, typed) == typed {
        return typed.to_owned();
    }
    std::path::absolute(typed).unwrap_or_else(|_| typed.to_owned())
}

#[cfg(test)]
mod tests;
