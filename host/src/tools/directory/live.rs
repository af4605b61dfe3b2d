//! A tools directory that changes while its tools are called.
//!
//! Each look compares the files with what was seen before, loads what is new and
//! publishes what can be served. A file that is half written, damaged or asks for more
//! than was approved changes nothing: what it served before goes on serving, with the
//! reason beside it. What is loaded takes the old version's place in one step; calls
//! under way keep theirs. What a person grants or revokes meanwhile counts from the next
//! look on, for calls that begin after it.

use super::decisions::{Decided, Decisions, Unread};
use super::judging::{Approval, NoMoreThanServed, served};
use super::stamp::Stamp;
use super::{Loaded, LoadedComponent, Ready, component_files, file_name, load_one};
use crate::Host;
use crate::config::Config;
use crate::powers::manifest_of;
use crate::store::{AuditKind, AuditRecord};
use crate::tools::{RefusedFile, Toolbox};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_sandbox::Sandbox;

/// The most components that are remembered although they are served no more.
const MAX_RETIRED: usize = 1_000;

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
        /// Its tools whose words are not those that were approved, sorted by name.
        reworded: Vec<String>,
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
    /// The same version as before may do something else from now on.
    Granted {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
        /// The SHA-256 of its bytes, in hexadecimal.
        digest: String,
    },
    /// The configuration, or the record of approvals, cannot be read any more; what it
    /// said before is in force.
    Unread {
        /// The file.
        file: PathBuf,
        /// What happened, why, and what to do.
        reason: String,
    },
}

impl Change {
    /// What the audit says of it.
    #[must_use]
    pub fn to_audit(&self) -> AuditRecord {
        match self {
            Self::Served { file, component_id, digest, reworded, .. } => {
                served(file, component_id, digest, reworded)
            }
            Self::Refused(refused) => refused.to_audit(),
            Self::Removed { file, component_id } => AuditRecord::new(AuditKind::Removal, "host", "removed")
                .of_file(file)
                .of_component(component_id.clone(), None),
            Self::Granted { file, component_id, digest } => {
                AuditRecord::new(AuditKind::Load, "host", "served")
                    .of_file(file)
                    .of_component(component_id, Some(digest.into()))
                    .because("what it was granted is another now")
            }
            Self::Unread { file, reason } => {
                AuditRecord::new(AuditKind::Refusal, "host", "refused").of_file(file).because(reason)
            }
        }
    }
}

/// The directory as it was last seen.
pub struct Live {
    host: Host,
    sandbox: Sandbox,
    decisions: Decisions,
    approval: Arc<dyn Approval>,
    /// Each file and its manifest.
    seen: BTreeMap<PathBuf, (Stamp, Option<Stamp>)>,
    serving: BTreeMap<PathBuf, Serving>,
    /// What was served last of components that are served no more, by their ids: who
    /// comes back is measured by it.
    retired: BTreeMap<String, LoadedComponent>,
    /// Files that would be served if another did not have their place.
    displaced: BTreeSet<PathBuf>,
}

/// What is served of a file.
#[derive(Clone)]
struct Serving {
    entry: LoadedComponent,
    decided: Decided,
}

impl Serving {
    fn of(entry: &LoadedComponent, decisions: &Decisions) -> Self {
        Self { entry: entry.clone(), decided: decisions.of(&entry.id) }
    }

    /// Whether the other is the same version with the same powers.
    fn is_as(&self, other: &Self) -> bool {
        (&self.entry.digest, &self.entry.asks, &self.decided)
            == (&other.entry.digest, &other.entry.asks, &other.decided)
    }
}

impl Live {
    /// Goes on from what was loaded at start, which the host serves.
    #[must_use]
    pub fn new(host: Host, sandbox: Sandbox, config: Arc<Config>, loaded: &Loaded) -> Self {
        let decisions = Decisions::new(config, loaded.approvals.clone());
        let serving = loaded.components.iter();
        let serving = serving.map(|entry| (entry.file.clone(), Serving::of(entry, &decisions))).collect();
        let seen = loaded.stamps.iter().map(|(file, stamp)| (file.clone(), with_manifest(file, *stamp)));
        let seen = seen.collect();
        // Which of those that were refused at start are displaced is found out by trying.
        let displaced = loaded.toolbox.refused().iter().map(|refused| refused.file.clone()).collect();
        let approval = Arc::new(NoMoreThanServed);
        Self { host, sandbox, decisions, approval, seen, serving, retired: BTreeMap::new(), displaced }
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
        &self.decisions.config.tools_dir
    }

    /// The files of decisions: their directory, and their names.
    pub(super) fn decision_files(&self) -> (PathBuf, Vec<PathBuf>) {
        self.decisions.files()
    }

