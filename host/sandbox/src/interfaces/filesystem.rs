//! `wasi:filesystem` for the directories that were granted. What wasmtime brings
//! keeps a guest within its directories. Here are the directories themselves, and
//! what it may not do in them: open what is neither file nor directory (a device, a
//! socket, or a FIFO, on which the host would wait for whoever is at the other end),
//! make links that others would follow, and write more than its quota.

mod quota;

pub(crate) use quota::Quota;

use crate::grants::Power;
use crate::instance::{Instance, Serves};
use quota::{ENTRY_BYTES, Metered};
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, LinkerInstance, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, Host, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynOutputStream, FsError, FsResult};

/// The version of WASI that wasmtime serves; the linker takes older ones for it.
const VERSION: &str = "0.2.12";

type Store<'a> = StoreContextMut<'a, Instance>;
type Directories = Vec<(Resource<Descriptor>, String)>;
type OpenArguments = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);
type LinkArguments = (Resource<Descriptor>, PathFlags, String, Resource<Descriptor>, String);
type RenameArguments = (Resource<Descriptor>, String, Resource<Descriptor>, String);
type Answer<T> = wasmtime::Result<(Result<T, ErrorCode>,)>;

/// Takes the place of the interface's functions that give out descriptors, make
/// something, or write.
pub(crate) fn add_granted(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    linker
        .instance(&format!("wasi:filesystem/preopens@{VERSION}"))?
        .func_wrap("get-directories", |mut store: Store<'_>, (): ()| Ok((directories(store.data_mut())?,)))?;
    let mut types = linker.instance(&format!("wasi:filesystem/types@{VERSION}"))?;
    add_opening(&mut types)?;
    add_removing(&mut types)?;
    add_writing(&mut types)
}

fn add_opening(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: Store<'_>, arguments: OpenArguments| {
            Box::new(async move {
                let path = arguments.2.clone();
                let opened = open_at(store.data_mut(), arguments).await;
                answer_for(store.data_mut(), "open", &path, opened)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.create-directory-at",
        |mut store: Store<'_>, (directory, path): (Resource<Descriptor>, String)| {
            Box::new(async move {
                let made = match take(store.data_mut(), &directory, ENTRY_BYTES) {
                    Ok(()) => {
                        store.data_mut().filesystem().create_directory_at(directory, path.clone()).await
                    }
                    Err(why) => Err(why),
                };
                answer_for(store.data_mut(), "make the directory", &path, made)
            })
        },
    )?;
    // A link that a guest makes is followed by whoever looks at the directory next.
    types.func_wrap(
        "[method]descriptor.symlink-at",
        |store: Store<'_>, (_, _, path): (Resource<Descriptor>, String, String)| -> Answer<()> {
            Ok((Err(refused(store.data(), "make the link", &path)),))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.link-at",
        |store: Store<'_>, (.., path): LinkArguments| -> Answer<()> {
            Ok((Err(refused(store.data(), "make the link", &path)),))
        },
    )
}

