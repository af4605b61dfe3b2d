//! Watches a tools directory and examines it on every change.
//!
//! A look follows once the system's events have been quiet for a moment, or after half a second
//! without quiet. The system may lose events, and a directory may be moved away and created
//! again. Therefore there is a look every few seconds in any case, which costs one listing.

use super::approval::other_words;
use super::change::Change;
use super::loaded::LoadedComponent;
use super::reload::DirectoryState;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tollgate_registry::{Entry, Lock};

/// The quiet period before a look.
const QUIET: Duration = Duration::from_millis(50);
/// The maximum time that a look waits for quiet.
const PATIENCE: Duration = Duration::from_millis(400);
/// The interval of looks without any event.
const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// The capacity of the queue of changes. Further changes are published without a notification.
const BUFFERED_CHANGES: usize = 256;

/// Keeps the tools of a host up to date until it is dropped.
#[derive(Debug)]
pub struct Watch {
    changes: mpsc::Receiver<Change>,
    served: ServedComponents,
    task: tokio::task::JoinHandle<()>,
}

/// The system cannot watch the directory.
#[derive(Debug, thiserror::Error)]
#[error("the tools directory {} is not watched, so changes are noticed only every {} s: {why}", dir.display(), POLL_INTERVAL.as_secs())]
pub struct WatchError {
    dir: PathBuf,
    why: notify::Error,
}

impl Watch {
    /// Starts watching. If the system does not report changes, the directory is examined every
    /// few seconds, and the second value says why.
    #[must_use]
    pub fn start(live: DirectoryState) -> (Self, Option<WatchError>) {
        let happened = Arc::new(Notify::new());
        let mut events =
            DirectoryEvents { dir: live.dir().to_owned(), happened, watcher: None, _decisions: None };
        let problem = events.watch().err().map(|why| WatchError { dir: events.dir.clone(), why });
        let (dir, files) = live.decision_files();
        // If this fails, there is still a look every few seconds.
        events._decisions = events.watch_files(&dir, &files).ok();
        let (sender, changes) = mpsc::channel(BUFFERED_CHANGES);
        let served = ServedComponents::new(&live);
        let task = tokio::spawn(keep_up(live, events, sender, served.clone()));
        (Self { changes, served, task }, problem)
    }

    /// Returns the components that are served, as they are at each later time.
    #[must_use]
    pub fn served(&self) -> ServedComponents {
        self.served.clone()
    }

    /// Returns the next change, after it is published.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The components that a watched directory serves, with their grants and origins.
#[derive(Debug, Clone)]
pub struct ServedComponents(Arc<RwLock<(Vec<LoadedComponent>, Lock)>>);

impl ServedComponents {
    fn new(live: &DirectoryState) -> Self {
        Self(Arc::new(RwLock::new(live.served())))
    }

    fn update(&self, live: &DirectoryState) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = live.served();
    }

    /// Returns the component with this id, and its entry in the lock file if there is one.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(LoadedComponent, Option<Entry>)> {
        let served = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let component = served.0.iter().find(|component| component.id == id)?;
        Some((component.clone(), served.1.of(id).cloned()))
    }
}

async fn keep_up(
    mut live: DirectoryState,
    mut events: DirectoryEvents,
    sender: mpsc::Sender<Change>,
    served: ServedComponents,
) {
    loop {
        let changes = live.refresh().await;
        if !changes.is_empty() {
            served.update(&live);
        }
        let noted = changes.iter().map(Change::to_audit).collect();
        // A caller of a tool sees an error of the store by itself.
        let _ = live.tools().note_loaded(noted).await;
        for change in changes {
            match &change {
                Change::Unread { file, reason } => {
                    tracing::warn!("{} is not served: {reason}", file.display());
                }
                Change::Served { component_id, reworded, .. } => {
                    if let Some(words) = other_words(reworded) {
                        tracing::warn!("{component_id} is served with {words}");
                    }
                }
                _ => {}
            }
            // The receiver is optional.
            let _ = sender.try_send(change);
        }
        let something = tokio::time::timeout(POLL_INTERVAL, events.happened.notified()).await;
        if something.is_ok() {
            events.quiet().await;
        } else {
            events.renew();
        }
    }
}

