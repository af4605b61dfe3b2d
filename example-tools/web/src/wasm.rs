//! Requests through `wasi:http`.

use crate::{Request, Response, denied};
use tollgate_sdk::CodedError;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

/// The number of bytes read or written at once.
const CHUNK_BYTES: usize = 4 << 10;

pub(crate) fn send(request: &Request, max_bytes: usize) -> Result<Response, CodedError> {
    let refused =
        |what: &str| CodedError::new("bad_request", format!("The host does not accept this {what}."));
    let headers = Fields::new();
    for (name, value) in &request.headers {
        headers.append(name, value.as_bytes()).map_err(|_| refused("header"))?;
    }
    let outgoing = OutgoingRequest::new(headers);
    let scheme = if request.url.scheme == "http" { Scheme::Http } else { Scheme::Https };
    outgoing.set_method(&method(&request.method)).map_err(|()| refused("method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(|()| refused("scheme"))?;
    outgoing.set_authority(Some(&request.url.authority)).map_err(|()| refused("host"))?;
    outgoing.set_path_with_query(Some(&request.url.path)).map_err(|()| refused("path"))?;
    let body = outgoing.body().map_err(|()| refused("body"))?;
    let future = handle(outgoing, None).map_err(|why| failed(request, &why))?;
    write(body, &request.body).map_err(|()| refused("body"))?;
    future.subscribe().block();
    let response = match future.get() {
        Some(Ok(Ok(response))) => response,
        Some(Ok(Err(why))) => return Err(failed(request, &why)),
        Some(Err(())) | None => return Err(CodedError::new("bad_response", "There is no response.")),
    };
    read(&response, max_bytes)
}

fn write(body: OutgoingBody, bytes: &[u8]) -> Result<(), ()> {
    if !bytes.is_empty() {
        let stream = body.write()?;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            stream.blocking_write_and_flush(chunk).map_err(drop)?;
        }
    }
    OutgoingBody::finish(body, None).map_err(drop)
}

fn read(response: &IncomingResponse, max_bytes: usize) -> Result<Response, CodedError> {
    let headers = response.headers().entries().into_iter();
    let headers =
        headers.map(|(name, value)| (name.to_lowercase(), String::from_utf8_lossy(&value).into_owned()));
    let (status, headers) = (response.status(), headers.collect());
    let broken = || CodedError::new("bad_response", "The response broke off.");
    let incoming = response.consume().map_err(|()| broken())?;
    let (body, truncated) = read_body(&incoming, max_bytes).map_err(|()| broken())?;
    Ok(Response { status, headers, body, truncated })
}

fn read_body(incoming: &IncomingBody, max_bytes: usize) -> Result<(Vec<u8>, bool), ()> {
    let stream = incoming.stream()?;
    let mut body = Vec::new();
    loop {
        match stream.blocking_read(CHUNK_BYTES as u64) {
            Ok(bytes) => body.extend_from_slice(&bytes),
            Err(StreamError::Closed) => return Ok((body, false)),
            Err(StreamError::LastOperationFailed(_)) => return Err(()),
        }
        if body.len() > max_bytes {
            body.truncate(max_bytes);
            return Ok((body, true));
        }
    }
}

fn failed(request: &Request, why: &ErrorCode) -> CodedError {
    let origin = request.url.origin();
    match why {
        ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => denied(&request.url),
        ErrorCode::HttpRequestUriInvalid => {
            CodedError::new("bad_url", "The host does not accept this URL. Write it in its usual form.")
        }
        ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::HttpResponseTimeout
        | ErrorCode::DnsTimeout => CodedError::new("timed_out", format!("{origin} took too long to answer.")),
        ErrorCode::HttpResponseBodySize(_) => {
            CodedError::new("too_large", format!("The response of {origin} is larger than the host allows."))
        }
        why => CodedError::new("unreachable", format!("The request to {origin} failed: {why:?}.")),
    }
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}
