//! Live models: four protocols, one stream of deltas.

mod errors;
mod frames;
mod probe;
mod prompt;
mod protocol;
mod reader;
mod retry_after;

pub use probe::Probe;

use super::provider::{Provider, ReasoningEffort};
use super::{ApiKey, Delta, DeltaSink, Model, ModelFault, http_client};
use async_trait::async_trait;
use frames::{FramedCall, Frames};
use futures::StreamExt;
use genai::chat::{ChatOptions, ChatStreamEvent, ContentPart, StopReason, StreamEnd, Usage};
use genai::resolver::{AuthData, Endpoint};
use genai::{Headers, ModelIden, ServiceTarget};
use reader::{abandon, next_line, note_status, reader};
use reqwest::{Url, retry};
use serde_json::{Value, json};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tollgate_agent::message::{AssistantMessage, Finish, ModelCall, ModelReply, ModelRequest, TokenUsage};
use tollgate_agent::text::sentence;
use tracing::subscriber::{NoSubscriber, with_default};

/// The number of bytes of an answer over HTTP/2 that may arrive before they are read.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// A model behind HTTP. All replies share one connection pool. Each reply is a single request
/// without retries.
#[derive(Debug, Clone)]
pub struct HttpModel {
    options: Options,
    client: genai::Client,
    target: ServiceTarget,
}

/// The settings of a live model.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) provider: Provider,
    pub(super) model: String,
    /// Ends with `/`.
    pub(super) base_url: Url,
    pub(super) api_key: Option<ApiKey>,
    /// The environment variable that holds the key.
    pub(super) key_variable: Option<String>,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) temperature: Option<f64>,
    pub(super) reasoning_effort: Option<ReasoningEffort>,
    /// Whether it is shown the images that tools return.
    pub(super) images: bool,
    pub(super) limits: Limits,
}

/// The timeouts for a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) connect: Duration,
    pub(super) first_byte: Duration,
    pub(super) idle: Duration,
    pub(super) reply: Duration,
}

impl HttpModel {
    /// Creates the client; sends nothing yet.
    pub(super) fn new(options: Options) -> Result<Self, String> {
        let http = client(&options.base_url, options.limits.connect)?;
        let client = genai::Client::builder().with_reqwest(http).build();
        Ok(Self { client: client.map_err(|e| e.to_string())?, target: options.target()?, options })
    }

    async fn stream(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let shared = Arc::new(Mutex::new(Frames::within(request.memory.clone())));
        let options = self.options.chat_options(&request, &shared);
        let chat = prompt::chat_request(self.options.provider, self.options.images, &request);
        let begun = self.client.exec_chat_stream(self.target.clone(), chat, Some(&options));
        let mut events = without_logs(begun).await.map_err(errors::of)?.stream;
        let mut heard = PartialReply::default();
        let quiet = || lock(&shared).read_piece();
        while let Some(event) = next_line(without_logs(events.next()), quiet).await? {
            match event {
                Ok(event) => {
                    lock(&shared).keep(content_bytes(&event));
                    heard.accept(event, deltas);
                }
                // Some servers write `"error": null` into every chunk, which the library takes
                // for an error instead of the text.
                Err(genai::Error::ChatResponse { body: Value::Null, .. }) => {
                    let text = lock(&shared).keep_last_text();
                    heard.say(text, deltas);
                }
                // Errors after the end no longer matter.
                Err(_) if lock(&shared).are_whole() => break,
                Err(error) => return Err(errors::of(error)),
            }
            if let Some(fault) = lock(&shared).fault() {
                return Err(fault.clone());
            }
            if heard.end.is_some() {
                break;
            }
        }
        let frames = std::mem::take(&mut *lock(&shared));
        match (frames.fault(), frames.are_whole()) {
            (Some(fault), _) => Err(fault.clone()),
            (None, false) => Err(errors::cut_off(frames.count)),
            (None, true) => Ok(heard.into_reply(self.options.provider, frames)),
        }
    }

    /// Adds to a fault the settings that may cause it: the address of a server that cannot be reached,
    /// the address of a missing page, and the variable of a key that is refused.
    fn located(&self, fault: ModelFault) -> ModelFault {
        let Options { provider, base_url, model, .. } = &self.options;
        // The path and the query may contain secrets.
        let (origin, path) = (base_url.origin().ascii_serialization(), base_url.path());
        if fault.message().starts_with(errors::UNREACHABLE) {
            let at = format!("{} at {origin} (`base_url` in [model])", errors::UNREACHABLE);
            return fault.reworded(|words| words.replacen(errors::UNREACHABLE, &at, 1));
        }
        if fault.message().starts_with(errors::UNAUTHORIZED) {
            let hint = match &self.options.key_variable {
                Some(variable) => format!("The key is read from the environment variable {variable}."),
                None => {
                    "No key was sent; name the variable that holds it: `api_key_env` in [model].".to_owned()
                }
            };
            return fault.reworded(|words| format!("{} {hint}", sentence(words)));
        }
        if !fault.message().starts_with(errors::NOT_FOUND) {
            return fault;
        }
        let url = format!("{origin}{}/{}", path.trim_end_matches('/'), provider.request_path(model));
        let hint = self.options.path_advice().map(|advice| format!(" {advice}")).unwrap_or_default();
        fault.reworded(|words| format!("{} The request went to {url}.{hint}", sentence(words)))
    }

