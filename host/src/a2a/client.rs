//! Requests to a remote server: its card, and the methods of A2A.

use super::binding::{Endpoint, Method};
use super::error::{MAX_SHOWN_BYTES, RemoteError};
use super::events::Events;
use super::memory::ArrivalMemory;
use super::task::{MAX_ID_BYTES, RemoteState};
use super::{RemoteAgent, RemoteAgentError};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::ops::Deref;
use std::sync::PoisonError;
use std::time::Duration;
use tollgate_agent::json::measure;
use tollgate_agent::remote::{RemoteMessage, RemoteTask};
use tollgate_agent::text::one_line;
use tollgate_sandbox::Reservation;

/// The version of the protocol.
const VERSION: &str = "1.0";
/// The media types of answers that are not streams.
const JSON: &str = "application/json, application/a2a+json";
/// The most bytes of a card.
const MAX_CARD_BYTES: usize = 256 * 1024;
/// The most bytes of an answer.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// The most JSON values of an answer, of a card, or of an event.
const MAX_ANSWER_NODES: usize = 100_000;
/// The most bytes that are shown of an error's reason.
const MAX_REASON_BYTES: usize = 60;
/// How long the card, or the state of a task, may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a cancellation may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The JSON of an answer, and its part of the host's memory until it is dropped.
#[derive(Debug)]
pub(super) struct JsonAnswer {
    value: Value,
    _memory: Option<Reservation>,
}

impl JsonAnswer {
    /// Returns what the function makes of the JSON.
    pub(super) fn then(
        self,
        read: impl FnOnce(Value) -> Result<Value, RemoteError>,
    ) -> Result<Self, RemoteError> {
        Ok(Self { value: read(self.value)?, ..self })
    }
}

impl Deref for JsonAnswer {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

/// The bytes of an answer, and their part of the host's memory until they are dropped.
#[derive(Debug)]
struct Body {
    bytes: Vec<u8>,
    _memory: ArrivalMemory,
}

/// The remote server's answer to a message.
#[derive(Debug)]
pub(super) enum MessageReply {
    Task(RemoteState),
    /// It answered without a task.
    Message {
        text: String,
        context_id: Option<String>,
    },
}

impl RemoteAgent {
    /// Reads the agent's card, which shows whether its server answers and accepts the token.
    ///
    /// # Errors
    /// There is no card, or it cannot be used.
    pub async fn check(&self) -> Result<(), RemoteAgentError> {
        match self.read_card().await {
            Ok(_) => Ok(()),
            Err(why) => Err(RemoteAgentError(why.to_string())),
        }
    }

    /// Reads the card and returns the endpoint that it names.
    async fn read_card(&self) -> Result<Endpoint, RemoteError> {
        let url = format!("{}/.well-known/agent-card.json", self.url.as_str().trim_end_matches('/'));
        let request = self.authorized(self.http.get(url)).header(ACCEPT, JSON);
        let read = async {
            let response = self.accepted(request.send().await.map_err(RemoteError::broken)?).await?;
            self.body(response, MAX_CARD_BYTES).await
        };
        let card = within(LOOK_TIMEOUT, read).await?;
        let card = self.parse("its card", &card.bytes)?;
        let endpoint = Endpoint::of(&card, &self.url)?;
        *self.endpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint.clone());
        Ok(endpoint)
    }

