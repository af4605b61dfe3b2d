//! HTTP for tools: one request, and a response of bounded size.
//!
//! In a component the request goes through `wasi:http`, where the host checks it; a
//! request without a grant fails with the code `denied`. In native tests it goes over
//! plain TCP to the test's own server.

#[cfg(not(target_family = "wasm"))]
mod native;
mod url;
#[cfg(target_family = "wasm")]
mod wasm;

pub use url::{Url, encode};

#[cfg(not(target_family = "wasm"))]
use native as transport;
#[cfg(target_family = "wasm")]
use wasm as transport;

use tollgate_sdk::CodedError;

/// The most bytes of a body that are read, regardless of the tool's limit.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// An HTTP request.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    url: Url,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status, such as 200 or 404. Redirects are not followed.
    pub status: u16,
    /// The headers; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The part of the body that was read.
    pub body: Vec<u8>,
    /// Whether the body is longer than the part that was read.
    pub truncated: bool,
}

impl Request {
    /// Creates a GET request.
    pub fn get(url: &str) -> Result<Self, CodedError> {
        Self::new("GET", url)
    }

    /// Creates a request with another method.
    ///
    /// Fails with `bad_url` if the URL's scheme is neither `http` nor `https`.
    pub fn new(method: &str, url: &str) -> Result<Self, CodedError> {
        Ok(Self {
            method: method.to_uppercase(),
            url: Url::parse(url)?,
            headers: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the request and reads at most `max_bytes` of the response's body.
    ///
    /// Fails with `denied` if the host rejects it, with `unreachable` if the server
    /// does not respond, with `timed_out`, and with `bad_response`.
    pub fn send(&self, max_bytes: usize) -> Result<Response, CodedError> {
        transport::send(self, max_bytes.min(MAX_BODY_BYTES))
    }
}

impl Response {
    /// Returns the header's first value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as text. Invalid UTF-8 in it is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the response if its status indicates success.
    ///
    /// Fails with `redirected`, `not_found` or `http_status`.
    pub fn successful(self) -> Result<Self, CodedError> {
        match self.status {
            200..=299 => Ok(self),
            300..=399 => {
                let to = self.header("location").unwrap_or("another place");
                Err(CodedError::new("redirected", format!("It is at {to} now. Ask there.")))
            }
            404 | 410 => Err(CodedError::new("not_found", "The server has nothing at this address.")),
            status => {
                Err(CodedError::new("http_status", format!("The server answered with the status {status}.")))
            }
        }
    }
}

/// Returns the error of a request that the host rejected.
pub(crate) fn denied(url: &Url) -> CodedError {
    CodedError::new(
        "denied",
        format!("The host does not let this tool ask {}. An operator can grant it.", url.origin()),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn answers(response: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/a?b", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap();
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8_lossy(&buffer[..read]).into_owned()
        });
        (url, served)
    }

    #[test]
    fn a_request_is_sent_and_its_response_is_bounded() {
        let (url, served) = answers("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello world");
        let response = Request::new("post", &url).unwrap().header("x-a", "1").body("body").send(5).unwrap();
        let sent = served.join().unwrap();
        assert!(
            sent.starts_with("POST /a?b HTTP/1.1\r\n")
                && sent.contains("x-a: 1\r\n")
                && sent.ends_with("body"),
            "{sent}"
        );
        assert_eq!((response.status, response.header("content-type")), (200, Some("text/plain")));
        assert_eq!((response.text().as_str(), response.truncated), ("hello", true));
    }

    #[test]
    fn what_did_not_go_well_says_what_to_do() {
        for (response, code) in [
            ("HTTP/1.1 302 Found\r\nLocation: http://b.test/\r\n\r\n", "redirected"),
            ("HTTP/1.1 404 Not Found\r\n\r\n", "not_found"),
            ("HTTP/1.1 500 No\r\n\r\n", "http_status"),
        ] {
            let (url, served) = answers(response);
            let error = Request::get(&url).unwrap().send(10).unwrap().successful().unwrap_err();
            assert_eq!(error.code(), code);
            served.join().unwrap();
        }
    }
}
