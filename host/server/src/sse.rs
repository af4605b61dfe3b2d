//! Event streams of the native API: of a run, and of hints about all of a principal's runs. The id of
//! an event is the number of the stored event, so a client that returns with `Last-Event-ID` misses
//! nothing and gets nothing twice.

use crate::event_stream;
use crate::load::ClientShare;
use crate::problem::Problem;
use crate::state::Shared;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;
use tollgate::{LiveContent, RunFollower, RunUpdate};
use tollgate_agent::context::client_thread_id;
use tollgate_agent::run::{Event, StoredEvent};

/// The first line of each stream: the time that a client waits before it reconnects, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";
/// A comment that keeps a quiet connection open.
const KEEP_ALIVE: &str = ": alive\n\n";

/// The contents of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamOptions {
    /// Whether it contains the events of child runs.
    pub(crate) children: bool,
}

/// A run's updates as a stream of server-sent events.
struct RunStream {
    state: Shared,
    follower: RunFollower,
    options: StreamOptions,
    /// Whether the first line was sent.
    has_begun: bool,
    /// Whether the event `end` was sent.
    is_over: bool,
    signals: StreamSignals,
}

/// The signals of one stream beside its events.
pub(crate) struct StreamSignals {
    /// Cancelled once the credential of the client is no longer valid.
    ended: CancellationToken,
    /// Cancelled when the server shuts down.
    stop: CancellationToken,
    /// Notified when a comment is due, which keeps the connection open.
    beat: Arc<Notify>,
    /// The stream's place among those that its principal may have.
    _place: OwnedSemaphorePermit,
}

/// A signal of a stream.
pub(crate) enum Signal<T> {
    /// The next event.
    Event(T),
    /// A comment is due, which keeps the connection open.
    KeepAlive,
    /// The stream ends, for this reason.
    End(&'static str),
}

impl StreamSignals {
    /// Returns the signals of a new stream.
    ///
    /// # Errors
    /// The principal has too many streams.
    pub(crate) fn new(state: &Shared, share: &ClientShare) -> Result<Self, Problem> {
        let place = share.stream()?;
        Ok(Self { ended: share.ended(), stop: state.stop.clone(), beat: state.pulse.join(), _place: place })
    }

