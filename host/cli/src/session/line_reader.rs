//! Lines that a person types, read without blocking the runtime.

use crate::terminal::Failure;
use std::io::BufRead;
use tokio::sync::{Mutex, oneshot};

type Reading = oneshot::Receiver<std::io::Result<Option<String>>>;

/// A read that is no longer awaited. The next question continues it; otherwise the person's
/// next line would be lost.
static READING: Mutex<Option<Reading>> = Mutex::const_new(None);

/// Reads the next line; `None` at the end of the input. The reading thread is detached: the program
/// may end before the line is typed.
pub(crate) async fn line() -> Result<Option<String>, Failure> {
    let mut slot = READING.lock().await;
    let reading = slot.get_or_insert_with(|| {
        let (typed, line) = oneshot::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            let _ = typed.send(read.map(|bytes| (bytes > 0).then_some(line)));
        });
        line
    });
    let read = reading.await;
    *slot = None;
    read.unwrap_or(Ok(None)).map_err(|e| Failure::failed(format!("the terminal cannot be read: {e}")))
}