/// What only notes refusals: directories that may be read alone, ways out of them.
fn add_removing(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.unlink-file-at",
        |mut store: Store<'_>, (directory, path): (Resource<Descriptor>, String)| {
            Box::new(async move {
                let removed = store.data_mut().filesystem().unlink_file_at(directory, path.clone()).await;
                answer_for(store.data_mut(), "remove", &path, removed)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.remove-directory-at",
        |mut store: Store<'_>, (directory, path): (Resource<Descriptor>, String)| {
            Box::new(async move {
                let removed =
                    store.data_mut().filesystem().remove_directory_at(directory, path.clone()).await;
                answer_for(store.data_mut(), "remove", &path, removed)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.rename-at",
        |mut store: Store<'_>, (directory, path, to, new_path): RenameArguments| {
            Box::new(async move {
                let mut files = store.data_mut().filesystem();
                let moved = files.rename_at(directory, path.clone(), to, new_path).await;
                answer_for(store.data_mut(), "move", &path, moved)
            })
        },
    )
}

fn add_writing(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.write",
        |mut store: Store<'_>, (file, bytes, offset): (Resource<Descriptor>, Vec<u8>, u64)| {
            Box::new(async move {
                let written = match take(store.data_mut(), &file, bytes.len() as u64) {
                    Ok(()) => store.data_mut().filesystem().write(file, bytes, offset).await,
                    Err(why) => Err(why),
                };
                answer(store.data_mut(), written)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-size",
        |mut store: Store<'_>, (file, size): (Resource<Descriptor>, u64)| {
            Box::new(async move {
                let set = set_size(store.data_mut(), file, size).await;
                answer(store.data_mut(), set)
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |mut store: Store<'_>, (file, offset): (Resource<Descriptor>, u64)| {
            let same = Resource::new_borrow(file.rep());
            let stream = store.data_mut().filesystem().write_via_stream(same, offset);
            let metered = metered(store.data_mut(), &file, stream);
            answer(store.data_mut(), metered)
        },
    )?;
    types.func_wrap(
        "[method]descriptor.append-via-stream",
        |mut store: Store<'_>, (file,): (Resource<Descriptor>,)| {
            let same = Resource::new_borrow(file.rep());
            let stream = store.data_mut().filesystem().append_via_stream(same);
            let metered = metered(store.data_mut(), &file, stream);
            answer(store.data_mut(), metered)
        },
    )
}

/// What the guest reads of it; what is no error of its own ends the call.
fn answer<T>(instance: &mut Instance, done: FsResult<T>) -> Answer<T> {
    match done {
        Ok(value) => Ok((Ok(value),)),
        Err(why) => Ok((Err(instance.filesystem().convert_error_code(why)?),)),
    }
}

/// The same, with a refusal noted; `doing` is what the guest did at this path.
fn answer_for<T>(instance: &mut Instance, doing: &str, path: &str, done: FsResult<T>) -> Answer<T> {
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
    instance.world().used(Power::Files);
    if instance.is_replay() {
        return Ok(Vec::new());
    }
    let Instance { serves: Some(serves), table, .. } = instance else {
        return Ok(Vec::new());
    };
    let Serves { grants, quota, .. } = serves;
    grants
        .files()
        .iter()
        .map(|grant| {
            let directory = table.push(Descriptor::Dir(grant.directory()))?;
            quota.own(&directory, grant.clone());
            Ok((directory, grant.guest_path().to_owned()))
        })
        .collect()
}

async fn open_at(instance: &mut Instance, arguments: OpenArguments) -> FsResult<Resource<Descriptor>> {
    let (directory, path_flags, path, open_flags, _) = &arguments;
    let same = Resource::new_borrow(directory.rep());
    // Opening alone may wait, or have an effect, so the look comes before it. What
    // does not exist yet is judged by `open_at` itself.
    match instance.filesystem().stat_at(same, *path_flags, path.clone()).await {
        Ok(there) if !may_be_opened(there.type_) => return Err(ErrorCode::NotPermitted.into()),
        Err(_) if open_flags.contains(OpenFlags::CREATE) => take(instance, directory, ENTRY_BYTES)?,
        Ok(_) | Err(_) => {}
    }
    let owner = instance.serves.as_ref().and_then(|serves| serves.quota.owner(directory));
    let opened = open_and_look(&mut instance.filesystem(), arguments).await?;
    if let Some((serves, owner)) = instance.serves.as_mut().zip(owner) {
        serves.quota.own(&opened, owner);
    }
    Ok(opened)
}

/// Opens, and looks again: something else may have taken its place.
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

async fn set_size(instance: &mut Instance, file: Resource<Descriptor>, size: u64) -> FsResult<()> {
    let now = instance.filesystem().stat(Resource::new_borrow(file.rep())).await?;
    take(instance, &file, size.saturating_sub(now.size))?;
    instance.filesystem().set_size(file, size).await
}

/// Takes room in the directory to which the descriptor belongs.
fn take(instance: &mut Instance, of: &Resource<Descriptor>, bytes: u64) -> FsResult<()> {
    let Some(serves) = &instance.serves else { return Ok(()) };
    match serves.quota.room(of).is_none_or(|room| room.take(bytes)) {
        true => Ok(()),
        false => Err(ErrorCode::InsufficientSpace.into()),
    }
}

/// Puts the quota before a stream into a file.
fn metered(
    instance: &mut Instance,
    file: &Resource<Descriptor>,
    stream: FsResult<Resource<DynOutputStream>>,
) -> FsResult<Resource<DynOutputStream>> {
    let stream = stream?;
    let room = instance.serves.as_ref().and_then(|serves| serves.quota.room(file));
    let Some(room) = room else { return Ok(stream) };
    let inner = instance.table.delete(stream)?;
    let metered: DynOutputStream = Box::new(Metered { inner, room });
    Ok(instance.table.push(metered)?)
}
