//! `/v1/responses`: create, retrieve, cancel, input items.

mod encode;
mod output;
mod request;
mod segment;
#[cfg(test)]
mod tests;

use super::OpenAiError;
use super::models::unknown_model;
use crate::Shared;
use crate::agent_runs::history::{ClientMessage, Role, split};
use crate::agent_runs::{
    AgentRuns, Answers, Approval, Caller, Feed, FeedUntil, NewRun, OwnRun, Start, approval, decide_url,
    encoded, mark_replay, name_ignored, repeatable, start_once,
};
use crate::body::SentBody;
use crate::event_stream;
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use encode::{ResponseEncoder, ResponseEvent};
use futures::StreamExt;
use output::Output;
use request::ResponseRequest;
use segment::{ResponseId, ResponseInfo, input_items, response, starts, stored};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollgate::config::SystemMessages;
use tollgate_agent::run::Event;

/// The name of the route for keys of requests.
const ROUTE: &str = "POST /v1/responses";
/// How long an answer waits for the end of a cancelled run.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// Creates a response.
pub(super) async fn create(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    headers: HeaderMap,
    body: Result<SentBody, Problem>,
) -> Result<Response, OpenAiError> {
    let principal = principal?;
    let SentBody(body) = body?;
    let mut request = ResponseRequest::read(&body)?;
    let runs = AgentRuns::new(&state, &principal);
    runs.agent(&request.model).map_err(unknown_model)?;
    let url = decide_url(&headers);
    let mut is_replay = false;
    let (feed, about, output) = if request.approvals.is_empty() {
        let mut previous = None;
        let once = {
            let (runs, request, previous) = (&runs, &mut request, &mut previous);
            let system = state.config.openai.system;
            // Only if the request was not answered before: its response is then the last one, and
            // no longer continues the one before.
            let prepare = || async move {
                if let Some(id) = &request.previous {
                    *previous = Some(last_response(runs, id).await?);
                }
                start(previous.as_ref(), request, system)
            };
            start_once::<OpenAiError, _>((&state, runs), ROUTE, &headers, &body, prepare).await?
        };
        is_replay = once.is_replay;
        begun(&runs, &once.started, previous, &request, &url)?
    } else {
        let Some(id) = &request.previous else {
            let why = "an answer to a request for approval needs `previous_response_id`";
            return Err(OpenAiError::param("previous_response_id", why));
        };
        let (begun, late) = decide(&runs, id, &request, &url).await?;
        request.ignored.extend(late.iter().map(|id| format!("mcp_approval_response {id}")));
        begun
    };
    let mut answer = match (request.stream, request.background) {
        (true, _) => {
            let events = encoded(feed, ResponseEncoder::new(about, output)).map(|event| event.sse());
            let done = futures::stream::iter([SseEvent::default().data("[DONE]")]);
            event_stream::answer(&state.pulse, events.chain(done))
        }
        (false, true) => {
            let mut output = output;
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            output.created_at_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
            Json(response(&about, &output)).into_response()
        }
        (false, false) => {
            let mut events = Box::pin(encoded(feed, ResponseEncoder::new(about, output)));
            let mut last = None;
            while let Some(event) = events.next().await {
                last = Some(event);
            }
            let last = last.map(|event| event.data["response"].clone());
            Json(last.ok_or_else(OpenAiError::lost)?).into_response()
        }
    };
    name_ignored(&mut answer, &request.ignored);
    mark_replay(&mut answer, is_replay);
    Ok(answer)
}

/// Returns the run of a response, which must be the last one of its thread that the client can
/// know.
async fn last_response(runs: &AgentRuns<'_>, id: &str) -> Result<OwnRun, OpenAiError> {
    let (response, run) = find(runs, id).await?;
    let Some(latest) = runs.latest(&run.thread).await? else { return Ok(run) };
    if latest.run_id != run.run_id {
        return Err(not_last(&runs.run(&latest.run_id).await?));
    }
    if !decided_elsewhere(&run, response.first) {
        return Err(not_last(&run));
    }
    Ok(run)
}

/// Returns the error for a response that is followed by others in its thread, whose latest run this
/// is.
fn not_last(latest: &OwnRun) -> OpenAiError {
    let first = starts(&latest.events).last().copied().unwrap_or(1);
    let last = ResponseId { run_id: latest.run_id.clone(), first };
    let why = format!("only the last response of a thread can be continued: {last}");
    OpenAiError::param("previous_response_id", why).with_code("previous_response_not_last")
}

/// Returns whether all responses that follow the one with this first event began with decisions that
/// no client of a protocol made, but a person in the console or on the command line. The client has
/// not received these responses.
fn decided_elsewhere(run: &OwnRun, first: u64) -> bool {
    let later = starts(&run.events).into_iter().filter(|start| *start > first);
    let mut begins = later.map(|start| run.events.iter().find(|event| event.number == start));
    begins.all(|begin| match begin.map(|begin| &begin.event) {
        Some(Event::CallDecided { decision, .. }) => {
            repeatable((**decision).clone(), &run.run_id).id != decision.id
        }
        _ => false,
    })
}

