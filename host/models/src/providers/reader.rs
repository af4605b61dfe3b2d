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
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};

/// The maximum time the library may work on one line of a reply, enough for about 20 MB. The
/// length of a line is unknown until it ends.
const MAX_LINE_WORK: Duration = Duration::from_secs(1);

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
        let began = Instant::now();
        let polled = line.as_mut().poll(context);
        worked += began.elapsed();
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
