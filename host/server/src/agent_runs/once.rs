//! Requests that start a run once, however often they are sent: those with an `Idempotency-Key`.

use super::{AgentRuns, Start, Started};
use crate::idempotency::{self, KeyedRequest, Once, REPLAYED};
use crate::problem::Problem;
use crate::state::Shared;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use std::sync::Arc;

/// A started run, and whether an earlier request with the same key had started it.
pub(crate) struct StartedOnce {
    pub(crate) started: Started,
    pub(crate) is_replay: bool,
}

/// Starts a run, or finds the one that the same request started before. Its answer is then given
/// again from the start of the run.
///
/// # Errors
/// The key was sent before with another body, or the run cannot be started; then the key is free
/// again.
pub(crate) async fn start_once(
    (state, runs): (&Shared, &AgentRuns<'_>),
    route: &str,
    headers: &HeaderMap,
    body: &[u8],
    mut start: Start,
) -> Result<StartedOnce, Problem> {
    let request = KeyedRequest { principal: runs.caller, route, headers, body };
    let begin = |run_id| {
        start.run_id = run_id;
        async move {
            let started = runs.start(start).await?;
            Ok((Arc::clone(&started.run_id), started))
        }
    };
    match idempotency::once(state, request, begin).await? {
        Once::Began(started) => Ok(StartedOnce { started, is_replay: false }),
        Once::Before(run_id) => replay(runs, &run_id).await,
    }
}

/// Returns the run that the same request started before; `None` if there is none, or no key.
///
/// # Errors
/// The key was sent before with another body.
pub(crate) async fn started_before(
    (state, runs): (&Shared, &AgentRuns<'_>),
    route: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<StartedOnce>, Problem> {
    let request = KeyedRequest { principal: runs.caller, route, headers, body };
    match idempotency::before(state, request).await? {
        Some(run_id) => replay(runs, &run_id).await.map(Some),
        None => Ok(None),
    }
}

async fn replay(runs: &AgentRuns<'_>, run_id: &str) -> Result<StartedOnce, Problem> {
    let run = runs.run(run_id).await?;
    let started = Started { run_id: run.run_id.into(), thread: run.thread, after: 0 };
    Ok(StartedOnce { started, is_replay: true })
}

/// Marks an answer that belongs to an earlier request.
pub(crate) fn mark_replay(response: &mut Response, is_replay: bool) {
    if is_replay {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
}
