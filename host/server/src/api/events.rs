//! The events of a run, as a page or as a stream.

use super::pages::{MAX_NUMBER, MAX_PAGE_BYTES, limit, linked, next_link};
use crate::access::Principal;
use crate::agent_runs::name_ignored;
use crate::load::ClientShare;
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use crate::scope::Scope;
use crate::sse::{self, StreamOptions};
use crate::state::Shared;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate::store::PageLimit;
use tollgate::{FollowUntil, RunUpdate};
use utoipa::{IntoParams, ToSchema};

/// The events to return.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventQuery {
    /// Only events after the one with this number. The header `Last-Event-ID` takes precedence.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    after: Option<u64>,
    /// The maximum number of events of a page, from 1 to 200 [default: 50]. A page of more than 1 MiB
    /// ends earlier. Not applied to a stream.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// The end of a stream: at the run's end, or also when it waits [default: end].
    #[param(inline)]
    until: Option<Until>,
    /// Whether a stream contains the events of child runs [default: true].
    children: Option<bool>,
}

impl EventQuery {
    /// Returns the names of the parameters that are not applied to a stream, or to a page.
    fn ignored(&self, is_stream: bool) -> Vec<&'static str> {
        let parameters = [
            ("limit", is_stream && self.limit.is_some()),
            ("until", !is_stream && self.until.is_some()),
            ("children", !is_stream && self.children.is_some()),
        ];
        parameters.into_iter().filter(|(_, is_ignored)| *is_ignored).map(|(name, _)| name).collect()
    }
}

/// The end of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Until {
    /// At the run's end.
    #[default]
    End,
    /// At the run's end, or when it waits for a person.
    Waiting,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventPage {
    /// The events, oldest first, as `tollgate show --json` prints them.
    #[schema(value_type = Vec<Object>)]
    items: Vec<Box<RawValue>>,
    /// The value of `after` for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// Read or follow the events of a run
///
/// With `Accept: text/event-stream` the answer is a stream. Its events have the number of the
/// stored event as `id`; a client that returns with `Last-Event-ID` misses nothing and gets nothing
/// twice. Transient events, such as pieces of text, have no id. The last event is `end`. After it,
/// a request with its number is answered 204, which stops a browser's EventSource.
#[utoipa::path(get, path = "/api/v1/runs/{id}/events", tag = "runs", security(("key" = ["use"]), ("key" = ["read"]), ("key" = ["decide_any"])),
    params(("id" = String, Path, description = "The run's id"), EventQuery,
        ("Last-Event-ID" = Option<u64>, Header, maximum = 9_007_199_254_740_991_u64, description = "The number of the last event that the client has")),
    responses((status = 200, description = "A page of events, or their stream", body = EventPage),
        (status = 204, description = "The stream has ended, and the client has all of it")))]
pub(super) async fn events(
    State(state): State<Shared>,
    principal: Principal,
    Extension(share): Extension<ClientShare>,
    PathParameters(id): PathParameters<String>,
    uri: Uri,
    headers: HeaderMap,
    QueryParameters(query): QueryParameters<EventQuery>,
) -> Result<Response, Problem> {
    let run = state.visible_run(&principal, &id, &[Scope::DecideAny]).await?;
    let after = match headers.get("last-event-id") {
        None => query.after.unwrap_or_default(),
        Some(sent) => sent
            .to_str()
            .ok()
            .and_then(|sent| sent.trim().parse().ok())
            .ok_or_else(|| Problem::bad_request("Last-Event-ID is the number of an event"))?,
    };
    if after.max(query.after.unwrap_or_default()) > MAX_NUMBER {
        return Err(Problem::bad_request(format!("the number of an event is at most {MAX_NUMBER}")));
    }
    let is_stream = sse::is_wanted(&headers);
    let ignored = query.ignored(is_stream);
    if !is_stream {
        let mut response = page(&state, &run.run_id, after, limit(query.limit)?, &uri).await?;
        name_ignored(&mut response, &ignored);
        return Ok(response);
    }
    let until = match query.until.unwrap_or_default() {
        Until::End => FollowUntil::End,
        Until::Waiting => FollowUntil::Rest,
    };
    if after > 0 {
        let found = state.host.summary(&run.run_id).await?.ok_or_else(|| Problem::not_found("run"))?;
        let rests = match found.status.as_str() {
            "running" => false,
            "waiting" => until == FollowUntil::Rest,
            _ => true,
        };
        if rests && found.events <= after {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let follower = state.host.follow_until(&run.run_id, after, until).await?;
    let options = StreamOptions { children: query.children.unwrap_or(true) };
    let mut response = sse::answer(&state, &share, follower, options)?;
    name_ignored(&mut response, &ignored);
    Ok(response)
}

async fn page(
    state: &Shared,
    run_id: &str,
    after: u64,
    limit: usize,
    uri: &Uri,
) -> Result<Response, Problem> {
    // As they are shown to clients: without the values of hidden state keys.
    let limit = PageLimit { events: limit, bytes: MAX_PAGE_BYTES };
    let page = state.host.record_page(run_id, after, limit).await?;
    let next = page.events.last().filter(|_| page.has_more).map(|last| last.number);
    let items = page.events.into_iter().map(|stored| sse::shown(&RunUpdate::Stored(stored))).collect();
    let link = next.and_then(|next| next_link(uri, &next.to_string()));
    Ok(linked(Json(EventPage { items, next }).into_response(), link))
}
