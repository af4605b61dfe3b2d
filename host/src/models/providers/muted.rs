//! Keeping the library's log to itself.

use std::future::{Future, poll_fn};
use std::pin::pin;
use tracing::subscriber::{NoSubscriber, with_default};

/// Runs a future so that nothing within it is logged.
///
/// The library logs whatever a provider answers, and providers answer with the
/// key that they refuse. What matters of it comes back as a fault, without the
/// key, and whoever asked may log that.
pub(super) async fn muted<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| with_default(NoSubscriber::default(), || future.as_mut().poll(context))).await
}
