//! The lock of a data directory or of one of its databases, and the kinds of files that may be
//! there.

use super::explain::refused;
use super::private_dir;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tollgate_store::{Remedy, StoreError};

/// The lock file, locked while the store is opened.
const LOCK: &str = "tollgate.lock";
/// How long a process that ends waits for processes that are opening the store.
const LAST_TURN_WITHIN: Duration = Duration::from_secs(2);

/// Locks the data directory for opening, so that processes that start at the same time open the
/// store one after another. The first of them creates or migrates it.
pub(super) fn take_turn(directory: &Path) -> Result<DatabaseTurn, StoreError> {
    wait_for(&directory.join(LOCK))
}

/// The turn of a process to open or close a database. It ends when this is dropped.
#[derive(Debug)]
pub struct DatabaseTurn {
    _lock: File,
}

impl DatabaseTurn {
    /// Waits until no other process opens or closes the database. The store's own database and its
    /// directory have one lock.
    ///
    /// # Errors
    /// The lock file cannot be written.
    pub fn of(database: &Path) -> Result<Self, StoreError> {
        wait_for(&lock_of(database))
    }

    /// Like [`of`](Self::of), for a process that closes the database: it gives up soon.
    pub(super) fn last(database: &Path) -> Option<Self> {
        take_last_turn(&lock_of(database)).map(|_lock| Self { _lock })
    }
}

fn lock_of(database: &Path) -> PathBuf {
    database.with_extension("lock")
}

fn wait_for(path: &Path) -> Result<DatabaseTurn, StoreError> {
    check_kind(path)?;
    let lock = || -> std::io::Result<DatabaseTurn> {
        let file = open_lock(path)?;
        file.lock()?;
        Ok(DatabaseTurn { _lock: file })
    };
    lock().map_err(|why| unwritable(path, &why))
}

fn take_last_turn(path: &Path) -> Option<File> {
    check_kind(path).ok()?;
    let file = open_lock(path).ok()?;
    let until = Instant::now() + LAST_TURN_WITHIN;
    while file.try_lock().is_err() {
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(file)
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    private_dir::make_file(path)?;
    // Opening a pipe would block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    File::options().append(true).custom_flags(flags).open(path)
}

pub(super) fn unwritable(path: &Path, why: &std::io::Error) -> StoreError {
    refused(&format!("cannot write {}", path.display()), why)
}

/// Checks that this is a regular file, if it exists.
pub(super) fn check_kind(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::FileTypeExt as _;
    // A file that cannot be examined is reported when it is opened.
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let kind = match found.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => return Err(unwritable(path, &rustix::io::Errno::LOOP.into())),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let shown = path.display();
    let message = format!(
        "cannot use {shown}: it is {kind}, and must be a regular file; move it away: mv {shown} {shown}.old"
    );
    Err(StoreError::unusable(message).with_remedy(Remedy::OtherDirectory))
}