    /// Waits for the next event or another signal.
    pub(crate) async fn next<T>(&self, event: impl Future<Output = T>) -> Signal<T> {
        tokio::select! {
            // While an event is ready, the other signals are not polled. `watched` cuts off a stream
            // whose credential is no longer valid.
            biased;
            event = event => Signal::Event(event),
            () = self.ended.cancelled() => Signal::End("unauthorized"),
            () = self.stop.cancelled() => Signal::End("shutdown"),
            () = self.beat.notified() => Signal::KeepAlive,
        }
    }
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
    let signals = StreamSignals::new(state, share)?;
    let state = Shared::clone(state);
    let stream = RunStream { state, follower, options, has_begun: false, is_over: false, signals };
    Ok(response(futures::stream::unfold(
        stream,
        |mut stream| async move { Some((stream.next().await?, stream)) },
    )))
}

/// Returns the response with these pieces of a stream.
pub(crate) fn response(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = Body::from_stream(pieces.map(Ok::<_, Infallible>)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    event_stream::keep_unbuffered(headers);
    response
}

/// Returns whether a request asks for a stream of events.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// Returns the first piece of each stream.
pub(crate) fn beginning() -> Bytes {
    Bytes::from_static(RETRY.as_bytes())
}

/// Returns the comment that keeps a quiet connection open.
pub(crate) fn keep_alive() -> Bytes {
    Bytes::from_static(KEEP_ALIVE.as_bytes())
}

impl RunStream {
    /// Returns the next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if !self.has_begun {
            self.has_begun = true;
            return Some(beginning());
        }
        loop {
            let update = match self.signals.next(self.follower.next()).await {
                Signal::Event(update) => update,
                Signal::KeepAlive => return Some(keep_alive()),
                Signal::End(why) => return Some(self.end(why)),
            };
            match update {
                Ok(Some(update)) => {
                    let event = match &update {
                        RunUpdate::Stored(stored) => {
                            Some(self.state.written.of(stored, || stored_event(stored, &update)))
                        }
                        _ => self::event(&update, self.options),
                    };
                    if event.is_some() {
                        return event;
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

    /// Ends the stream. Returns its last event, with the reason.
    fn end(&mut self, why: &str) -> Bytes {
        self.is_over = true;
        serialize("end", None, &json!({"why": why, "last": self.follower.last()}))
    }
}

/// Returns an update as clients see it: with the ids of threads as their principal knows them, and
/// without the instructions of agents, which are the operator's. Other updates are written as they
/// are, because parsed values take up to a hundred times as much memory.
pub(crate) fn shown(update: &RunUpdate) -> Box<RawValue> {
    let written = match is_changed(update) {
        false => to_raw_value(update),
        true => {
            let mut data = json!(update);
            show_to_client(&mut data);
            to_raw_value(&data)
        }
    };
    written.unwrap_or_default()
}

/// Returns whether clients see an update in another form than the record's.
fn is_changed(update: &RunUpdate) -> bool {
    match update {
        // The event with the ids of threads is one of these.
        RunUpdate::Stored(stored) => has_instructions(&stored.event),
        RunUpdate::Live(_) => false,
        RunUpdate::Child(update) => is_changed(&update.child),
    }
}

/// Returns whether an event contains the instructions of an agent.
pub(crate) fn has_instructions(event: &Event) -> bool {
    matches!(event, Event::RunStarted { .. } | Event::Transferred { .. })
}

/// Removes the instructions of agents, which are the operator's, from a serialized event.
pub(crate) fn hide_instructions(event: &mut Value) {
    let agent = match event["type"].as_str() {
        Some("run_started") => event.pointer_mut("/spec/agent"),
        Some("transferred") => event.get_mut("agent"),
        _ => None,
    };
    if let Some(agent) = agent.and_then(Value::as_object_mut) {
        agent.remove("instructions");
    }
}

/// Returns whether only the operator may see an update: a denied operation or a console.
fn is_for_operator(update: &RunUpdate) -> bool {
    match update {
        RunUpdate::Stored(_) => false,
        RunUpdate::Live(live) => {
            matches!(live.piece, LiveContent::CallConsole { .. } | LiveContent::CallDenied { .. })
        }
        RunUpdate::Child(update) => is_for_operator(&update.child),
    }
}

/// Returns the type of a written update.
fn type_of(written: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Typed {
        r#type: String,
    }
    serde_json::from_str(written.get()).ok().map(|Typed { r#type }| r#type)
}

/// Changes an update, and the update of a child in it, into the form that clients see.
fn show_to_client(data: &mut Value) {
    if data["type"] == "run_started" {
        let identity = &mut data["spec"]["identity"];
        let principal = identity["principal"].as_str().map(str::to_owned);
        for id in ["thread_id", "parent_thread_id"] {
            if let Some(thread) = identity.get(id).and_then(Value::as_str) {
                identity[id] = json!(client_thread_id(thread, principal.as_deref()));
            }
        }
    }
    hide_instructions(data);
    if let Some(child) = data.get_mut("child").filter(|child| child.is_object()) {
        show_to_client(child);
    }
}

/// Returns an update as an event; `None` if the stream leaves it out.
pub(crate) fn event(update: &RunUpdate, options: StreamOptions) -> Option<Bytes> {
    Some(match update {
        update if is_for_operator(update) => return None,
        RunUpdate::Stored(stored) => stored_event(stored, update),
        RunUpdate::Live(_) => {
            let data = shown(update);
            serialize(&type_of(&data).unwrap_or_else(|| "live".to_owned()), None, &data)
        }
        RunUpdate::Child(_) => {
            if !options.children {
                return None;
            }
            serialize("child", None, &shown(update))
        }
    })
}

/// Serializes a stored event, given its update.
fn stored_event(stored: &StoredEvent, update: &RunUpdate) -> Bytes {
    let data = shown(update);
    let name = type_of(&data).unwrap_or_else(|| "event".to_owned());
    serialize(&name, Some(stored.number), &data)
}

/// Serializes an event. The data is one line, because compact JSON contains no line breaks.
pub(crate) fn serialize(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| Value::Null.to_string());
    let mut text = String::with_capacity(data.len() + name.len() + 48);
    if let Some(id) = id {
        text.push_str(&format!("id: {id}\n"));
    }
    text.push_str(&format!("event: {name}\ndata: {data}\n\n"));
    text.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate::run::{ChildUpdate, LiveUpdate};

    fn live(piece: LiveContent) -> RunUpdate {
        RunUpdate::Live(LiveUpdate { run_id: "r".into(), after: 1, index: 1, piece })
    }

    fn of_child(update: RunUpdate) -> RunUpdate {
        let child = Box::new(update);
        RunUpdate::Child(ChildUpdate { run_id: "p".into(), call_id: "c".into(), ordinal: 1, child })
    }

    #[test]
    fn denied_operations_are_not_sent_to_clients_also_those_of_children() {
        let options = StreamOptions { children: true };
        let denied = || {
            let denied = vec!["read /etc/passwd".to_owned()];
            live(LiveContent::CallDenied { call_id: "c".into(), attempt: 1, denied })
        };
        let text = || live(LiveContent::TextDelta { text: "hello".to_owned() });
        for (update, is_sent) in [
            (denied(), false),
            (of_child(denied()), false),
            (of_child(of_child(denied())), false),
            (text(), true),
            (of_child(text()), true),
        ] {
            assert_eq!(event(&update, options).is_some(), is_sent, "{update:?}");
        }
    }

    #[test]
    fn updates_are_written_as_they_are_recorded_with_the_name_of_their_type() {
        let stored = StoredEvent { run_id: "r".into(), number: 2, at_ms: 3, event: Event::RunWaiting };
        let update = RunUpdate::Stored(Arc::new(stored));
        let sent = event(&update, StreamOptions { children: true }).unwrap();
        let data = serde_json::to_string(&json!(update)).unwrap();
        assert_eq!(sent, format!("id: 2\nevent: run_waiting\ndata: {data}\n\n"));
    }
}
