//! Requests to a remote server: its card, and the methods of A2A.

use super::RemoteAgent;
use super::events::Events;
use super::task::RemoteState;
use crate::models::causes;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Value, json};
use std::sync::PoisonError;
use std::time::Duration;
use tollgate_agent::remote::{RemoteMessage, RemoteTask};
use tollgate_agent::text::one_line;

/// The version of the protocol.
const VERSION: &str = "1.0";
/// The most bytes of a card.
const MAX_CARD_BYTES: usize = 256 * 1024;
/// The most bytes of an answer.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// The most bytes that are shown of the server's words.
const MAX_SHOWN_BYTES: usize = 500;
/// The longest id that a remote server may give a task or a context, in bytes.
const MAX_ID_BYTES: usize = 256;
/// How long the card, or the state of a task, may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a cancellation may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Where and how an agent is reached, as its card says.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    url: Url,
    pub(super) streams: bool,
}

/// The reason why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RemoteError {
    /// The server did not answer, or not with what the protocol requires.
    #[error("{0}")]
    Failed(String),
    /// The connection failed. The same request may succeed later.
    #[error("it could not be reached: {0}")]
    Broken(String),
    /// The server refused the request, with a code of JSON-RPC.
    #[error("it refused: {words} (error {code})")]
    Refused { code: i64, words: String },
}

impl RemoteError {
    pub(super) fn malformed(why: impl AsRef<str>) -> Self {
        Self::Failed(one_line(why.as_ref(), MAX_SHOWN_BYTES))
    }

    pub(super) fn broken(why: reqwest::Error) -> Self {
        Self::Broken(one_line(&causes(why), MAX_SHOWN_BYTES))
    }
}

/// The remote server's answer to a message.
#[derive(Debug)]
pub(super) enum Sent {
    Task(RemoteState),
    /// It answered without a task.
    Message {
        text: String,
        context_id: Option<String>,
    },
}

