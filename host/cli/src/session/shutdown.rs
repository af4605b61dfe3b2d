//! Signals that end the program. The first one asks it to shut down in order: running work is
//! cancelled and recorded, pending records are written, and child processes end. The second one
//! ends it at once.

use crate::terminal::Failure;
use std::sync::OnceLock;
use std::task::Poll;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

static ASKED: OnceLock<CancellationToken> = OnceLock::new();

/// The signals that end the program, by number: hangup, interrupt, termination.
const SIGNALS: [i32; 3] = [1, 2, 15];

/// Takes over the signals that end the program, from the moment at which ending at once would lose
/// something. Returns a token that the first of them cancels.
pub(crate) fn take_signals() -> CancellationToken {
    let take = || {
        let asked = CancellationToken::new();
        let ignored = ignored();
        let kept = SIGNALS.into_iter().filter(|number| ignored & (1 << (number - 1)) == 0);
        let signals = kept.filter_map(|number| Some((number, signal(SignalKind::from_raw(number)).ok()?)));
        tokio::spawn(watch(signals.collect(), asked.clone()));
        asked
    };
    ASKED.get_or_init(take).clone()
}

async fn watch(mut signals: Vec<(i32, Signal)>, asked: CancellationToken) {
    loop {
        let number = std::future::poll_fn(|cx| {
            for (number, signal) in &mut signals {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await;
        if asked.is_cancelled() {
            std::process::exit(128 + number);
        }
        asked.cancel();
    }
}

/// Returns the signals that the parent had this process ignore, as bits: `nohup` ignores hangups,
/// and they stay ignored.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default()
}

/// Waits until the program is asked to end.
pub(crate) async fn wait_for_signal() {
    match ASKED.get() {
        Some(asked) => asked.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Returns whether the program was asked to end.
pub(crate) fn is_asked() -> bool {
    ASKED.get().is_some_and(CancellationToken::is_cancelled)
}

/// Runs `work`, unless the program is asked to end before it is done.
pub(crate) async fn unless_asked<T, E: Into<Failure>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        done = work => done.map_err(Into::into),
        () = wait_for_signal() => Err(Failure::failed("interrupted by a signal before it was done")),
    }
}
