//! The transport of one client: lines of JSON-RPC in and out, with limits on everything that a
//! client can make grow.
//!
//! Input that is not a message gets the protocol's error and changes nothing. Requests beyond the
//! limits are refused. A client that does not read its answers is not read from either, until it
//! does or disconnects.

use super::reader::{Lines, MAX_MESSAGE_BYTES, ReadResult};
use super::request_limit::{MAX_REQUESTS, RequestLimiter};
use super::weight::{NO_MEMORY, TooHeavy, WeighedMessage, weigh};
use super::writer::{Backpressure, MessageWriter, Output};
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetExtensions, GetMeta, ProtocolVersion,
    RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio_util::sync::CancellationToken;
use tollgate_agent::text::clean;
use tollgate_sandbox::MemoryBudget;

/// How often to check whether a client that is not read from has disconnected.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long calls may take to end by themselves after the input has ended.
const LAST_ANSWERS: Duration = Duration::from_millis(400);

/// The answer to a request that comes before there is a session.
const TOO_EARLY: &str = "there is no session yet: send `initialize` first, or state the request's \
    protocol version and the client's capabilities in `_meta` (io.modelcontextprotocol/protocolVersion and \
    io.modelcontextprotocol/clientCapabilities)";

const UNFIT: &str =
    "invalid parameters for initialize, which has protocolVersion, capabilities and clientInfo";

/// The source of requests, which can report that the other end is closed.
pub(super) trait Input: AsyncRead + Unpin + Send {
    /// Returns whether the other end is known to be closed, though there may be more to read.
    fn is_left(&self) -> bool;
}

/// The transport of one client.
pub(super) struct StdioTransport<R> {
    lines: Lines<R>,
    out: MessageWriter,
    load: Arc<RequestLimiter>,
    /// The budget from which the memory of its messages is reserved.
    budget: MemoryBudget,
    /// Ends every call of the client.
    gone: CancellationToken,
    /// Whether there is a session. Before that, only messages that may precede one are handled.
    begun: bool,
}

impl<R: Input> StdioTransport<R> {
    /// Creates a transport on these two streams. `gone` is cancelled once the client has
    /// disconnected.
    pub(super) fn new(read: R, output: Output, gone: CancellationToken, budget: MemoryBudget) -> Self {
        let out = MessageWriter::start(output, gone.clone());
        Self { lines: Lines::new(read), out, load: Arc::default(), budget, gone, begun: false }
    }

    /// Returns the handle that reports whether there is room for messages that can be dropped.
    pub(super) fn room(&self) -> Backpressure {
        self.out.room()
    }

    async fn wait_for_room(&mut self) -> Option<()> {
        let room = self.room();
        while !room.is_there() {
            tokio::select! {
                () = self.out.sent() => {}
                () = self.gone.cancelled() => return None,
                () = tokio::time::sleep(POLL_INTERVAL) => if self.lines.stream().is_left() { return None },
            }
        }
        Some(())
    }

    /// Handles the end of the input: calls in flight may end by themselves for a short time.
    fn end(&self) {
        let (gone, load) = (self.gone.clone(), Arc::clone(&self.load));
        tokio::spawn(async move {
            let idle = async {
                while load.requests() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(LAST_ANSWERS, idle).await;
            gone.cancel();
        });
    }

    /// Returns the message of a line; `None` if it was answered already, or has no effect.
    fn take(&mut self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        let WeighedMessage { message, arguments, parsed_bytes } = match weigh(line) {
            Ok(weighed) => weighed,
            // A form answer with such a number counts as unanswered.
            Err(TooHeavy::Number(why)) if !is_request(line) => return unanswered(line, &why),
            Err(heavy) => {
                self.out.send(&ServerJsonRpcMessage::error(too_heavy(heavy), id_alone(line)));
                return None;
            }
        };
        let Some(memory) = self.budget.try_reserve(parsed_bytes) else {
            let error = ErrorData::new(ErrorCode(-32000), NO_MEMORY, None);
            self.out.send(&ServerJsonRpcMessage::error(error, id_alone(line)));
            return None;
        };
        let mut message = match serde_json::from_slice::<ClientJsonRpcMessage>(&message) {
            Ok(message) => message,
            Err(_) => {
                let (error, id) = refusal(&message)?;
                self.out.send(&ServerJsonRpcMessage::error(error, id));
                return None;
            }
        };
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            if !self.begun && comes_too_early(&request.request) {
                let words = match &request.request {
                    ClientRequest::CustomRequest(custom) if custom.method == "initialize" => UNFIT,
                    _ => TOO_EARLY,
                };
                let error = ErrorData::invalid_params(words, None);
                self.out.send(&ServerJsonRpcMessage::error(error, Some(request.id.clone())));
                return None;
            }
            let Some(slot) = RequestLimiter::claim(&self.load, line.len()) else {
                let words = format!(
                    "at most {MAX_REQUESTS} requests may be in flight; retry after some have completed"
                );
                let error = ErrorData::new(ErrorCode(-32000), words, None);
                self.out.send(&ServerJsonRpcMessage::error(error, Some(request.id.clone())));
                return None;
            };
            if !self.begun {
                self.begun = begins(&request.request);
            }
            let extensions = request.request.extensions_mut();
            extensions.insert(slot);
            extensions.insert(Arc::new(memory));
            if let Some(arguments) = arguments {
                extensions.insert(arguments);
            }
        }
        // Other messages expect no answer, and rmcp would end on them.
        (self.begun || matches!(message, ClientJsonRpcMessage::Request(_))).then_some(message)
    }
}

