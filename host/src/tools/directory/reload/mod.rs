//! Reloads a tools directory while its tools are in use.
//!
//! Each refresh compares the files with the last known state, loads new ones and publishes those
//! that can be served. A file that is half written, damaged or asks for more than was approved
//! changes nothing: its previous version stays in service, and the reason is recorded. A new
//! version replaces the old one atomically; calls in flight keep theirs. Grants and revocations
//! take effect with the next refresh, for calls that begin after it.

mod refresh;
mod retired;

use super::approval::{Approval, NoNewPowers};
use super::change::Change;
use super::claims::Claims;
use super::decisions::{ComponentDecisions, Decisions};
use super::files::Stamp;
use super::loaded::{LoadedComponent, LoadedTools};
use super::refusal::FileRefusal;
use super::{CheckedComponent, ReadyComponent, file_name};
use crate::config::Config;
use crate::grants::manifest_of;
use crate::tools::{RefusedFile, ServedTools, Toolbox};
use retired::RetiredComponents;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_agent::name;
use tollgate_agent::surface::Surface;
use tollgate_registry::Lock;
use tollgate_sandbox::Sandbox;

/// The last known state of the directory.
pub struct DirectoryState {
    tools: ServedTools,
    sandbox: Sandbox,
    decisions: Decisions,
    approval: Arc<dyn Approval>,
    /// The stamps of each file and its manifest when the file was last loaded.
    seen: BTreeMap<PathBuf, (Stamp, Option<Stamp>)>,
    /// The served version of each file that has one.
    serving: BTreeMap<PathBuf, ServedVersion>,
    retired: RetiredComponents,
    /// Files that might be served if another file did not have their id or a name of their tools.
    displaced: BTreeSet<PathBuf>,
    /// The claims of all files that could be loaded.
    claims: Claims,
    /// Whether a decision was made since refused files were last tried.
    decided_anew: bool,
}

/// The served version of a file.
#[derive(Clone)]
struct ServedVersion {
    entry: LoadedComponent,
    /// The decisions under which it is served.
    decided: ComponentDecisions,
}

impl ServedVersion {
    fn of(entry: &LoadedComponent, decisions: &Decisions) -> Self {
        Self { entry: entry.clone(), decided: decisions.of(&entry.id) }
    }

    /// Returns whether the other is the same version with the same powers.
    fn is_same_as(&self, other: &Self) -> bool {
        (&self.entry.digest, &self.entry.asks, &self.decided)
            == (&other.entry.digest, &other.entry.asks, &other.decided)
    }
}

impl DirectoryState {
    /// Creates the state from the tools that were loaded at start. `tools` are those of the host
    /// that serves them.
    #[must_use]
    pub fn new(
        tools: impl Into<ServedTools>,
        sandbox: Sandbox,
        config: Arc<Config>,
        loaded: &LoadedTools,
    ) -> Self {
        let tools = tools.into();
        let decisions = Decisions::new(config, loaded.approvals.clone(), loaded.lock.clone());
        let served = |entry: &LoadedComponent| (entry.file.clone(), ServedVersion::of(entry, &decisions));
        let serving = loaded.components.iter().map(served).collect();
        let stamps = |(file, stamp): (&PathBuf, &Stamp)| (file.clone(), with_manifest(file, *stamp));
        let seen = loaded.stamps.iter().map(stamps).collect();
        // Any file refused at start may be displaced; only a new attempt can tell.
        let displaced = loaded.toolbox.refused().iter().map(|refused| refused.file.clone()).collect();
        Self {
            tools,
            sandbox,
            decisions,
            approval: Arc::new(NoNewPowers),
            seen,
            serving,
            retired: RetiredComponents::default(),
            displaced,
            claims: loaded.claims.clone(),
            decided_anew: false,
        }
    }

    /// Sets the policy for new versions of components.
    #[must_use]
    pub fn with_approval(mut self, approval: Arc<dyn Approval>) -> Self {
        self.approval = approval;
        self
    }

    /// Returns the tools of the host.
    pub(super) fn tools(&self) -> &ServedTools {
        &self.tools
    }

