//! Agent runs and direct calls: start, list, show, cancel, recover.

use super::pages::{Page, cursor, limit, place, time};
use crate::access::Principal;
use crate::agent_runs::name_ignored;
use crate::body::JsonBody;
use crate::idempotency::{self, KeyedRequest, KeyedStart, REPLAYED};
use crate::load::ClientShare;
use crate::operations::{RunStart, StartedRun};
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use crate::runs::{RunDocument, RunListing, ended_call, run_document, run_listing};
use crate::scope::Scope;
use crate::sse::{self, StreamOptions};
use crate::state::Shared;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tollgate::FollowUntil;
use tollgate::run::RunEnd;
use tollgate::store::RunFilter;
use tollgate_agent::message::{AssistantMessage, Message};
use tollgate_agent::run::event::FinishedCall;
use tollgate_agent::run::{CallEnd, StoredEvent};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};

/// The maximum time of `Prefer: wait=N`, in seconds.
const MAX_WAIT_SECONDS: u64 = 600;

/// A request to start a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartBody {
    /// The agent.
    agent: String,
    /// The user's message.
    input: String,
    /// The thread to continue, by any id of the client's; absent begins a new one.
    #[serde(default)]
    #[schema(pattern = r"^[^\x00-\x1f\x7f-\x9f]{1,200}$")]
    thread_id: Option<String>,
    /// The conversation that precedes the message, oldest first. Only a new thread accepts one.
    #[serde(default)]
    history: Vec<HistoryMessage>,
    /// The behavior if another run of the thread is at work.
    #[serde(default)]
    on_busy: OnBusy,
    /// Whether the run continues when no client listens. Otherwise it is cancelled 10 s after the
    /// last client left.
    #[serde(default)]
    detached: bool,
}

/// A message of a conversation that the client kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryMessage {
    /// The author.
    #[schema(inline)]
    role: Author,
    /// The text.
    text: String,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Author {
    /// The user.
    User,
    /// The agent.
    Assistant,
}

impl From<HistoryMessage> for Message {
    fn from(HistoryMessage { role, text }: HistoryMessage) -> Self {
        match role {
            Author::User => Self::User(text),
            Author::Assistant => Self::Assistant(AssistantMessage { text, ..AssistantMessage::default() }),
        }
    }
}

/// The behavior if another run of the thread is at work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnBusy {
    /// Answer 409.
    #[default]
    Refuse,
    /// Wait for it.
    Queue,
}

/// The time for which a request waits for its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until the run rests.
    Rest,
    /// At most this long.
    AtMost(Duration),
    /// Not at all.
    No,
    /// It streams the run's events.
    Stream,
}

impl Wait {
    /// Reads the headers `Accept` and `Prefer` (RFC 7240).
    pub(super) fn of(headers: &HeaderMap) -> Self {
        if sse::is_wanted(headers) {
            return Self::Stream;
        }
        let preferences = headers.get("prefer").and_then(|value| value.to_str().ok());
        let preferences = preferences.unwrap_or_default().split([',', ';']).map(str::trim);
        let mut wait = Self::Rest;
        for preference in preferences {
            if preference.eq_ignore_ascii_case("respond-async") {
                return Self::No;
            }
            if let Some(seconds) = preference.strip_prefix("wait=").and_then(|n| n.parse::<u64>().ok()) {
                wait = Self::AtMost(Duration::from_secs(seconds.min(MAX_WAIT_SECONDS)));
            }
        }
        wait
    }
}

/// Start a run of an agent, or continue its thread's waiting run with the message
///
/// Answers when the run has ended (200) or waits (202). With `Prefer: respond-async` or `wait=N`
/// it may answer earlier (202), and with `Accept: text/event-stream` it streams the run's events.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", security(("key" = ["use"])), request_body = StartBody,
    params(("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$",
            description = "A key with which the request may be repeated")),
    responses((status = 200, description = "The run has ended, or its events follow", body = RunDocument),
        (status = 202, description = "The run is at work or waits", body = RunDocument)))]
