//! Notices changes to the sources of a project by looking at them: that works on every file system.

use super::sources;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(400);
/// The maximum number of files that are looked at.
const MAX_FILES: usize = 20_000;
/// Directories that compilers write, or that hold the sources of others.
const LEFT_OUT: [&str; 6] = ["target", "build", "node_modules", "__pycache__", "vendor", ".git"];

/// The files of a project with their sizes and times of change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WatchedFiles(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

impl WatchedFiles {
    /// Looks at all sources of the project in `dir`.
    pub(crate) fn of(dir: &Path) -> Self {
        let mut found = BTreeMap::new();
        for source in sources(dir) {
            collect(&source, &mut found);
        }
        Self(found)
    }

    /// Waits until a source has changed and all changes have ended, as after saving several files.
    pub(crate) async fn changed(self, dir: &Path) -> Self {
        let mut last = self;
        let mut has_changed = false;
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
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
    let Ok(there) = fs::symlink_metadata(path) else { return };
    if found.len() >= MAX_FILES {
        return;
    }
    if !there.is_dir() {
        found.insert(path.to_owned(), (there.len(), there.modified().ok()));
        return;
    }
    let is_left_out = path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|left| name == *left));
    if !is_left_out {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| collect(&entry.path(), found));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_change_of_a_source_is_noticed_and_one_of_an_output_is_not() {
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
