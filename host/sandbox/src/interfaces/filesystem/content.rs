//! Reading and writing files, by functions and by streams.

use super::reader::{self, AHEAD_BYTES, FileReader};
use super::writer::{CHUNK_BYTES, FileWriter, Target, WritePosition};
use crate::admission::Charge;
use crate::instance::Instance;
use crate::instance::files::background::{self, Background};
use crate::meter::Stop;
use std::sync::Arc;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

/// The memory of a stream beside its buffer, in bytes.
const STREAM_BYTES: usize = 512;

/// Charges memory to the call until the result is dropped. `None` outside of a call, where no file
/// is open.
pub(super) fn charged(instance: &Instance, bytes: usize) -> Result<Option<Charge>, Stop> {
    let serves = instance.serves.as_ref();
    serves.map(|serves| serves.slot.charge_while(bytes as u64)).transpose().map_err(Stop::from)
}

pub(super) async fn read(
    instance: &mut Instance,
    file: &Resource<Descriptor>,
    length: u64,
    offset: u64,
) -> FsResult<(Vec<u8>, bool)> {
    let Descriptor::File(file) = instance.table.get(file)? else {
        return Err(ErrorCode::BadDescriptor.into());
    };
    let (file, length) = (Arc::clone(&file.file), usize::try_from(length).unwrap_or(usize::MAX));
    let bytes = background::run(move || reader::read(&file, offset, length)).await?;
    instance.boundary.enter(bytes.len() as u64).map_err(FsError::trap)?;
    let is_over = bytes.is_empty();
    Ok((bytes.into(), is_over))
}

pub(super) fn read_via_stream(
    instance: &mut Instance,
    file: &Resource<Descriptor>,
    offset: u64,
) -> FsResult<Resource<DynInputStream>> {
    let Descriptor::File(file) = instance.table.get(file)? else {
        return Err(ErrorCode::IsDirectory.into());
    };
    let (file, boundary) = (Arc::clone(&file.file), instance.boundary.clone());
    let held = charged(instance, STREAM_BYTES + AHEAD_BYTES).map_err(FsError::trap)?;
    let reader = FileReader::new(file, offset, background_of(instance)?, boundary, held);
    let stream: DynInputStream = Box::new(reader);
    Ok(instance.table.push(stream)?)
}

pub(super) async fn write(
    instance: &mut Instance,
    file: &Resource<Descriptor>,
    bytes: Vec<u8>,
    held: Option<Charge>,
    offset: u64,
) -> FsResult<u64> {
    let target = target(instance, file)?;
    let write = move || {
        let written = target.write(&bytes, WritePosition::Byte(offset)).map(|()| bytes.len() as u64);
        // The bytes are held until they are written, even if the call has ended.
        drop((bytes, held));
        written
    };
    Ok(background::run(write).await?)
}

pub(super) async fn set_size(
    instance: &mut Instance,
    file: &Resource<Descriptor>,
    size: u64,
) -> FsResult<()> {
    let target = target(instance, file)?;
    Ok(background::run(move || target.set_size(size)).await?)
}

pub(super) fn write_via_stream(
    instance: &mut Instance,
    file: &Resource<Descriptor>,
    at: WritePosition,
) -> FsResult<Resource<DynOutputStream>> {
    let target = target(instance, file)?;
    let held = charged(instance, STREAM_BYTES + CHUNK_BYTES).map_err(FsError::trap)?;
    let writer = FileWriter::new(target, at, background_of(instance)?, held);
    let stream: DynOutputStream = Box::new(writer);
    Ok(instance.table.push(stream)?)
}

/// Returns the file behind a descriptor if the guest may write to it.
fn target(instance: &Instance, file: &Resource<Descriptor>) -> FsResult<Target> {
    let room = instance.serves.as_ref().and_then(|serves| serves.files.quota.room(&instance.table, file));
    match instance.table.get(file)? {
        Descriptor::Dir(_) => Err(ErrorCode::BadDescriptor.into()),
        Descriptor::File(file) if file.perms.write_not_permitted() => Err(ErrorCode::NotPermitted.into()),
        Descriptor::File(file) => Ok(Target { file: Arc::clone(&file.file), room }),
    }
}

fn background_of(instance: &Instance) -> FsResult<Background> {
    // Without a call there are no directories and no descriptors.
    let serves = instance.serves.as_ref().ok_or(ErrorCode::BadDescriptor)?;
    Ok(serves.files.background.clone())
}