impl RemoteAgent {
    /// Reads the card and returns the endpoint that it names.
    async fn read_card(&self) -> Result<Endpoint, RemoteError> {
        let url = format!("{}/.well-known/agent-card.json", self.url.as_str().trim_end_matches('/'));
        let request = self.authorized(self.http.get(url)).header(ACCEPT, "application/json");
        let read = async {
            let response = self.accepted(request.send().await.map_err(RemoteError::broken)?).await?;
            body(response, MAX_CARD_BYTES).await
        };
        let card = within(LOOK_TIMEOUT, read).await?;
        let card: Value = serde_json::from_slice(&card)
            .map_err(|why| RemoteError::malformed(format!("its card is not JSON: {why}")))?;
        let endpoint = self.endpoint_of(&card)?;
        *self.endpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// Returns the endpoint of a card. It must be on the configured host: a card is no reason to
    /// send a token, or anything else, to another one.
    fn endpoint_of(&self, card: &Value) -> Result<Endpoint, RemoteError> {
        let interfaces = card["supportedInterfaces"].as_array().map(Vec::as_slice).unwrap_or_default();
        let fits = |interface: &&Value| {
            let version = interface["protocolVersion"].as_str().unwrap_or_default();
            interface["protocolBinding"] == "JSONRPC" && (version == "1" || version.starts_with("1."))
        };
        let Some(interface) = interfaces.iter().find(fits) else {
            let why = "its card has no interface for A2A 1.0 by JSONRPC";
            return Err(RemoteError::malformed(why));
        };
        let named = interface["url"].as_str().unwrap_or_default();
        let url = self.url.join(named).map_err(|why| {
            RemoteError::malformed(format!("its card names an address that is not a URL: {why}"))
        })?;
        if url.origin() != self.url.origin() || !url.username().is_empty() || url.password().is_some() {
            let why = format!("its card names the address {named}, which is not on the configured host");
            return Err(RemoteError::malformed(why));
        }
        Ok(Endpoint { url, streams: card["capabilities"]["streaming"] == true })
    }

    pub(super) async fn endpoint(&self) -> Result<Endpoint, RemoteError> {
        let known = self.endpoint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(endpoint) => Ok(endpoint),
            None => self.read_card().await,
        }
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = request.header("A2A-Version", VERSION);
        match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        }
    }

    fn request(&self, endpoint: &Endpoint, method: &str, params: &Value) -> reqwest::RequestBuilder {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self.http.post(endpoint.url.clone()).header(CONTENT_TYPE, "application/json");
        self.authorized(request).body(body.to_string())
    }

    /// Returns a response with content, or the error of one without.
    async fn accepted(&self, response: Response) -> Result<Response, RemoteError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let is_passing = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let words = body(response, MAX_BODY_BYTES).await.unwrap_or_default();
        if let Some(error) =
            serde_json::from_slice::<Value>(&words).ok().and_then(|words| self.refused(&words))
        {
            return Err(error);
        }
        let words = String::from_utf8_lossy(&words[..words.len().min(4_096)]).into_owned();
        let words = one_line(&format!("HTTP {status}: {}", self.redacted(&words)), MAX_SHOWN_BYTES);
        Err(if is_passing { RemoteError::Broken(words) } else { RemoteError::Failed(words) })
    }

    /// Returns the error of a JSON-RPC response.
    fn refused(&self, response: &Value) -> Option<RemoteError> {
        let error = response.get("error").filter(|error| error["message"].is_string())?;
        let words = one_line(&self.redacted(error["message"].as_str()?), MAX_SHOWN_BYTES);
        Some(RemoteError::Refused { code: error["code"].as_i64().unwrap_or_default(), words })
    }

    fn redacted(&self, words: &str) -> String {
        self.token.as_ref().map_or_else(|| words.to_owned(), |token| token.redact(words))
    }

    fn result(&self, mut response: Value) -> Result<Value, RemoteError> {
        if let Some(error) = self.refused(&response) {
            return Err(error);
        }
        match response.get_mut("result").map(Value::take) {
            Some(result) if result.is_object() => Ok(result),
            _ => Err(RemoteError::malformed("its answer has no result")),
        }
    }

    /// Calls a method and returns its result.
    pub(super) async fn call(&self, method: &str, params: &Value) -> Result<Value, RemoteError> {
        let endpoint = self.endpoint().await?;
        let request = self.request(&endpoint, method, params).header(ACCEPT, "application/json");
        let response = self.accepted(request.send().await.map_err(RemoteError::broken)?).await?;
        let answer = serde_json::from_slice(&body(response, MAX_BODY_BYTES).await?);
        self.result(answer.map_err(|why| RemoteError::malformed(format!("its answer is not JSON: {why}")))?)
    }

    /// Starts a stream of updates. Each of its events is a [`result`](Self::streamed).
    pub(super) async fn stream(
        &self,
        endpoint: &Endpoint,
        method: &str,
        params: &Value,
    ) -> Result<Events, RemoteError> {
        let request = self.request(endpoint, method, params).header(ACCEPT, "text/event-stream");
        let sent = async {
            let response = request.send().await.map_err(RemoteError::broken)?;
            self.accepted(response).await
        };
        let response = within(LOOK_TIMEOUT, sent).await?;
        let kind =
            response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_vec()).unwrap_or_default();
        if kind.starts_with(b"text/event-stream") {
            return Ok(Events::new(response));
        }
        // An error is answered without a stream.
        let answer = serde_json::from_slice(&body(response, MAX_BODY_BYTES).await?).unwrap_or_default();
        self.result(answer)?;
        Err(RemoteError::malformed("its answer is not a stream"))
    }

    /// Returns the next update of a stream; `None` at its end.
    pub(super) async fn streamed(&self, events: &mut Events) -> Result<Option<Value>, RemoteError> {
        events.next().await?.map(|event| self.result(event)).transpose()
    }

    /// Sends a message that starts a task. The card is read anew.
    pub(super) async fn send(&self, id: &str, message: &RemoteMessage) -> Result<Sent, RemoteError> {
        self.read_card().await?;
        let mut parts = Vec::new();
        if let Some(earlier) = &message.earlier {
            parts.push(json!({"text": format!("The conversation so far:\n\n{earlier}")}));
        }
        parts.push(json!({"text": message.message}));
        let mut wire = json!({"messageId": id, "role": "ROLE_USER", "parts": parts});
        if let Some(context) = &message.context_id {
            wire["contextId"] = json!(context);
        }
        let params = json!({
            "message": wire,
            "configuration": {"acceptedOutputModes": ["text/plain"], "returnImmediately": true},
        });
        let sent = self.call("SendMessage", &params).await?;
        if sent["task"].is_object() {
            let mut state = RemoteState::default();
            state.apply(&sent);
            if state.task_id.is_empty() || state.task_id.len() > MAX_ID_BYTES {
                return Err(RemoteError::malformed(format!(
                    "the id of its task is not 1 to {MAX_ID_BYTES} bytes long"
                )));
            }
            state.context_id = state.context_id.filter(|id| id.len() <= MAX_ID_BYTES);
            return Ok(Sent::Task(state));
        }
        if !sent["message"].is_object() {
            return Err(RemoteError::malformed("its answer is neither a task nor a message"));
        }
        let context_id =
            sent["message"]["contextId"].as_str().filter(|id| (1..=MAX_ID_BYTES).contains(&id.len()));
        Ok(Sent::Message {
            text: super::task::text_of(&sent["message"]),
            context_id: context_id.map(str::to_owned),
        })
    }

    /// Returns a task as it is now.
    pub(super) async fn look(&self, task: &RemoteTask) -> Result<Value, RemoteError> {
        let params = json!({"id": task.task_id, "historyLength": 0});
        within(LOOK_TIMEOUT, self.call("GetTask", &params)).await
    }

    /// Cancels a task. A task that has ended, or a server that is gone, needs no cancellation.
    pub(super) async fn cancel(&self, task_id: &str) {
        let params = json!({"id": task_id});
        if let Err(why) = within(CANCEL_TIMEOUT, self.call("CancelTask", &params)).await {
            tracing::debug!("the remote task {} was not cancelled: {why}", one_line(task_id, 100));
        }
    }
}

