//! `wasi:http`: a request can always be built. With a grant, it is judged and sent by
//! [`egress`](crate::egress); otherwise it is denied.
//!
//! Requests that are built and never sent occupy the host's memory, not the guest's. Each part of
//! one is small, or counts as bytes that crossed the boundary and as memory of the call: texts, header
//! fields and their copies. A body is stored in small pieces, which count as they are written.

use crate::charge::leave;
use crate::instance::http::MAX_FIELDS_BYTES;
use crate::instance::{GuestStore, Instance, WASI_VERSION};
use crate::meter::Boundary;
use wasmtime::component::{Linker, Resource, WasmList, WasmStr};
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi_http::p2::HeaderResult;
use wasmtime_wasi_http::p2::bindings::http::types::{
    HeaderError, HostFields as _, HostOutgoingRequest as _, Method, Scheme,
};
use wasmtime_wasi_http::p2::body::HostOutgoingBody;
use wasmtime_wasi_http::p2::types::HostOutgoingRequest as Request;
use wasmtime_wasi_http::{FieldMap, WasiHttpView as _};

/// The host memory of a header field in addition to its name and value.
const FIELD_BYTES: usize = 128;
type Set = wasmtime::Result<(Result<(), ()>,)>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

/// Replaces the functions that take texts of the guest, and those through which a request stores
/// them.
pub(crate) fn count_what_is_kept(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut types = linker.instance(&format!("wasi:http/types@{WASI_VERSION}"))?;
    types.func_wrap("[method]outgoing-request.set-method", set_method)?;
    types.func_wrap("[method]outgoing-request.set-scheme", set_scheme)?;
    types.func_wrap("[method]outgoing-request.set-path-with-query", set_path_with_query)?;
    types.func_wrap("[method]outgoing-request.set-authority", set_authority)?;
    types.func_wrap("[method]outgoing-body.write", write_body)?;
    types.func_wrap("[static]fields.from-list", fields_from_list)?;
    types.func_wrap("[method]fields.get", get_field)?;
    types.func_wrap("[method]fields.has", has_field)?;
    types.func_wrap("[method]fields.delete", delete_field)?;
    types.func_wrap("[method]fields.set", set_field)?;
    types.func_wrap("[method]fields.append", append_field)?;
    types.func_wrap("[method]fields.clone", clone_fields)
}

/// Charges bytes that leave the guest and that the host may hold until the call ends.
fn keep(store: &mut GuestStore<'_>, bytes: usize) -> wasmtime::Result<()> {
    leave(store, bytes)?;
    Ok(store.data_mut().meter.hold(bytes as u64)?)
}

fn set_method(mut store: GuestStore<'_>, (request, method): (Resource<Request>, Method)) -> Set {
    let name = if let Method::Other(name) = &method { name.len() } else { 0 };
    keep(&mut store, name)?;
    Ok((store.data_mut().http().set_method(request, method)?,))
}

fn set_scheme(mut store: GuestStore<'_>, (request, scheme): (Resource<Request>, Option<Scheme>)) -> Set {
    let name = if let Some(Scheme::Other(name)) = &scheme { name.len() } else { 0 };
    keep(&mut store, name)?;
    Ok((store.data_mut().http().set_scheme(request, scheme)?,))
}

fn set_path_with_query(
    mut store: GuestStore<'_>,
    (request, path): (Resource<Request>, Option<String>),
) -> Set {
    keep(&mut store, path.as_ref().map_or(0, String::len))?;
    Ok((store.data_mut().http().set_path_with_query(request, path)?,))
}

fn set_authority(
    mut store: GuestStore<'_>,
    (request, authority): (Resource<Request>, Option<String>),
) -> Set {
    keep(&mut store, authority.as_ref().map_or(0, String::len))?;
    Ok((store.data_mut().http().set_authority(request, authority)?,))
}

type Fields = Resource<FieldMap>;
type HeaderChange<T> = wasmtime::Result<(Result<T, HeaderError>,)>;

