//! `wasi:http`: a request can always be built. Where the call was granted HTTP it is
//! judged and sent by [`egress`](crate::egress), elsewhere it is denied.
//!
//! Requests that are built and never sent are the host's memory, not the guest's.
//! Each part of one is small, or counts as bytes that crossed the boundary.

use crate::egress::{Outbound, is_forbidden, refuse};
use crate::grants::Power;
use crate::instance::Instance;
use crate::ledger::Ledger;
use crate::world::World;
use std::sync::Arc;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p2::bindings::http::types::{HostOutgoingRequest as _, Method};
use wasmtime_wasi_http::p2::types::HostOutgoingRequest as Request;
use wasmtime_wasi_http::{
    Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks, WasiHttpView as _,
};

/// The version of WASI that wasmtime serves; the linker takes older ones for it.
const VERSION: &str = "0.2.12";
/// The most bytes of one set of header fields. A guest may copy what it has, which
/// crosses no boundary, as often as it may have handles.
const MAX_FIELDS_BYTES: usize = 16 * 1024;
/// The most bytes of a body that are kept for whoever reads it.
const MAX_CHUNK_BYTES: usize = 4 * 1024;

type Store<'a> = StoreContextMut<'a, Instance>;
type Set = wasmtime::Result<(Result<(), ()>,)>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

/// Takes the place of the functions by which a request keeps text.
pub(crate) fn count_what_is_kept(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut types = linker.instance(&format!("wasi:http/types@{VERSION}"))?;
    types.func_wrap("[method]outgoing-request.set-method", set_method)?;
    types.func_wrap("[method]outgoing-request.set-path-with-query", set_path_with_query)?;
    types.func_wrap("[method]outgoing-request.set-authority", set_authority)
}

/// What `wasi:http` may keep for a guest.
pub(crate) fn context() -> WasiHttpCtx {
    let mut context = WasiHttpCtx::new();
    context.set_field_size_limit(MAX_FIELDS_BYTES);
    context
}

fn set_method(mut store: Store<'_>, (request, method): (Resource<Request>, Method)) -> Set {
    if let Method::Other(name) = &method {
        store.data().boundary.leave(name.len() as u64)?;
    }
    Ok((store.data_mut().http().set_method(request, method)?,))
}

fn set_path_with_query(mut store: Store<'_>, (request, path): (Resource<Request>, Option<String>)) -> Set {
    store.data().boundary.leave(path.as_ref().map_or(0, String::len) as u64)?;
    Ok((store.data_mut().http().set_path_with_query(request, path)?,))
}

fn set_authority(mut store: Store<'_>, (request, authority): (Resource<Request>, Option<String>)) -> Set {
    store.data().boundary.leave(authority.as_ref().map_or(0, String::len) as u64)?;
    Ok((store.data_mut().http().set_authority(request, authority)?,))
}

/// The way out of an instance: none in a sealed one, and where nothing was granted.
pub(crate) struct Egress {
    pub(crate) outbound: Option<Outbound>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) world: World,
}

/// What becomes of a request: the response, and what goes on beside it.
type Sent = Result<(http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpHooks for Egress {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(is_forbidden)
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        MAX_CHUNK_BYTES
    }

    fn p2_error_from_hyper(&mut self, _: &hyper::Error) -> ErrorCode {
        ErrorCode::HttpProtocolError
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _body: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let admitted = match &self.outbound {
            Some(outbound) => {
                self.world.used(Power::Http);
                // What servers say is not in a record: a replay asks none.
                if self.world.is_played() {
                    Err(Error::HttpRequestDenied)
                } else {
                    outbound.admit(request, options)
                }
            }
            // A replay is granted none, whatever the call was.
            None if self.world.is_played() => Err(Error::HttpRequestDenied),
            None => Err(refuse(&request, &self.ledger)),
        };
        match admitted {
            Ok(exchange) => Box::new(exchange.run()),
            Err(why) => Box::new(std::future::ready(Err(why))),
        }
    }
}
