//! A file that reserves disk space. On a full disk it is removed, so that old runs can be removed:
//! removing rows writes before it frees anything.

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The file within the data directory.
const FILE: &str = "tollgate.reserve";
/// The size of the file: more than one transaction of `prune` writes.
const BYTES: u64 = 4 << 20;
/// The file is created only if this much is free.
const MIN_FREE_BYTES: u64 = 16 * BYTES;

/// Creates the file, unless it exists or there is little room. Without it, a full disk has to be
/// freed by other means, so a failure is no error.
pub(super) fn keep(directory: &Path) {
    let path = directory.join(FILE);
    if std::fs::symlink_metadata(&path).is_ok() || is_below(directory, MIN_FREE_BYTES) {
        return;
    }
    let Ok(file) = File::options().write(true).create_new(true).mode(0o600).open(&path) else { return };
    if fallocate(&file, FallocateFlags::empty(), 0, BYTES).is_err() {
        // The file system cannot reserve space.
        let _ = std::fs::remove_file(&path);
    }
}

/// Removes the file. Returns whether it existed.
pub(super) fn release(directory: &Path) -> bool {
    std::fs::remove_file(directory.join(FILE)).is_ok()
}

/// Returns whether the disk has too little room to remove anything.
pub(super) fn is_needed(directory: &Path) -> bool {
    is_below(directory, BYTES)
}

/// Returns whether fewer bytes are free; `false` for a file system that does not report it.
pub(super) fn is_below(directory: &Path, bytes: u64) -> bool {
    statvfs(directory).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < bytes)
}