async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, RemoteError>>,
) -> Result<T, RemoteError> {
    let late = || RemoteError::Broken(format!("it did not answer within {} s", limit.as_secs()));
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| Err(late()))
}

/// Reads a body of at most `max_bytes`.
async fn body(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, RemoteError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(RemoteError::broken)? {
        if chunk.len() > max_bytes.saturating_sub(body.len()) {
            return Err(RemoteError::malformed(format!("its answer is larger than {max_bytes} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn card(url: &str, binding: &str, version: &str) -> Value {
        json!({
            "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": version}],
            "capabilities": {"streaming": true},
        })
    }

    #[test]
    fn a_card_names_an_address_on_the_configured_host_only() {
        let agent = RemoteAgent::new("https://agents.example.com/a2a/one").unwrap();
        let endpoint = |url: &str| agent.endpoint_of(&card(url, "JSONRPC", "1.0"));
        assert_eq!(endpoint("https://agents.example.com/rpc").unwrap().url.path(), "/rpc");
        assert!(endpoint("/rpc").unwrap().streams);
        for elsewhere in [
            "https://other.example.com/rpc",
            "http://agents.example.com/rpc",
            "https://agents.example.com:8443/rpc",
            "https://a:b@agents.example.com/rpc",
            "file:///etc/passwd",
            "//169.254.169.254/latest",
        ] {
            assert!(endpoint(elsewhere).is_err(), "{elsewhere}");
        }
        assert!(agent.endpoint_of(&card("/rpc", "GRPC", "1.0")).is_err());
        assert!(agent.endpoint_of(&card("/rpc", "JSONRPC", "0.3")).is_err());
        assert!(agent.endpoint_of(&json!([])).is_err());
    }
}
