//! Reading, writing and locking files that others may change or exchange at any time.

use crate::digest::Digest;
use crate::directory;
use crate::error::{Code, Error, Result};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Opens a regular file, without following a link and without waiting for a pipe's writer.
fn open_regular(path: &Path) -> Result<Option<File>> {
    let refused = |why: String| Error::new(Code::TargetRefused, format!("{} {why}", path.display()));
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(refused("is a symbolic link; put the file itself there".to_owned()));
        }
        Err(e) => return Err(Error::io("read", path)(e)),
    };
    let found = file.metadata().map_err(Error::io("read", path))?;
    if found.is_file() {
        Ok(Some(file))
    } else {
        Err(refused("is not a regular file; move it away".to_owned()))
    }
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open_regular(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    check_size(path, bytes.len() as u64, limit)?;
    Ok(Some(bytes))
}

fn check_size(path: &Path, bytes: u64, limit: u64) -> Result<()> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Error::new(Code::TooLarge, format!("{} is larger than {limit} bytes", path.display())))
}

/// The SHA-256 of a file; `None` if it does not exist.
pub(super) fn digest_of(path: &Path, limit: u64) -> Result<Option<Digest>> {
    let Some(file) = open_regular(path)? else { return Ok(None) };
    let (digest, bytes) = Digest::of_all(file.take(limit + 1)).map_err(Error::io("read", path))?;
    check_size(path, bytes, limit)?;
    Ok(Some(digest))
}

/// A link, a pipe or a directory is not replaced.
pub(super) fn check_replaceable(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => {
            let what = format!("{} is not a regular file, and is not replaced; move it away", path.display());
            Err(Error::new(Code::TargetRefused, what))
        }
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("read", path)(e)),
        _ => Ok(()),
    }
}

/// Writes a file, whole or not at all.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    check_replaceable(path)?;
    let directory = directory_of(path);
    let written = || {
        let part = directory::write_part(directory, bytes, Some(fs::Permissions::from_mode(0o644)))?;
        part.persist(path).map_err(|why| why.error)?;
        File::open(directory)?.sync_all()
    };
    written().map_err(Error::io("written", path))
}

pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("removed", path)(e)),
        _ => Ok(()),
    }
}

pub(super) fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::io("created", path))
}

pub(super) fn sync_dir(path: &Path) -> Result<()> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(Error::io("written", path))
}

pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Keeps other processes from changing the files, until it is dropped. The lock is the one of the
/// configuration's directory, which other changes take too.
pub(super) fn hold(lock: &Path) -> Result<File> {
    let directory = directory_of(lock);
    directory::lock(directory).map_err(Error::io("locked", directory))
}
