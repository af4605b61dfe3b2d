//! Directories that several processes change: a lock that keeps the others out, and files that take
//! effect as a whole.
//!
//! The new text of a file is written to a temporary file beside it, which is on disk before it is
//! renamed. If a process is killed, its temporary files stay behind; the next holder of the lock
//! removes them.

use rustix::fs::OFlags;
use std::fs::{self, DirEntry, File, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// The longest wait for other processes, whose changes take milliseconds each.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);
/// The lock file for file systems that cannot lock directories.
const LOCK: &str = ".tollgate.lock";
/// Prefix and suffix of temporary files.
const PART: (&str, &str) = (".tollgate-", ".part");

/// Locks a directory against changes by other processes until the lock is dropped.
///
/// # Errors
/// The directory cannot be opened, or another process holds the lock for more than 20 seconds.
pub fn lock(directory: &Path) -> io::Result<File> {
    let of_directory = File::open(directory)?;
    match wait_for(&of_directory) {
        Ok(()) => Ok(of_directory),
        Err(why) if why.kind() == io::ErrorKind::TimedOut => Err(why),
        Err(_) => {
            let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
            let mut options = File::options();
            options.create(true).append(true).mode(0o600).custom_flags(no_link);
            let file = options.open(directory.join(LOCK))?;
            wait_for(&file)?;
            Ok(file)
        }
    }
}

fn wait_for(file: &File) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(why)) => return Err(why),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let why = "another process keeps it locked; end that process, then try again";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
    }
}

/// Writes bytes to a temporary file of a directory, and syncs it to disk.
///
/// # Errors
/// The file cannot be created or written.
pub fn write_part(
    directory: &Path,
    bytes: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<NamedTempFile> {
    let mut part = tempfile::Builder::new().prefix(PART.0).suffix(PART.1).tempfile_in(directory)?;
    part.write_all(bytes)?;
    if let Some(permissions) = permissions {
        part.as_file().set_permissions(permissions)?;
    }
    part.as_file().sync_all()?;
    Ok(part)
}

/// Removes the temporary files of killed processes. The caller holds the lock under which they are
/// written, so that no process is about to use one.
pub fn sweep_parts(directory: &Path) {
    sweep(directory, |name| name.starts_with(PART.0) && name.ends_with(PART.1));
}

/// Removes the files of this user with such names. A file that cannot be removed stays until next time.
pub(crate) fn sweep(directory: &Path, is_left: impl Fn(&str) -> bool) {
    let user = rustix::process::geteuid().as_raw();
    let is_left = |entry: &DirEntry| {
        let is_named = entry.file_name().to_str().is_some_and(&is_left);
        is_named && entry.metadata().is_ok_and(|found| found.is_file() && found.uid() == user)
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for left in entries.filter(is_left) {
        let _ = fs::remove_file(left.path());
    }
}
