//! HTTP requests of an instance: judged and sent by [`egress`](crate::egress) if they were granted.

use crate::egress::{CallEgress, Exchange, is_forbidden, refuse};
use crate::grants::Power;
use crate::ledger::Ledger;
use crate::nondeterminism::Nondeterminism;
use std::sync::Arc;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{
    Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks,
};

/// The maximum size in bytes of one set of header fields. A guest may copy its fields, which
/// crosses no boundary, as often as it may have handles.
pub(crate) const MAX_FIELDS_BYTES: usize = 16 * 1024;
/// The maximum number of body bytes that are buffered for the reader.
const MAX_CHUNK_BYTES: usize = 4 * 1024;

/// Returns the limits of the data that `wasi:http` stores for a guest.
pub(crate) fn context() -> WasiHttpCtx {
    let mut context = WasiHttpCtx::new();
    context.set_field_size_limit(MAX_FIELDS_BYTES);
    context
}

/// The HTTP egress of an instance: absent if the instance is sealed or nothing was granted.
pub(crate) struct Egress {
    pub(crate) outbound: Option<CallEgress>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) world: Nondeterminism,
}

impl Egress {
    /// Decides whether a request is allowed. Returns an exchange to run, or the reason for the
    /// refusal.
    pub(crate) fn admit(
        &self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Exchange, Error> {
        let Some(outbound) = &self.outbound else {
            // A replay has no HTTP grant, whatever the call had.
            return Err(match self.world.is_played() {
                true => Error::HttpRequestDenied,
                false => refuse(&request, &self.ledger),
            });
        };
        self.world.record_power(Power::Http);
        // Server responses are not recorded, and a replay sends no requests.
        if self.world.is_played() {
            return Err(Error::HttpRequestDenied);
        }
        outbound.admit(request, options)
    }
}

/// The result of a request: the response, and the task that runs beside it.
type SendResult =
    Result<(http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

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
    ) -> Box<dyn Future<Output = SendResult> + Send> {
        match self.admit(request, options) {
            Ok(exchange) => Box::new(exchange.run()),
            Err(why) => Box::new(std::future::ready(Err(why))),
        }
    }
}
