//! Work on threads that may block, so that no other call waits for it.

use crate::error::Refusal;

/// Results larger than this are read and searched on a thread that blocks no other call.
pub(crate) const LARGE_BYTES: u64 = 128 * 1024;

/// Runs work on a thread that blocks no other call.
pub(crate) async fn offload<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Runs a step of loading a component on a thread that may block.
pub(crate) async fn loading<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => Err(Refusal::new(format!("the host failed while it loaded the component: {panic}"))),
    }
}
