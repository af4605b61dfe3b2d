//! The files of a tools directory.

use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tollgate_sandbox::{is_mostly_holes, open_regular};

/// The maximum size of a component, in bytes.
const MAX_COMPONENT_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the files of a directory whose names end in `.wasm`, sorted by name. A directory
/// that does not exist counts as empty.
pub(crate) fn wasm_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(component_files(dir)?.into_iter().map(|(file, _)| file).collect())
}

/// Returns the entries whose names end in `.wasm`, sorted by name, of any file type, each with
/// its current stamp.
pub(super) fn component_files(dir: &Path) -> io::Result<Vec<(PathBuf, Stamp)>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = file_name(&path).starts_with('.');
        if !hidden && path.extension().is_some_and(|end| end == "wasm") {
            // A file that is already gone is skipped.
            if let Some(stamp) = Stamp::of(&path) {
                files.push((path, stamp));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The first bytes of every WebAssembly file.
const MAGIC: &[u8; 4] = b"\0asm";

/// Returns the digest of a file that cannot be loaded; `None` if it cannot be a component at
/// all. Only files that may be one are read to their end.
pub(super) async fn digest_of(file: &Path) -> Option<String> {
    let file = file.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let mut file = open_regular(&file).ok()?;
        let mut begin = [0; MAGIC.len()];
        file.read_exact(&mut begin).ok().filter(|()| begin == *MAGIC)?;
        if file.metadata().ok()?.len() > MAX_COMPONENT_BYTES || is_mostly_holes(&file) {
            return None;
        }
        file.rewind().ok()?;
        tollgate_agent::digest::digest_of(file.take(MAX_COMPONENT_BYTES)).ok()
    });
    read.await.ok()?
}

pub(super) fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    tollgate_agent::text::clean(&name.to_string_lossy(), 200)
}

/// The metadata that changes when a file is written, replaced or moved, so that a changed file is found
/// without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of the current entry at the path, which need not be a regular file;
    /// `None` if there is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}
