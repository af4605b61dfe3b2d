//! Answers that are streams of server-sent events.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use std::convert::Infallible;
use std::time::Duration;

/// How often a quiet stream sends a comment, so that proxies and clients keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answers with a stream of events. Dropping the answer's body drops the stream.
pub(crate) fn answer(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    let mut response =
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("")).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Returns an event with this JSON as its data.
pub(crate) fn data(json: &serde_json::Value) -> Event {
    Event::default().data(json.to_string())
}
