//! Runs blocking work away from threads that drive other tasks.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs blocking work on this thread and moves its other tasks to another thread. In a
/// single-threaded runtime, or outside of any, it just runs the work.
pub fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Runs the work like [`block_in_place`] if it takes long, and directly otherwise.
pub(crate) fn aside_if<T>(takes_long: bool, work: impl FnOnce() -> T) -> T {
    if takes_long { block_in_place(work) } else { work() }
}