/// Returns the run of a response.
async fn find(runs: &AgentRuns<'_>, id: &str) -> Result<(ResponseId, OwnRun), OpenAiError> {
    let missing = || Problem::new(StatusCode::NOT_FOUND, "response_not_found", "there is no such response");
    let response = ResponseId::read(id).ok_or_else(missing)?;
    let run = runs.find_run(&response.run_id).await?.ok_or_else(missing)?;
    if segment::segment(&run.events, response.first).is_none() && run.stored() + 1 != response.first {
        return Err(missing().into());
    }
    Ok((response, run))
}

type NewResponse = (Feed, ResponseInfo, Output);

/// Answers requests for approval of a response, and continues its run. Also returns the requests
/// that had been decided in the meantime. If no request is open, the answer is the response that
/// followed.
async fn decide(
    runs: &AgentRuns<'_>,
    id: &str,
    request: &ResponseRequest,
    url: &str,
) -> Result<(NewResponse, Vec<String>), OpenAiError> {
    if request.messages.iter().any(|message| message.role == Role::User) {
        let why = "send either a message or answers to requests for approval";
        return Err(OpenAiError::param("input", why));
    }
    let (response, run) = find(runs, id).await?;
    let next = starts(&run.events).into_iter().find(|start| *start > response.first);
    let asked_later = |answer: &Approval| {
        run.asked(&answer.question).zip(next).is_some_and(|((number, _), next)| number >= next)
    };
    if request.approvals.iter().any(asked_later) {
        return Err(not_last(&run));
    }
    let yes_or_no = |asked: &_, answer: &Approval| approval(asked, answer.approves, answer.reason.clone());
    let answers = Answers::of(&run, &request.approvals, |answer| answer.question.as_str(), yes_or_no)?;
    let Answers { decisions, late, .. } = answers;
    let first = match (next, request.approvals.first()) {
        _ if !decisions.is_empty() => run.stored() + 1,
        (Some(next), _) => next,
        (None, Some(answer)) => return Err(run.no_such_question(&answer.question).into()),
        (None, None) => run.stored() + 1,
    };
    let earlier = run.events.iter().take_while(|event| event.number < first);
    let output = Output::after(&run.run_id, url, earlier);
    let about = about(&run.run_id, first, &run.thread, request);
    let count = decisions.len();
    if count > 0 {
        runs.decide(&run, decisions).await?;
    }
    let feed = runs.resume(&run.run_id, FeedUntil::Waiting, first - 1, first)?;
    Ok(((feed.after_decisions(count), about, output), late))
}

/// Returns the run that a request asks for. A message to a waiting run continues it.
fn start(
    previous: Option<&OwnRun>,
    request: &mut ResponseRequest,
    system: SystemMessages,
) -> Result<Start, OpenAiError> {
    let mut messages = std::mem::take(&mut request.messages);
    if let Some(text) = request.instructions.take() {
        messages.insert(0, ClientMessage { role: Role::System, text });
    }
    if system == SystemMessages::Refuse && messages.iter().any(|message| message.role == Role::System) {
        let why = "the operator sets the agent's instructions; leave out instructions and system messages";
        return Err(OpenAiError::param("instructions", why).with_code("unsupported"));
    }
    let (history, prompt) = match previous {
        None => split(messages)
            .ok_or_else(|| OpenAiError::param("input", "the last item must be a message of the user"))?,
        Some(_) => (Vec::new(), continuation(messages, &mut request.ignored)?),
    };
    let thread = previous.map(|run| run.thread.clone());
    let agent_id = request.model.clone();
    Ok(Start { agent_id, prompt, thread, history, detached: request.background, ..Start::default() })
}

/// Returns the events of a run that has started, or continued its previous response.
fn begun(
    runs: &AgentRuns<'_>,
    started: &NewRun,
    previous: Option<OwnRun>,
    request: &ResponseRequest,
    url: &str,
) -> Result<NewResponse, OpenAiError> {
    let run_id = &*started.run_id;
    let continued = previous.filter(|run| run.run_id == run_id);
    let (first, earlier) = continued.map_or((1, Vec::new()), |run| (run.stored() + 1, run.events));
    let about = about(run_id, first, &started.thread, request);
    Ok((runs.follow(started, FeedUntil::Waiting)?, about, Output::after(run_id, url, &earlier)))
}

