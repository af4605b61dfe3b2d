//! Moves from one granted directory to another. The moved content counts against the
//! destination's quota.

use crate::grants::FileId;
use crate::instance::Instance;
use crate::instance::files::background;
use crate::instance::files::quota::{ENTRY_BYTES, MAX_DEPTH, MAX_MOVED_AT_ONCE, cost};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};

/// Descriptors that are open while a directory of that depth is measured: two per level.
const MEASURING_DESCRIPTORS: u32 = 2 * MAX_DEPTH as u32;

/// A file or directory to move, and its destination.
pub(super) type Move = (Resource<Descriptor>, String, Resource<Descriptor>, String);

/// Moves a file or directory.
pub(super) async fn rename(instance: &mut Instance, (from, path, to, new_path): Move) -> FsResult<()> {
    let quota = instance.serves.as_ref().map(|serves| &serves.files.quota);
    let ends = quota.and_then(|quota| {
        let (left, entered) = (quota.owner(&instance.table, &from)?, quota.owner(&instance.table, &to)?);
        let room = quota.room_in(Arc::clone(&entered));
        Some((left, entered, room))
    });
    let Some((left, entered, room)) = ends.filter(|(left, entered, _)| !Arc::ptr_eq(left, entered)) else {
        return instance.filesystem().rename_at(from, path, to, new_path).await;
    };
    let moved = match measure(instance, &from, &path).await {
        Err(error) if matches!(error.downcast_ref(), Some(ErrorCode::InsufficientSpace)) => {
            room.refuse_large_move();
            return Err(error);
        }
        measured => measured?,
    };
    if !room.take_of_quota(moved.bytes) {
        return Err(ErrorCode::InsufficientSpace.into());
    }
    if !left.note_moved(&moved.ids, &entered) {
        room.give_back_to_quota(moved.bytes);
        room.refuse_move(&left);
        return Err(ErrorCode::Quota.into());
    }
    let renamed = instance.filesystem().rename_at(from, path, to, new_path).await;
    if renamed.is_err() {
        left.forget_moved(&moved.ids);
        room.give_back_to_quota(moved.bytes);
    } else {
        entered.forget_moved(&moved.ids);
    }
    renamed
}

/// The content of a move.
#[derive(Default)]
struct MoveContent {
    bytes: u64,
    entries: usize,
    /// The files and directories, because calls may have them open.
    ids: Vec<FileId>,
}

async fn measure(instance: &mut Instance, from: &Resource<Descriptor>, path: &str) -> FsResult<MoveContent> {
    let same = || Resource::new_borrow(from.rep());
    let found = instance.filesystem().stat_at(same(), PathFlags::empty(), path.to_owned()).await?;
    let flags = match found.type_ {
        DescriptorType::Directory => OpenFlags::DIRECTORY,
        DescriptorType::RegularFile => OpenFlags::empty(),
        // A link, or a file that guests cannot open: it counts as an entry without content.
        _ => return Ok(MoveContent { bytes: ENTRY_BYTES, entries: 1, ids: Vec::new() }),
    };
    let serves = instance.serves.as_ref().ok_or(ErrorCode::NotPermitted)?;
    let held = serves.files.open.take_of_process(MEASURING_DESCRIPTORS).map_err(FsError::trap)?;
    let mut files = instance.filesystem();
    let opened =
        files.open_at(same(), PathFlags::empty(), path.to_owned(), flags, DescriptorFlags::READ).await?;
    let handle = match files.table.get(&opened)? {
        Descriptor::Dir(directory) => Arc::clone(&directory.dir),
        Descriptor::File(file) => Arc::clone(&file.file),
    };
    HostDescriptor::drop(&mut files, opened).map_err(FsError::trap)?;
    let measure = move || {
        let moved = measured(&handle);
        drop(held);
        Ok(moved?)
    };
    Ok(background::run(measure).await?)
}

fn measured(handle: &File) -> Result<MoveContent, Errno> {
    let mut moved = MoveContent::default();
    let found = rustix::fs::fstat(handle)?;
    moved.count(&found)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
        moved.below(handle, MAX_DEPTH)?;
    }
    Ok(moved)
}

impl MoveContent {
    fn count(&mut self, found: &rustix::fs::Stat) -> Result<(), Errno> {
        self.entries += 1;
        if self.entries > MAX_MOVED_AT_ONCE {
            return Err(Errno::NOSPC);
        }
        self.bytes = self.bytes.saturating_add(ENTRY_BYTES);
        self.ids.push((found.st_dev, found.st_ino));
        if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
            self.bytes = self.bytes.saturating_add(cost(0, u64::try_from(found.st_size).unwrap_or(0)));
        }
        Ok(())
    }

    fn below(&mut self, directory: impl AsFd, depth_left: usize) -> Result<(), Errno> {
        let depth_left = depth_left.checked_sub(1).ok_or(Errno::NOSPC)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut entries = Dir::new(openat(directory.as_fd(), c".", flags, Mode::empty())?)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let found = match statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => found?,
            };
            self.count(&found)?;
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                let inner: OwnedFd = openat(directory.as_fd(), name, flags, Mode::empty())?;
                self.below(inner, depth_left)?;
            }
        }
        Ok(())
    }
}