pub(super) async fn start(
    State(state): State<Shared>,
    principal: Principal,
    Extension(share): Extension<ClientShare>,
    headers: HeaderMap,
    body: JsonBody<StartBody>,
) -> Result<Response, Problem> {
    let wait = Wait::of(&headers);
    let StartBody { agent, input, thread_id, history, on_busy, detached } = body.value;
    let history: Vec<Message> = history.into_iter().map(Into::into).collect();
    let queue = on_busy == OnBusy::Queue;
    let detached = detached || wait == Wait::No;
    let begin = async |run_id| {
        let start =
            RunStart { agent, input, thread_id, history, queue, detached, run_id, ..RunStart::default() };
        let started = state.start_run(&principal, &share, start).await?;
        Ok::<_, Problem>((Arc::clone(&started.handle.run_id), started))
    };
    let request =
        KeyedRequest { principal: &principal, route: "POST /runs", headers: &headers, body: &body.sent };
    match idempotency::once(&state, request, begin).await? {
        KeyedStart::Began(started) => answer(&state, &principal, &share, started, wait).await,
        KeyedStart::Before(run_id) => replayed(&state, &principal, &share, &run_id, wait).await,
    }
}

/// Answers with a run that was started or continued by the request.
pub(super) async fn answer(
    state: &Shared,
    principal: &Principal,
    share: &ClientShare,
    started: StartedRun,
    wait: Wait,
) -> Result<Response, Problem> {
    let run_id = started.handle.run_id.to_string();
    let mut end = None;
    match wait {
        Wait::Stream => {
            let follower = state.host.follow_until(&run_id, 0, FollowUntil::Rest).await?;
            let response = sse::answer(state, share, follower, StreamOptions { children: true })?;
            started.leave();
            return Ok(response);
        }
        Wait::No => drop(started.detach()),
        Wait::AtMost(time) => {
            let mut resting = started.detach();
            let _ = tokio::time::timeout(time, &mut resting).await;
        }
        Wait::Rest => end = Some(started.wait().await?),
    }
    let last = end.as_ref().and_then(|end| end.last_call.as_deref());
    recorded_answer(state, principal, &run_id, last).await
}

/// Answers with a direct call that has ended or waits.
pub(super) async fn ended(
    state: &Shared,
    principal: &Principal,
    (end, record): (RunEnd, Vec<Arc<StoredEvent>>),
) -> Result<Response, Problem> {
    let (run_id, last) = (end.run_id.to_string(), end.last_call.clone());
    match ended_call(state, principal, end, &record) {
        Some(document) => Ok(shown(document)),
        None => recorded_answer(state, principal, &run_id, last.as_deref()).await,
    }
}

/// Answers with the record of a run, whose last call is `last` if its end is known.
async fn recorded_answer(
    state: &Shared,
    principal: &Principal,
    run_id: &str,
    last: Option<&FinishedCall>,
) -> Result<Response, Problem> {
    document_answer(state, principal, run_id).await.map_err(|problem| match problem.status {
        // A call that the store has no room to record leaves no record. Its fault names the limit.
        StatusCode::NOT_FOUND => {
            let why = match last.map(|call| &call.end) {
                Some(CallEnd::Fault(fault)) => fault.message.as_str(),
                _ => "The host has no room for the record of another call.",
            };
            Problem::overloaded(format!("the call did not begin: {why} `tollgate prune` removes old runs."))
        }
        _ => problem,
    })
}

