//! HTTP requests from a tool.
//!
//! The host sends a request only if an operator granted it. It adds the secrets that
//! belong to the server, and removes them from the response: a tool never holds a key.
//! Redirects are not followed. In native tests, requests go over plain TCP to the
//! test's own server.
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate_sdk::http::{self, Request};
//!
//! #[derive(serde::Deserialize)]
//! struct Release {
//!     version: String,
//! }
//!
//! fn latest() -> Result<String, http::Error> {
//!     let request = Request::get("https://api.example.com/v1/latest")
//!         .query("channel", "stable")
//!         .header("accept", "application/json")
//!         .timeout(Duration::from_secs(5))
//!         .max_body_bytes(64 << 10);
//!     let release: Release = request.send()?.successful()?.json()?;
//!     Ok(release.version)
//! }
//! ```
//!
//! A tool may return [`Error`] as it is: the model reads its code and its message.

mod error;
#[cfg(not(target_family = "wasm"))]
mod native;
mod url;

pub use error::{Error, ErrorKind};
pub use url::{Url, encode};

#[cfg(target_family = "wasm")]
use crate::wasm::http as transport;
#[cfg(not(target_family = "wasm"))]
use native as transport;

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_body_bytes: Option<u32>,
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// The status, such as 200 or 404.
    pub status: u16,
    /// The headers; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The part of the body that was read.
    pub body: Vec<u8>,
    /// Whether the body is longer than [`Request::max_body_bytes`].
    pub truncated: bool,
}

impl Request {
    /// Creates a GET request.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// Creates a POST request.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// Creates a request with another method.
    pub fn new(method: &str, url: impl Into<String>) -> Self {
        Self {
            method: method.to_ascii_uppercase(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: None,
            max_body_bytes: None,
        }
    }

    /// Adds a parameter to the URL's query, encoded.
    #[must_use]
    pub fn query(mut self, name: &str, value: impl ToString) -> Self {
        let fragment = self.url.find('#').unwrap_or(self.url.len());
        self.url.truncate(fragment);
        self.url.push(if self.url.contains('?') { '&' } else { '?' });
        self.url.push_str(&format!("{}={}", encode(name), encode(&value.to_string())));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to JSON, and its content type.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn json(self, value: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(value).map_err(|error| {
            Error::new(ErrorKind::BadRequest, format!("The body cannot be written as JSON: {error}."))
        })?;
        Ok(self.header("content-type", "application/json").body(body))
    }

    /// Sets the time until the whole body has arrived. By default, it is what is left of
    /// the call's time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many bytes of the response's body are read. By default, all are, and a
    /// body beyond the host's limit is an error.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: u32) -> Self {
        self.max_body_bytes = Some(bytes);
        self
    }

    /// Sends the request. Any status is a response; see [`Response::successful`].
    ///
    /// # Errors
    /// The host rejects the request, the server does not answer in time or in HTTP, or
    /// the answer is larger than the host allows.
    pub fn send(&self) -> Result<Response, Error> {
        let unanswered = || Err(Error::new(ErrorKind::BadResponse, "There is no response."));
        send_all(std::slice::from_ref(self)).pop().unwrap_or_else(unanswered)
    }
}

/// Sends all these requests at once. The responses are in the order of the requests.
pub fn send_all(requests: &[Request]) -> Vec<Result<Response, Error>> {
    transport::send(requests)
}

impl Response {
    /// Returns the header's first value. The name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as text. Invalid UTF-8 in it is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// The body is not JSON, is of another shape, or was read only in part.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        if self.truncated {
            let message = format!("The answer is longer than {} bytes.", self.body.len());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::new(ErrorKind::BadResponse, format!("The answer is not the expected JSON: {error}."))
        })
    }

    /// Returns the response if its status is from 200 to 299.
    ///
    /// # Errors
    /// The status is another one: [`ErrorKind::Redirected`], [`ErrorKind::NotFound`] or
    /// [`ErrorKind::Status`].
    pub fn successful(self) -> Result<Self, Error> {
        match self.status {
            200..=299 => Ok(self),
            status => Err(Error::of_status(status, self.header("location"))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_query_grows_parameter_by_parameter() {
        let request = Request::get("https://a.test/x#part").query("a b", "c&d").query("n", 1.5);
        assert_eq!(request.url, "https://a.test/x?a%20b=c%26d&n=1.5");
    }

    #[test]
    fn a_status_becomes_an_error_that_says_what_to_do() {
        let of = |status, location: Option<&str>| {
            let headers = location.map(|to| ("location".to_owned(), to.to_owned()));
            let headers = headers.into_iter().collect();
            Response { status, headers, body: Vec::new(), truncated: false }.successful()
        };
        assert!(of(204, None).is_ok());
        for (status, location, code, message, transient) in [
            (302, Some("http://b.test/"), "redirected", "The server redirects to http://b.test/.", false),
            (308, None, "redirected", "The server redirects to another place.", false),
            (404, None, "not_found", "The server has nothing at this address.", false),
            (400, None, "http_status", "The server answered with the status 400.", false),
            (429, None, "http_status", "The server answered with the status 429.", true),
            (503, None, "http_status", "The server answered with the status 503.", true),
        ] {
            let error = of(status, location).unwrap_err();
            assert_eq!((error.code(), error.message()), (code, message));
            assert_eq!((error.status(), error.is_transient()), (Some(status), transient));
        }
    }

    #[test]
    fn json_that_was_cut_is_too_large() {
        let response = Response { status: 200, headers: Vec::new(), body: b"[1".to_vec(), truncated: true };
        assert_eq!(response.json::<Vec<u8>>().unwrap_err().kind(), ErrorKind::TooLarge);
        let response = Response { truncated: false, ..response };
        assert_eq!(response.json::<Vec<u8>>().unwrap_err().kind(), ErrorKind::BadResponse);
    }
}
