//! Ends a guest at its deadline or when its call is cancelled, whether it is computing or
//! waiting.
//!
//! A guest that computes is stopped at the next tick. No tick interrupts a guest that waits
//! within a host function, so the whole call is raced against a timer. A panic of a host function
//! is caught here.
//!
//! A file operation that was passed to the system cannot be cancelled. A call that may use files
//! therefore gets a moment to complete it. Otherwise a retry, or a client that learns that the
//! call is over, could find the operation half done.

use crate::deadline::Deadline;
use crate::termination::Termination;
use futures::FutureExt as _;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a cancelled call may take to end by itself. Guests are guaranteed to be stopped
/// within 100 ms; this leaves time to stop those that compute.
pub(crate) const GRACE: Duration = Duration::from_millis(60);

/// How long a file operation may continue once its call must end.
const FILE_GRACE: Duration = Duration::from_millis(30);

/// The moment at which a guest must end.
pub(crate) struct CallDeadline<'a> {
    deadline: Deadline,
    cancel: &'a CancellationToken,
    file_grace: Duration,
}

impl<'a> CallDeadline<'a> {
    /// Creates a deadline `timeout` after `began`, which cancellation ends early.
    pub(crate) fn new(began: Instant, timeout: Duration, cancel: &'a CancellationToken) -> Self {
        Self { deadline: Deadline::at(began + timeout), cancel, file_grace: Duration::ZERO }
    }

    /// Allows file operations to complete.
    pub(crate) fn using_files(mut self, uses_files: bool) -> Self {
        self.file_grace = if uses_files { FILE_GRACE } else { Duration::ZERO };
        self
    }

    /// Returns the moment at which it must end. Waits for child runs postpone it.
    pub(crate) fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// Returns the token that ends it early.
    pub(crate) fn cancel(&self) -> &CancellationToken {
        self.cancel
    }

    /// Waits for the guest's work or the deadline. The caller pins the work, because a future
    /// that is moved takes its memory twice.
    pub(crate) async fn attend<T>(
        &self,
        work: Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
    ) -> Result<T, Termination> {
        let mut work = AssertUnwindSafe(work).catch_unwind();
        let ending = tokio::select! {
            // Completed work counts as completed, and most is complete at the first poll, before
            // a timer is set.
            biased;
            done = &mut work => return match done {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => Err(Termination::of(&error)),
                Err(panic) => Err(Termination::Host(panic_message(&*panic))),
            },
            ending = self.end() => ending,
        };
        if !self.file_grace.is_zero() {
            // The guest itself is stopped at its next tick; a later answer is ignored.
            let _ = tokio::time::timeout(self.file_grace, work).await;
        }
        Err(ending)
    }

    async fn end(&self) -> Termination {
        tokio::select! {
            () = self.deadline.passed() => Termination::Deadline,
            () = cancelled_and_grace(self.cancel) => Termination::Cancelled,
        }
    }
}

/// Waits until a cancelled call's time to end by itself is over.
pub async fn cancelled_and_grace(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a host function panicked: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    #[tokio::test]
    async fn a_panic_of_the_host_is_an_ending() {
        let cancel = CancellationToken::new();
        let term = CallDeadline::new(Instant::now(), Duration::from_secs(60), &cancel);
        let panics = async { if !term.deadline.has_passed() { panic!("on purpose") } else { Ok(()) } };
        let ending = term.attend(pin!(panics)).await;
        assert_eq!(ending, Err(Termination::Host("a host function panicked: on purpose".to_owned())));
    }

    #[tokio::test]
    async fn x1_a_file_operation_under_way_is_waited_for() {
        for (file_grace, done) in [(Duration::from_secs(60), true), (Duration::ZERO, false)] {
            let cancel = CancellationToken::new();
            let term = CallDeadline {
                file_grace,
                ..CallDeadline::new(Instant::now(), Duration::from_millis(1), &cancel)
            };
            let (tell, told) = std::sync::mpsc::channel();
            let operation = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                tell.send(()).map_err(wasmtime::Error::from)
            };
            assert_eq!(term.attend(pin!(operation)).await, Err(Termination::Deadline));
            assert_eq!(told.try_recv().is_ok(), done);
        }
    }

    #[tokio::test]
    async fn waiting_ends_at_the_deadline_and_after_the_grace() {
        let cancel = CancellationToken::new();
        let forever = || std::future::pending::<wasmtime::Result<()>>();
        let term = CallDeadline::new(Instant::now(), Duration::from_millis(20), &cancel);
        assert_eq!(term.attend(pin!(forever())).await, Err(Termination::Deadline));
        let term = CallDeadline::new(Instant::now(), Duration::from_secs(60), &cancel);
        cancel.cancel();
        let began = Instant::now();
        assert_eq!(term.attend(pin!(forever())).await, Err(Termination::Cancelled));
        assert!(began.elapsed() >= GRACE);
    }
}
