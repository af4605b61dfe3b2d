//! Requests that start a run once, however often they are sent: those with an `Idempotency-Key`.

use super::{AgentRuns, NewRun, Start};
use crate::idempotency::{self, KeyedRequest, KeyedStart, REPLAYED};
use crate::problem::Problem;
use crate::state::Shared;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use std::sync::Arc;

/// A started run, and whether an earlier request with the same key had started it.
pub(crate) struct IdempotentStart {
    pub(crate) started: NewRun,
    pub(crate) is_replay: bool,
}

/// Starts the run that `prepare` returns, or finds the one that the same request started before.
/// Its answer is then given again from the start of the run, and nothing is prepared. Until the run
/// has started, other requests with the same key wait.
///
/// # Errors
/// The key was sent before with another body, or the run cannot be prepared or started; then the
/// key is free again.
pub(crate) async fn start_once<E, F>(
    (state, runs): (&Shared, &AgentRuns<'_>),
    route: &str,
    headers: &HeaderMap,
    body: &[u8],
    prepare: impl FnOnce() -> F,
) -> Result<IdempotentStart, E>
where
    E: From<Problem>,
    F: Future<Output = Result<Start, E>>,
{
    let request = KeyedRequest { principal: runs.caller, route, headers, body };
    let begin = |run_id| {
        let prepared = prepare();
        async move {
            let started = runs.start(Start { run_id, ..prepared.await? }).await?;
            Ok((Arc::clone(&started.run_id), started))
        }
    };
    match idempotency::once::<_, E, _>(state, request, begin).await? {
        KeyedStart::Began(started) => Ok(IdempotentStart { started, is_replay: false }),
        KeyedStart::Before(run_id) => Ok(replay(runs, &run_id).await?),
    }
}

async fn replay(runs: &AgentRuns<'_>, run_id: &str) -> Result<IdempotentStart, Problem> {
    let run = runs.run(run_id).await?;
    let started = NewRun { run_id: run.run_id.into(), thread: run.thread, after: 0 };
    Ok(IdempotentStart { started, is_replay: true })
}

/// Marks an answer that belongs to an earlier request.
pub(crate) fn mark_replay(response: &mut Response, is_replay: bool) {
    if is_replay {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
}