    /// Looks at the directory and at what was decided, publishes what changed, and says
    /// what that is. A directory that cannot be read is taken to be as it was.
    pub async fn look(&mut self) -> Vec<Change> {
        let dir = self.dir().to_owned();
        let listed = tokio::task::spawn_blocking(move || component_files(&dir)).await;
        let Ok(Ok(files)) = listed else { return Vec::new() };
        let mut changes = self.drop_missing(&files.iter().map(|(file, _)| file.as_path()).collect());
        let (decided_anew, unread) = self.decisions.renew();
        changes.extend(unread.into_iter().map(|Unread { file, reason }| Change::Unread { file, reason }));
        for (file, stamp) in &files {
            let stamps = with_manifest(file, *stamp);
            if self.seen.get(file) != Some(&stamps) || (decided_anew && self.was_decided_anew(file)) {
                changes.extend(self.take_up(file).await);
                self.seen.insert(file.clone(), stamps);
            }
        }
        let made_room = |change: &Change| match change {
            Change::Removed { .. } => true,
            Change::Served { replaced, .. } => replaced.is_some(),
            Change::Refused(_) | Change::Granted { .. } | Change::Unread { .. } => false,
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
                served.iter().for_each(|serving| toolbox.remove(&serving.entry.id));
            });
            changes.extend(served.map(|serving| {
                let component_id = serving.entry.id.clone();
                self.retire(serving);
                Change::Removed { file, component_id }
            }));
        }
        changes
    }

    /// Whether something else holds for the file than when it was taken up.
    fn was_decided_anew(&self, file: &Path) -> bool {
        let served = self.serving.get(file);
        served.is_none_or(|serving| serving.decided != self.decisions.of(&serving.entry.id))
            || self.host.toolbox().refused().iter().any(|refused| refused.file == file)
    }

    /// Loads a file that changed, or about which something else was decided, and lets it
    /// take its place.
    async fn take_up(&mut self, file: &Path) -> Option<Change> {
        let before = self.serving.get(file).cloned();
        self.displaced.remove(file);
        let ready = match load_one(&self.sandbox, file).await {
            Ok(component) => Ready::new(component, file, &self.decisions.config, &self.decisions.approvals)
                .map_err(|unready| unready.reason),
            Err(refusal) => Err(refusal.to_string()),
        };
        let now = ready.as_ref().ok().map(|ready| Serving::of(&ready.entry, &self.decisions));
        if let (Some(before), Some(now)) = (&before, &now)
            && before.is_as(now)
        {
            // As it was before, whatever happened in between.
            if self.host.toolbox().refused().iter().any(|refused| refused.file == file) {
                self.amend(|toolbox| toolbox.accept(file));
            }
            return None;
        }
        Some(match ready.and_then(|ready| self.swap_in(&ready, before.as_ref(), file)) {
            Ok(serving) => {
                let change = change_to(&serving, before.as_ref(), file);
                self.retired.remove(&serving.entry.id);
                let id = serving.entry.id.clone();
                let replaced = self.serving.insert(file.to_owned(), serving);
                replaced.filter(|replaced| replaced.entry.id != id).into_iter().for_each(|r| self.retire(r));
                change
            }
            Err(reason) => Change::Refused(self.refuse(file, reason, before)),
        })
    }

    /// Lets a component take its place, if it may. What a person has approved in this
    /// very version may.
    fn swap_in(&mut self, ready: &Ready, before: Option<&Serving>, file: &Path) -> Result<Serving, String> {
        let serving = Serving::of(&ready.entry, &self.decisions);
        if !serving.decided.approves(&serving.entry.digest) {
            let id = &serving.entry.id;
            let of_the_same = before.map(|before| &before.entry).filter(|before| &before.id == id);
            self.approval.judge(&ready.entry, of_the_same.or_else(|| self.retired.get(id)))?;
        }
        let swapped = self.host.amend(|toolbox| swap(toolbox, ready, before, file));
        if swapped.is_err() {
            self.displaced.insert(file.to_owned());
        }
        swapped.map(|()| serving)
    }

    /// Notes why a file is not served. What it served before goes on serving, unless it
    /// would do so with powers that it does not have any more.
    fn refuse(&mut self, file: &Path, reason: String, before: Option<Serving>) -> RefusedFile {
        let outlived = |before: &Serving| before.decided.grants != self.decisions.of(&before.entry.id).grants;
        let outdated = before.clone().filter(outlived);
        if outdated.is_some() {
            self.serving.remove(file).into_iter().for_each(|outdated| self.retire(outdated));
        }
        let still_serves = before.filter(|_| outdated.is_none()).map(|before| before.entry.digest);
        let refused = RefusedFile { file: file.to_owned(), reason, still_serves };
        self.amend(|toolbox| {
            outdated.iter().for_each(|outdated| toolbox.remove(&outdated.entry.id));
            toolbox.accept(file);
            toolbox.refuse(refused.clone());
        });
        refused
    }

    /// Remembers what was served, and is no more.
    fn retire(&mut self, served: Serving) {
        if self.retired.len() >= MAX_RETIRED {
            self.retired.pop_first();
        }
        self.retired.insert(served.entry.id.clone(), served.entry);
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

/// A file's stamp, and that of its manifest.
fn with_manifest(file: &Path, stamp: Stamp) -> (Stamp, Option<Stamp>) {
    (stamp, Stamp::of(&manifest_of(file)))
}

/// What it is to whoever watches that this is served now.
fn change_to(serving: &Serving, before: Option<&Serving>, file: &Path) -> Change {
    let LoadedComponent { id, digest, reworded, .. } = &serving.entry;
    let (file, component_id, digest) = (file.to_owned(), id.clone(), digest.clone());
    match before {
        Some(before) if before.entry.digest == digest => Change::Granted { file, component_id, digest },
        _ => {
            let replaced = before.map(|before| before.entry.digest.clone());
            Change::Served { file, component_id, digest, replaced, reworded: reworded.clone() }
        }
    }
}

/// The new version takes the old one's place, or the old one keeps it.
fn swap(toolbox: &mut Toolbox, ready: &Ready, before: Option<&Serving>, file: &Path) -> Result<(), String> {
    before.iter().for_each(|before| toolbox.remove(&before.entry.id));
    ready.join(toolbox).map_err(|why| format!("{} cannot take its place: {why}", file_name(file)))?;
    toolbox.accept(file);
    Ok(())
}
