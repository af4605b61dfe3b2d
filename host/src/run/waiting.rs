//! The events a driver waits for: effects in flight, requests of its calls, its caller, and time
//! limits.

use super::RunError;
use super::driver::{Driver, DriverWake};
use crate::stream::next_delivery;
use std::time::Duration;
use tokio::time::Instant;
use tollgate_agent::SmolStr;
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::{CallStatus, Input};

/// How long a cancelled run waits for its calls: their grace period, the same again to stop them,
/// and some time for a file operation that the system has begun.
const CANCEL_WAIT: Duration = Duration::from_millis(400);

impl Driver {
    /// Returns when the wall time of the run or direct call is used up, including the time that other
    /// processes drove it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let left_ms = self.run.spec().limits.wall_ms.saturating_sub(self.clock.used_ms());
        Instant::now().checked_add(Duration::from_millis(left_ms))
    }

    /// Returns the reason if the run must end now. Once it is ending, only hooks are waited for,
    /// which have their own time limits.
    pub(super) fn must_end(&self) -> Option<DriverWake> {
        if self.lapse.is_cancelled() {
            return Some(DriverWake::Lapsed);
        }
        if self.run.is_cut_short() {
            return None;
        }
        if self.parts.cancel.is_cancelled() {
            return Some(DriverWake::Cancelled);
        }
        self.deadline.is_some_and(|at| Instant::now() >= at).then_some(DriverWake::TimeUp)
    }

    /// Waits for the next input. Results of work that completed after the run had to end are
    /// dropped.
    pub(super) async fn wait(&mut self) -> DriverWake {
        if let Some(end) = self.must_end() {
            return end;
        }
        let ends = self.run.is_cut_short();
        let deadline = self.deadline.filter(|_| !ends);
        let time_up = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Most work is done at the first poll, before anything else had to be waited for.
            biased;
            () = self.lapse.cancelled() => DriverWake::Lapsed,
            Some(input) = self.work.next() => match self.parts.cancel.is_cancelled() && !ends {
                true => DriverWake::Cancelled,
                false => DriverWake::Input(input),
            },
            ask = self.children.next_ask() => DriverWake::Ask(ask),
            delivery = next_delivery(&mut self.inbox), if !ends => DriverWake::Delivery(delivery),
            () = self.parts.cancel.cancelled(), if !ends => DriverWake::Cancelled,
            () = time_up => DriverWake::TimeUp,
        }
    }

    /// Waits, within bounds, until the work in flight has stopped. Results after the cancellation
    /// are dropped, except for their usage. Hooks after calls that have ended are neither stopped
    /// nor dropped.
    pub(super) async fn stop_work(&mut self) -> Result<Vec<(SmolStr, Usage)>, RunError> {
        let executing = self.run.calls().iter().any(|call| call.status() == CallStatus::Running);
        let mut stopped = Vec::new();
        if executing {
            let mut counting = Vec::new();
            let all_stop = async {
                while let Some(input) = self.work.next().await {
                    match input {
                        Input::ChildChanged { .. } | Input::Hooked { .. } => counting.push(input),
                        Input::Attempted { call_id, usage, .. } => stopped.push((call_id, usage)),
                        _ => {}
                    }
                }
            };
            // Dropping the remaining work stops it.
            let _ = tokio::time::timeout(CANCEL_WAIT, all_stop).await;
            for input in counting {
                self.accept(input).await?;
            }
        }
        self.work.stop();
        Ok(stopped)
    }
}
