//! The thread on which replies are read, separate from the one that receives them, so that the
//! two take turns.
//!
//! While a line has no end, the library scans all of it again whenever more data arrives, and
//! continues for as long as more is available. If the same thread received data meanwhile, this
//! might never end and no timeout would be checked. Here, no more data arrives until the library
//! yields, and a line that takes too long is abandoned.

use super::frames::MAX_EVENT_BYTES;
use crate::ModelFault;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// The maximum processor time of the library for one line of a reply. The length of a line is
/// unknown until it ends. A line of [`MAX_EVENT_BYTES`] takes about half of this if it arrives in
/// small pieces on a slow processor.
const MAX_LINE_WORK: Duration = Duration::from_secs(8);

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

/// Waits for the next line of a reply; fails if it takes too much work.
pub(super) async fn next_line<T>(line: impl Future<Output = T>) -> Result<T, ModelFault> {
    let mut line = pin!(line);
    let mut worked = Duration::ZERO;
    poll_fn(|context| {
        let began = processor_time();
        let polled = line.as_mut().poll(context);
        worked += processor_time().saturating_sub(began);
        if polled.is_pending() && worked > MAX_LINE_WORK {
            let words = format!(
                "A line of the reply has no end, or is far longer than the limit of {MAX_EVENT_BYTES} bytes for one \
                 event: reading it took more than {MAX_LINE_WORK:?}."
            );
            return std::task::Poll::Ready(Err(ModelFault::permanent(&words)));
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
