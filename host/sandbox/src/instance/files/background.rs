//! File operations that run beside the guest, on threads that may block.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};

/// The number of concurrent operations of one call; further ones wait. With more, a call would use
/// more processor time than its time limit.
const AT_ONCE: usize = 1;

/// The threads that one call may occupy with file operations.
#[derive(Clone)]
pub(crate) struct Background(Arc<Semaphore>);

impl Background {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Starts an operation. It holds its place until it has ended, even if its result is no
    /// longer awaited.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> BackgroundJob<T> {
        let places = Arc::clone(&self.0);
        BackgroundJob(tokio::spawn(async move {
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            // The place comes back with the result, once the thread is free for the next operation.
            let (done, _place) = run(move || Ok((work(), place))).await?;
            done
        }))
    }
}

/// Runs an operation on a thread that may block.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    joined(tokio::task::spawn_blocking(work).await)
}

/// Returns the result of an operation. A panic is propagated to the caller.
fn joined<T>(ended: Result<io::Result<T>, JoinError>) -> io::Result<T> {
    match ended {
        Ok(done) => done,
        Err(why) if why.is_panic() => std::panic::resume_unwind(why.into_panic()),
        Err(why) => Err(io::Error::other(why)),
    }
}

/// An operation in progress. Dropping it before the operation has started cancels it.
pub(crate) struct BackgroundJob<T>(JoinHandle<io::Result<T>>);

impl<T> Future for BackgroundJob<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(joined)
    }
}

impl<T> Drop for BackgroundJob<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
