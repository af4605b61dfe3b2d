//! Requests over plain TCP, for tests: HTTP/1.1 without TLS, one request per
//! connection.

use crate::{Request, Response};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tollgate_sdk::CodedError;

/// The longest head of a response, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

pub(crate) fn send(request: &Request, max_bytes: usize) -> Result<Response, CodedError> {
    if request.url.scheme != "http" {
        return Err(crate::denied(&request.url));
    }
    let bytes = exchange(request, max_bytes).map_err(|error| {
        CodedError::new("unreachable", format!("{} does not answer: {error}.", request.url.origin()))
    })?;
    read(&bytes, max_bytes)
        .ok_or_else(|| CodedError::new("bad_response", "The server did not answer in HTTP."))
}

fn exchange(request: &Request, max_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(&request.url.authority)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut text = format!(
        "{} {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n",
        request.method, request.url.path, request.url.authority
    );
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n", request.body.len()));
    stream.write_all(&[text.as_bytes(), &request.body].concat())?;
    let mut answer = Vec::new();
    stream.take((MAX_HEAD_BYTES + max_bytes) as u64 + 1).read_to_end(&mut answer)?;
    Ok(answer)
}

fn read(bytes: &[u8], max_bytes: usize) -> Option<Response> {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_lowercase(), value.trim().to_owned()))
    });
    let body = &bytes[end + 4..];
    let kept = body.len().min(max_bytes);
    Some(Response {
        status,
        headers: headers.collect(),
        body: body[..kept].to_vec(),
        truncated: body.len() > kept,
    })
}