    /// Removes the key from a fault, in case the provider repeats it.
    fn redacted(&self, fault: ModelFault) -> ModelFault {
        fault.reworded(|words| match &self.options.api_key {
            Some(key) => key.redact(words),
            None => words.to_owned(),
        })
    }
}

#[async_trait]
impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.options.model
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let limit = self.options.limits.reply;
        let (say, mut said) = mpsc::unbounded_channel();
        let live = self.clone();
        // Bounded by the frames, which are bounded themselves.
        let read = async move { live.stream(request, &mut |delta| drop(say.send(delta))).await };
        let reading = AbortOnDropHandle::new(reader()?.spawn(read));
        let whole = async {
            while let Some(delta) = said.recv().await {
                deltas(delta);
            }
            reading.await
        };
        match tokio::time::timeout(limit, whole).await {
            Ok(Ok(Ok(mut reply))) => {
                // A provider may repeat the key in any of its words.
                if let (Some(model), Some(key)) = (&mut reply.model, &self.options.api_key) {
                    *model = key.redact(model).into();
                }
                Ok(reply)
            }
            // The address is checked for the key like the provider's own words.
            Ok(Ok(Err(fault))) => Err(self.redacted(self.located(self.redacted(fault)))),
            Ok(Err(_)) => Err(ModelFault::transient("The reply could not be read.", None)),
            Err(_) => Err(ModelFault::transient(
                &format!(
                    "The reply was incomplete after {limit:.1?}. The limit is `reply_timeout_ms` in [model]."
                ),
                None,
            )),
        }
    }
}

/// Creates the client of a model. It follows no redirects, because a key in a provider-specific
/// header would be sent to the redirect's target. The status of each answer is passed to the reader,
/// which bounds the answer of a failed request.
fn client(base_url: &reqwest::Url, connect_timeout: Duration) -> Result<reqwest::Client, String> {
    let builder = http_client::builder(base_url, connect_timeout)?
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .retry(retry::never().classify_fn(|answer| {
            if let Some(status) = answer.status() {
                note_status(status);
            }
            answer.success()
        }));
    http_client::build(builder)
}

/// Returns the length of the text that an event adds to the reply.
fn content_bytes(event: &ChatStreamEvent) -> usize {
    match event {
        ChatStreamEvent::Chunk(chunk) | ChatStreamEvent::ReasoningChunk(chunk) => chunk.content.len(),
        _ => 0,
    }
}

impl Options {
    /// Returns the advice to add the customary path to the address, if the path is missing.
    fn path_advice(&self) -> Option<String> {
        let (origin, path) = (self.base_url.origin().ascii_serialization(), self.base_url.path());
        let customary = self.provider.base_path();
        let is_missing = !path.contains(customary.trim_end_matches('/'));
        let path = path.trim_end_matches('/');
        is_missing.then(|| {
            format!(
                "`base_url` in [model] may lack its path: try `base_url = \"{origin}{path}{customary}\"`."
            )
        })
    }

    fn target(&self) -> Result<ServiceTarget, String> {
        // The library takes the part of a name before `::` for a provider.
        let name = match self.model.contains("::") {
            true => format!("{}::{}", self.provider.word(), self.model),
            false => self.model.clone(),
        };
        Ok(ServiceTarget {
            endpoint: Endpoint::from_owned(self.base_url.as_str()),
            auth: self.auth()?,
            model: ModelIden::new(self.provider.adapter(), name),
        })
    }

    fn auth(&self) -> Result<AuthData, String> {
        match (&self.api_key, self.provider) {
            (Some(key), _) => Ok(AuthData::from_single(key.expose())),
            // The library requires a key, which a self-hosted server may not have.
            (None, Provider::Openai) => {
                let mut url =
                    self.base_url.join("chat/completions").map_err(|e| format!("`base_url`: {e}."))?;
                url.set_query(self.base_url.query());
                Ok(AuthData::RequestOverride { url: url.into(), headers: Headers::default() })
            }
            (None, _) => Ok(AuthData::None),
        }
    }

