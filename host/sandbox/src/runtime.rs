//! The shape of the runtime on which calls run, which is part of the promise: a
//! guest that computes gives up its thread every millisecond, and the runtime
//! looks at timers and sockets each time it does.

use std::io;
use tokio::runtime::{Builder, Runtime};

/// A multi-threaded runtime that stays alive under guests that compute.
///
/// By default a worker looks at timers and sockets only every 61 tasks; with
/// eight guests that each compute for a millisecond at a time, that is once in
/// half a second on two workers. Here it looks after each task.
///
/// # Errors
/// The system gives no threads.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .event_interval(1)
        .global_queue_interval(1)
        .thread_name("tollgate")
        .enable_all()
        .build()
}
