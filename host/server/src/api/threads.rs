//! Threads: conversations with their persistent state.

use super::pages::{MAX_PAGE_BYTES, Page, cursor, limit, place};
use super::runs::owner_of;
use crate::access::Principal;
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use crate::runs::RunListing;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollgate::store::{PageLimit, RunFilter, ThreadFilter, ThreadSummary, list_threads, whole_state};
use tollgate_agent::context::client_thread_id;
use tollgate_agent::json::written_bytes;
use utoipa::{IntoParams, ToSchema};

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ThreadDocument {
    /// The thread, as its principal names it.
    thread_id: String,
    /// The principal; absent if its last run was started without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    /// The agent of its last run.
    agent: String,
    /// Its last run.
    last_run_id: String,
    /// The beginning of the last prompt, or the name of the tool that was called.
    title: String,
    /// The status of its last run.
    status: String,
    /// When its last run changed, in milliseconds since the Unix epoch.
    updated_at_ms: u64,
}

/// A thread's state.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StateDocument {
    /// The number of changes so far.
    revision: u64,
    /// The values of the visible keys.
    #[schema(value_type = Object)]
    values: Map<String, Value>,
    /// The names of the other keys.
    hidden: Vec<String>,
}

/// The threads to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ThreadQuery {
    /// Only threads of this principal; with the scope `read`, `*` for all principals'.
    principal: Option<String>,
    /// The cursor of the page before.
    #[param(pattern = "^[0-9a-f]+$", max_length = 2008)]
    after: Option<String>,
    /// The maximum number of entries, from 1 to 200 [default: 50].
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// The owner of a thread.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OwnerQuery {
    /// The principal to whom the thread belongs, with the scope `read` [default: one's own].
    principal: Option<String>,
}

/// The messages to return.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MessageQuery {
    /// The principal to whom the thread belongs, with the scope `read` [default: one's own].
    principal: Option<String>,
    /// The cursor of the page before.
    #[param(pattern = "^[0-9a-f]+$", max_length = 2008)]
    after: Option<String>,
    /// The maximum number of messages, from 1 to 200 [default: 50]. A page of more than 1 MiB ends
    /// earlier.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// The runs of a thread to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ThreadRunQuery {
    /// The principal to whom the thread belongs, with the scope `read` [default: one's own].
    principal: Option<String>,
    /// The cursor of the page before.
    #[param(pattern = "^[0-9a-f]+$", max_length = 2008)]
    after: Option<String>,
    /// The maximum number of entries, from 1 to 200 [default: 50].
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// A message of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MessageDocument {
    /// Its position in the conversation, counted from 1.
    position: usize,
    /// The message: `user`, `assistant`, `answer` or `note` with its content.
    #[schema(value_type = Object)]
    message: Value,
}

/// List threads, the one that was used last first
#[utoipa::path(get, path = "/api/v1/threads", tag = "threads", security(("key" = ["use"]), ("key" = ["read"])), params(ThreadQuery),
    responses((status = 200, description = "A page of threads", body = Page<ThreadDocument>)))]
pub(super) async fn list(
    State(state): State<Shared>,
    principal: Principal,
    uri: Uri,
    QueryParameters(query): QueryParameters<ThreadQuery>,
) -> Result<Response, Problem> {
    let owner = owner_of(query.principal.as_deref(), &principal)?;
    let limit = limit(query.limit)?;
    // A thread appears once, with its last run: threads whose last run is newer than the place were
    // on an earlier page.
    let before: Option<String> = place(&owner, query.after.as_deref())?;
    let prefix = owner.as_ref().map(|name| format!("{name}/"));
    let filter = ThreadFilter { prefix, before: before.clone(), limit: limit + 1, ..ThreadFilter::default() };
    let found = list_threads(&**state.store(), filter).await?;
    let has_more = found.len() > limit;
    let mut items = Vec::with_capacity(limit);
    let mut last = None;
    for thread in found.into_iter().take(limit) {
        last = Some(thread.last_run_id.clone());
        if before.is_none() || !was_used_after(&state, &thread).await? {
            items.push(described(&state, thread).await?);
        }
    }
    let next = last.filter(|_| has_more).map(|last| cursor(&owner, &last));
    Ok(Page { items, next }.answer(&uri))
}

/// Returns whether the thread has a newer run, with which an earlier page showed it.
async fn was_used_after(state: &Shared, thread: &ThreadSummary) -> Result<bool, Problem> {
    let filter = RunFilter { thread_id: Some(thread.thread_id.clone()), limit: 1, ..RunFilter::default() };
    let newest = state.store().runs(filter).await?;
    Ok(newest.first().is_some_and(|newest| newest.run_id != thread.last_run_id))
}

async fn described(state: &Shared, thread: ThreadSummary) -> Result<ThreadDocument, Problem> {
    let spec = state.store().run_spec(&thread.last_run_id).await?;
    let principal = spec.and_then(|spec| spec.identity.principal.as_ref().map(ToString::to_string));
    Ok(ThreadDocument {
        thread_id: client_thread_id(&thread.thread_id, principal.as_deref()).to_owned(),
        principal,
        agent: thread.agent_id,
        last_run_id: thread.last_run_id,
        title: thread.title,
        status: thread.status,
        updated_at_ms: thread.updated_at_ms,
    })
}

