//! A2A 1.0: agent cards, and tasks by JSON-RPC and HTTP+JSON. A task is a run, a context is a
//! thread.
//!
//! An agent that asks does not approve itself: a gate's question is decided elsewhere.

mod card;
mod encode;
mod error;
mod methods;
mod request;
mod task;
#[cfg(test)]
mod tests;

use crate::Shared;
use crate::agent_runs::{AgentRuns, Caller, decide_url, mark_replay};
use crate::body::SentBody;
use crate::event_stream;
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use error::{A2aError, ErrorKind};
use futures::StreamExt;
use methods::{OngoingTask, Tasks};
use request::{List, Send, TaskRef};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// The header that names the version of the protocol.
const VERSION: &str = "a2a-version";
/// The maximum length of the id of a JSON-RPC request, in bytes. Each event of its stream repeats it.
const MAX_RPC_ID_BYTES: usize = 1_024;

/// Returns the routes below `/a2a`.
pub fn router() -> axum::Router<Shared> {
    axum::Router::new()
        .route("/a2a/{agent}", post(rpc))
        .route("/a2a/{agent}/.well-known/agent-card.json", get(card::agent))
        .route("/a2a/{agent}/message:send", post(send))
        .route("/a2a/{agent}/message:stream", post(stream))
        .route("/a2a/{agent}/tasks", get(list))
        .route("/a2a/{agent}/tasks/{task}", get(task).post(task_action))
        .route("/a2a/{agent}/tasks/{task}/pushNotificationConfigs", get(no_push).post(no_push))
        .route("/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{id}", get(no_push).delete(no_push))
        .route("/a2a/{agent}/extendedAgentCard", get(no_extended_card))
}

/// Returns the routes that need no credential: the card of the server.
pub fn public_router() -> axum::Router<Shared> {
    axum::Router::new().route("/.well-known/agent-card.json", get(card::server))
}

/// Checks the version of the protocol, and returns the tasks of the agent.
fn tasks<'a>(
    state: &'a Shared,
    principal: &'a Caller,
    agent: &'a str,
    headers: &'a HeaderMap,
    decide_url: &'a str,
) -> Result<Tasks<'a>, A2aError> {
    let version = headers.get(VERSION).and_then(|version| version.to_str().ok()).unwrap_or_default();
    if version != "1" && !version.starts_with("1.") {
        let named = if version.is_empty() { "0.3" } else { version };
        let why = format!("version {named} is not supported; send A2A-Version: {}", card::PROTOCOL_VERSION);
        return Err(A2aError::new(ErrorKind::VersionNotSupported, why));
    }
    let runs = AgentRuns::new(state, principal);
    runs.agent(agent)?;
    Ok(Tasks { state, runs, headers, agent, decide_url })
}

fn read(body: Result<SentBody, Problem>) -> Result<Value, A2aError> {
    let SentBody(body) = body?;
    serde_json::from_slice(&body)
        .map_err(|why| A2aError::new(ErrorKind::Parse, format!("the body is not valid JSON: {why}")))
}

/// Returns an error as the body of an answer: of JSON-RPC, or of HTTP+JSON.
pub(crate) fn error_of(problem: Problem, is_rpc: bool) -> Value {
    let error = A2aError::from(problem);
    if is_rpc { error.rpc(&Value::Null) } else { error.http() }
}

/// Answers with JSON of the HTTP+JSON binding.
fn answer(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/a2a+json")], value.to_string()).into_response()
}

async fn send(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters(agent): PathParameters<String>,
    headers: HeaderMap,
    body: Result<SentBody, Problem>,
) -> Result<Response, A2aError> {
    let (principal, url) = (principal?, decide_url(&headers));
    let tasks = tasks(&state, &principal, &agent, &headers, &url)?;
    let (task, is_replay) = sent(&tasks, &Send::read(&read(body)?)?).await?;
    let mut response = answer(&task);
    mark_replay(&mut response, is_replay);
    Ok(response)
}

/// Sends a message and returns the task, as `SendMessage` does, and whether an earlier request with the
/// same key started it.
async fn sent(tasks: &Tasks<'_>, send: &Send) -> Result<(Value, bool), A2aError> {
    let going = tasks.send(send, false).await?;
    let is_replay = going.is_replay;
    let task = match send.return_immediately {
        true => tasks.describe_started(going, send.history_length).await?,
        false => tasks.wait_for_rest(going, send.history_length).await?,
    };
    Ok((json!({"task": task}), is_replay))
}

async fn stream(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters(agent): PathParameters<String>,
    headers: HeaderMap,
    body: Result<SentBody, Problem>,
) -> Result<Response, A2aError> {
    let (principal, url) = (principal?, decide_url(&headers));
    let tasks = tasks(&state, &principal, &agent, &headers, &url)?;
    Ok(streamed(&state, tasks.send(&Send::read(&read(body)?)?, true).await?, |event| event))
}

