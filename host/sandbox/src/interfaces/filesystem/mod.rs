//! `wasi:filesystem` for the granted directories. wasmtime keeps a guest within its directories.
//! This module adds the directories themselves and further restrictions. A guest may not open
//! anything but files and directories: not a device, a socket or a FIFO, where the host would
//! wait for the other end. It may not create links that others would follow, exceed its limits
//! for reading and writing, or exceed its quota.

mod content;
mod listing;
mod moving;
mod reader;
mod writer;

use crate::charge::{charge, leave, text};
use crate::grants::Power;
use crate::instance::files::Files;
use crate::instance::files::quota::{ENTRY_BYTES, Room};
use crate::instance::{GuestStore, Instance, InstanceCall, WASI_VERSION};
use crate::meter::Stop;
use listing::DirectoryListing;
use wasmtime::component::{Linker, LinkerInstance, Resource, ResourceType, WasmList, WasmStr};
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, Host, HostDescriptor, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};
use writer::WritePosition;

/// The longest path, in bytes: the longest that Linux accepts.
const MAX_PATH_BYTES: usize = 4_095;
/// The longest part of a path that a refusal quotes, in bytes.
const MAX_SHOWN_BYTES: usize = 300;

type Directories = Vec<(Resource<Descriptor>, String)>;
type OpenArguments = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);
type LinkArguments = (Resource<Descriptor>, PathFlags, WasmStr, Resource<Descriptor>, WasmStr);
type TimesArguments = (Resource<Descriptor>, PathFlags, String, NewTimestamp, NewTimestamp);
type FileAnswer<T> = wasmtime::Result<(Result<T, ErrorCode>,)>;

/// Replaces the interface's functions that return descriptors, create files, read or write.
pub(crate) fn add_granted(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    linker
        .instance(&format!("wasi:filesystem/preopens@{WASI_VERSION}"))?
        .func_wrap("get-directories", |mut store: GuestStore<'_>, (): ()| {
            Ok((directories(store.data_mut())?,))
        })?;
    let mut types = linker.instance(&format!("wasi:filesystem/types@{WASI_VERSION}"))?;
    add_opening(&mut types)?;
    add_metadata(&mut types)?;
    add_removing(&mut types)?;
    add_listing(&mut types)?;
    add_reading(&mut types)?;
    add_writing(&mut types)
}

fn add_opening(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: GuestStore<'_>, arguments: OpenArguments| {
            Box::new(async move {
                if is_too_long(&mut store, &arguments.2)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let path = arguments.2.clone();
                let opened = open_at(store.data_mut(), arguments).await;
                answer_for(store.data_mut(), "open", &path, opened)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.create-directory-at",
        |mut store: GuestStore<'_>, (directory, path): (Resource<Descriptor>, String)| {
            Box::new(async move {
                if is_too_long(&mut store, &path)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let made = create_directory_at(store.data_mut(), directory, path.clone()).await;
                answer_for(store.data_mut(), "make the directory", &path, made)
            })
        },
    )?;
    // Other programs that use the directory would follow a link that a guest creates.
    types.func_wrap(
        "[method]descriptor.symlink-at",
        |mut store: GuestStore<'_>,
         (_, _, path): (Resource<Descriptor>, WasmStr, WasmStr)|
         -> FileAnswer<()> {
            let path = text(&mut store, &path, MAX_SHOWN_BYTES)?;
            Ok((Err(refused(store.data(), "make the link", &path)),))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.link-at",
        |mut store: GuestStore<'_>, (.., path): LinkArguments| -> FileAnswer<()> {
            let path = text(&mut store, &path, MAX_SHOWN_BYTES)?;
            Ok((Err(refused(store.data(), "make the link", &path)),))
        },
    )
}