/// Answers with the run of an earlier request with the same key.
pub(super) async fn replayed(
    state: &Shared,
    principal: &Principal,
    share: &ClientShare,
    run_id: &str,
    wait: Wait,
) -> Result<Response, Problem> {
    let mut follower = state.follow(principal, run_id, 0, FollowUntil::Rest).await?;
    let mut response = if wait == Wait::Stream {
        sse::answer(state, share, follower, StreamOptions { children: true })?
    } else {
        let time = match wait {
            Wait::AtMost(time) => Some(time),
            Wait::No => Some(Duration::ZERO),
            Wait::Rest | Wait::Stream => None,
        };
        let rests = async { while let Ok(Some(_)) = follower.next().await {} };
        match time {
            Some(time) => drop(tokio::time::timeout(time, rests).await),
            None => rests.await,
        }
        document_answer(state, principal, run_id).await?
    };
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

async fn document_answer(state: &Shared, principal: &Principal, run_id: &str) -> Result<Response, Problem> {
    let run = state.visible_run(principal, run_id, &[Scope::DecideAny]).await?;
    Ok(shown(run_document(state, principal, &run).await?))
}

fn shown(document: RunDocument) -> Response {
    let status = if document.has_ended() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let location = HeaderValue::from_str(&format!("/api/v1/runs/{}", document.run_id));
    let mut response = (status, Json(document)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The statuses by which runs are listed.
const STATUSES: [&str; 7] = ["running", "waiting", "completed", "blocked", "stopped", "cancelled", "failed"];
/// The kinds of runs.
const KINDS: [&str; 3] = ["prompt", "call", "child"];

/// Checks the word of a filter.
fn known(name: &str, word: Option<&String>, all: &[&str]) -> Result<Option<String>, Problem> {
    match word {
        Some(word) if !all.contains(&word.as_str()) => {
            Err(Problem::bad_request(format!("there is no such `{name}`; known: {}", all.join(", "))))
        }
        word => Ok(word.cloned()),
    }
}

fn statuses() -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(STATUSES)).build()
}

fn kinds() -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(KINDS)).build()
}

/// The runs to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RunQuery {
    /// Only runs of this status: running, waiting, completed, blocked, stopped, cancelled, failed. Queued
    /// and interrupted runs are among the running ones.
    #[param(schema_with = statuses)]
    status: Option<String>,
    /// Only runs of this agent.
    agent: Option<String>,
    /// Only runs of this kind: prompt, call, child.
    #[param(schema_with = kinds)]
    kind: Option<String>,
    /// Only runs of this thread of the principal.
    thread: Option<String>,
    /// Only direct calls of this tool.
    tool: Option<String>,
    /// Only runs of this principal; with the scope `read`, `*` for all principals'.
    principal: Option<String>,
    /// Only runs that began at this time or later, in milliseconds since the Unix epoch.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    from: Option<u64>,
    /// Only runs that began before this time.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    to: Option<u64>,
    /// The cursor of the page before.
    #[param(pattern = "^[0-9a-f]+$", max_length = 2008)]
    after: Option<String>,
    /// The maximum number of entries, from 1 to 200 [default: 50].
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

impl RunQuery {
    fn filter(&self, principal: &Principal) -> Result<RunFilter, Problem> {
        let owner = owner_of(self.principal.as_deref(), principal)?;
        let thread_id = self.thread.as_ref().map(|id| match &owner {
            Some(name) => format!("{name}/{id}"),
            None => id.clone(),
        });
        let kind = known("kind", self.kind.as_ref(), &KINDS)?;
        let mut to_ms = time(self.to)?;
        let (kind, title) = match &self.tool {
            Some(tool) => {
                // A run of another kind is not a call of the tool: nothing is listed.
                if kind.is_some_and(|kind| kind != "call") {
                    to_ms = Some(0);
                }
                (Some("call".to_owned()), Some(tool.clone()))
            }
            None => (kind, None),
        };
        Ok(RunFilter {
            thread_id,
            status: known("status", self.status.as_ref(), &STATUSES)?,
            kind,
            title,
            agent_id: self.agent.clone(),
            thread_prefix: owner.map(|name| format!("{name}/")),
            from_ms: time(self.from)?,
            to_ms,
            ..RunFilter::default()
        })
    }
}

/// Returns the principal whose things a list shows; `None` for all principals'.
pub(super) fn owner_of(asked: Option<&str>, principal: &Principal) -> Result<Option<String>, Problem> {
    match asked {
        None => Ok(Some(principal.name.clone())),
        Some(name) if name == principal.name => Ok(Some(name.to_owned())),
        Some(name) => {
            principal.require(Scope::Read)?;
            Ok((name != "*").then(|| name.to_owned()))
        }
    }
}

