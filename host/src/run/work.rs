//! The effects in flight for a run. There are only a few at a time, so they are kept in a list
//! that is polled as a whole.

use futures::future::BoxFuture;
use std::task::{Context, Poll};
use tollgate_agent::run::{EffectKey, Input};

/// Effects in flight.
#[derive(Default)]
pub(super) struct Work {
    pending: Vec<(EffectKey, BoxFuture<'static, Input>)>,
}

impl Work {
    pub(super) fn contains(&self, key: &EffectKey) -> bool {
        self.pending.iter().any(|(other, _)| other == key)
    }

    pub(super) fn push(&mut self, key: EffectKey, work: BoxFuture<'static, Input>) {
        self.pending.push((key, work));
    }

    /// Returns the input from the next effect that completes; `None` if none is in flight.
    pub(super) async fn next(&mut self) -> Option<Input> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Stops everything except the hooks after calls that have ended.
    pub(super) fn stop(&mut self) {
        self.pending.retain(|(key, _)| matches!(key, EffectKey::After(_)));
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Input>> {
        if self.pending.is_empty() {
            return Poll::Ready(None);
        }
        for at in 0..self.pending.len() {
            if let Poll::Ready(input) = self.pending[at].1.as_mut().poll(cx) {
                drop(self.pending.swap_remove(at));
                return Poll::Ready(Some(input));
            }
        }
        Poll::Pending
    }
}

/// Runs the work in its own task, which is aborted when the returned future is dropped.
pub(super) fn on_its_own(work: BoxFuture<'static, Input>) -> BoxFuture<'static, Input> {
    let task = AbortOnDrop(tokio::spawn(work));
    Box::pin(task.join())
}

struct AbortOnDrop(tokio::task::JoinHandle<Input>);

impl AbortOnDrop {
    async fn join(mut self) -> Input {
        match (&mut self.0).await {
            Ok(input) => input,
            // Panics of tools are caught inside the task; a join error means that the runtime is
            // shutting down.
            Err(_) => Input::Cancel { reason: "the host is shutting down".to_owned() },
        }
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