    pub(super) async fn endpoint(&self) -> Result<Endpoint, RemoteError> {
        let known = self.endpoint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(endpoint) => Ok(endpoint),
            None => self.read_card().await,
        }
    }

    /// Parses JSON of the server, within its limits and the host's memory.
    fn parse(&self, what: &str, text: &[u8]) -> Result<JsonAnswer, RemoteError> {
        let size = measure(text);
        if size.nodes > MAX_ANSWER_NODES {
            return Err(RemoteError::malformed(format!(
                "{what} has more than {MAX_ANSWER_NODES} JSON values"
            )));
        }
        let bytes = size.parsed_bytes.saturating_add(text.len() as u64);
        let memory = self
            .budget
            .get()
            .map(|budget| budget.try_reserve(bytes).ok_or_else(|| RemoteError::no_memory(what)));
        let memory = memory.transpose()?;
        let value = serde_json::from_slice(text)
            .map_err(|why| RemoteError::malformed(format!("{what} is not JSON: {why}")))?;
        Ok(JsonAnswer { value, _memory: memory })
    }

    /// Reads a body of at most `max_bytes`.
    async fn body(&self, mut response: Response, max_bytes: usize) -> Result<Body, RemoteError> {
        let (mut bytes, mut memory) = (Vec::new(), ArrivalMemory::new(self.budget.get()));
        while let Some(chunk) = response.chunk().await.map_err(RemoteError::broken)? {
            if chunk.len() > max_bytes.saturating_sub(bytes.len()) {
                return Err(RemoteError::malformed(format!("its answer is larger than {max_bytes} bytes")));
            }
            memory.hold(bytes.len() + chunk.len())?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(Body { bytes, _memory: memory })
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header("A2A-Version", VERSION);
        match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        }
    }

    /// Returns a response with content, or the error of one without.
    async fn accepted(&self, response: Response) -> Result<Response, RemoteError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response, MAX_BODY_BYTES).await.ok();
        let words = body.as_ref().map(|body| body.bytes.as_slice()).unwrap_or_default();
        let error = self.parse("its error", words).ok().and_then(|words| self.refused(&words, status));
        if let Some(error) = error {
            return Err(error);
        }
        let words = String::from_utf8_lossy(&words[..words.len().min(4_096)]).into_owned();
        let words = one_line(&format!("HTTP {status}: {}", self.redacted(&words)), MAX_SHOWN_BYTES);
        let is_unsupported = has_no_method(status);
        Err(match status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            true => RemoteError::Broken(words),
            false if is_unsupported => RemoteError::Refused { words, is_unsupported },
            false => RemoteError::Failed(words),
        })
    }

    /// Returns the error in an answer: the one of JSON-RPC, whose code is a number, a
    /// `google.rpc.Status`, whose details have a reason, or a problem document.
    fn refused(&self, answer: &Value, status: StatusCode) -> Option<RemoteError> {
        let error = match &answer["error"] {
            error @ Value::Object(_) => error,
            _ if status.is_success() => return None,
            _ => answer,
        };
        let words = ["message", "detail", "title"].iter().find_map(|name| error[*name].as_str())?;
        let mut details = error["details"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
        let reason = details.find_map(|detail| detail["reason"].as_str()).or(error["status"].as_str());
        let code = error["code"].as_i64().filter(|code| *code != i64::from(status.as_u16()));
        let mut labels = Vec::new();
        if !status.is_success() {
            labels.push(format!("HTTP {status}"));
        }
        match (reason, code) {
            (Some(reason), _) => labels.push(one_line(&self.redacted(reason), MAX_REASON_BYTES)),
            (None, Some(code)) => labels.push(format!("error {code}")),
            (None, None) => {}
        }
        let words = one_line(&self.redacted(words), MAX_SHOWN_BYTES);
        let words = match labels.is_empty() {
            true => words,
            false => format!("{words} ({})", labels.join(", ")),
        };
        let passing = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        if passing.contains(&status) {
            return Some(RemoteError::Broken(words));
        }
        let is_unsupported = has_no_method(status)
            || matches!(reason, Some("UNSUPPORTED_OPERATION" | "METHOD_NOT_FOUND"))
            || matches!(code, Some(-32004 | -32601));
        Some(RemoteError::Refused { words, is_unsupported })
    }

    fn redacted(&self, words: &str) -> String {
        self.token.as_ref().map_or_else(|| words.to_owned(), |token| token.redact(words))
    }

    fn result(&self, endpoint: &Endpoint, answer: JsonAnswer) -> Result<JsonAnswer, RemoteError> {
        match self.refused(&answer, StatusCode::OK) {
            Some(error) => Err(error),
            None => answer.then(|answer| endpoint.result(answer)),
        }
    }

    /// Calls a method and returns its result.
    pub(super) async fn call(&self, method: Method<'_>) -> Result<JsonAnswer, RemoteError> {
        let endpoint = self.endpoint().await?;
        let request = self.authorized(endpoint.request(&self.http, method)?).header(ACCEPT, JSON);
        let response = self.accepted(request.send().await.map_err(RemoteError::broken)?).await?;
        let answer = self.body(response, MAX_BODY_BYTES).await?;
        self.result(&endpoint, self.parse("its answer", &answer.bytes)?)
    }

    /// Starts a stream of updates, which [`next_update`](Self::next_update) reads.
    pub(super) async fn stream(
        &self,
        endpoint: &Endpoint,
        method: Method<'_>,
    ) -> Result<Events, RemoteError> {
        let request =
            self.authorized(endpoint.request(&self.http, method)?).header(ACCEPT, "text/event-stream");
        let sent = async {
            let response = request.send().await.map_err(RemoteError::broken)?;
            self.accepted(response).await
        };
        let response = within(LOOK_TIMEOUT, sent).await?;
        let kind =
            response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_vec()).unwrap_or_default();
        if kind.starts_with(b"text/event-stream") {
            return Ok(Events::new(response, ArrivalMemory::new(self.budget.get())));
        }
        // JSON-RPC answers an error without a stream.
        let answer = within(LOOK_TIMEOUT, self.body(response, MAX_BODY_BYTES)).await?;
        self.result(endpoint, self.parse("its answer", &answer.bytes)?)?;
        Err(RemoteError::malformed("its answer is not a stream"))
    }

    /// Returns the next update of a stream; `None` at its end.
    pub(super) async fn next_update(
        &self,
        endpoint: &Endpoint,
        events: &mut Events,
    ) -> Result<Option<JsonAnswer>, RemoteError> {
        let Some(event) = events.next().await? else { return Ok(None) };
        self.result(endpoint, self.parse("an event", &event)?).map(Some)
    }

    /// Sends a message that starts a task. The card is read anew.
    pub(super) async fn send(&self, id: &str, message: &RemoteMessage) -> Result<MessageReply, RemoteError> {
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
        let sent = self.call(Method::SendMessage(&params)).await?;
        if sent["task"].is_object() {
            let mut state = RemoteState::default();
            state.apply(&sent);
            if state.task_id.is_empty() || state.task_id.len() > MAX_ID_BYTES {
                return Err(RemoteError::malformed(format!(
                    "the id of its task is not 1 to {MAX_ID_BYTES} bytes long"
                )));
            }
            state.context_id = state.context_id.filter(|id| id.len() <= MAX_ID_BYTES);
            return Ok(MessageReply::Task(state));
        }
        if !sent["message"].is_object() {
            return Err(RemoteError::malformed("its answer is neither a task nor a message"));
        }
        let context_id =
            sent["message"]["contextId"].as_str().filter(|id| (1..=MAX_ID_BYTES).contains(&id.len()));
        Ok(MessageReply::Message {
            text: super::task::text_of(&sent["message"]),
            context_id: context_id.map(str::to_owned),
        })
    }

    /// Returns a task as it is now, like an update.
    pub(super) async fn get_task(&self, task: &RemoteTask) -> Result<JsonAnswer, RemoteError> {
        let task = within(LOOK_TIMEOUT, self.call(Method::GetTask(&task.task_id))).await?;
        task.then(|task| Ok(Value::Object([("task".to_owned(), task)].into_iter().collect())))
    }

    /// Cancels a task. A task that has ended, or a server that is gone, needs no cancellation.
    pub(super) async fn cancel(&self, task_id: &str) {
        if let Err(why) = within(CANCEL_TIMEOUT, self.call(Method::CancelTask(task_id))).await {
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

/// Returns whether a status is that of an address which the server does not have, or not for this
/// HTTP method.
fn has_no_method(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}
