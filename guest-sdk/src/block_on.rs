//! Runs an async tool. A guest has a single thread.

use crate::error::ToolError;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Runs a future to its end.
///
/// Nothing else runs meanwhile, so a future that returns `Pending` without having woken
/// itself would wait forever. That is an internal error here instead of a hang. A tool
/// that needs a reactor brings its own and blocks on it.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, ToolError> {
    let woken = Arc::new(WakeFlag(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        if !woken.0.swap(false, Ordering::Relaxed) {
            return Err(ToolError::internal(
                "The tool awaits something that nothing will ever finish: \
                 a guest has no runtime beside the tool.",
            ));
        }
    }
}

struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
