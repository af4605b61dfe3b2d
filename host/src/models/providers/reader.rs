//! Where replies are read: on one thread of its own, so that reading takes turns with
//! receiving.
//!
//! The library looks through all of a line that has no end whenever more of it comes, and
//! goes on for as long as more is there. On a thread that receives meanwhile, that may be
//! for ever, and no timeout is looked at. Here no more comes until it gives way; and a
//! line over which it takes too long is given up.

use super::frames::MAX_EVENT_BYTES;
use crate::models::ModelFault;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};

/// How long the library may work on one line of a reply. It takes as long for some 20 MB. How long
/// a line has become is not known before its end.
const MAX_LINE_WORK: Duration = Duration::from_secs(1);

static READER: OnceLock<Result<Handle, String>> = OnceLock::new();

/// The thread's runtime; the thread begins with the first reply, and stays.
pub(super) fn reader() -> Result<&'static Handle, ModelFault> {
    let begun = READER.get_or_init(|| begin().map_err(|e| e.to_string()));
    begun
        .as_ref()
        .map_err(|why| ModelFault::permanent(&format!("The thread that reads replies did not begin: {why}.")))
}

fn begin() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("tollgate-models".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

/// Waits for the next line of a reply, unless the work on it takes too long.
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
