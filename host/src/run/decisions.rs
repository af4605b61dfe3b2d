//! Decisions for a run that is at work, and decisions of a run that take long. The latter run on
//! another thread, within the time of the attempt whose result is checked.

use super::driver::Driver;
use super::{RunError, attempt};
use crate::blocking::aside_if;
use crate::error::HostError;
use crate::stream::Delivery;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::outcome::Outcome;
use tollgate_agent::run::event::Event;
use tollgate_agent::run::{Input, InputRefusal};

/// The minimum time for checking a result, even if its attempt used all of its own. A call that
/// waited for others must not fail because of the checks that follow.
const LEAST_TIME: Duration = Duration::from_millis(100);

fn refused(why: InputRefusal) -> RunError {
    RunError::new(why.to_string())
}

impl Driver {
    /// Decides on an input. If a result takes longer to check than its attempt has time left, it
    /// is replaced by the attempt's timeout.
    pub(super) async fn decided(&mut self, input: &mut Input, now_ms: u64) -> Result<Vec<Event>, RunError> {
        let catalog = self.parts.toolbox.catalog();
        if !self.run.takes_long(catalog, input) {
            return self.run.decide(catalog, now_ms, input).map_err(refused);
        }
        let Some((left, late)) = self.time_for(input) else {
            return self.decided_aside(input, now_ms).await;
        };
        match tokio::time::timeout(left, self.decided_aside(input, now_ms)).await {
            Ok(decided) => decided,
            Err(_) => {
                *input = late;
                // The results of other calls are checked with it, and can take as long.
                match self.run.takes_long(self.parts.toolbox.catalog(), input) {
                    true => self.decided_aside(input, now_ms).await,
                    false => self.run.decide(self.parts.toolbox.catalog(), now_ms, input).map_err(refused),
                }
            }
        }
    }

    /// Commits the decisions, or tells their sender why not. The run continues in both cases.
    pub(super) async fn take_delivery(&mut self, delivery: Delivery) -> Result<(), RunError> {
        let Delivery { decisions, taken } = delivery;
        let input = Input::Decided(decisions);
        let catalog = self.parts.toolbox.catalog();
        let takes_long = self.run.takes_long(catalog, &input);
        if let Err(refused) = aside_if(takes_long, || self.run.decide(catalog, 0, &input)) {
            // A sender that has left does not need the answer.
            let _ = taken.send(Err(refused.into()));
            return Ok(());
        }
        let accepted = self.accept(input).await;
        let _ = taken.send(accepted.clone().map_err(HostError::from));
        accepted
    }

    /// Decides on an input on another thread.
    fn decided_aside(
        &self,
        input: &Input,
        now_ms: u64,
    ) -> impl Future<Output = Result<Vec<Event>, RunError>> + use<> {
        let (run, input) = (self.run.clone(), input.clone());
        let catalog = Arc::clone(self.parts.toolbox.catalog());
        let deciding = tokio::task::spawn_blocking(move || run.decide(&catalog, now_ms, &input));
        async move {
            deciding.await.map_err(|e| RunError::new(format!("a decision failed: {e}")))?.map_err(refused)
        }
    }

    /// Returns the time left for checking an attempt's result, and the input that replaces it
    /// after that time.
    fn time_for(&self, input: &Input) -> Option<(Duration, Input)> {
        let Input::Attempted { call_id, attempt, outcome, usage, taken } = input else { return None };
        let Outcome::Returned(_) = outcome.as_ref() else { return None };
        let call = self.run.calls().iter().find(|call| call.id == *call_id)?;
        let tool = self.parts.toolbox.catalog().tool(&call.tool_name)?;
        let timeout_ms = self.run.spec().limits.attempt_timeout_ms(&tool.descriptor.execution);
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        let places = self.parts.toolbox.catalog().limit_places();
        let fault = attempt::timed_out(tool, timeout_ms, places)
            .with_detail("checking what it returned took too long");
        let late = Input::Attempted {
            call_id: call_id.clone(),
            attempt: *attempt,
            outcome: Arc::new(fault.into()),
            usage: *usage,
            taken: taken.clone(),
        };
        let left = timeout.saturating_sub(Duration::from_micros(usage.wall_us));
        Some((left.max(LEAST_TIME), late))
    }
}
