//! Streams end with their credential. Every second, an open stream looks whether its key or session
//! is still valid: whether it was revoked, by any process, or has expired.

use super::secret::SecretDigest;
use crate::state::Shared;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use axum::http::StatusCode;
use axum::response::Response;
use futures::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep};
use tokio_util::sync::CancellationToken;

/// How often the credential of an open stream is looked up.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a stream may take to send its last event once its credential is not valid.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// Ends a response's stream once its credential is no longer valid. `ended` is cancelled shortly
/// before the end, so that the stream can report the reason.
pub(super) fn watched(
    response: Response,
    (state, credential): (&Shared, SecretDigest),
    ended: CancellationToken,
) -> Response {
    let (parts, body) = response.into_parts();
    // A body of known length is complete.
    if parts.status == StatusCode::SWITCHING_PROTOCOLS || body.size_hint().exact().is_some() {
        return Response::from_parts(parts, body);
    }
    let mut checks = interval(CHECK_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let body = WatchedBody {
        body: body.into_data_stream(),
        state: Shared::clone(state),
        credential,
        checks,
        ended,
        until: None,
    };
    Response::from_parts(parts, Body::from_stream(body))
}

/// A streamed body whose credential is checked while it is sent.
struct WatchedBody {
    body: BodyDataStream,
    state: Shared,
    credential: SecretDigest,
    checks: Interval,
    ended: CancellationToken,
    /// When the stream ends, once the credential is not valid.
    until: Option<Pin<Box<Sleep>>>,
}

impl WatchedBody {
    /// Returns whether the credential is valid. If it cannot be looked up, it is not.
    fn is_valid(&self) -> bool {
        self.state.access.is_valid(&self.credential).unwrap_or_else(|e| {
            tracing::error!("a stream ends, because its key cannot be checked: {e}");
            false
        })
    }
}

impl Stream for WatchedBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while this.until.is_none() && this.checks.poll_tick(cx).is_ready() {
            if !this.is_valid() {
                this.ended.cancel();
                this.until = Some(Box::pin(sleep(LAST_WORDS)));
            }
        }
        if let Some(until) = &mut this.until
            && until.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_next(cx)
    }
}