/// Returns the stored id of a thread that the principal may see and that has a run.
async fn existing(
    state: &Shared,
    principal: &Principal,
    owner: Option<&str>,
    id: &str,
) -> Result<ThreadSummary, Problem> {
    let missing = || Problem::not_found("thread");
    let owner = owner.filter(|owner| *owner != "*");
    let owner = owner_of(owner, principal)?.ok_or_else(missing)?;
    let filter = RunFilter { thread_id: Some(format!("{owner}/{id}")), limit: 1, ..RunFilter::default() };
    let newest = state.store().runs(filter).await?;
    let run = newest.into_iter().next().ok_or_else(missing)?;
    Ok(ThreadSummary {
        thread_id: run.thread_id,
        agent_id: run.agent_id,
        last_run_id: run.run_id,
        title: run.title,
        status: run.status,
        started_at_ms: run.started_at_ms,
        updated_at_ms: run.updated_at_ms,
    })
}

/// Show a thread
#[utoipa::path(get, path = "/api/v1/threads/{id}", tag = "threads", security(("key" = ["use"]), ("key" = ["read"])),
    params(("id" = String, Path, description = "The thread, as its principal names it"), OwnerQuery),
    responses((status = 200, description = "The thread", body = ThreadDocument)))]
pub(super) async fn one(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(id): PathParameters<String>,
    QueryParameters(query): QueryParameters<OwnerQuery>,
) -> Result<Json<ThreadDocument>, Problem> {
    let thread = existing(&state, &principal, query.principal.as_deref(), &id).await?;
    Ok(Json(described(&state, thread).await?))
}

/// Read a thread's messages, oldest first
#[utoipa::path(get, path = "/api/v1/threads/{id}/messages", tag = "threads", security(("key" = ["use"]), ("key" = ["read"])),
    params(("id" = String, Path, description = "The thread, as its principal names it"), MessageQuery),
    responses((status = 200, description = "A page of messages", body = Page<MessageDocument>)))]
pub(super) async fn messages(
    State(state): State<Shared>,
    principal: Principal,
    uri: Uri,
    PathParameters(id): PathParameters<String>,
    QueryParameters(query): QueryParameters<MessageQuery>,
) -> Result<Response, Problem> {
    let found = existing(&state, &principal, query.principal.as_deref(), &id).await?;
    let limit = limit(query.limit)?;
    let after: usize = place(&found.thread_id, query.after.as_deref())?.unwrap_or(0);
    let _place = state.load.whole_record(&principal.name).await;
    let _memory = state.host.room_for_thread(&found.thread_id).await?;
    let thread = state.store().thread(&found.thread_id).await?;
    let limit = PageLimit { events: limit, bytes: MAX_PAGE_BYTES };
    let (mut items, mut bytes) = (Vec::new(), 0);
    for (at, message) in thread.messages.iter().enumerate().skip(after) {
        let written = written_bytes(message) as u64;
        if !limit.has_room(items.len(), bytes, written) {
            break;
        }
        bytes += written;
        items.push(MessageDocument { position: at + 1, message: json!(message) });
    }
    let end = after.saturating_add(items.len());
    let next = (end < thread.messages.len()).then(|| cursor(&found.thread_id, &end));
    Ok(Page { items, next }.answer(&uri))
}

/// List a thread's runs and direct calls, newest first
#[utoipa::path(get, path = "/api/v1/threads/{id}/runs", tag = "threads", security(("key" = ["use"]), ("key" = ["read"])),
    params(("id" = String, Path, description = "The thread, as its principal names it"), ThreadRunQuery),
    responses((status = 200, description = "A page of runs", body = Page<RunListing>)))]
pub(super) async fn runs(
    State(state): State<Shared>,
    principal: Principal,
    uri: Uri,
    PathParameters(id): PathParameters<String>,
    QueryParameters(query): QueryParameters<ThreadRunQuery>,
) -> Result<Response, Problem> {
    let found = existing(&state, &principal, query.principal.as_deref(), &id).await?;
    let filter = RunFilter { thread_id: Some(found.thread_id), ..RunFilter::default() };
    super::runs::page(&state, &uri, filter, query.limit, query.after.as_deref()).await
}

/// Read the visible state of a thread
#[utoipa::path(get, path = "/api/v1/threads/{id}/state", tag = "threads", security(("key" = ["use"]), ("key" = ["read"])),
    params(("id" = String, Path, description = "The thread, as its principal names it"), OwnerQuery),
    responses((status = 200, description = "The state", body = StateDocument)))]
pub(super) async fn state(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(id): PathParameters<String>,
    QueryParameters(query): QueryParameters<OwnerQuery>,
) -> Result<Json<StateDocument>, Problem> {
    let found = existing(&state, &principal, query.principal.as_deref(), &id).await?;
    let _place = state.load.whole_record(&principal.name).await;
    let _memory = state.host.room_for_thread(&found.thread_id).await?;
    let found = whole_state(&**state.store(), &found.thread_id).await?;
    let (mut values, mut hidden) = (Map::new(), Vec::new());
    for (key, value) in found.iter() {
        if state.host.shows_key(key) {
            values.insert(key.to_string(), json!(value));
        } else {
            hidden.push(key.to_string());
        }
    }
    Ok(Json(StateDocument { revision: found.revision(), values, hidden }))
}
