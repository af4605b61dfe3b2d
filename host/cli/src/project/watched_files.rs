//! Detects changes to the sources of a project. It polls, which works on every file system.

use super::sources;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(400);
/// The maximum number of files that are watched; changes to further files are not detected.
const MAX_FILES: usize = 20_000;
/// Directories that compilers write, or that hold packages of others.
const IGNORED: [&str; 6] = ["target", "build", "node_modules", "__pycache__", "vendor", ".git"];

/// The files of a project with their sizes and modification times.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WatchedFiles(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

impl WatchedFiles {
    /// Returns the present state of all sources of the project in `dir`.
    pub(crate) fn of(dir: &Path) -> Self {
        let mut found = BTreeMap::new();
        for source in sources(dir) {
            collect(&source, &mut found);
        }
        Self(found)
    }

    /// Waits until a source has changed and nothing has changed since the last poll, so that several
    /// files that are saved together count as one change. Returns the new state.
    pub(crate) async fn changed(self, dir: &Path) -> Self {
        let mut last = self;
        let mut has_changed = false;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = Self::of(dir);
            match (now == last, has_changed) {
                (true, true) => return now,
                (true, false) => {}
                (false, _) => has_changed = true,
            }
            last = now;
        }
    }
}

fn collect(path: &Path, found: &mut BTreeMap<PathBuf, (u64, Option<SystemTime>)>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if found.len() >= MAX_FILES {
        return;
    }
    if !metadata.is_dir() {
        found.insert(path.to_owned(), (metadata.len(), metadata.modified().ok()));
        return;
    }
    let is_ignored = path.file_name().is_some_and(|name| IGNORED.iter().any(|ignored| name == *ignored));
    if !is_ignored {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| collect(&entry.path(), found));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_change_of_a_source_is_detected_and_one_of_an_output_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = dir.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("tool.toml", "language = \"wat\"\nsource = \"tool.wat\"\n");
        write("tool.wat", "(component)");
        let before = WatchedFiles::of(dir.path());
        write("build/tool.wasm", "x");
        assert_eq!(WatchedFiles::of(dir.path()), before);
        write("tool.wat", "(component )");
        assert_ne!(WatchedFiles::of(dir.path()), before);
    }
}