    fn chat_options(&self, request: &ModelRequest, shared: &Arc<Mutex<Frames>>) -> ChatOptions {
        let (provider, frames) = (self.provider, Arc::clone(shared));
        let mut options = ChatOptions::default()
            .with_stream_header_timeout(self.limits.first_byte)
            .with_stream_read_timeout(self.limits.idle)
            .with_capture_usage(true)
            .with_capture_content(false)
            .with_capture_tool_calls(false)
            .with_capture_reasoning_content(self.shows_thoughts())
            .with_raw_frame_fn(move |_, frame| {
                let read = lock(&frames).read(provider, frame.data);
                // The library would parse the frame next.
                read.unwrap_or_else(|fault| abandon(fault));
            });
        options.max_tokens = self.max_output_tokens;
        options.temperature = self.temperature;
        options.reasoning_effort = self.effort();
        if let Some(tools) = prompt::tools_in_body(provider, &request.tools) {
            options.extra_body = Some(json!({ "tools": tools }));
        }
        if let (Provider::Ollama, Some(key)) = (provider, &self.api_key) {
            let bearer = format!("Bearer {}", key.expose());
            options.extra_headers = Some(Headers::from(("authorization", bearer)));
        }
        options
    }

    /// Returns whether to request reasoning. Gemini rejects the request if the model has none.
    fn shows_thoughts(&self) -> bool {
        self.provider != Provider::Gemini
            || self.reasoning_effort.is_some_and(|effort| effort != ReasoningEffort::None)
    }

    fn effort(&self) -> Option<genai::chat::ReasoningEffort> {
        use genai::chat::ReasoningEffort as Effort;
        match self.reasoning_effort {
            Some(ReasoningEffort::None) => Some(Effort::Zero),
            Some(ReasoningEffort::Low) => Some(Effort::Low),
            Some(ReasoningEffort::Medium) => Some(Effort::Medium),
            Some(ReasoningEffort::High) => Some(Effort::High),
            // Without an effort, the library splits names like `qwen-max` at the dash and takes
            // the end for an effort. A budget is not sent to this provider.
            None if self.provider == Provider::Openai => Some(Effort::Budget(0)),
            None => None,
        }
    }
}

/// The parts of a reply received so far.
#[derive(Default)]
struct PartialReply {
    text: String,
    reasoning: String,
    end: Option<StreamEnd>,
}

impl PartialReply {
    fn accept(&mut self, event: ChatStreamEvent, deltas: &mut DeltaSink<'_>) {
        match event {
            ChatStreamEvent::Chunk(chunk) => self.say(chunk.content, deltas),
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.reasoning.push_str(&chunk.content);
                deltas(Delta::Reasoning(chunk.content));
            }
            ChatStreamEvent::End(end) => self.end = Some(end),
            _ => {}
        }
    }

    fn say(&mut self, text: String, deltas: &mut DeltaSink<'_>) {
        if !text.is_empty() {
            self.text.push_str(&text);
            deltas(Delta::Text(text));
        }
    }

    fn into_reply(self, provider: Provider, frames: Frames) -> ModelReply {
        let end = self.end.unwrap_or_default();
        let usage = frames.usage.unwrap_or_else(|| tokens(end.captured_usage.as_ref()));
        let mut parts = end.captured_content.map(|content| content.into_parts()).unwrap_or_default();
        // Gemini's signatures belong to the calls next to them.
        if provider == Provider::Gemini {
            parts.clear();
        }
        if frames.echoes_reasoning && !self.reasoning.is_empty() {
            parts.push(ContentPart::ReasoningContent(self.reasoning.clone()));
        }
        let mut calls: Vec<ModelCall> = frames.calls.into_iter().map(|call| called(provider, call)).collect();
        prompt::keep(provider, &mut calls, &parts);
        let model = frames.model.filter(|model| !model.trim().is_empty()).map(Into::into);
        ModelReply {
            message: AssistantMessage {
                text: self.text,
                reasoning: Some(self.reasoning).filter(|text| !text.is_empty()),
                calls: Arc::new(calls),
            },
            finish: finish(frames.finish.unwrap_or_default()),
            usage,
            model,
            correction: None,
        }
    }
}

fn called(provider: Provider, framed: FramedCall) -> ModelCall {
    let mut call =
        ModelCall { id: framed.id, name: framed.name, arguments: framed.arguments, provider_data: None };
    if let Some(signature) = framed.signature {
        prompt::keep_in(provider, &mut call, "signature", Value::String(signature));
    }
    call
}

fn finish(word: String) -> Finish {
    match StopReason::from(word) {
        StopReason::MaxTokens(_) => Finish::Length,
        StopReason::ContentFilter(_) => Finish::Filtered,
        _ => Finish::Stop,
    }
}

fn tokens(usage: Option<&Usage>) -> TokenUsage {
    let count = |tokens: Option<i32>| tokens.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    TokenUsage {
        input_tokens: count(usage.and_then(|u| u.prompt_tokens)),
        output_tokens: count(usage.and_then(|u| u.completion_tokens)),
    }
}

/// Locks the frames. If a frame panics the parser, only that frame is lost.
fn lock(frames: &Mutex<Frames>) -> MutexGuard<'_, Frames> {
    frames.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a future without logging anything inside it.
///
/// The library logs every answer of a provider, and providers repeat the key they reject. The
/// relevant part is returned as a fault, without the key, and the caller may log that.
async fn without_logs<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| with_default(NoSubscriber::default(), || future.as_mut().poll(context))).await
}
