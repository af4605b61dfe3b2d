//! Direct calls of tools.

use super::runs::{Wait, answer, ended, replayed};
use crate::access::Principal;
use crate::body::JsonBody;
use crate::idempotency::{self, KeyedRequest, KeyedStart};
use crate::load::ClientShare;
use crate::parameters::PathParameters;
use crate::problem::Problem;
use crate::runs::RunDocument;
use crate::state::Shared;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use utoipa::ToSchema;

/// A direct call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallBody {
    /// The arguments; they must fit the tool's schema, or the call ends with a fault.
    #[serde(default)]
    #[schema(value_type = Value)]
    arguments: Option<Box<RawValue>>,
    /// The thread whose state the call reads and changes, by any id of the client's; absent begins
    /// a new one.
    #[serde(default)]
    #[schema(pattern = r"^[^\x00-\x1f\x7f-\x9f]{1,200}$")]
    thread_id: Option<String>,
    /// Whether the call continues when no client listens. Otherwise it is cancelled 10 s after the
    /// client left.
    #[serde(default)]
    detached: bool,
}

/// Call a tool without a model
///
/// Answers when the call has ended (200), with the result or the fault, or when it waits for a
/// person (202).
#[utoipa::path(post, path = "/api/v1/tools/{name}/calls", tag = "tools", security(("key" = ["use"])),
    params(("name" = String, Path, description = "The tool's name"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$",
            description = "A key with which the request may be repeated")),
    request_body = CallBody,
    responses((status = 200, description = "The call has ended", body = RunDocument),
        (status = 202, description = "The call is at work or waits", body = RunDocument)))]
pub(super) async fn call(
    State(state): State<Shared>,
    principal: Principal,
    Extension(share): Extension<ClientShare>,
    PathParameters(name): PathParameters<String>,
    headers: HeaderMap,
    body: JsonBody<CallBody>,
) -> Result<Response, Problem> {
    let route = format!("POST /tools/{name}/calls");
    let request = KeyedRequest { principal: &principal, route: &route, headers: &headers, body: &body.sent };
    let wait = Wait::of(&headers);
    let CallBody { arguments, thread_id, detached } = body.value;
    let arguments = arguments.as_ref().map_or("{}", |arguments| arguments.get());
    let detached = detached || wait == Wait::No;
    // A call is recorded when it ends, so a repeated request waits for the first one until then.
    let begin = async |run_id: Option<String>| {
        let (tool_call, thread_id) = ((name.as_str(), arguments), thread_id.as_deref());
        // A request with a key is answered when its record is durable.
        if wait == Wait::Rest && run_id.is_none() {
            let called = state.call(&principal, &share, tool_call, thread_id, detached).await?;
            return Ok((Arc::clone(&called.0.run_id), ended(&state, &principal, called).await?));
        }
        let started = state.start_call(&principal, &share, tool_call, (thread_id, run_id), detached).await?;
        let run_id = Arc::clone(&started.handle.run_id);
        Ok::<_, Problem>((run_id, answer(&state, &principal, &share, started, wait).await?))
    };
    match idempotency::once(&state, request, begin).await? {
        KeyedStart::Began(answered) => Ok(answered),
        KeyedStart::Before(run_id) => replayed(&state, &principal, &share, &run_id, wait).await,
    }
}
