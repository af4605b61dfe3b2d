//! Edits the grants in `tollgate.toml` as a person would: everything else stays, with its
//! comments. A change that would make the file unreadable is not written.

mod document;

use super::change::{Changes, ConfigChangeError, read};
use super::grants::{Details, Form, Grant};
use super::paths::in_dir;
use super::{Config, ConfigError};
use std::path::{Path, PathBuf};
use toml_edit::DocumentMut;

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
    changes: Vec<GrantChange>,
}

/// One change to the grants of a component.
#[derive(Debug)]
enum GrantChange {
    Grant(String, Vec<Grant>),
    Revoke(String, Vec<Grant>),
    RevokeAll(String),
}

/// The reason why a configuration file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Its content, or the content that the change would lead to, is not a valid configuration.
    #[error(transparent)]
    Invalid(#[from] ConfigError),
    /// The file cannot be read or written.
    #[error(transparent)]
    NotChanged(#[from] ConfigChangeError),
}

impl Edit {
    /// Opens the configuration file for editing, or starts an empty one if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid configuration.
    pub fn open(path: &Path) -> Result<Self, EditError> {
        let unread = |what: String| ConfigChangeError { file: path.to_owned(), what };
        let text = read(path).map_err(unread)?.unwrap_or_default();
        Self::of(path, &text)
    }

    fn of(path: &Path, text: &str) -> Result<Self, EditError> {
        Config::parse(path, text)?;
        let syntax = |e: toml_edit::TomlError| ConfigChangeError {
            file: path.to_owned(),
            what: format!("is invalid: {e}"),
        };
        let document = text.parse::<DocumentMut>().map_err(syntax)?;
        Ok(Self { path: path.to_owned(), text: text.to_owned(), document, changes: Vec::new() })
    }

    /// Adds to a component's grants. Existing grants stay. An existing directory or setting of
    /// the same name is changed in place and keeps the keys that are not given, such as its
    /// quota.
    pub fn grant(&mut self, component_id: &str, grants: &[Grant]) {
        self.make(GrantChange::Grant(component_id.to_owned(), grants.to_vec()));
    }

    /// Removes from a component's grants. Returns the names of those that were not granted.
    pub fn revoke(&mut self, component_id: &str, grants: &[Grant]) -> Vec<String> {
        self.make(GrantChange::Revoke(component_id.to_owned(), grants.to_vec()))
    }

    /// Removes all grants of a component; returns false if it had none.
    pub fn revoke_all(&mut self, component_id: &str) -> bool {
        self.make(GrantChange::RevokeAll(component_id.to_owned())).is_empty()
    }

    fn make(&mut self, change: GrantChange) -> Vec<String> {
        let absent = change.apply(&mut self.document);
        self.changes.push(change);
        absent
    }

    /// Returns whether the file defines this secret.
    #[must_use]
    pub fn has_secret(&self, name: &str) -> bool {
        self.document.get("secrets").is_some_and(|secrets| secrets.get(name).is_some())
    }

    /// Returns whether the file defines this agent.
    #[must_use]
    pub fn has_agent(&self, id: &str) -> bool {
        id != super::DIRECT_AGENT && self.preview().is_ok_and(|config| config.agents.contains_key(id))
    }

    /// Returns the configuration with these changes, without writing it.
    ///
    /// # Errors
    /// The result is not a valid configuration.
    pub fn preview(&self) -> Result<Config, EditError> {
        Ok(Config::parse(&self.path, &to_text(&self.document, &self.text))?)
    }

    /// Applies the changes to the file's current content and writes it if the result is a valid
    /// configuration. Readers see the old file in the meantime.
    ///
    /// # Errors
    /// The result is not valid, or the file cannot be written. The file is then unchanged.
    pub fn save(self) -> Result<Config, EditError> {
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
    pub fn prepare(self, with: &mut Changes) -> Result<Config, EditError> {
        with.prepare(&self.path, |text| {
            let mut edit = Self::of(&self.path, text)?;
            for change in &self.changes {
                // Grants that another process has revoked in the meantime are gone as well.
                change.apply(&mut edit.document);
            }
            Ok((to_text(&edit.document, text), edit.preview()?))
        })
    }
}

impl GrantChange {
    /// Applies the change; returns the names of grants to revoke that do not exist.
    fn apply(&self, document: &mut DocumentMut) -> Vec<String> {
        match self {
            Self::Grant(component_id, grants) => {
                for grant in grants {
                    add(document, component_id, grant);
                }
                document::add_header(document, &["grants", component_id]);
                Vec::new()
            }
            Self::Revoke(component_id, grants) => {
                let absent = grants.iter().filter(|grant| take(document, component_id, grant).is_none());
                absent.map(|grant| grant.name.clone()).collect()
            }
            Self::RevokeAll(component_id) => match document::remove(document, &["grants", component_id]) {
                Some(()) => Vec::new(),
                None => vec![component_id.clone()],
            },
        }
    }
}

fn add(document: &mut DocumentMut, component_id: &str, grant: &Grant) -> Option<()> {
    let row = grant.kind.row();
    let path = [&["grants", component_id], row.path].concat();
    match (row.form, &grant.details) {
        (Form::Values, Details::Value(value)) => {
            document::set(document::table(document, &path)?, &grant.name, &value.into());
            Some(())
        }
        (Form::Values, _) => None,
        (form, details) => document::add(document, &path, form.name_key(), &grant.name, &details.values()),
    }
}

fn take(document: &mut DocumentMut, component_id: &str, grant: &Grant) -> Option<()> {
    let row = grant.kind.row();
    let path = [&["grants", component_id], row.path].concat();
    match row.form {
        Form::Values => document::remove(document, &[&path, &[&*grant.name][..]].concat()),
        form => document::take(document, &path, form.name_key(), &grant.name),
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
