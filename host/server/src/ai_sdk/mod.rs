//! The UI message stream of the AI SDK, for `useChat` and `DefaultChatTransport`. The chat is the
//! thread. An assistant's message is the part of a run that answers one message of the user, and its
//! id starts with the run's.

mod encode;
mod request;
#[cfg(test)]
mod tests;

use crate::Shared;
use crate::agent_runs::history::history;
use crate::agent_runs::{
    AgentRuns, Answers, Approval, Caller, Calls, Feed, FeedUntil, IdempotentStart, OwnRun, ReplyText, Start,
    approval, decide_url, encoded, mark_replay, name_ignored, start_once,
};
use crate::body::SentBody;
use crate::event_stream;
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use encode::{AiSdkEncoder, AiSdkVersion, MessageBegin, MessageInfo};
use futures::StreamExt;
use request::{Action, ChatRequest};
use serde::Deserialize;
use tollgate::store::RunSummary;
use tollgate_agent::run::Event;

/// Returns the routes below `/ai-sdk`.
pub fn router() -> axum::Router<Shared> {
    axum::Router::new()
        .route("/ai-sdk/{agent}", post(send))
        .route("/ai-sdk/{agent}/{chat}/stream", get(resume))
        .route("/ai-sdk/{agent}/{chat}/stop", post(stop))
}

#[derive(Deserialize)]
struct VersionQuery {
    v: Option<String>,
}

impl VersionQuery {
    fn version(&self) -> Result<AiSdkVersion, Problem> {
        match self.v.as_deref() {
            None | Some("7") => Ok(AiSdkVersion::V7),
            Some("6") => Ok(AiSdkVersion::V6),
            Some(_) => {
                let why = "the version of the AI SDK must be 6 or 7; send `?v=6` or leave it out";
                Err(Problem::new(StatusCode::BAD_REQUEST, "bad_request", why))
            }
        }
    }
}

/// Answers the last message of a chat: starts a run, or continues one whose questions the message
/// answers.
async fn send(
    State(state): State<Shared>,
    principal: Caller,
    PathParameters(agent): PathParameters<String>,
    QueryParameters(query): QueryParameters<VersionQuery>,
    headers: HeaderMap,
    body: Result<SentBody, Problem>,
) -> Result<Response, Problem> {
    let SentBody(body) = body?;
    let mut request = ChatRequest::read(&body)?;
    let runs = AgentRuns::new(&state, &principal);
    runs.agent(&agent)?;
    let (version, url) = (query.version()?, decide_url(&headers));
    let mut response = match &request.action {
        Action::Prompt(prompt) => {
            let (mut waiting, route) = (None, format!("POST /ai-sdk/{agent}"));
            let once = {
                let (runs, request, waiting) = (&runs, &request, &mut waiting);
                let prepare = || async move {
                    let latest = runs.latest(&request.chat).await?;
                    // The server has the earlier messages of a chat that it knows.
                    let history = match &latest {
                        None => history(request.earlier()?),
                        Some(_) => Vec::new(),
                    };
                    if let Some(latest) = latest.filter(|latest| latest.status == "waiting") {
                        *waiting = Some(runs.run(&latest.run_id).await?);
                    }
                    let (prompt, thread) = (prompt.clone(), Some(request.chat.clone()));
                    let start = Start { agent_id: agent, prompt, thread, history, ..Start::default() };
                    Ok::<_, Problem>(Start { detached: true, ..start })
                };
                start_once((&state, runs), &route, &headers, &body, prepare).await?
            };
            let IdempotentStart { started, is_replay } = once;
            let mut response = match is_replay {
                true => replayed(&runs, &started.run_id, version, url).await?,
                false => {
                    let run_id = started.run_id.to_string();
                    let about = MessageInfo {
                        message_id: run_id.clone(),
                        run_id,
                        thread: started.thread.clone(),
                        version,
                        decide_url: url,
                    };
                    let continued = waiting.filter(|run| run.run_id == about.run_id);
                    let (begin, calls) = continued.map_or((MessageBegin::Run, Calls::default()), |run| {
                        (MessageBegin::NextPrompt, run.calls)
                    });
                    let encoder = AiSdkEncoder::new(about, begin, calls, ReplyText::default());
                    stream(&runs, runs.follow(&started, FeedUntil::Waiting)?, encoder)
                }
            };
            mark_replay(&mut response, is_replay);
            response
        }
        Action::Decide { message_id, approvals } => {
            let (response, late) =
                decide(&runs, &request.chat, message_id, approvals, (version, url)).await?;
            request.ignored.extend(late.iter().map(|id| format!("approval {id}")));
            response
        }
    };
    name_ignored(&mut response, &request.ignored);
    Ok(response)
}

