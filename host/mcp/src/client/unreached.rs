//! The reasons why a server does not start, for the operator: what failed, and what to do.

use super::failure::ConnectionFailure;
use super::http::HttpError;
use super::process::ServerProcess;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::error::Error;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use tollgate_agent::text::one_line;

/// The maximum length of a displayed address, in bytes.
const MAX_URL_BYTES: usize = 200;

/// Returns why a server in a process does not start.
pub(super) async fn process(
    error: &ClientInitializeError,
    process: &mut ServerProcess,
    server: &str,
) -> ConnectionFailure {
    let status = process.ended_soon().await;
    let what = match (answered(error), status) {
        (Some(what), _) => what,
        (None, Some(status)) => format!("its process ended before it answered ({})", how(status)),
        (None, None) => "it closed its output before it answered".to_owned(),
    };
    let output = process.output().shown();
    ConnectionFailure::because(format!(
        "{what}{output}; correct `command`, `args` and `env` in [mcp.{server}]"
    ))
}

/// Returns why the server at this address does not start.
pub(super) fn url(error: &ClientInitializeError, url: &reqwest::Url, server: &str) -> ConnectionFailure {
    let shown = shown(url);
    let wrong = format!("correct `url` in [mcp.{server}]");
    let other = |what: String| ConnectionFailure::because(format!("{what}; look at the server, or {wrong}"));
    if let Some(what) = answered(error) {
        return other(format!("{what} ({shown})"));
    }
    let Some(transport) = transport_of(error) else {
        return other(format!("{shown} closed the connection before it answered"));
    };
    match transport.error.downcast_ref::<HttpError>() {
        Some(StreamableHttpError::Client(why)) if why.is_connect() => {
            let what = match io_of(why).map(io::Error::kind) {
                Some(io::ErrorKind::ConnectionRefused) => format!("nothing listens at {shown}"),
                _ => format!("{shown} cannot be reached: {}", innermost(why)),
            };
            ConnectionFailure::unanswered(format!("{what}; start the server, or {wrong}"))
        }
        Some(StreamableHttpError::UnexpectedServerResponse(words)) => {
            let refused = ["HTTP 401", "HTTP 403"].iter().any(|status| words.starts_with(status));
            match refused {
                true => ConnectionFailure::because(format!(
                    "{shown} refused the request: {words}; correct `token_env` in [mcp.{server}], and the \
                     variable that it names"
                )),
                false if words.starts_with("HTTP ") => other(format!("{shown} answered {words}")),
                false => other(format!("{shown} did not answer like an MCP server: {words}")),
            }
        }
        Some(StreamableHttpError::UnexpectedContentType(kind)) => {
            other(format!("{shown} {}", unexpected(kind.as_deref())))
        }
        _ => other(format!("the connection to {shown} failed: {}", innermost(transport.error.as_ref()))),
    }
}

/// Returns why a connected server does not list its tools.
pub(super) fn listing(error: &ServiceError) -> ConnectionFailure {
    ConnectionFailure::because(match error {
        ServiceError::McpError(why) => {
            format!("it refused to list its tools: {} ({})", why.message, why.code.0)
        }
        ServiceError::TransportClosed => "it closed the connection while it listed its tools".to_owned(),
        ServiceError::UnexpectedResponse => {
            "its answer to the request for its tools is not a list".to_owned()
        }
        ServiceError::TransportSend(why) => {
            format!("it did not accept the request for its tools: {}", innermost(why.error.as_ref()))
        }
        other => format!("it did not list its tools: {other}"),
    })
}

/// Returns why a request over HTTP failed; `None` for other connections, which end when that
/// happens.
pub(super) fn request(error: &DynamicTransportError) -> Option<String> {
    Some(match error.error.downcast_ref::<HttpError>()? {
        StreamableHttpError::UnexpectedServerResponse(words) => words.to_string(),
        StreamableHttpError::UnexpectedContentType(kind) => format!("it {}", unexpected(kind.as_deref())),
        error => innermost(error),
    })
}

fn unexpected(kind: Option<&str>) -> String {
    format!("answered with {} content, which is not MCP", kind.unwrap_or("no"))
}

/// Describes how a process ended.
pub(super) fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Returns the server's answer that prevents the start; `None` if it did not answer.
fn answered(error: &ClientInitializeError) -> Option<String> {
    match error {
        ClientInitializeError::JsonRpcError(why) => {
            Some(format!("it refused to start a session: {} ({})", why.message, why.code.0))
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> = server_supported.iter().map(ToString::to_string).collect();
            Some(format!("it speaks no protocol version that Tollgate knows, but {}", versions.join(", ")))
        }
        ClientInitializeError::ExpectedInitResponse(Some(_))
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            Some("its first answer is not an MCP message".to_owned())
        }
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            answered(fallback).or_else(|| answered(discover))
        }
        _ => None,
    }
}

fn transport_of(error: &ClientInitializeError) -> Option<&DynamicTransportError> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Some(error),
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            transport_of(fallback).or_else(|| transport_of(discover))
        }
        _ => None,
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

fn io_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    causes(error).filter_map(|cause| cause.downcast_ref()).last()
}

/// Returns the root cause; the errors around it only describe where in the client it occurred.
fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Returns an address without its possibly secret parts.
fn shown(url: &reqwest::Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // An address without a host has no user either.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    one_line(url.as_str(), MAX_URL_BYTES)
}
