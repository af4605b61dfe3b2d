//! Interrupts a guest that computes, so that other calls get their turn and the guest ends in time.

use super::Instance;
use crate::meter::Stop;
use crate::ticker::TickerHandle;
use crate::watchdog::GRACE;
use std::time::Instant;
use wasmtime::{Store, UpdateDeadline};

/// Interrupts the guest of this store at each tick except the first, before which it ran for less
/// than a full interval. At a tick the guest ends or yields.
pub(crate) fn interrupt(store: &mut Store<Instance>, company: TickerHandle) {
    let mut cancelled_at = None;
    let mut stayed = false;
    store.epoch_deadline_callback(move |store| {
        let Instance { deadline, cancel, .. } = store.data();
        if deadline.has_passed() {
            return Err(Stop::Deadline.into());
        }
        if cancel.is_cancelled() && cancelled_at.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            return Err(Stop::Cancelled.into());
        }
        stayed = !stayed && company.is_alone();
        Ok(give_way(stayed))
    });
    store.set_epoch_deadline(2);
}

/// Lets other tasks run until the next tick, on this thread or the one that resumes the guest.
///
/// A fair yield puts the guest at the end of this thread's queue. An idle thread steals it from
/// there immediately, and continuing with cold caches costs about 50 us. Staying means continuing
/// as soon as this thread has polled its timers and sockets, ahead of its queue, which the idle
/// thread drains meanwhile. If all threads are busy, the queue would not be drained. Therefore a
/// guest stays only while it is the only one, and never twice in a row.
fn give_way(stays: bool) -> UpdateDeadline {
    match stays {
        true => UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())),
        false => UpdateDeadline::Yield(1),
    }
}