/// Returns whether this begins a session and is therefore not too early: the handshake or, in
/// versions without one, a request that carries the same information itself.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        _ => {
            let version = request.get_meta().protocol_version();
            version.is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
        }
    }
}

/// Returns whether this needs a session and cannot begin one.
fn comes_too_early(request: &ClientRequest) -> bool {
    let without = matches!(request, ClientRequest::InitializeRequest(_) | ClientRequest::PingRequest(_));
    !without && lacks_version(request)
}

fn lacks_version(request: &ClientRequest) -> bool {
    !request.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
}

impl<R: Input> Transport<RoleServer> for StdioTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        // Sent in order: progress before the answer.
        self.out.send(&message);
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.wait_for_room().await.is_none() {
                self.gone.cancel();
                return None;
            }
            let read = tokio::select! {
                read = self.lines.next() => read,
                () = self.gone.cancelled() => return None,
            };
            match read {
                Ok(ReadResult::Line(line)) => {
                    if let Some(message) = self.take(&line) {
                        return Some(message);
                    }
                }
                Ok(ReadResult::TooLong) => {
                    let words = format!("a message has more than {MAX_MESSAGE_BYTES} bytes and was not read");
                    let error = ErrorData::invalid_request(words, None);
                    self.out.send(&ServerJsonRpcMessage::error(error, None));
                }
                Ok(ReadResult::End) | Err(_) => {
                    self.end();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.out.close(LAST_ANSWERS).await;
        Ok(())
    }
}

/// Returns the error for a message that was not parsed.
fn too_heavy(heavy: TooHeavy) -> ErrorData {
    match heavy {
        TooHeavy::Values(why) => ErrorData::invalid_request(format!("the message was not read: {why}"), None),
        TooHeavy::Number(why) => ErrorData::invalid_params(why, None),
    }
}

fn is_request(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct MethodAlone {
        method: Option<IgnoredAny>,
    }
    serde_json::from_slice::<MethodAlone>(line).is_ok_and(|message| message.method.is_some())
}

/// Returns the error that replaces a rejected answer of the client.
fn unanswered(line: &[u8], why: &str) -> Option<ClientJsonRpcMessage> {
    let id = id_alone(line)?;
    Some(ClientJsonRpcMessage::error(ErrorData::invalid_params(why.to_owned(), None), Some(id)))
}

/// Returns the id of a message of which nothing else is parsed.
fn id_alone(line: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct IdAlone {
        id: Option<RequestId>,
    }
    serde_json::from_slice::<IdAlone>(line).ok()?.id
}

/// Returns the error for a line that is not a message; `None` if the client expects no answer.
pub(super) fn refusal(line: &[u8]) -> Option<(ErrorData, Option<RequestId>)> {
    let value: serde_json::Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(e) => {
            let words = format!("the message is not JSON: {}", clean(&e.to_string(), 200));
            return Some((ErrorData::parse_error(words, None), None));
        }
    };
    let Some(object) = value.as_object() else {
        let words = if value.is_array() {
            "batches are not part of the protocol; send each message on a line of its own"
        } else {
            "a message must be a JSON object"
        };
        return Some((ErrorData::invalid_request(words, None), None));
    };
    let id = object.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    let is_request = object.contains_key("method");
    match (is_request, object.contains_key("id"), id) {
        (true, false, _) => None, // an unknown notification
        (true, true, None) => {
            let words = "the id of a request must be a string or an integer";
            Some((ErrorData::invalid_request(words, None), None))
        }
        (true, true, id) => {
            let words = "the request is not valid JSON-RPC 2.0, which has jsonrpc, id, method and params";
            Some((ErrorData::invalid_request(words, None), id))
        }
        (false, true, _) if object.contains_key("result") || object.contains_key("error") => None,
        (false, ..) => {
            let words = "a message must have a method, a result or an error";
            Some((ErrorData::invalid_request(words, None), id_of(object)))
        }
    }
}

fn id_of(object: &serde_json::Map<String, serde_json::Value>) -> Option<RequestId> {
    object.get("id").and_then(|id| serde_json::from_value(id.clone()).ok())
}
