//! `POST /v1/chat/completions`.

mod encode;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use request::{FORMAT_IS_SET, read_content};

use super::OpenAiError;
use super::models::unknown_model;
use crate::Shared;
use crate::agent_runs::history::{Role, split};
use crate::agent_runs::{
    AgentRuns, Caller, FeedUntil, IdempotentStart, Start, decide_url, encoded, mark_replay, name_ignored,
    start_once,
};
use crate::body::SentBody;
use crate::event_stream;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use encode::{ChatEncoder, ChatEvent, ChatSettings, joined};
use futures::{Stream, StreamExt};
use request::CompletionRequest;
use std::future::ready;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollgate::config::SystemMessages;

/// How long a stream waits for its first chunk before it answers 200. A run that fails earlier is
/// answered with an error status.
const FIRST_CHUNK: Duration = Duration::from_secs(10);

/// Answers a conversation with an agent.
pub(super) async fn create(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    headers: HeaderMap,
    body: Result<SentBody, Problem>,
) -> Result<Response, OpenAiError> {
    let (principal, options) = (principal?, &state.config.openai);
    let SentBody(body) = body?;
    let mut request = CompletionRequest::read(&body)?;
    let runs = AgentRuns::new(&state, &principal);
    runs.agent(&request.model).map_err(unknown_model)?;
    let by_header = options.thread_header.as_deref().and_then(|name| headers.get(name));
    let by_header = by_header.and_then(|thread| thread.to_str().ok()).filter(|thread| !thread.is_empty());
    let thread = by_header.map(str::to_owned).or(request.thread.take());
    let start = start(&mut request, thread, options.system)?;
    let ignored = std::mem::take(&mut request.ignored);
    let prepare = || ready(Ok::<_, OpenAiError>(start));
    let once = start_once((&state, &runs), "POST /v1/chat/completions", &headers, &body, prepare).await?;
    let IdempotentStart { started, is_replay } = once;

    let holds = request.stream && options.holds;
    let settings = ChatSettings {
        run_id: started.run_id.to_string(),
        thread: started.thread.clone(),
        model: request.model,
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        include_usage: request.include_usage || !request.stream,
        progress: options.progress,
        holds,
        decide_url: decide_url(&headers),
    };
    let until = if holds { FeedUntil::Held(options.hold) } else { FeedUntil::Waiting };
    let events = encoded(runs.follow(&started, until)?, ChatEncoder::new(settings));
    let mut response = match request.stream {
        true => streamed(&state, events).await?,
        false => Json(joined(events.collect().await)?).into_response(),
    };
    name_ignored(&mut response, &ignored);
    mark_replay(&mut response, is_replay);
    Ok(response)
}

/// Returns the run that a request asks for. With a thread, only the last message counts: the
/// server has the others.
fn start(
    request: &mut CompletionRequest,
    thread: Option<String>,
    system: SystemMessages,
) -> Result<Start, OpenAiError> {
    let messages = std::mem::take(&mut request.messages);
    if system == SystemMessages::Refuse
        && let Some(at) = messages.iter().position(|message| message.role == Role::System)
    {
        let why = "the operator sets the agent's instructions; leave out system messages";
        return Err(OpenAiError::param(format!("messages[{at}]"), why).with_code("unsupported"));
    }
    let count = messages.len();
    let not_a_prompt = || OpenAiError::param("messages", "the last message must be the user's");
    let (history, prompt) = match &thread {
        None => split(messages).ok_or_else(not_a_prompt)?,
        Some(_) => {
            let last = messages.into_iter().last().filter(|last| last.role == Role::User);
            if count > 1 {
                request.ignored.push(format!("messages[0..{}]", count - 1));
            }
            (Vec::new(), last.ok_or_else(not_a_prompt)?.text)
        }
    };
    Ok(Start { agent_id: request.model.clone(), prompt, thread, history, ..Start::default() })
}

/// Answers with a stream. A run that ends without an answer before its first chunk is answered
/// with an error status.
async fn streamed(
    state: &Shared,
    events: impl Stream<Item = ChatEvent> + Send + 'static,
) -> Result<Response, OpenAiError> {
    let mut events = Box::pin(events);
    let first = tokio::time::timeout(FIRST_CHUNK, events.next()).await;
    if let Ok(Some(ChatEvent::Failed(error))) = first {
        return Err(error);
    }
    let first = futures::stream::iter(first.ok().flatten());
    Ok(event_stream::answer(
        &state.pulse,
        first.chain(events).map(|event| match event {
            ChatEvent::Chunk(chunk) => event_stream::data(&chunk),
            ChatEvent::Failed(error) => event_stream::data(&error.to_json()),
            ChatEvent::Done => SseEvent::default().data("[DONE]"),
        }),
    ))
}
