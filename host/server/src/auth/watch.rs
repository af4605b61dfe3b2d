//! Streams end with their credential. The server looks every second whether keys or sessions have
//! changed, in any process. Each open stream checks its own when they have, and when it expires.

use crate::access::SecretDigest;
use crate::state::Shared;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use axum::http::StatusCode;
use axum::response::Response;
use futures::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, ReusableBoxFuture};

/// How often the server looks whether keys or sessions have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a credential counts as valid without another check. A session also ends when it is not
/// used.
const VALID_FOR: Duration = Duration::from_secs(600);
/// How long a stream may take to send its last event once its credential is not valid.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// Looks every second whether keys or sessions have changed, for open streams.
pub(crate) async fn look_for_changes(state: &Shared) {
    loop {
        sleep(LOOK_EVERY).await;
        state.access.check_for_changes();
    }
}

/// Ends a response's stream once its credential is no longer valid. `ended` is cancelled shortly
/// before the end, so that the stream can report the reason.
pub(super) fn end_with_credential(
    response: Response,
    (state, credential): (&Shared, SecretDigest),
    ended: CancellationToken,
) -> Response {
    let (parts, body) = response.into_parts();
    // A body of known length is complete.
    if parts.status == StatusCode::SWITCHING_PROTOCOLS || body.size_hint().exact().is_some() {
        return Response::from_parts(parts, body);
    }
    let body = WatchedBody {
        body: body.into_data_stream(),
        credential,
        changed: ReusableBoxFuture::new(change(state.access.changes())),
        state: Shared::clone(state),
        // It may have changed since the request was admitted.
        check: Box::pin(sleep(Duration::ZERO)),
        ended,
        until: None,
    };
    Response::from_parts(parts, Body::from_stream(body))
}

async fn change(mut changes: Receiver<Option<i64>>) -> Receiver<Option<i64>> {
    // The sender lives as long as the server's state, which the stream holds.
    let _ = changes.changed().await;
    changes
}

/// A streamed body whose credential is checked while it is sent.
struct WatchedBody {
    body: BodyDataStream,
    state: Shared,
    credential: SecretDigest,
    changed: ReusableBoxFuture<'static, Receiver<Option<i64>>>,
    /// When the credential is checked although nothing has changed.
    check: Pin<Box<Sleep>>,
    ended: CancellationToken,
    /// When the stream ends, once the credential is not valid.
    until: Option<Pin<Box<Sleep>>>,
}

impl WatchedBody {
    /// Returns whether the credential has to be checked.
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        if let Poll::Ready(changes) = self.changed.poll(cx) {
            self.changed.set(change(changes));
            return true;
        }
        self.check.as_mut().poll(cx).is_ready()
    }

    /// Checks the credential, and returns whether it is valid. If it cannot be looked up, it is not.
    fn check(&mut self) -> bool {
        let valid_for = self.state.access.valid_for(&self.credential).unwrap_or_else(|e| {
            tracing::error!("a stream ends, because its key cannot be checked: {e}");
            None
        });
        let Some(valid_for) = valid_for else { return false };
        self.check.as_mut().reset(Instant::now() + valid_for.min(VALID_FOR));
        true
    }
}

impl Stream for WatchedBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while this.until.is_none() && this.is_due(cx) {
            if !this.check() {
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
