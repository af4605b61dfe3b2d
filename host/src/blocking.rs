//! Work that takes long, away from the threads that carry other tasks.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs work that can take long on this thread, whose other tasks move to another thread. In a
/// runtime of one thread, or outside of any, it just runs.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Runs work that takes long only if this is so.
pub(crate) fn aside_if<T>(takes_long: bool, work: impl FnOnce() -> T) -> T {
    if takes_long { aside(work) } else { work() }
}