/// List runs and direct calls, newest first
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", security(("key" = ["use"]), ("key" = ["read"])), params(RunQuery),
    responses((status = 200, description = "A page of runs", body = Page<RunListing>)))]
pub(super) async fn list(
    State(state): State<Shared>,
    principal: Principal,
    uri: Uri,
    QueryParameters(query): QueryParameters<RunQuery>,
) -> Result<Response, Problem> {
    page(&state, &uri, query.filter(&principal)?, query.limit, query.after.as_deref()).await
}

/// Answers with a page of the runs that fit the filter.
pub(super) async fn page(
    state: &Shared,
    uri: &Uri,
    filter: RunFilter,
    asked: Option<usize>,
    after: Option<&str>,
) -> Result<Response, Problem> {
    let limit = limit(asked)?;
    let before: Option<String> = place(&filter, after)?;
    let asked = RunFilter { before, limit: limit + 1, ..filter.clone() };
    let mut runs = state.store().runs(asked).await?;
    let has_more = runs.len() > limit;
    runs.truncate(limit);
    let next = runs.last().filter(|_| has_more).map(|last| cursor(&filter, &last.run_id));
    let mut items = Vec::with_capacity(runs.len());
    for run in runs {
        items.push(run_listing(state, run).await?);
    }
    Ok(Page { items, next }.answer(uri))
}

/// Show a run
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs", security(("key" = ["use"]), ("key" = ["read"]), ("key" = ["decide_any"])),
    params(("id" = String, Path, description = "The run's id")),
    responses((status = 200, description = "The run", body = RunDocument)))]
pub(super) async fn one(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(id): PathParameters<String>,
) -> Result<Json<RunDocument>, Problem> {
    let run = state.visible_run(&principal, &id, &[Scope::DecideAny]).await?;
    Ok(Json(run_document(&state, &principal, &run).await?))
}

/// The reason of a request about a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReasonBody {
    /// The reason, for the record.
    #[serde(default)]
    reason: Option<String>,
}

/// Cancel a run that is at work or waits
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", security(("key" = ["use"]), ("key" = ["operate"])),
    params(("id" = String, Path, description = "The run's id")), request_body = ReasonBody,
    responses((status = 202, description = "The run is ending", body = RunDocument)))]
pub(super) async fn cancel(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(id): PathParameters<String>,
    body: JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    state.cancel(&principal, &id, body.value.reason).await?;
    let run = state.visible_run(&principal, &id, &[Scope::Operate]).await?;
    Ok((StatusCode::ACCEPTED, Json(run_document(&state, &principal, &run).await?)).into_response())
}

/// Resume a run whose process is gone
///
/// The record has no place for a `reason`; the header `Tollgate-Ignored` names it.
#[utoipa::path(post, path = "/api/v1/runs/{id}/recover", tag = "runs", security(("key" = ["use"]), ("key" = ["operate"])),
    params(("id" = String, Path, description = "The run's id")), request_body = ReasonBody,
    responses((status = 202, description = "The run is at work", body = RunDocument)))]
pub(super) async fn recover(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(id): PathParameters<String>,
    body: JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    let run = state.visible_run(&principal, &id, &[Scope::Operate]).await?;
    principal.require(if run.is_own && principal.has(Scope::Use) { Scope::Use } else { Scope::Operate })?;
    let found = state.host.summary(&id).await?.ok_or_else(|| Problem::not_found("run"))?;
    match found.status.as_str() {
        "running" if found.is_driven => {
            let detail = "the run is at work; nothing is to be recovered";
            return Err(Problem::new(StatusCode::CONFLICT, "owned_elsewhere", detail));
        }
        "running" => {}
        _ => {
            let detail = "the run was not interrupted; only interrupted runs are recovered";
            return Err(Problem::new(StatusCode::CONFLICT, "already_ended", detail));
        }
    }
    state.recover(&principal, &run).await?.keep_running();
    let mut response =
        (StatusCode::ACCEPTED, Json(run_document(&state, &principal, &run).await?)).into_response();
    name_ignored(&mut response, body.value.reason.map(|_| "reason").as_slice());
    Ok(response)
}
