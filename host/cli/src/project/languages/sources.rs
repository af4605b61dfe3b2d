//! The files of a project that may go into its component.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Directories of build output at the top level of a project. Further down, these names have no
/// special meaning.
const BUILD_OUTPUTS: [&str; 2] = ["build", "target"];
/// Directories at any level that tools fill from the files beside them.
const FILLED_BY_TOOLS: [&str; 2] = ["node_modules", "__pycache__"];
/// npm's record of the packages that it has installed, which may differ from those that the project's
/// own file requests.
const INSTALLED_PACKAGES: &str = "node_modules/.package-lock.json";
/// The maximum depth of directories, including links to directories.
const MAX_DEPTH: usize = 16;
/// The maximum number of files.
const MAX_FILES: usize = 20_000;
/// The maximum total size of the files.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the files in a project's directory and below, sorted by path. `None` if there are too many,
/// they are too large or nested too deeply, or not all can be read. Follows links, even out of the
/// project, and visits each directory once.
pub(in crate::project) fn of(root: &Path) -> Option<BTreeSet<PathBuf>> {
    within(root, MAX_FILES, MAX_BYTES)
}

fn within(root: &Path, files_left: usize, bytes_left: u64) -> Option<BTreeSet<PathBuf>> {
    let mut walk = Walk { root, files: BTreeSet::new(), seen: BTreeSet::new(), files_left, bytes_left };
    walk.directory(root, 0)?;
    walk.entry(root.join(INSTALLED_PACKAGES), MAX_DEPTH)?;
    Some(walk.files)
}

struct Walk<'a> {
    root: &'a Path,
    files: BTreeSet<PathBuf>,
    /// Directories already visited, by their real paths.
    seen: BTreeSet<PathBuf>,
    files_left: usize,
    bytes_left: u64,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &Path, depth: usize) -> Option<()> {
        if !self.seen.insert(dir.canonicalize().ok()?) {
            return Some(());
        }
        let entries = fs::read_dir(dir).ok()?.map(|entry| Some(entry.ok()?.path()));
        // Sorted, so that of two paths to a directory, it is always the same one that counts.
        for path in entries.collect::<Option<BTreeSet<PathBuf>>>()? {
            self.entry(path, depth)?;
        }
        Some(())
    }

    fn entry(&mut self, path: PathBuf, depth: usize) -> Option<()> {
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            // A dangling link, or a file that was removed meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => return Some(()),
            Err(_) => return None,
        };
        if metadata.is_file() {
            self.files_left = self.files_left.checked_sub(1)?;
            self.bytes_left = self.bytes_left.checked_sub(metadata.len())?;
            self.files.insert(path);
        } else if metadata.is_dir() && !self.is_skipped(&path) {
            if depth == MAX_DEPTH {
                return None;
            }
            self.directory(&path, depth + 1)?;
        }
        Some(())
    }

    fn is_skipped(&self, dir: &Path) -> bool {
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_at_root = dir.parent() == Some(self.root);
        name.starts_with('.')
            || FILLED_BY_TOOLS.contains(&name)
            || is_at_root && BUILD_OUTPUTS.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(root: &Path) -> Vec<String> {
        let files = of(root).unwrap();
        files.iter().map(|file| file.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn files_that_may_go_into_a_component_are_found() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("tool");
        for file in [
            "tool.c",
            "src/build/part.c",
            "src/target/part.c",
            "build/tool.wasm",
            "target/x",
            ".git/HEAD",
            "lib/.venv/x.py",
            "lib/__pycache__/x.pyc",
            "node_modules/left/pad.js",
            "node_modules/.package-lock.json",
            "package-lock.json",
            "../beside/shared.h",
            "../more/deep/other.h",
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        symlink("../beside/shared.h", root.join("shared.h")).unwrap();
        symlink("../more", root.join("more")).unwrap();
        symlink("nowhere", root.join("nothing.h")).unwrap();
        symlink("..", root.join("src/up")).unwrap();
        symlink("/dev/null", root.join("null")).unwrap();
        let found = [
            "more/deep/other.h",
            "node_modules/.package-lock.json",
            "package-lock.json",
            "shared.h",
            "src/build/part.c",
            "src/target/part.c",
            "tool.c",
        ];
        assert_eq!(names(&root), found);
    }

    #[test]
    fn a_project_beyond_the_limits_has_no_list_of_files() {
        let place = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(place.path().join(name), "four").unwrap();
        }
        assert_eq!(within(place.path(), 3, 12).unwrap().len(), 3);
        assert_eq!(within(place.path(), 2, 12), None);
        assert_eq!(within(place.path(), 3, 11), None);
        let deep = place.path().join("d/".repeat(MAX_DEPTH + 1));
        fs::create_dir_all(deep).unwrap();
        assert_eq!(of(place.path()), None);
    }
}
