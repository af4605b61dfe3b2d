//! Interrupts a guest that computes, so that other calls get their turn and the guest ends in time.

use super::Instance;
use crate::meter::Stop;
use crate::watchdog::GRACE;
use std::time::Instant;
use wasmtime::{Store, UpdateDeadline};

/// Interrupts the guest of this store at each tick except the first, before which it ran for less
/// than a full interval. At a tick the guest ends or yields.
pub(crate) fn interrupt(store: &mut Store<Instance>) {
    let mut cancelled_at = None;
    store.epoch_deadline_callback(move |store| {
        let Instance { deadline, cancel, .. } = store.data();
        if deadline.has_passed() {
            return Err(Stop::Deadline.into());
        }
        if cancel.is_cancelled() && cancelled_at.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            return Err(Stop::Cancelled.into());
        }
        Ok(UpdateDeadline::Yield(1))
    });
    store.set_epoch_deadline(2);
}
