//! The event streams of the protocols and of the console. A stream of the native API can be
//! resumed: see [`sse`](crate::sse).

use crate::pulse::Pulse;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use std::convert::Infallible;
use std::future::ready;

/// Answers with a stream of events, and with a comment at each beat, so that proxies and clients
/// keep it open. Dropping the answer's body drops the stream.
pub(crate) fn answer(pulse: &Pulse, events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let mut response = Sse::new(kept_alive(pulse, events).map(Ok::<_, Infallible>)).into_response();
    keep_unbuffered(response.headers_mut());
    response
}

/// Sets the headers that keep caches and proxies from holding events back.
pub(crate) fn keep_unbuffered(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
}

/// Adds a comment at each beat to a stream of events. It ends with the events.
fn kept_alive<S: Stream<Item = Event> + Send + 'static>(
    pulse: &Pulse,
    events: S,
) -> impl Stream<Item = Event> + Send + use<S> {
    let beats = futures::stream::unfold(pulse.join(), |beat| async move {
        beat.notified().await;
        Some((Some(Event::default().comment("")), beat))
    });
    let events = events.map(Some).chain(futures::stream::iter([None]));
    futures::stream::select(events, beats).take_while(|event| ready(event.is_some())).filter_map(ready)
}

/// Returns an event with this JSON as its data.
pub(crate) fn data(json: &serde_json::Value) -> Event {
    Event::default().data(json.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use tokio::sync::mpsc::unbounded_channel;

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_has_comments_and_ends_with_its_events() {
        let pulse = Arc::new(Pulse::new(false));
        let beating = Arc::clone(&pulse);
        tokio::spawn(async move { beating.beat().await });
        let (sender, receiver) = unbounded_channel();
        let events = futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|event| (event, receiver))
        });
        let mut pieces = answer(&pulse, events).into_body().into_data_stream();
        for _ in 0..2 {
            assert!(pieces.next().await.unwrap().unwrap().starts_with(b":"));
        }
        sender.send(data(&serde_json::json!(1))).unwrap();
        drop(sender);
        assert_eq!(pieces.next().await.unwrap().unwrap(), "data: 1\n\n");
        assert!(pieces.next().await.is_none());
    }
}
