//! `wasi:filesystem` for the directories that were granted. What wasmtime brings
//! keeps a guest within its directories; here are the directories themselves, and
//! the refusal to open what is neither file nor directory: a device, a socket, or a
//! FIFO, on which the host would wait for whoever is at the other end.

use crate::grants::Power;
use crate::instance::Instance;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, Host, HostDescriptor, OpenFlags, PathFlags,
};

/// The version of WASI that wasmtime serves; the linker takes older ones for it.
const VERSION: &str = "0.2.12";

type Directories = Vec<(Resource<Descriptor>, String)>;
type OpenArguments = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);
type Opened = Result<Resource<Descriptor>, ErrorCode>;

/// Takes the place of the interface's functions that give out descriptors.
pub(crate) fn add_granted(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    linker
        .instance(&format!("wasi:filesystem/preopens@{VERSION}"))?
        .func_wrap("get-directories", |mut store: StoreContextMut<'_, Instance>, (): ()| {
            Ok((directories(store.data_mut())?,))
        })?;
    linker.instance(&format!("wasi:filesystem/types@{VERSION}"))?.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, Instance>, arguments: OpenArguments| {
            Box::new(async move { Ok((open_at(&mut store.data_mut().filesystem(), arguments).await?,)) })
        },
    )
}

fn directories(instance: &mut Instance) -> wasmtime::Result<Directories> {
    if instance.serves.as_ref().is_none_or(|serves| serves.files.is_empty()) {
        return Ok(Vec::new());
    }
    instance.world().used(Power::Files);
    let Some(serves) = instance.serves.as_ref().filter(|_| !instance.is_replay()) else {
        return Ok(Vec::new());
    };
    serves
        .files
        .iter()
        .map(|grant| {
            let directory = instance.table.push(Descriptor::Dir(grant.directory()))?;
            Ok((directory, grant.guest_path().to_owned()))
        })
        .collect()
}

async fn open_at(view: &mut WasiFilesystemCtxView<'_>, arguments: OpenArguments) -> wasmtime::Result<Opened> {
    let (directory, path_flags, path, open_flags, flags) = arguments;
    let same = Resource::new_borrow(directory.rep());
    // Opening alone may wait, or have an effect, so the look comes before it. What
    // does not exist yet is judged by `open_at` itself.
    if let Ok(there) = view.stat_at(same, path_flags, path.clone()).await
        && !may_be_opened(there.type_)
    {
        return Ok(Err(ErrorCode::NotPermitted));
    }
    match open_and_look(view, (directory, path_flags, path, open_flags, flags)).await {
        Ok(opened) => Ok(Ok(opened)),
        Err(why) => Ok(Err(view.convert_error_code(why)?)),
    }
}

/// Opens, and looks again: something else may have taken its place.
async fn open_and_look(
    view: &mut WasiFilesystemCtxView<'_>,
    (directory, path_flags, path, open_flags, flags): OpenArguments,
) -> Result<Resource<Descriptor>, FsError> {
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
