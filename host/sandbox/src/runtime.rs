//! The configuration of the runtime on which calls run. Fairness depends on it: a guest that
//! computes gives up its thread every millisecond, and the runtime polls timers and sockets each
//! time. One instruction that fills or copies memory is not interrupted, so there are more threads
//! than cores, and the system divides the cores among them.

use std::io;
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Runtime};

/// The number of threads for each core.
const THREADS_PER_CORE: usize = 4;

/// Creates a multi-threaded runtime that stays responsive while guests compute.
///
/// By default a worker polls timers and sockets only every 61 tasks. With eight guests that each
/// compute for a millisecond at a time, that is once in half a second on two workers. This
/// runtime polls after each task.
///
/// # Errors
/// Fails if the system cannot create threads.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads())
        .event_interval(1)
        .global_queue_interval(1)
        .thread_name("tollgate")
        .enable_all()
        .build()
}

/// Returns the number of worker threads of the runtime.
pub(crate) fn threads() -> usize {
    THREADS_PER_CORE * available_parallelism().map_or(1, Into::into)
}
