//! Event streams of runs. The id of an event is the number of a stored event, so a client that
//! returns with `Last-Event-ID` misses nothing and gets nothing twice.

use crate::load::ClientShare;
use crate::problem::Problem;
use crate::state::Shared;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tollgate::{RunFollower, RunUpdate};
use tollgate_agent::context::client_thread_id;

/// How often a quiet stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The first line of each stream: how long a client waits before it reconnects, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

/// The contents of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamOptions {
    /// Whether it contains the events of child runs.
    pub(crate) children: bool,
}

/// A run's updates as a stream of server-sent events.
pub(crate) struct RunStream {
    state: Shared,
    follower: RunFollower,
    options: StreamOptions,
    /// Whether the first line was sent.
    began: bool,
    /// Whether the event `end` was sent.
    over: bool,
    /// Cancelled once the credential of the client is no longer valid.
    ended: CancellationToken,
    /// When to show that the stream is alive, unless an event is sent before.
    alive_at: Instant,
    /// The stream's place among those that its principal may have.
    _place: OwnedSemaphorePermit,
}

/// Answers with a run's events.
///
/// # Errors
/// The principal has too many streams.
pub(crate) fn answer(
    state: &Shared,
    share: &ClientShare,
    follower: RunFollower,
    options: StreamOptions,
) -> Result<Response, Problem> {
    let stream = RunStream {
        state: Shared::clone(state),
        follower,
        options,
        began: false,
        over: false,
        ended: share.ended(),
        alive_at: Instant::now() + KEEP_ALIVE,
        _place: share.stream()?,
    };
    let body = Body::from_stream(futures::stream::unfold(stream, |mut stream| async move {
        let next = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(next), stream))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl RunStream {
    /// Returns the next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        if !self.began {
            self.began = true;
            return Some(Bytes::from_static(RETRY.as_bytes()));
        }
        loop {
            let (stop, ended) = (self.state.stop.clone(), self.ended.clone());
            let update = tokio::select! {
                biased;
                () = ended.cancelled() => return Some(self.end("unauthorized")),
                () = stop.cancelled() => return Some(self.end("shutdown")),
                update = self.follower.next() => update,
                () = sleep_until(self.alive_at) => {
                    self.alive_at = Instant::now() + KEEP_ALIVE;
                    return Some(Bytes::from_static(b": alive\n\n"));
                }
            };
            self.alive_at = Instant::now() + KEEP_ALIVE;
            match update {
                Ok(Some(update)) => {
                    if let Some(event) = event(&update, self.options) {
                        return Some(event);
                    }
                }
                Ok(None) => {
                    let why = match &self.follower {
                        follower if follower.is_waiting() => "waiting",
                        follower if follower.is_interrupted() => "interrupted",
                        _ => "finished",
                    };
                    return Some(self.end(why));
                }
                Err(e) => {
                    tracing::error!("an event stream ended: {e}");
                    return Some(self.end("failed"));
                }
            }
        }
    }

    fn end(&mut self, why: &str) -> Bytes {
        self.over = true;
        written("end", None, &json!({"why": why, "last": self.follower.last()}))
    }
}

/// Returns an update as clients see it: with the ids of threads as their principal knows them, and
/// without the instructions of agents, which are the operator's.
pub(crate) fn shown(update: &RunUpdate) -> Value {
    let mut data = json!(update);
    show_to_client(&mut data);
    data
}

fn show_to_client(data: &mut Value) {
    match data["type"].as_str() {
        Some("run_started") => {
            let identity = &mut data["spec"]["identity"];
            let principal = identity["principal"].as_str().map(str::to_owned);
            for id in ["thread_id", "parent_thread_id"] {
                if let Some(thread) = identity.get(id).and_then(Value::as_str) {
                    identity[id] = json!(client_thread_id(thread, principal.as_deref()));
                }
            }
            hide_instructions(&mut data["spec"]["agent"]);
        }
        Some("transferred") => hide_instructions(&mut data["agent"]),
        _ => {}
    }
    if let Some(child) = data.get_mut("child").filter(|child| child.is_object()) {
        show_to_client(child);
    }
}

fn hide_instructions(agent: &mut Value) {
    if let Some(agent) = agent.as_object_mut() {
        agent.remove("instructions");
    }
}

/// Returns an update as an event; `None` if the stream leaves it out.
pub(crate) fn event(update: &RunUpdate, options: StreamOptions) -> Option<Bytes> {
    Some(match update {
        RunUpdate::Stored(stored) => {
            let data = shown(update);
            let name = data["type"].as_str().unwrap_or("event").to_owned();
            written(&name, Some(stored.number), &data)
        }
        RunUpdate::Live(_) => {
            let data = shown(update);
            let name = data["type"].as_str().unwrap_or("live").to_owned();
            // Denied operations and consoles are for the operator.
            if matches!(name.as_str(), "call_console" | "call_denied") {
                return None;
            }
            written(&name, None, &data)
        }
        RunUpdate::Child(_) => {
            if !options.children {
                return None;
            }
            written("child", None, &shown(update))
        }
    })
}

/// Writes an event. JSON contains no line breaks, so the data is one line.
fn written(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| Value::Null.to_string());
    let mut text = String::with_capacity(data.len() + name.len() + 48);
    if let Some(id) = id {
        text.push_str(&format!("id: {id}\n"));
    }
    text.push_str(&format!("event: {name}\ndata: {data}\n\n"));
    text.into()
}
