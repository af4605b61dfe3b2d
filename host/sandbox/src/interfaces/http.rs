//! `wasi:http`, refusing: a request can be built, and is denied when it is sent.

use crate::instance::Instance;
use wasmtime::component::Linker;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

pub(crate) fn add_refusing(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

/// Sends nothing.
pub(crate) struct NoEgress;

/// What becomes of a request: the response, and what goes on beside it.
type Sent = Result<(http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpHooks for NoEgress {
    fn send_request(
        &mut self,
        _request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _body: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }
}