/// Decides the questions of a message, and continues that message. Also returns the questions that
/// had been decided in the meantime: the message then continues with what followed.
async fn decide(
    runs: &AgentRuns<'_>,
    chat: &str,
    message_id: &str,
    approvals: &[Approval],
    (version, decide_url): (AiSdkVersion, String),
) -> Result<(Response, Vec<String>), Problem> {
    let latest = runs.latest(chat).await?.ok_or_else(|| Problem::not_found("chat"))?;
    let run = runs.run(&latest.run_id).await?;
    let message = Message::last(&run);
    if message.id != message_id {
        let why = "only questions of the chat's last message can be decided";
        return Err(Problem::new(StatusCode::CONFLICT, "already_decided", why));
    }
    let yes_or_no = |asked: &_, answer: &Approval| approval(asked, answer.approves, answer.reason.clone());
    let answers = Answers::of(&run, approvals, |answer| answer.question.as_str(), yes_or_no)?;
    let Answers { decisions, count, after, late } = answers;
    if !decisions.is_empty() {
        runs.decide(&run, decisions).await?;
    }
    let feed = runs.resume(&run.run_id, FeedUntil::Waiting, after, after + 1)?.after_decisions(count);
    let mut calls = Calls::default();
    let earlier = run.events.iter().take_while(|event| event.number <= after);
    earlier.for_each(|event| calls.apply(&event.event));
    let about =
        MessageInfo { run_id: run.run_id, thread: run.thread, message_id: message.id, version, decide_url };
    let encoder = AiSdkEncoder::new(about, MessageBegin::Earlier, calls, ReplyText::default());
    Ok((stream(runs, feed, encoder), late))
}

/// Replays the message that is being written, and continues it. Answers 204 if nothing runs.
async fn resume(
    State(state): State<Shared>,
    principal: Caller,
    PathParameters((agent, chat)): PathParameters<(String, String)>,
    QueryParameters(query): QueryParameters<VersionQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let runs = AgentRuns::new(&state, &principal);
    runs.agent(&agent)?;
    let version = query.version()?;
    let latest = runs.latest(&chat).await?.filter(|latest| latest.status == "running");
    match latest {
        None => Ok(StatusCode::NO_CONTENT.into_response()),
        Some(latest) => replayed(&runs, &latest.run_id, version, decide_url(&headers)).await,
    }
}

/// Replays the last message of a run from its start, and continues it.
async fn replayed(
    runs: &AgentRuns<'_>,
    run_id: &str,
    version: AiSdkVersion,
    decide_url: String,
) -> Result<Response, Problem> {
    let run = runs.run(run_id).await?;
    let message = Message::last(&run);
    let feed = runs.resume(&run.run_id, FeedUntil::Waiting, message.after, run.stored())?;
    let about =
        MessageInfo { run_id: run.run_id, thread: run.thread, message_id: message.id, version, decide_url };
    let encoder = AiSdkEncoder::new(about, MessageBegin::Run, Calls::default(), ReplyText::default());
    Ok(stream(runs, feed, encoder))
}

/// Cancels the run of a chat. Answers 204, also if nothing runs.
async fn stop(
    State(state): State<Shared>,
    principal: Caller,
    PathParameters((agent, chat)): PathParameters<(String, String)>,
) -> Result<StatusCode, Problem> {
    let runs = AgentRuns::new(&state, &principal);
    runs.agent(&agent)?;
    let latest = runs.latest(&chat).await?;
    if let Some(latest) = latest.filter(RunSummary::is_open) {
        runs.cancel(&latest.run_id, "stopped by its client").await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A message of the assistant: the part of a run that answers one message of the user.
struct Message {
    id: String,
    /// The number of the last event before it.
    after: u64,
}

impl Message {
    /// Returns the last message of a run. The first one has the run's id; a later one adds the
    /// number of the user's message.
    fn last(run: &OwnRun) -> Self {
        let prompts: Vec<u64> = run
            .events
            .iter()
            .filter(|event| matches!(event.event, Event::MessageAdded { .. }))
            .map(|event| event.number)
            .collect();
        match prompts.as_slice() {
            [_, .., last] => Self { id: format!("{}_{last}", run.run_id), after: last - 1 },
            _ => Self { id: run.run_id.clone(), after: 0 },
        }
    }
}

fn stream(runs: &AgentRuns<'_>, feed: Feed, encoder: AiSdkEncoder) -> Response {
    let done = futures::stream::iter([SseEvent::default().data("[DONE]")]);
    let chunks = encoded(feed, encoder).map(|chunk| event_stream::data(&chunk));
    let mut response = event_stream::answer(runs.pulse(), chunks.chain(done));
    let name = HeaderName::from_static("x-vercel-ai-ui-message-stream");
    response.headers_mut().insert(name, HeaderValue::from_static("v1"));
    response
}
