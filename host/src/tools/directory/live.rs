//! A tools directory that changes while its tools are called.
//!
//! Each look compares the files with what was seen before, loads what is new and
//! publishes what can be served. A file that is half written, damaged or asks for more
//! than was approved changes nothing: what it served before goes on serving, with the
//! reason beside it. What is loaded takes the old version's place in one step; calls
//! under way keep theirs.

use super::stamp::Stamp;
use super::{Loaded, LoadedComponent, Ready, component_files, file_name};
use crate::Host;
use crate::config::Config;
use crate::powers::Approvals;
use crate::store::{AuditKind, AuditRecord};
use crate::tools::{RefusedFile, Toolbox};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_agent::surface::Surface;
use tollgate_sandbox::Sandbox;

/// Says whether a component that was loaded may be served.
pub trait Approval: Send + Sync {
    /// Judges a component that appeared, or a new version of one that is served now.
    ///
    /// # Errors
    /// Why it may not, and what a person does who wants it.
    fn judge(&self, new: &LoadedComponent, serving: Option<&Surface>) -> Result<(), String>;
}

/// A new version may ask for what the one that serves asks for, and no more.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMoreThanServed;

impl Approval for NoMoreThanServed {
    fn judge(&self, new: &LoadedComponent, serving: Option<&Surface>) -> Result<(), String> {
        let more = serving.map(|serving| new.surface.beyond(serving)).unwrap_or_default();
        if more.is_empty() {
            return Ok(());
        }
        Err(format!(
            "this version asks for more than the one that serves: {}. Look at it with `tollgate inspect`, and restart to serve it",
            more.join(", ")
        ))
    }
}

/// What a look at the directory found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A file is served from now on.
    Served {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
        /// The SHA-256 of its bytes, in hexadecimal.
        digest: String,
        /// The digest of the version whose place it took.
        replaced: Option<String>,
    },
    /// A file cannot be served.
    Refused(RefusedFile),
    /// A file that was served is gone, and its tools with it.
    Removed {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
    },
}

impl Change {
    /// What the audit says of it.
    #[must_use]
    pub fn to_audit(&self) -> AuditRecord {
        match self {
            Self::Served { file, component_id, digest, .. } => {
                AuditRecord::new(AuditKind::Load, "host", "served")
                    .of_file(file)
                    .of_component(component_id.clone(), Some(digest.clone()))
            }
            Self::Refused(refused) => refused.to_audit(),
            Self::Removed { file, component_id } => AuditRecord::new(AuditKind::Removal, "host", "removed")
                .of_file(file)
                .of_component(component_id.clone(), None),
        }
    }
}

/// The directory as it was last seen.
pub struct Live {
    host: Host,
    sandbox: Sandbox,
    config: Arc<Config>,
    approval: Arc<dyn Approval>,
    seen: BTreeMap<PathBuf, Stamp>,
    serving: BTreeMap<PathBuf, Serving>,
    /// Files that would be served if another did not have their place.
    displaced: BTreeSet<PathBuf>,
}

/// What is served of a file.
#[derive(Clone)]
struct Serving {
    id: String,
    digest: String,
    surface: Surface,
}

impl Serving {
    fn of(entry: &LoadedComponent) -> Self {
        Self { id: entry.id.clone(), digest: entry.digest.clone(), surface: entry.surface.clone() }
    }
}

impl Live {
    /// Goes on from what was loaded at start, which the host serves.
    #[must_use]
    pub fn new(host: Host, sandbox: Sandbox, config: Arc<Config>, loaded: &Loaded) -> Self {
        let serving =
            loaded.components.iter().map(|entry| (entry.file.clone(), Serving::of(entry))).collect();
        let seen = loaded.stamps.clone();
        // Which of those that were refused at start are displaced is found out by trying.
        let displaced = loaded.toolbox.refused().iter().map(|refused| refused.file.clone()).collect();
        Self { host, sandbox, config, approval: Arc::new(NoMoreThanServed), seen, serving, displaced }
    }

    /// Sets who says whether a new version may take an old one's place.
    #[must_use]
    pub fn with_approval(mut self, approval: Arc<dyn Approval>) -> Self {
        self.approval = approval;
        self
    }

