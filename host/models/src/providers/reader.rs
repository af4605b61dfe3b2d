//! The thread on which replies are read, separate from the one that receives them, so that the
//! two take turns.
//!
//! While a line has no end, the library scans all of it again whenever more data arrives, and
//! continues for as long as more is available. If the same thread received data meanwhile, this
//! might never end and no timeout would be checked. Here, no more data arrives until the library
//! yields, and a line that takes too long is abandoned.
//!
//! The library reads the whole body of an error, and skips comments and blank lines. For the same
//! reason, it gets one piece at a time, and the number of pieces is limited.

use super::errors;
use crate::ModelFault;
use crate::fault::MAX_EVENT_BYTES;
use reqwest::StatusCode;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// The maximum processor time of the library for one line of a reply. The length of a line is
/// unknown until it ends. A line of [`MAX_EVENT_BYTES`] takes about half of this if it arrives in
/// small pieces on a slow processor.
const MAX_LINE_WORK: Duration = Duration::from_secs(2);

/// The maximum number of pieces in which the body of an error is read. A piece is what has arrived:
/// at most the read buffer of a connection (about 400 KiB), and usually a packet or more.
const MAX_ERROR_PIECES: usize = 128;

thread_local! {
    /// The status that the request being polled was answered with, if it just was.
    static STATUS: Cell<Option<StatusCode>> = const { Cell::new(None) };
}

/// Notes the status of the answer to the request that this thread polls.
pub(super) fn note_status(status: StatusCode) {
    STATUS.set(Some(status));
}

static READER: OnceLock<Result<Handle, String>> = OnceLock::new();

/// Returns the runtime of the thread, which starts with the first reply and is kept.
pub(super) fn reader() -> Result<&'static Handle, ModelFault> {
    let begun = READER.get_or_init(|| begin().map_err(|e| e.to_string()));
    begun
        .as_ref()
        .map_err(|why| ModelFault::permanent(&format!("The thread that reads replies did not start: {why}.")))
}

fn begin() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("tollgate-models".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

/// Ends the poll of [`next_line`] with this fault. The library offers each line before it parses it, and
/// there is no other way to keep it from that.
pub(super) fn abandon(fault: ModelFault) -> ! {
    resume_unwind(Box::new(fault))
}

/// Waits for the next line of a reply; fails if it takes too much work, is an error that is too long,
/// or was [abandoned](abandon). For each piece after the first that completes no line, `quiet` is
/// called, which may end the reply.
pub(super) async fn next_line<T>(
    line: impl Future<Output = T>,
    quiet: impl Fn() -> Result<(), ModelFault>,
) -> Result<T, ModelFault> {
    let mut line = pin!(line);
    let mut worked = Duration::ZERO;
    let (mut failed, mut error_pieces, mut is_first) = (None, 0, true);
    poll_fn(|context| {
        STATUS.set(None);
        let began = processor_time();
        // Nothing uses the line after it was abandoned, so what it left half done does not matter.
        let polled = match catch_unwind(AssertUnwindSafe(|| line.as_mut().poll(context))) {
            Ok(polled) => polled,
            Err(payload) => match payload.downcast::<ModelFault>() {
                Ok(fault) => return Poll::Ready(Err(*fault)),
                Err(panic) => resume_unwind(panic),
            },
        };
        worked += processor_time().saturating_sub(began);
        failed = STATUS.take().filter(|status| !status.is_success()).or(failed);
        if let (Some(status), true) = (failed, polled.is_pending()) {
            error_pieces += 1;
            if error_pieces > MAX_ERROR_PIECES {
                return Poll::Ready(Err(errors::of_long_response(status)));
            }
        }
        if polled.is_pending()
            && !std::mem::replace(&mut is_first, false)
            && let Err(fault) = quiet()
        {
            return Poll::Ready(Err(fault));
        }
        if polled.is_pending() && worked > MAX_LINE_WORK {
            let words = format!(
                "A line of the reply has no end, or is far longer than the limit of {MAX_EVENT_BYTES} bytes for one \
                 event: reading it took more than {MAX_LINE_WORK:?}."
            );
            return Poll::Ready(Err(ModelFault::permanent(&words)));
        }
        polled.map(Ok)
    })
    .await
}

/// Returns the processor time that this thread has used. Unlike the time of a clock, it does not
/// grow while other programs keep the machine busy.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