/// The system's events for the directory.
struct DirectoryEvents {
    dir: PathBuf,
    happened: Arc<Notify>,
    watcher: Option<(RecommendedWatcher, Option<u64>)>,
    /// Watches the files that hold decisions.
    _decisions: Option<RecommendedWatcher>,
}

impl DirectoryEvents {
    fn watch(&mut self) -> notify::Result<()> {
        let watcher = self.watch_paths(&self.dir, may_be_of_a_tool)?;
        self.watcher = Some((watcher, identity(&self.dir)));
        Ok(())
    }

    /// Watches single files of a directory, which may come and go.
    fn watch_files(&self, dir: &Path, files: &[PathBuf]) -> notify::Result<RecommendedWatcher> {
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).map(OsStr::to_owned).collect();
        self.watch_paths(dir, move |path| {
            path.file_name().is_some_and(|name| names.iter().any(|n| n == name))
        })
    }

    /// Watches those entries of a directory that matter, and the directory itself. Others, such as a log that
    /// is written all the time, cause no look.
    fn watch_paths(
        &self,
        dir: &Path,
        matters: impl Fn(&Path) -> bool + Send + 'static,
    ) -> notify::Result<RecommendedWatcher> {
        // Events have absolute paths.
        let own = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let happened = Arc::clone(&self.happened);
        let mut watcher = notify::recommended_watcher(move |result| {
            if is_a_reason_to_look(&result, |path| path == own || matters(path)) {
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

    /// Watches again if the directory is not the one that was watched.
    fn renew(&mut self) {
        let watched = self.watcher.as_ref().and_then(|(_, identity)| *identity);
        if watched.is_none() || watched != identity(&self.dir) {
            // If this fails, there is still a look every few seconds.
            let _ = self.watch();
        }
    }
}

/// Ignores files that do not matter, and that a file was opened or read: this host does so when it looks. Errors
/// count, and so do reports without a path, because events may have been lost.
fn is_a_reason_to_look(result: &notify::Result<notify::Event>, matters: impl Fn(&Path) -> bool) -> bool {
    let Ok(event) = result else { return true };
    let is_change = match event.kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    };
    is_change && (event.paths.is_empty() || event.paths.iter().any(|path| matters(path)))
}

/// Returns whether the name is that of a component or of a manifest.
fn may_be_of_a_tool(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "wasm" || end == "toml")
}

fn identity(dir: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Some(std::fs::metadata(dir).ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::Event;
    use notify::event::{DataChange, Flag, ModifyKind};

    #[test]
    fn only_files_of_tools_are_a_reason_to_look() {
        let is_reason = |event: Event| {
            is_a_reason_to_look(&Ok(event), |path| path == Path::new("tools") || may_be_of_a_tool(path))
        };
        let written = || Event::new(EventKind::Modify(ModifyKind::Data(DataChange::Any)));
        for (path, matters) in [
            ("tools/a.wasm", true),
            ("tools/a.toml", true),
            ("tools", true),
            ("tools/a.log", false),
            ("tools/wasm", false),
        ] {
            assert_eq!(is_reason(written().add_path(path.into())), matters, "{path}");
        }
        let renamed = written().add_path("tools/a.part".into()).add_path("tools/a.wasm".into());
        assert!(is_reason(renamed), "a file that gets its name");
        assert!(is_reason(Event::new(EventKind::Other).set_flag(Flag::Rescan)), "lost events");
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        assert!(!is_reason(Event::new(opened).add_path("tools/a.wasm".into())), "its own reading");
        assert!(is_a_reason_to_look(&Err(notify::Error::generic("lost")), |_| false));
    }
}