async fn list(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters(agent): PathParameters<String>,
    QueryParameters(query): QueryParameters<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Response, A2aError> {
    let (principal, url) = (principal?, decide_url(&headers));
    let tasks = tasks(&state, &principal, &agent, &headers, &url)?;
    Ok(answer(&tasks.list(&List::read(&of_query(query))?).await?))
}

async fn task(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters((agent, task)): PathParameters<(String, String)>,
    QueryParameters(query): QueryParameters<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Response, A2aError> {
    let (principal, url) = (principal?, decide_url(&headers));
    let tasks = tasks(&state, &principal, &agent, &headers, &url)?;
    let mut params = of_query(query);
    match task.strip_suffix(":subscribe") {
        Some(id) => {
            params["id"] = json!(id);
            Ok(streamed(&state, tasks.subscribe(&TaskRef::read(&params)?).await?, |event| event))
        }
        None => {
            params["id"] = json!(task);
            Ok(answer(&tasks.get(&TaskRef::read(&params)?).await?))
        }
    }
}

async fn task_action(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters((agent, task)): PathParameters<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, A2aError> {
    let (principal, url) = (principal?, decide_url(&headers));
    let tasks = tasks(&state, &principal, &agent, &headers, &url)?;
    let task_ref = |id: &str| TaskRef { id: id.to_owned(), history_length: None };
    match task.rsplit_once(':') {
        Some((id, "cancel")) => Ok(answer(&tasks.cancel(&task_ref(id)).await?)),
        Some((id, "subscribe")) => Ok(streamed(&state, tasks.subscribe(&task_ref(id)).await?, |event| event)),
        _ => {
            let why = "a task can be cancelled with `:cancel` and followed with `:subscribe`";
            Err(A2aError::new(ErrorKind::MethodNotFound, why))
        }
    }
}

/// Answers with the stream of a task, each event in the envelope of its binding.
fn streamed(
    state: &Shared,
    going: OngoingTask,
    envelope: impl Fn(Value) -> Value + std::marker::Send + 'static,
) -> Response {
    let is_replay = going.is_replay;
    let events = going.stream().map(move |event| event_stream::data(&envelope(event)));
    let mut response = event_stream::answer(&state.pulse, events);
    mark_replay(&mut response, is_replay);
    response
}

/// Returns the parameters of a query as JSON.
fn of_query(query: HashMap<String, String>) -> Value {
    Value::Object(query.into_iter().map(|(name, value)| (name, Value::String(value))).collect::<Map<_, _>>())
}

async fn no_push() -> A2aError {
    let why = "push notifications are not supported; subscribe to the task";
    A2aError::new(ErrorKind::PushNotificationNotSupported, why)
}

async fn no_extended_card() -> A2aError {
    A2aError::new(ErrorKind::ExtendedCardNotConfigured, "the agent has one card only")
}

/// Answers a JSON-RPC request.
async fn rpc(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters(agent): PathParameters<String>,
    headers: HeaderMap,
    body: Result<SentBody, Problem>,
) -> Response {
    let (principal, body) = match principal.and_then(|principal| Ok((principal, body?))) {
        Ok(read) => read,
        // It became no call of JSON-RPC, so the status of HTTP says so.
        Err(problem) => return problem.into_response(),
    };
    let request = match read(Ok(body)) {
        Ok(request) => request,
        Err(error) => return rpc_answer(&error.rpc(&Value::Null)),
    };
    let id = rpc_id(&request);
    let url = decide_url(&headers);
    let called = match tasks(&state, &principal, &agent, &headers, &url) {
        Ok(tasks) if !id.is_null() && request["jsonrpc"] == "2.0" => call(&tasks, &request).await,
        Ok(_) => Err(not_a_call()),
        Err(error) => Err(error),
    };
    match called {
        Ok(RpcOutcome::Result(result, is_replay)) => {
            let mut response = rpc_answer(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            mark_replay(&mut response, is_replay);
            response
        }
        Ok(RpcOutcome::Stream(going)) => {
            streamed(&state, *going, move |event| json!({"jsonrpc": "2.0", "id": id, "result": event}))
        }
        Err(error) => rpc_answer(&error.rpc(&id)),
    }
}

fn rpc_answer(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// Returns the id of a JSON-RPC request; null if it has none that its answers can repeat.
fn rpc_id(request: &Value) -> Value {
    match &request["id"] {
        Value::String(id) if id.len() <= MAX_RPC_ID_BYTES => json!(id),
        id @ Value::Number(_) => id.clone(),
        _ => Value::Null,
    }
}

fn not_a_call() -> A2aError {
    let why = format!(
        "the request is not a JSON-RPC 2.0 call with a method and an id, which is a number or a string of at most \
         {MAX_RPC_ID_BYTES} bytes"
    );
    A2aError::new(ErrorKind::InvalidRequest, why)
}

/// The outcome of a JSON-RPC call.
enum RpcOutcome {
    /// The result, and whether an earlier request with the same key started the task.
    Result(Value, bool),
    Stream(Box<OngoingTask>),
}

async fn call(tasks: &Tasks<'_>, request: &Value) -> Result<RpcOutcome, A2aError> {
    let method = request["method"].as_str().ok_or_else(not_a_call)?;
    let params = &request["params"];
    let result = match method {
        "SendMessage" => {
            let (task, is_replay) = sent(tasks, &Send::read(params)?).await?;
            return Ok(RpcOutcome::Result(task, is_replay));
        }
        "SendStreamingMessage" => {
            return Ok(RpcOutcome::Stream(Box::new(tasks.send(&Send::read(params)?, true).await?)));
        }
        "SubscribeToTask" => {
            return Ok(RpcOutcome::Stream(Box::new(tasks.subscribe(&TaskRef::read(params)?).await?)));
        }
        "GetTask" => tasks.get(&TaskRef::read(params)?).await?,
        "ListTasks" => tasks.list(&List::read(params)?).await?,
        "CancelTask" => tasks.cancel(&TaskRef::read(params)?).await?,
        "GetExtendedAgentCard" => return Err(no_extended_card().await),
        name if name.contains("PushNotificationConfig") => return Err(no_push().await),
        _ => {
            let why = "there is no such method; A2A 1.0 has SendMessage, GetTask and others";
            return Err(A2aError::new(ErrorKind::MethodNotFound, why));
        }
    };
    Ok(RpcOutcome::Result(result, false))
}
