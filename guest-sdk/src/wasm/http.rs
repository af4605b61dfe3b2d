//! Conversions of HTTP requests and responses to and from the host's types.

use super::bindings::tollgate::tool::http_client as wit;
use crate::http::{Error, ErrorKind, Request, Response};

/// Makes the host send the requests.
pub(crate) fn send(requests: &[Request]) -> Vec<Result<Response, Error>> {
    let requests: Vec<wit::Request> = requests.iter().map(lower).collect();
    wit::send(&requests).into_iter().map(|answer| answer.map(lift).map_err(Into::into)).collect()
}

fn lower(request: &Request) -> wit::Request {
    let header = |(name, value): &(String, String)| wit::Header { name: name.clone(), value: value.clone() };
    wit::Request {
        method: request.method.clone(),
        url: request.url.clone(),
        headers: request.headers.iter().map(header).collect(),
        body: request.body.clone(),
        timeout_ms: request.timeout.map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
        max_body_bytes: request.max_body_bytes,
    }
}

fn lift(response: wit::Response) -> Response {
    Response {
        status: response.status,
        headers: response.headers.into_iter().map(|header| (header.name, header.value)).collect(),
        body: response.body,
        truncated: response.truncated,
    }
}

impl From<wit::Error> for Error {
    fn from(error: wit::Error) -> Self {
        Self::new(error.kind.into(), error.message)
    }
}

impl From<wit::ErrorKind> for ErrorKind {
    fn from(kind: wit::ErrorKind) -> Self {
        match kind {
            wit::ErrorKind::Denied => Self::Denied,
            wit::ErrorKind::BadRequest => Self::BadRequest,
            wit::ErrorKind::Unreachable => Self::Unreachable,
            wit::ErrorKind::TimedOut => Self::TimedOut,
            wit::ErrorKind::TooLarge => Self::TooLarge,
            wit::ErrorKind::BadResponse => Self::BadResponse,
        }
    }
}