    /// The host whose tools they are.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The directory that is looked at.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.config.tools_dir
    }

    /// Looks at the directory, publishes what changed, and says what that is. A
    /// directory that cannot be read is taken to be as it was.
    pub async fn look(&mut self) -> Vec<Change> {
        let dir = self.config.tools_dir.clone();
        let listed = tokio::task::spawn_blocking(move || component_files(&dir)).await;
        let Ok(Ok(files)) = listed else { return Vec::new() };
        let mut changes = self.drop_missing(&files.iter().map(|(file, _)| file.as_path()).collect());
        for (file, stamp) in &files {
            if self.seen.get(file) != Some(stamp) {
                changes.extend(self.take_up(file).await);
                self.seen.insert(file.clone(), *stamp);
            }
        }
        let made_room = |change: &Change| match change {
            Change::Removed { .. } => true,
            Change::Served { replaced, .. } => replaced.is_some(),
            Change::Refused(_) => false,
        };
        if changes.iter().any(made_room) {
            for file in std::mem::take(&mut self.displaced) {
                let tried = self.take_up(&file).await;
                changes.extend(tried.filter(|change| matches!(change, Change::Served { .. })));
            }
        }
        changes
    }

    /// A file that moved serves under its new name, for its old one is gone by then.
    fn drop_missing(&mut self, there: &BTreeSet<&Path>) -> Vec<Change> {
        let gone: Vec<PathBuf> =
            self.seen.keys().filter(|file| !there.contains(file.as_path())).cloned().collect();
        let mut changes = Vec::new();
        for file in gone {
            self.seen.remove(&file);
            self.displaced.remove(&file);
            let served = self.serving.remove(&file);
            self.amend(|toolbox| {
                toolbox.accept(&file);
                served.iter().for_each(|serving| toolbox.remove(&serving.id));
            });
            changes.extend(served.map(|serving| Change::Removed { file, component_id: serving.id }));
        }
        changes
    }

    /// Loads a file that changed, and lets it take its place.
    async fn take_up(&mut self, file: &Path) -> Option<Change> {
        let before = self.serving.get(file).cloned();
        self.displaced.remove(file);
        let ready = match self.sandbox.load(file).await {
            Ok(component) if before.as_ref().is_some_and(|before| before.digest == component.digest()) => {
                // The same bytes as before, whatever happened in between.
                if self.host.toolbox().refused().iter().any(|refused| refused.file == file) {
                    self.amend(|toolbox| toolbox.accept(file));
                }
                return None;
            }
            Ok(component) => Approvals::load(&self.config).and_then(|approvals| {
                Ready::new(component, file, &self.config, &approvals).map_err(|unready| unready.reason)
            }),
            Err(refusal) => Err(refusal.to_string()),
        };
        let swapped = ready.and_then(|ready| {
            let of_the_same = before.as_ref().filter(|before| before.id == ready.entry.id);
            self.approval.judge(&ready.entry, of_the_same.map(|before| &before.surface))?;
            let serving = Serving::of(&ready.entry);
            let swapped = self.host.amend(|toolbox| swap(toolbox, &ready, before.as_ref(), file));
            if swapped.is_err() {
                self.displaced.insert(file.to_owned());
            }
            swapped.map(|()| serving)
        });
        Some(match swapped {
            Ok(serving) => {
                let change = Change::Served {
                    file: file.to_owned(),
                    component_id: serving.id.clone(),
                    digest: serving.digest.clone(),
                    replaced: before.map(|before| before.digest),
                };
                self.serving.insert(file.to_owned(), serving);
                change
            }
            Err(reason) => {
                let still_serves = before.map(|before| before.digest);
                let refused = RefusedFile { file: file.to_owned(), reason, still_serves };
                self.amend(|toolbox| {
                    toolbox.accept(file);
                    toolbox.refuse(refused.clone());
                });
                Change::Refused(refused)
            }
        })
    }

    fn amend(&self, change: impl FnOnce(&mut Toolbox)) {
        let amended: Result<(), std::convert::Infallible> = self.host.amend(|toolbox| {
            change(toolbox);
            Ok(())
        });
        // It cannot fail.
        let Ok(()) = amended;
    }
}

/// The new version takes the old one's place, or the old one keeps it.
fn swap(toolbox: &mut Toolbox, ready: &Ready, before: Option<&Serving>, file: &Path) -> Result<(), String> {
    before.iter().for_each(|before| toolbox.remove(&before.id));
    ready.join(toolbox).map_err(|why| format!("{} cannot take its place: {why}", file_name(file)))?;
    toolbox.accept(file);
    Ok(())
}