    /// Returns the watched directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.decisions.config.tools_dir
    }

    /// Returns the components that are served, and the record of their origins.
    pub(super) fn served(&self) -> (Vec<LoadedComponent>, Lock) {
        let components = self.serving.values().map(|serving| serving.entry.clone());
        (components.collect(), self.decisions.lock.clone())
    }

    /// Returns the directory of the decision files, and their names.
    pub(super) fn decision_files(&self) -> (PathBuf, Vec<PathBuf>) {
        self.decisions.files()
    }

    /// Removes files that are gone. A file that moved is served under its new name, because its
    /// old one is gone by then.
    fn drop_missing(&mut self, there: &BTreeSet<&Path>) -> Vec<Change> {
        let gone: Vec<PathBuf> =
            self.seen.keys().filter(|file| !there.contains(file.as_path())).cloned().collect();
        let mut changes = Vec::new();
        for file in gone {
            self.seen.remove(&file);
            self.displaced.remove(&file);
            self.claims.set(&file, None);
            let served = self.serving.remove(&file);
            self.tools.change(|toolbox| {
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

    /// Returns whether a decision about the file changed since it was loaded.
    fn was_decided_anew(&self, file: &Path) -> bool {
        let served = self.serving.get(file);
        served.is_none_or(|serving| serving.decided != self.decisions.of(&serving.entry.id))
            || self.tools.current().refused().iter().any(|refused| refused.file == file)
    }

    /// Serves a file that changed or about which a new decision was made, or records why it is not
    /// served.
    fn take_up(&mut self, file: &Path, component: Result<CheckedComponent, FileRefusal>) -> Vec<Change> {
        let before = self.serving.get(file).cloned();
        self.displaced.remove(file);
        let ready = component.and_then(|component| self.ready(component, file));
        let now = ready.as_ref().ok().map(|ready| ServedVersion::of(&ready.entry, &self.decisions));
        if let (Some(before), Some(now)) = (&before, &now)
            && before.is_same_as(now)
        {
            // The file is as it was before, whatever happened in between.
            if self.tools.current().refused().iter().any(|refused| refused.file == file) {
                self.tools.change(|toolbox| toolbox.accept(file));
            }
            return Vec::new();
        }
        match ready.and_then(|ready| self.swap_in(&ready, before.as_ref(), file)) {
            Ok((serving, ousted)) => {
                let change = change_to(&serving, before.as_ref(), file);
                self.retired.forget(&serving.entry.id);
                let id = serving.entry.id.clone();
                let replaced = self.serving.insert(file.to_owned(), serving);
                replaced.filter(|replaced| replaced.entry.id != id).into_iter().for_each(|r| self.retire(r));
                let ousted = ousted.into_iter().map(|other| self.displace(&other, &id, file));
                ousted.chain([change]).collect()
            }
            Err(refusal) => vec![Change::Refused(self.refuse(file, refusal, before))],
        }
    }

    /// Prepares a file for service, if it owns the component id that it claims.
    fn ready(&mut self, checked: CheckedComponent, file: &Path) -> Result<ReadyComponent, FileRefusal> {
        let serving = self.served_as(&checked.component.descriptor().id);
        let Decisions { config, approvals, lock, .. } = &self.decisions;
        if let Err(contested) = self.claims.judge(file, approvals, serving) {
            self.displaced.insert(file.to_owned());
            return Err(contested.refusal);
        }
        ReadyComponent::new(checked, file, config, approvals, lock).map_err(|unready| unready.refusal)
    }

    /// Returns the file that is served under this id.
    fn served_as(&self, id: &str) -> Option<&Path> {
        let mut serving = self.serving.iter();
        serving.find(|(_, serving)| serving.entry.id == id).map(|(file, _)| file.as_path())
    }

    /// Puts a component into service, if it may be. A version that a person has approved always
    /// may. Also returns the other files that it displaced.
    fn swap_in(
        &mut self,
        ready: &ReadyComponent,
        before: Option<&ServedVersion>,
        file: &Path,
    ) -> Result<(ServedVersion, Vec<PathBuf>), FileRefusal> {
        let serving = ServedVersion::of(&ready.entry, &self.decisions);
        if !serving.decided.approves(&serving.entry.digest) {
            let id = &serving.entry.id;
            let same_id = before.map(|before| &before.entry).filter(|before| &before.id == id);
            self.approval.judge(&ready.entry, same_id.or_else(|| self.retired.get(id)))?;
        }
        let ousted = self.in_the_way(&serving.entry, file);
        let others: Vec<_> = ousted.iter().filter_map(|file| self.serving.get(file)).collect();
        let swapped = self.tools.update(|toolbox| swap(toolbox, ready, before, &others, file));
        if swapped.is_err() {
            self.displaced.insert(file.to_owned());
        }
        Ok(swapped.map(|()| (serving, ousted))?)
    }

    /// Returns the undecided files that occupy the id or a name of this version, if this
    /// version was decided about.
    fn in_the_way(&self, newcomer: &LoadedComponent, file: &Path) -> Vec<PathBuf> {
        let approvals = &self.decisions.approvals;
        if !approvals.knows(&newcomer.id, &newcomer.digest) {
            return Vec::new();
        }
        let is_undecided =
            |other: &LoadedComponent| other.id == newcomer.id || approvals.of(&other.id).is_none();
        let is_in_the_way = |(other, serving): &(&PathBuf, &ServedVersion)| {
            *other != file
                && is_undecided(&serving.entry)
                && collide(&newcomer.surface, &serving.entry.surface)
        };
        self.serving.iter().filter(is_in_the_way).map(|(other, _)| other.clone()).collect()
    }

    /// Takes a displaced file out of service.
    fn displace(&mut self, ousted: &Path, id: &str, by: &Path) -> Change {
        // Another component of the same id is not compared with it.
        let served = self.serving.remove(ousted).filter(|served| served.entry.id != id);
        served.into_iter().for_each(|served| self.retire(served));
        self.displaced.insert(ousted.to_owned());
        let reason = format!(
            "{} has its id, or a name of its tools, and a person decided about that version of {id}; remove one \
             of the two",
            file_name(by)
        );
        Change::Refused(self.refuse(ousted, reason.into(), None))
    }

    /// Records why a file is not served. Its previous version stays in service, unless its grants
    /// have changed since: it may have powers that were revoked.
    fn refuse(&mut self, file: &Path, refusal: FileRefusal, before: Option<ServedVersion>) -> RefusedFile {
        let has_other_grants =
            |before: &ServedVersion| before.decided.grants != self.decisions.of(&before.entry.id).grants;
        let outdated = before.clone().filter(has_other_grants);
        if outdated.is_some() {
            self.serving.remove(file).into_iter().for_each(|outdated| self.retire(outdated));
        }
        let still_serves = before.filter(|_| outdated.is_none()).map(|before| before.entry.digest);
        let refused = refusal.into_refused_file(file, still_serves);
        self.tools.change(|toolbox| {
            outdated.iter().for_each(|outdated| toolbox.remove(&outdated.entry.id));
            toolbox.accept(file);
            toolbox.refuse(refused.clone());
        });
        refused
    }

    /// Remembers a version that is no longer served.
    fn retire(&mut self, served: ServedVersion) {
        let grants = &self.decisions.config.grants;
        self.retired.remember(served.entry, |id| grants.contains_key(id));
    }
}

/// Returns the stamps of a file and its manifest.
fn with_manifest(file: &Path, stamp: Stamp) -> (Stamp, Option<Stamp>) {
    (stamp, Stamp::of(&manifest_of(file)))
}

/// Returns the change that this newly served version means.
fn change_to(serving: &ServedVersion, before: Option<&ServedVersion>, file: &Path) -> Change {
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

/// Returns whether two components cannot be served together, because an id or a tool name of one
/// looks like that of the other.
fn collide(one: &Surface, other: &Surface) -> bool {
    let folded = |surface: &Surface| -> BTreeSet<(bool, String)> {
        let names = surface.tools.iter().map(|tool| (true, name::fold(&tool.name)));
        let ids = surface.tools.iter().map(|tool| (false, name::fold(&tool.id)));
        names.chain(ids).collect()
    };
    name::fold(&one.id) == name::fold(&other.id) || !folded(one).is_disjoint(&folded(other))
}

/// Replaces the old version, and those that must make room, by the new one. If this fails, the
/// toolbox must not be published.
fn swap(
    toolbox: &mut Toolbox,
    ready: &ReadyComponent,
    before: Option<&ServedVersion>,
    ousted: &[&ServedVersion],
    file: &Path,
) -> Result<(), String> {
    let gone = before.into_iter().chain(ousted.iter().copied());
    gone.for_each(|gone| toolbox.remove(&gone.entry.id));
    ready.join(toolbox).map_err(|why| format!("{} cannot take its place: {why}", file_name(file)))?;
    toolbox.accept(file);
    Ok(())
}
