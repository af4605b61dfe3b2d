//! One refresh of the directory. Compiling a file may take a minute; removals and decisions about
//! other files do not wait for it.

use super::super::change::Change;
use super::super::decisions::UnreadableDecisions;
use super::super::files::Stamp;
use super::super::refusal::FileRefusal;
use super::super::{CheckedComponent, component_files, digest_of, load_one};
use super::{DirectoryState, with_manifest};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The interval of checks for removals and decisions while a file is loaded.
const KEEP_UP_EVERY: Duration = Duration::from_millis(250);

impl DirectoryState {
    /// Examines the directory and the decisions, publishes changes, and returns them. A
    /// directory that cannot be read counts as unchanged.
    pub async fn refresh(&mut self) -> Vec<Change> {
        let mut changes = self.keep_up().await;
        let Some(files) = self.listed().await else { return changes };
        let decided_anew = std::mem::take(&mut self.decided_anew);
        // Load all files before serving one: the owner of an id must not depend on file names.
        let mut found = Vec::new();
        for (file, stamp) in &files {
            let stamps = with_manifest(file, *stamp);
            // The file may have been removed while another was loaded.
            if file.symlink_metadata().is_err() {
                continue;
            }
            if self.seen.get(file) != Some(&stamps) || (decided_anew && self.was_decided_anew(file)) {
                found.push((file, self.load_beside(file, &mut changes).await));
                self.seen.insert(file.clone(), stamps);
            }
        }
        for (file, component) in found {
            for change in self.take_up(file, component) {
                if !is_known(&change, &changes) {
                    changes.push(change);
                }
            }
        }
        let made_room = |change: &Change| match change {
            Change::Removed { .. } => true,
            Change::Served { replaced, .. } => replaced.is_some(),
            Change::Refused(_) | Change::Granted { .. } | Change::Unread { .. } => false,
        };
        if self.claims.were_given_up() || changes.iter().any(made_room) {
            for file in std::mem::take(&mut self.displaced) {
                let component = self.load_beside(&file, &mut changes).await;
                let tried = self.take_up(&file, component);
                changes.extend(tried.into_iter().filter(|change| matches!(change, Change::Served { .. })));
            }
        }
        changes
    }

    /// Lists the current component files. `None` if the directory cannot be read.
    async fn listed(&self) -> Option<Vec<(PathBuf, Stamp)>> {
        let dir = self.dir().to_owned();
        tokio::task::spawn_blocking(move || component_files(&dir)).await.ok()?.ok()
    }

    /// Applies removals and decisions to the served components, which needs no compiler.
    async fn keep_up(&mut self) -> Vec<Change> {
        let Some(files) = self.listed().await else { return Vec::new() };
        let mut changes = self.drop_missing(&files.iter().map(|(file, _)| file.as_path()).collect());
        let (decided_anew, unread) = self.decisions.renew();
        changes.extend(
            unread.into_iter().map(|UnreadableDecisions { file, reason }| Change::Unread { file, reason }),
        );
        if !decided_anew {
            return changes;
        }
        // Refused files may need compiling; they wait for their turn.
        self.decided_anew = true;
        for (file, stamp) in &files {
            let is_unchanged = self.seen.get(file) == Some(&with_manifest(file, *stamp));
            if is_unchanged && self.serving.contains_key(file) && self.was_decided_anew(file) {
                let component = self.load(file).await;
                changes.extend(self.take_up(file, component));
            }
        }
        changes
    }

    /// Loads a file, which may take a minute to compile, and applies removals and decisions
    /// about others in the meantime.
    async fn load_beside(
        &mut self,
        file: &Path,
        changes: &mut Vec<Change>,
    ) -> Result<CheckedComponent, FileRefusal> {
        let sandbox = self.sandbox.clone();
        let mut loading = std::pin::pin!(load_one(&sandbox, file));
        let loaded = loop {
            tokio::select! {
                loaded = &mut loading => break loaded,
                () = tokio::time::sleep(KEEP_UP_EVERY) => changes.extend(self.keep_up().await),
            }
        };
        self.claim(file, loaded).await
    }

    /// Loads a file and records its claim.
    async fn load(&mut self, file: &Path) -> Result<CheckedComponent, FileRefusal> {
        let loaded = load_one(&self.sandbox, file).await;
        self.claim(file, loaded).await
    }

    /// Records the claim of a file.
    async fn claim(
        &mut self,
        file: &Path,
        loaded: Result<CheckedComponent, FileRefusal>,
    ) -> Result<CheckedComponent, FileRefusal> {
        match loaded {
            Ok(checked) => {
                let component = &checked.component;
                self.claims.set(file, Some((&component.descriptor().id, component.digest())));
                Ok(checked)
            }
            Err(refusal) => {
                match digest_of(file).await {
                    Some(digest) => self.claims.set_unloaded(file, digest),
                    None => self.claims.set(file, None),
                }
                Err(refusal)
            }
        }
    }
}

/// Returns whether the same file was already refused for the same reason.
fn is_known(change: &Change, changes: &[Change]) -> bool {
    let Change::Refused(refused) = change else { return false };
    changes.iter().any(|known| match known {
        Change::Refused(known) => (&known.file, &known.reason) == (&refused.file, &refused.reason),
        _ => false,
    })
}
