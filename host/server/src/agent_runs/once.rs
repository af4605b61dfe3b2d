//! Requests that start a run once, however often they are sent: those with an `Idempotency-Key`.

use super::{AgentRuns, Start, Started};
use crate::idempotency::{self, REPLAYED};
use crate::problem::Problem;
use crate::state::Shared;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;

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
    let mut reserved = idempotency::reserve(state, runs.caller, route, headers, body).await?;
    if let Some(run_id) = idempotency::started(state, reserved.as_ref()).await? {
        return replay(runs, &run_id).await;
    }
    start.run_id = reserved.as_ref().map(|reservation| reservation.run_id.clone());
    let started = match runs.start(start).await {
        Ok(started) => started,
        Err(problem) => {
            // Another process may have won the race for the same key.
            if let Some(run_id) = idempotency::started(state, reserved.as_ref()).await? {
                return replay(runs, &run_id).await;
            }
            let Some(reservation) = &reserved else { return Err(problem) };
            idempotency::release(state, reservation).await;
            return Err(problem);
        }
    };
    if let Some(reservation) = &mut reserved {
        if *started.run_id != *reservation.run_id {
            idempotency::redirect(state, reservation, &started.run_id).await?;
        }
        reservation.let_others_proceed();
    }
    Ok(StartedOnce { started, is_replay: false })
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
    let reserved = idempotency::reserve(state, runs.caller, route, headers, body).await?;
    match idempotency::started(state, reserved.as_ref()).await? {
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
