//! A directory that only this user can access, with files that are found by name and never
//! through a link.
//!
//! All operations use the directory's handle, so renaming the path meanwhile changes nothing.

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The directory's handle.
pub(super) struct PrivateDir {
    handle: OwnedFd,
}

/// A file in a listing.
pub(super) struct ListedFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Seconds since the Unix epoch.
    pub(super) modified_s: i64,
}

impl PrivateDir {
    /// Opens the directory, creating it if missing. The error is a sentence.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(|why| format!("{shown} cannot be created: {why}"))?;
        }
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(why) => return Err(format!("{shown} cannot be created: {}", io::Error::from(why))),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = open(path, flags, Mode::empty())
            .map_err(|why| format!("{shown} cannot be opened as a directory: {}", io::Error::from(why)))?;
        let found =
            fstat(&handle).map_err(|why| format!("{shown} cannot be inspected: {}", io::Error::from(why)))?;
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(format!("{shown} belongs to another user"));
        }
        if found.st_mode & 0o077 != 0 {
            return Err(format!("{shown} is open to other users; close it: chmod 700 {shown}"));
        }
        Ok(Self { handle })
    }

    /// Reads the whole content of a regular file of at most this many bytes.
    pub(super) fn read(&self, name: &str, most_bytes: u64) -> io::Result<(File, Vec<u8>)> {
        let (file, bytes) = self.read_start(name, most_bytes)?;
        if file.metadata()?.len() > most_bytes {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((file, bytes))
    }

    /// Reads the first bytes of a regular file.
    pub(super) fn read_start(&self, name: &str, most_bytes: u64) -> io::Result<(File, Vec<u8>)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.handle, name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let wanted = metadata.len().min(most_bytes);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0) + 1);
        (&mut file).take(most_bytes).read_to_end(&mut bytes)?;
        Ok((file, bytes))
    }

    /// Returns the size of a regular file in bytes.
    pub(super) fn bytes_of(&self, name: &str) -> io::Result<u64> {
        let found = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(u64::try_from(found.st_size).unwrap_or(0)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Writes a file with this content atomically, replacing an existing one if requested.
    pub(super) fn write(&self, name: &str, parts: &[&[u8]], replace: bool) -> io::Result<()> {
        let part = format!("{PART}{:016x}", u64::from_le_bytes(random()?));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.handle, &part, flags, Mode::RUSR | Mode::WUSR)?);
        let written = parts.iter().try_for_each(|part| file.write_all(part)).and_then(|()| {
            if replace {
                renameat(&self.handle, &part, &self.handle, name)?;
            } else {
                rustix::fs::linkat(&self.handle, &part, &self.handle, name, AtFlags::empty())?;
            }
            Ok(())
        });
        if written.is_err() || !replace {
            self.remove(&part);
        }
        written
    }

    /// Removes a file, if it exists.
    pub(super) fn remove(&self, name: &str) {
        // A file that cannot be removed is overwritten later, or never read again.
        let _ = unlinkat(&self.handle, name, AtFlags::empty());
    }

    /// Returns its regular files.
    pub(super) fn list(&self) -> io::Result<Vec<ListedFile>> {
        let mut listed = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Ok(found) = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
                listed.push(ListedFile {
                    name: name.to_owned(),
                    bytes: u64::try_from(found.st_size).unwrap_or(0),
                    modified_s: found.st_mtime,
                });
            }
        }
        Ok(listed)
    }
}

/// The file name prefix of files that are being written.
pub(super) const PART: &str = ".part-";

/// Returns unguessable random bytes.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|why| io::Error::other(format!("cannot get random bytes from the system: {why}")))?;
    Ok(bytes)
}
