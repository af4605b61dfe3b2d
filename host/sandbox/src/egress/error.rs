//! Errors of connections.

use std::error::Error as _;
use wasmtime_wasi_http::Error;

/// Translates a hyper connection error to `wasi:http`.
pub(super) fn broken(why: &hyper::Error) -> Error {
    if let Some(Error::HttpRequestBodySize(size)) = why.source().and_then(|why| why.downcast_ref()) {
        Error::HttpRequestBodySize(*size)
    } else if why.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(None)
    } else if why.is_incomplete_message() || why.is_closed() {
        Error::HttpResponseIncomplete
    } else if why.is_timeout() {
        Error::HttpResponseTimeout
    } else {
        Error::HttpProtocolError
    }
}
