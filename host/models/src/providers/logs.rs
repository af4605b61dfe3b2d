//! Suppressing the library's log.

use std::future::{Future, poll_fn};
use std::pin::pin;
use tracing::subscriber::{NoSubscriber, with_default};

/// Runs a future without logging anything inside it.
///
/// The library logs every answer of a provider, and providers repeat the key they reject. The
/// relevant part is returned as a fault, without the key, and the caller may log that.
pub(super) async fn without_logs<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| with_default(NoSubscriber::default(), || future.as_mut().poll(context))).await
}