/// Adds wasmtime's functions for the metadata of a path, whose length is charged.
fn add_metadata(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.stat-at",
        |mut store: GuestStore<'_>, (directory, flags, path): (Resource<Descriptor>, PathFlags, String)| {
            Box::new(async move {
                if is_too_long(&mut store, &path)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let found = store.data_mut().filesystem().stat_at(directory, flags, path).await;
                answer(store.data_mut(), found)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.metadata-hash-at",
        |mut store: GuestStore<'_>, (directory, flags, path): (Resource<Descriptor>, PathFlags, String)| {
            Box::new(async move {
                if is_too_long(&mut store, &path)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let hash = store.data_mut().filesystem().metadata_hash_at(directory, flags, path).await;
                answer(store.data_mut(), hash)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-times-at",
        |mut store: GuestStore<'_>, (directory, flags, path, accessed, modified): TimesArguments| {
            Box::new(async move {
                if is_too_long(&mut store, &path)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let mut files = store.data_mut().filesystem();
                let set = files.set_times_at(directory, flags, path, accessed, modified).await;
                answer(store.data_mut(), set)
            })
        },
    )
}

/// Adds functions that only need their refusals recorded: writes to read-only directories, and
/// paths that lead outside.
fn add_removing(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.unlink-file-at",
        |mut store: GuestStore<'_>, (directory, path): (Resource<Descriptor>, String)| {
            Box::new(async move {
                if is_too_long(&mut store, &path)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let removed = store.data_mut().filesystem().unlink_file_at(directory, path.clone()).await;
                answer_for(store.data_mut(), "remove", &path, removed)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.remove-directory-at",
        |mut store: GuestStore<'_>, (directory, path): (Resource<Descriptor>, String)| {
            Box::new(async move {
                if is_too_long(&mut store, &path)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let removed =
                    store.data_mut().filesystem().remove_directory_at(directory, path.clone()).await;
                answer_for(store.data_mut(), "remove", &path, removed)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.rename-at",
        |mut store: GuestStore<'_>, arguments: moving::Move| {
            Box::new(async move {
                if is_too_long(&mut store, &arguments.1)? || is_too_long(&mut store, &arguments.3)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let path = arguments.1.clone();
                let moved = moving::rename(store.data_mut(), arguments).await;
                answer_for(store.data_mut(), "move", &path, moved)
            })
        },
    )
}

/// Adds listings, a type of this host's own, with all functions that take one.
fn add_listing(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.resource(
        "directory-entry-stream",
        ResourceType::host::<DirectoryListing>(),
        |mut store, number| {
            store.data_mut().table.delete(Resource::<DirectoryListing>::new_own(number))?;
            Ok(())
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.read-directory",
        |mut store: GuestStore<'_>, (directory,): (Resource<Descriptor>,)| {
            Box::new(async move {
                let opened = listing::open(store.data_mut(), &directory).await;
                answer(store.data_mut(), opened)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store: GuestStore<'_>, (listing,): (Resource<DirectoryListing>,)| {
            Box::new(async move {
                let entry = listing::next(store.data_mut(), &listing).await;
                answer(store.data_mut(), entry)
            })
        },
    )
}

/// Adds functions that read; read bytes count as bytes that cross the boundary.
fn add_reading(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.read",
        |mut store: GuestStore<'_>, (file, length, offset): (Resource<Descriptor>, u64, u64)| {
            Box::new(async move {
                let read = content::read(store.data_mut(), &file, length, offset).await;
                answer(store.data_mut(), read)
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.read-via-stream",
        |mut store: GuestStore<'_>, (file, offset): (Resource<Descriptor>, u64)| {
            let stream = content::read_via_stream(store.data_mut(), &file, offset);
            answer(store.data_mut(), stream)
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.readlink-at",
        |mut store: GuestStore<'_>, (directory, path): (Resource<Descriptor>, String)| {
            Box::new(async move {
                if is_too_long(&mut store, &path)? {
                    return Ok((Err(ErrorCode::NameTooLong),));
                }
                let instance = store.data_mut();
                let target = instance.filesystem().readlink_at(directory, path).await;
                if let Ok(target) = &target {
                    instance.boundary.enter(target.len() as u64)?;
                }
                answer(instance, target)
            })
        },
    )
}

fn add_writing(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.write",
        |mut store: GuestStore<'_>, (file, bytes, offset): (Resource<Descriptor>, WasmList<u8>, u64)| {
            Box::new(async move {
                // `written_bytes` counts what is written, by a stream too.
                if bytes.len() as u64 > store.data().crossing_bytes() {
                    return Err(Stop::Crossing.into());
                }
                charge(&mut store, bytes.len())?;
                let held = content::charged(store.data(), bytes.len())?;
                let bytes = bytes.as_le_slice(&store).to_vec();
                let written = content::write(store.data_mut(), &file, bytes, held, offset).await;
                answer(store.data_mut(), written)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-size",
        |mut store: GuestStore<'_>, (file, size): (Resource<Descriptor>, u64)| {
            Box::new(async move {
                let set = content::set_size(store.data_mut(), &file, size).await;
                answer(store.data_mut(), set)
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |mut store: GuestStore<'_>, (file, offset): (Resource<Descriptor>, u64)| {
            let stream = content::write_via_stream(store.data_mut(), &file, WritePosition::Byte(offset));
            answer(store.data_mut(), stream)
        },
    )?;
    types.func_wrap(
        "[method]descriptor.append-via-stream",
        |mut store: GuestStore<'_>, (file,): (Resource<Descriptor>,)| {
            let stream = content::write_via_stream(store.data_mut(), &file, WritePosition::End);
            answer(store.data_mut(), stream)
        },
    )
}

/// Charges a path, and returns whether it is longer than the system accepts. Such a path is refused before
/// it is copied: an operation copies its path several times.
fn is_too_long(store: &mut GuestStore<'_>, path: &str) -> wasmtime::Result<bool> {
    leave(store, path.len())?;
    Ok(path.len() > MAX_PATH_BYTES)
}

/// Returns the guest's error code; any other error ends the call.
fn answer<T>(instance: &mut Instance, done: FsResult<T>) -> FileAnswer<T> {
    match done {
        Ok(value) => Ok((Ok(value),)),
        Err(why) => Ok((Err(instance.filesystem().convert_error_code(why)?),)),
    }
}

/// Returns the guest's error code as [`answer`] does, and records a refusal. `doing` is the guest's
/// operation on this path.
fn answer_for<T>(instance: &mut Instance, doing: &str, path: &str, done: FsResult<T>) -> FileAnswer<T> {
    let answer = answer(instance, done)?;
    if matches!(answer, (Err(ErrorCode::NotPermitted),)) {
        refused(instance, doing, path);
    }
    Ok(answer)
}

fn refused(instance: &Instance, doing: &str, path: &str) -> ErrorCode {
    instance.deny(Power::Files, &format!("{doing} {path}"));
    ErrorCode::NotPermitted
}

fn directories(instance: &mut Instance) -> wasmtime::Result<Directories> {
    if instance.serves.as_ref().is_none_or(|serves| serves.grants.files().is_empty()) {
        return Ok(Vec::new());
    }
    instance.world().record_power(Power::Files);
    if instance.is_replay() {
        return Ok(Vec::new());
    }
    let Instance { serves: Some(serves), table, .. } = instance else {
        return Ok(Vec::new());
    };
    let InstanceCall { grants, files: Files { quota, .. }, .. } = serves;
    grants
        .files()
        .iter()
        .map(|grant| {
            let directory = table.push(Descriptor::Dir(grant.directory()))?;
            quota.record_directory(&directory, grant.clone());
            Ok((directory, grant.guest_path().to_owned()))
        })
        .collect()
}

async fn open_at(instance: &mut Instance, arguments: OpenArguments) -> FsResult<Resource<Descriptor>> {
    let (directory, path_flags, path, ..) = &arguments;
    let same = Resource::new_borrow(directory.rep());
    // Opening may block or have an effect, so check the type first. `open_at` itself checks paths
    // that do not exist yet.
    let looked = instance.filesystem().stat_at(same, *path_flags, path.clone()).await;
    if looked.as_ref().is_ok_and(|there| !may_be_opened(there.type_)) {
        return Err(ErrorCode::NotPermitted.into());
    }
    let through = Resource::<Descriptor>::new_borrow(directory.rep());
    let serves = instance.serves.as_mut().ok_or(ErrorCode::NotPermitted)?;
    let place = serves.files.open.take().map_err(FsError::trap)?;
    let opened = open_or_create(instance, arguments, looked.is_ok()).await?;
    let Instance { serves: Some(serves), table, .. } = instance else { return Ok(opened) };
    let descriptor = table.get(&opened)?;
    let (Descriptor::File(File { file, .. }) | Descriptor::Dir(Dir { dir: file, .. })) = descriptor;
    serves.files.open.hold(file, place);
    let first = serves.files.quota.first_owner(&through);
    if let (Some(first), Descriptor::Dir(directory)) = (first, table.get(&through)?) {
        serves.files.quota.record_directory(&opened, first.note_opened(&directory.dir, file));
    }
    Ok(opened)
}

/// Opens an existing file without creating it, so that only actual creations are counted, even if
/// others change the path concurrently.
async fn open_or_create(
    instance: &mut Instance,
    (directory, path_flags, path, open_flags, flags): OpenArguments,
    is_there: bool,
) -> FsResult<Resource<Descriptor>> {
    let same = || Resource::new_borrow(directory.rep());
    let creates = open_flags.contains(OpenFlags::CREATE) && !open_flags.contains(OpenFlags::DIRECTORY);
    if creates && is_there && !open_flags.contains(OpenFlags::EXCLUSIVE) {
        // With CREATE, a file is always opened for writing.
        let as_created = match flags.contains(DescriptorFlags::WRITE) {
            true => flags,
            false => flags | DescriptorFlags::READ | DescriptorFlags::WRITE,
        };
        let existing = (same(), path_flags, path.clone(), open_flags & !OpenFlags::CREATE, as_created);
        match open_and_look(&mut instance.filesystem(), existing).await {
            Err(why) if matches!(why.downcast_ref(), Some(ErrorCode::NoEntry)) => {}
            opened => return opened,
        }
    }
    let price = if creates { ENTRY_BYTES } else { 0 };
    let room = take(instance, &directory, price)?;
    let arguments = (same(), path_flags, path, open_flags, flags);
    let opened = open_and_look(&mut instance.filesystem(), arguments).await;
    if let (Some(room), Err(_)) = (room, &opened) {
        room.give_back(price);
    }
    opened
}

async fn create_directory_at(
    instance: &mut Instance,
    directory: Resource<Descriptor>,
    path: String,
) -> FsResult<()> {
    let room = take(instance, &directory, ENTRY_BYTES)?;
    let same = Resource::new_borrow(directory.rep());
    let made = instance.filesystem().create_directory_at(same, path).await;
    if let (Some(room), Err(_)) = (room, &made) {
        room.give_back(ENTRY_BYTES);
    }
    made
}

/// Opens, and checks again: something else may have replaced it.
async fn open_and_look(
    view: &mut WasiFilesystemCtxView<'_>,
    (directory, path_flags, path, open_flags, flags): OpenArguments,
) -> FsResult<Resource<Descriptor>> {
    let opened = view.open_at(directory, path_flags, path, open_flags, flags).await?;
    if may_be_opened(view.get_type(Resource::new_borrow(opened.rep())).await?) {
        return Ok(opened);
    }
    HostDescriptor::drop(view, opened).map_err(FsError::trap)?;
    Err(ErrorCode::NotPermitted.into())
}

fn may_be_opened(kind: DescriptorType) -> bool {
    matches!(kind, DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink)
}

/// Takes room in the descriptor's directory, and returns that room.
fn take(instance: &Instance, of: &Resource<Descriptor>, bytes: u64) -> FsResult<Option<Room>> {
    let quota = instance.serves.as_ref().map(|serves| &serves.files.quota);
    let room = quota.and_then(|quota| quota.room(&instance.table, of));
    match room.as_ref().is_none_or(|room| room.take(bytes)) {
        true => Ok(room),
        false => Err(ErrorCode::InsufficientSpace.into()),
    }
}
