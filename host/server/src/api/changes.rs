//! Hints about a principal's runs and the questions that it sees, so that a client knows what to read
//! again without asking repeatedly.

use super::runs::owner_of;
use crate::access::Principal;
use crate::load::ClientShare;
use crate::parameters::QueryParameters;
use crate::problem::Problem;
use crate::run_changes::{Change, Changes};
use crate::scope::Scope;
use crate::sse::{self, Signal, StreamSignals, serialize};
use crate::state::Shared;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use std::collections::VecDeque;
use utoipa::IntoParams;

/// The runs about which hints are sent.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChangeQuery {
    /// Only runs of this principal; with the scope `read`, `*` for all principals' [default: own runs].
    principal: Option<String>,
}

/// Follow the changes of own runs and of the questions that the credential sees
///
/// A stream of hints about what to read again. `run` has `run_id` and `status`: the run is new, has
/// new events or another status. `questions` has `run_id`: its open questions may have changed. `all`
/// comes first, and again whenever hints may be missing: read the lists. A hint may be late or repeated,
/// and changes that follow each other quickly are one. Hints have no ids, because a client that
/// returns begins with `all`. The last event is `end`, as in the stream of a run.
#[utoipa::path(get, path = "/api/v1/events", tag = "runs",
    security(("key" = ["use"]), ("key" = ["decide"]), ("key" = ["decide_any"]), ("key" = ["read"])), params(ChangeQuery),
    responses((status = 200, description = "The hints", body = String, content_type = "text/event-stream")))]
pub(super) async fn changes(
    State(state): State<Shared>,
    principal: Principal,
    Extension(share): Extension<ClientShare>,
    headers: HeaderMap,
    QueryParameters(query): QueryParameters<ChangeQuery>,
) -> Result<Response, Problem> {
    if !sse::is_wanted(&headers) {
        let detail = "this route answers with a stream only; send the header `Accept: text/event-stream`";
        return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", detail));
    }
    let owner = owner_of(query.principal.as_deref(), &principal)?;
    let signals = StreamSignals::new(&state, &share)?;
    let sees_questions = principal.has(Scope::DecideAny) || principal.has(Scope::Read);
    let wanted = ChangeSelection {
        lists_runs: principal.has(Scope::Use) || principal.has(Scope::Read),
        runs: owner.map(|name| format!("{name}/")),
        questions: (!sees_questions).then(|| format!("{}/", principal.name)),
    };
    // The first event tells the client to read everything; the subscription has all changes after that.
    let changes = state.run_changes.subscribe(state.store()).await;
    let ready = VecDeque::from([sse::beginning(), all()]);
    let stream = ChangeStream { changes, wanted, ready, is_over: false, signals };
    Ok(sse::response(futures::stream::unfold(stream, |mut stream| async move {
        Some((stream.next().await?, stream))
    })))
}

/// The changes that a client may see.
struct ChangeSelection {
    /// Whether the credential may list runs.
    lists_runs: bool,
    /// The prefix of the threads of listed runs; `None` for all.
    runs: Option<String>,
    /// The prefix of the threads whose questions it sees; `None` for all.
    questions: Option<String>,
}

impl ChangeSelection {
    /// Returns the hints about a change.
    fn hints(&self, change: &Change) -> Vec<Bytes> {
        let Change::Run(change) = change else { return vec![all()] };
        let (run, mut hints) = (&change.run, Vec::new());
        let is_in =
            |prefix: &Option<String>| prefix.as_ref().is_none_or(|prefix| run.thread_id.starts_with(prefix));
        if self.lists_runs && is_in(&self.runs) {
            hints.push(serialize("run", None, &json!({"run_id": run.run_id, "status": run.shown_status()})));
        }
        if change.asks && is_in(&self.questions) {
            hints.push(serialize("questions", None, &json!({"run_id": run.run_id})));
        }
        hints
    }
}

/// Returns the hint that anything may have changed.
fn all() -> Bytes {
    serialize("all", None, &json!({}))
}

/// The hints of one client.
struct ChangeStream {
    changes: Changes,
    wanted: ChangeSelection,
    /// The next pieces.
    ready: VecDeque<Bytes>,
    is_over: bool,
    signals: StreamSignals,
}

impl ChangeStream {
    /// Returns the next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            if self.is_over {
                return None;
            }
            match self.signals.next(self.changes.next()).await {
                Signal::Event(change) => self.ready.extend(self.wanted.hints(&change)),
                Signal::KeepAlive => return Some(sse::keep_alive()),
                Signal::End(why) => {
                    self.is_over = true;
                    return Some(serialize("end", None, &json!({"why": why})));
                }
            }
        }
    }
}