/// Copies fields up to their maximum size, and one more, which the checks of the fields refuse. Each
/// counts before it is copied: in the guest, all of them may be the same bytes.
fn fields_from_list(
    mut store: GuestStore<'_>,
    (given,): (WasmList<(WasmStr, WasmList<u8>)>,),
) -> HeaderChange<Fields> {
    let (mut fields, mut bytes) = (Vec::new(), 0);
    for at in 0..given.len() {
        let Some((name, value)) = given.get(&mut store, at).transpose()? else { break };
        let size = name.to_str(&store)?.len() + value.len();
        keep(&mut store, size + FIELD_BYTES)?;
        fields.push((name.to_str(&store)?.into_owned(), value.as_le_slice(&store).to_vec()));
        bytes += size.max(1);
        if bytes > MAX_FIELDS_BYTES {
            break;
        }
    }
    changed(store.data_mut().http().from_list(fields))
}

/// Copies the values as [`fields_from_list`] copies fields.
fn set_field(
    mut store: GuestStore<'_>,
    (fields, name, given): (Fields, String, WasmList<WasmList<u8>>),
) -> HeaderChange<()> {
    keep(&mut store, name.len())?;
    let (mut values, mut bytes) = (Vec::new(), 0);
    for at in 0..given.len() {
        let Some(value) = given.get(&mut store, at).transpose()? else { break };
        keep(&mut store, value.len() + FIELD_BYTES)?;
        values.push(value.as_le_slice(&store).to_vec());
        bytes += value.len().max(1);
        if bytes > MAX_FIELDS_BYTES {
            break;
        }
    }
    changed(store.data_mut().http().set(fields, name, values))
}

/// Returns the values of a field, which are as many bytes as the fields may have.
fn get_field(
    mut store: GuestStore<'_>,
    (fields, name): (Fields, String),
) -> wasmtime::Result<(Vec<Vec<u8>>,)> {
    leave(&mut store, name.len())?;
    Ok((store.data_mut().http().get(fields, name)?,))
}

fn has_field(mut store: GuestStore<'_>, (fields, name): (Fields, String)) -> wasmtime::Result<(bool,)> {
    leave(&mut store, name.len())?;
    Ok((store.data_mut().http().has(fields, name)?,))
}

fn delete_field(mut store: GuestStore<'_>, (fields, name): (Fields, String)) -> HeaderChange<()> {
    leave(&mut store, name.len())?;
    changed(store.data_mut().http().delete(fields, name))
}

fn append_field(
    mut store: GuestStore<'_>,
    (fields, name, value): (Fields, String, Vec<u8>),
) -> HeaderChange<()> {
    keep(&mut store, name.len() + value.len() + FIELD_BYTES)?;
    changed(store.data_mut().http().append(fields, name, value))
}

/// Copies header fields. A copy shares its fields with the original until one of them is changed.
/// It counts immediately, because the later change crosses no boundary.
fn clone_fields(mut store: GuestStore<'_>, (fields,): (Fields,)) -> wasmtime::Result<(Fields,)> {
    let instance = store.data_mut();
    let bytes = (instance.table.get(&fields)?.len() + 1) * FIELD_BYTES;
    instance.boundary.leave(bytes as u64)?;
    instance.meter.hold(bytes as u64)?;
    Ok((instance.http().clone(fields)?,))
}

fn changed<T>(result: HeaderResult<T>) -> HeaderChange<T> {
    match result {
        Ok(done) => Ok((Ok(done),)),
        Err(why) => Ok((Err(why.downcast()?),)),
    }
}

fn write_body(
    mut store: GuestStore<'_>,
    (body,): (Resource<HostOutgoingBody>,),
) -> wasmtime::Result<(Result<Resource<DynOutputStream>, ()>,)> {
    let instance = store.data_mut();
    let Some(stream) = instance.table.get_mut(&body)?.take_output_stream() else {
        return Ok((Err(()),));
    };
    let stream: DynOutputStream = Box::new(CountedBody { stream, boundary: instance.boundary.clone() });
    Ok((Ok(instance.table.push_child(stream, &body)?),))
}

/// The stream of a body. Written bytes count whether or not they are sent.
struct CountedBody {
    stream: Box<dyn OutputStream>,
    boundary: Boundary,
}

impl OutputStream for CountedBody {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.boundary.leave(bytes.len() as u64).map_err(|stop| StreamError::Trap(stop.into()))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.stream.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.stream.check_write()
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for CountedBody {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}