/// Returns the prompt that continues a thread: the messages of the user. The server has the
/// earlier ones.
fn continuation(messages: Vec<ClientMessage>, ignored: &mut Vec<String>) -> Result<String, OpenAiError> {
    for (role, name) in [
        (Role::System, "instructions"),
        (Role::Assistant, "input (messages of the assistant)"),
        (Role::Tool, "input (calls)"),
    ] {
        if messages.iter().any(|message| message.role == role) {
            ignored.push(name.to_owned());
        }
    }
    let texts: Vec<String> =
        messages.into_iter().filter(|message| message.role == Role::User).map(|m| m.text).collect();
    match texts.is_empty() {
        true => Err(OpenAiError::param("input", "a message of the user is missing")),
        false => Ok(texts.join("\n\n")),
    }
}

fn about(run_id: &str, first: u64, thread: &str, request: &ResponseRequest) -> ResponseInfo {
    ResponseInfo {
        id: ResponseId { run_id: run_id.to_owned(), first },
        model: request.model.clone(),
        thread: thread.to_owned(),
        previous: request.previous.clone(),
        next: None,
        background: request.background,
    }
}

/// Returns a response from the record.
pub(super) async fn retrieve(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters(id): PathParameters<String>,
    QueryParameters(query): QueryParameters<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let principal = principal?;
    if query.get("stream").is_some_and(|stream| stream == "true") {
        let why = "a stored response cannot be streamed; retrieve it again until it has ended";
        return Err(OpenAiError::param("stream", why).with_code("unsupported"));
    }
    let runs = AgentRuns::new(&state, &principal);
    let (response, run) = find(&runs, &id).await?;
    Ok(Json(recorded(response, &run, &decide_url(&headers))))
}

/// Returns the JSON of a response from the record of its run.
fn recorded(id: ResponseId, run: &OwnRun, url: &str) -> Value {
    let starts = starts(&run.events);
    let before = starts.iter().rev().find(|start| **start < id.first);
    let previous = before.map(|first| ResponseId { run_id: run.run_id.clone(), first: *first }.to_string());
    let next = starts.iter().find(|start| **start > id.first);
    let next = next.map(|first| ResponseId { run_id: run.run_id.clone(), first: *first }.to_string());
    let (model, thread) = (run.agent_id.clone(), run.thread.clone());
    let about = ResponseInfo { id, model, thread, previous, next, background: false };
    stored(run, &about, url)
        .unwrap_or_else(|| response(&about, &Output::after(&run.run_id, url, &run.events)))
}

/// Cancels the run of a response.
pub(super) async fn cancel(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters(id): PathParameters<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let principal = principal?;
    let runs = AgentRuns::new(&state, &principal);
    let (response, run) = find(&runs, &id).await?;
    if run.end.is_some() {
        return Ok(Json(recorded(response, &run, &decide_url(&headers))));
    }
    let was_last = starts(&run.events).last() == Some(&response.first);
    runs.cancel(&run.run_id, "cancelled by its client").await?;
    let run = ended(&runs, &run.run_id).await?;
    let mut json = recorded(response, &run, &decide_url(&headers));
    if was_last && run.end.is_some() {
        // A run that waited has its end in a segment of its own.
        json["status"] = json!("cancelled");
    }
    Ok(Json(json))
}

/// Returns the run once it has ended, or after a while.
async fn ended(runs: &AgentRuns<'_>, run_id: &str) -> Result<OwnRun, Problem> {
    let mut run = runs.run(run_id).await?;
    let mut feed = runs.resume(run_id, FeedUntil::Waiting, run.stored(), run.stored())?;
    if run.end.is_none() {
        let _ = tokio::time::timeout(CANCEL_TIME, feed.finished()).await;
        run = runs.run(run_id).await?;
    }
    Ok(run)
}

/// Refuses to compact a conversation: the server keeps it, and the operator limits it.
pub(super) async fn compact(_body: Result<SentBody, Problem>) -> OpenAiError {
    let why = "conversations are not compacted; continue the thread with `previous_response_id`";
    Problem::new(StatusCode::NOT_FOUND, "not_found", why).into()
}

/// Lists the input of a response.
pub(super) async fn inputs(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters(id): PathParameters<String>,
) -> Result<Json<Value>, OpenAiError> {
    let principal = principal?;
    let runs = AgentRuns::new(&state, &principal);
    let (response, run) = find(&runs, &id).await?;
    let events = segment::segment(&run.events, response.first).unwrap_or_default().to_vec();
    let (model, thread) = (run.agent_id, run.thread);
    let about = ResponseInfo { id: response, model, thread, previous: None, next: None, background: false };
    let items = input_items(&about, &events);
    let id = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    Ok(Json(json!({
        "object": "list",
        "first_id": id(items.first()),
        "last_id": id(items.last()),
        "has_more": false,
        "data": items,
    })))
}

impl ResponseEvent {
    fn sse(self) -> SseEvent {
        event_stream::data(&self.data).event(self.name)
    }
}
