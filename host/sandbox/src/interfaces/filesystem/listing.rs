//! Directory listings, read a few entries at a time. The host never holds a whole listing, and
//! its names count as bytes that cross the boundary.

use crate::instance::Instance;
use crate::instance::files::background;
use crate::instance::files::open::OpenFilePermit;
use crate::meter::Stop;
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry, ErrorCode};
use wasmtime_wasi::p2::{FsError, FsResult};

/// Entries that are read ahead. This limits the time of one step and the memory of one listing.
const AHEAD: usize = 64;

/// A directory that is being listed.
pub(super) struct DirectoryListing {
    /// `None` at the end of the directory.
    directory: Option<Dir>,
    ahead: VecDeque<Result<DirectoryEntry, ErrorCode>>,
    _place: OwnedSemaphorePermit,
    _open: OpenFilePermit,
}

/// Starts listing a directory.
pub(super) async fn open(
    instance: &mut Instance,
    directory: &Resource<Descriptor>,
) -> FsResult<Resource<DirectoryListing>> {
    let directory = match instance.table.get(directory)? {
        Descriptor::Dir(directory) => Arc::clone(&directory.dir),
        Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
    };
    let files = instance.serves.as_mut().map(|serves| &mut serves.files).ok_or(ErrorCode::NotPermitted)?;
    let place = Arc::clone(&files.listings).try_acquire_owned();
    let place = place.map_err(|_| FsError::trap(Stop::Listings))?;
    let open = files.open.take().map_err(FsError::trap)?;
    let directory = background::run(move || Ok(open_again(&directory)?)).await?;
    let listing =
        DirectoryListing { directory: Some(directory), ahead: VecDeque::new(), _place: place, _open: open };
    Ok(instance.table.push(listing)?)
}

/// Returns the next entry; `None` at the end.
pub(super) async fn next(
    instance: &mut Instance,
    listing: &Resource<DirectoryListing>,
) -> FsResult<Option<DirectoryEntry>> {
    loop {
        let this = instance.table.get_mut(listing)?;
        if let Some(entry) = this.ahead.pop_front() {
            let entry = entry?;
            instance.boundary.enter(entry.name.len() as u64).map_err(FsError::trap)?;
            return Ok(Some(entry));
        }
        let Some(directory) = this.directory.take() else { return Ok(None) };
        let (directory, ahead) = background::run(move || Ok(read_on(directory))).await?;
        let this = instance.table.get_mut(listing)?;
        (this.directory, this.ahead) = (directory, ahead);
    }
}

/// Opens the directory again, because each listing has its own position.
fn open_again(directory: &File) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Dir::new(openat(directory, c".", flags, Mode::empty())?)
}

fn read_on(mut directory: Dir) -> (Option<Dir>, VecDeque<Result<DirectoryEntry, ErrorCode>>) {
    let mut ahead = VecDeque::with_capacity(AHEAD);
    while ahead.len() < AHEAD {
        match directory.read() {
            None => return (None, ahead),
            Some(Err(why)) => {
                ahead.push_back(Err(io::Error::from(why).into()));
                return (None, ahead);
            }
            Some(Ok(entry)) => ahead.extend(shown(&directory, &entry)),
        }
    }
    (Some(directory), ahead)
}

/// Returns the entry as the guest sees it; `None` for the directory itself, its parent, and
/// entries that no longer exist.
fn shown(directory: &Dir, entry: &DirEntry) -> Option<Result<DirectoryEntry, ErrorCode>> {
    let name = entry.file_name();
    if [c".", c".."].contains(&name) {
        return None;
    }
    let kind = match entry.file_type() {
        // Some file systems do not report the type.
        FileType::Unknown => {
            let found = directory.fd().and_then(|at| statat(at, name, AtFlags::SYMLINK_NOFOLLOW));
            match found {
                Ok(found) => FileType::from_raw_mode(found.st_mode),
                Err(Errno::NOENT) => return None,
                Err(why) => return Some(Err(io::Error::from(why).into())),
            }
        }
        known => known,
    };
    let type_ = match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        _ => DescriptorType::Unknown,
    };
    let named = |name: &str| DirectoryEntry { type_, name: name.to_owned() };
    Some(name.to_str().map(named).map_err(|_| ErrorCode::IllegalByteSequence))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn z5_a_directory_is_read_a_few_entries_at_a_time() {
        const ALL: usize = 3_000;
        let folder = tempfile::tempdir().unwrap();
        let file = |number: usize| folder.path().join(format!("{number:0>200}"));
        (0..ALL).for_each(|number| drop(File::create(file(number)).unwrap()));
        let (mut directory, ahead) = read_on(open_again(&File::open(folder.path()).unwrap()).unwrap());
        let mut listed = ahead.len();
        assert!(listed <= AHEAD);
        (0..ALL).for_each(|number| std::fs::remove_file(file(number)).unwrap());
        while let Some(open) = directory {
            let ahead;
            (directory, ahead) = read_on(open);
            listed += ahead.len();
        }
        assert!(listed < ALL / 2, "{listed} entries were held");
    }

    #[test]
    fn z5_names_that_are_not_text_are_errors_of_their_own() {
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let (directory, ahead) = read_on(open_again(&File::open(folder.path()).unwrap()).unwrap());
        let kinds: Vec<_> = ahead.iter().map(|entry| entry.as_ref().map(|entry| entry.type_)).collect();
        assert!(directory.is_none() && kinds.len() == 2, "{kinds:?}");
        assert!(kinds.contains(&Err(&ErrorCode::IllegalByteSequence)), "{kinds:?}");
        assert!(kinds.contains(&Ok(DescriptorType::Directory)), "{kinds:?}");
    }
}
