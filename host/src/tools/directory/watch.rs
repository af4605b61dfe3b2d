//! Looking at a tools directory whenever something happens in it.
//!
//! The system tells of what happens; a look follows once it has been quiet for a
//! moment, or after half a second of no quiet. Because the system may lose word of
//! something, and a directory may be moved away and made anew, there is a look every
//! few seconds even so: it costs one listing.

use super::Loaded;
use super::approval::other_words;
use super::change::Change;
use super::reload::DirectoryState;
use crate::Host;
use crate::config::Config;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tollgate_sandbox::Sandbox;

/// So long nothing must happen before a look.
const QUIET: Duration = Duration::from_millis(50);
/// The longest that a look waits for quiet.
const PATIENCE: Duration = Duration::from_millis(400);
/// A look follows after so long in any case.
const UNTOLD: Duration = Duration::from_secs(3);
/// Changes that wait to be heard of; beyond that they are published, and not told.
const TOLD_CHANGES: usize = 256;

impl Host {
    /// Keeps the tools of a directory up to date while the result lives, and what they
    /// were granted: see [`Watch`].
    /// `loaded` is what this host was given of the directory at start.
    #[must_use]
    pub fn watch(
        &self,
        sandbox: Sandbox,
        config: Arc<Config>,
        loaded: &Loaded,
    ) -> (Watch, Option<WatchError>) {
        Watch::start(DirectoryState::new(self.clone(), sandbox, config, loaded))
    }
}

/// Keeps the tools of a host up to date, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    changes: mpsc::Receiver<Change>,
    task: tokio::task::JoinHandle<()>,
}

/// The system does not watch the directory.
#[derive(Debug, thiserror::Error)]
#[error("the tools directory {} is not watched, so that changes are seen only every {} s: {why}", dir.display(), UNTOLD.as_secs())]
pub struct WatchError {
    dir: PathBuf,
    why: notify::Error,
}

impl Watch {
    /// Begins to watch. Where the system does not tell of changes, they are looked for
    /// every few seconds, and the second value says why.
    #[must_use]
    pub fn start(live: DirectoryState) -> (Self, Option<WatchError>) {
        let happened = Arc::new(Notify::new());
        let mut told = Told { dir: live.dir().to_owned(), happened, watcher: None, _decisions: None };
        let problem = told.watch().err().map(|why| WatchError { dir: told.dir.clone(), why });
        let (dir, files) = live.decision_files();
        // Where this fails there is a look every few seconds.
        told._decisions = told.watch_files(&dir, &files).ok();
        let (tell, changes) = mpsc::channel(TOLD_CHANGES);
        let task = tokio::spawn(keep_up(live, told, tell));
        (Self { changes, task }, problem)
    }

    /// The next change, after it is published.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_up(mut live: DirectoryState, mut told: Told, tell: mpsc::Sender<Change>) {
    loop {
        let changes = live.look().await;
        let noted = changes.iter().map(Change::to_audit).collect();
        // What the store has against it, it says to whoever calls a tool.
        let _ = live.host().note_loaded(noted).await;
        for change in changes {
            match &change {
                Change::Unread { file, reason } => {
                    tracing::warn!("{} is not taken up: {reason}", file.display());
                }
                Change::Served { component_id, reworded, .. } => {
                    if let Some(words) = other_words(reworded) {
                        tracing::warn!("{component_id} is served with {words}");
                    }
                }
                _ => {}
            }
            // Nobody has to listen.
            let _ = tell.try_send(change);
        }
        let something = tokio::time::timeout(UNTOLD, told.happened.notified()).await;
        if something.is_ok() {
            told.quiet().await;
        } else {
            told.renew();
        }
    }
}

/// Word of what happens in the directory.
struct Told {
    dir: PathBuf,
    happened: Arc<Notify>,
    watcher: Option<(RecommendedWatcher, Option<u64>)>,
    /// Of the files in which people decide.
    _decisions: Option<RecommendedWatcher>,
}

impl Told {
    fn watch(&mut self) -> notify::Result<()> {
        let happened = Arc::clone(&self.happened);
        let mut watcher = notify::recommended_watcher(move |told| {
            if is_a_reason_to_look(&told) {
                happened.notify_one();
            }
        })?;
        watcher.watch(&self.dir, RecursiveMode::NonRecursive)?;
        self.watcher = Some((watcher, identity(&self.dir)));
        Ok(())
    }

    /// Watches single files of a directory, which may come and go.
    fn watch_files(&self, dir: &Path, files: &[PathBuf]) -> notify::Result<RecommendedWatcher> {
        let happened = Arc::clone(&self.happened);
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).map(OsStr::to_owned).collect();
        let mut watcher = notify::recommended_watcher(move |told: notify::Result<notify::Event>| {
            let is_one =
                |path: &PathBuf| path.file_name().is_some_and(|name| names.iter().any(|n| n == name));
            let concerns = told.as_ref().map_or(true, |event| event.paths.iter().any(is_one));
            if concerns && is_a_reason_to_look(&told) {
                happened.notify_one();
            }
        })?;
        watcher.watch(dir, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }

    /// Waits until nothing has happened for a moment.
    async fn quiet(&self) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE
            && tokio::time::timeout(QUIET, self.happened.notified()).await.is_ok()
        {}
    }

    /// Watches anew where the directory is another than the one that is watched.
    fn renew(&mut self) {
        let watched = self.watcher.as_ref().and_then(|(_, identity)| *identity);
        if watched.is_none() || watched != identity(&self.dir) {
            // Where this fails there is a look every few seconds.
            let _ = self.watch();
        }
    }
}

/// That somebody opened or read a file is none: this host does so when it looks.
/// Errors are, for something may have been lost.
fn is_a_reason_to_look(told: &notify::Result<notify::Event>) -> bool {
    match told.as_ref().map(|event| &event.kind) {
        Ok(EventKind::Access(access)) => *access == AccessKind::Close(AccessMode::Write),
        Ok(_) | Err(_) => true,
    }
}

fn identity(dir: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Some(std::fs::metadata(dir).ok()?.ino())
}
