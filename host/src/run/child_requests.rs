//! The driver's handling of calls that ask for other agents.

use super::RunError;
use super::attempt::AttemptResources;
use super::child::ChildStart;
use super::children::Ask;
use super::driver::Driver;
use super::new_id;
use super::reports::CallReports;
use crate::blocking::aside_if;
use std::sync::Arc;
use tokio::time::Instant;
use tollgate_agent::catalog::HOST_ID;
use tollgate_agent::run::{ChildRefusal, EffectKey, Execution, Input};

impl Driver {
    /// Decides on an input, and answers the requests of a child once its end is recorded.
    pub(super) async fn accept(&mut self, input: Input) -> Result<(), RunError> {
        let child = match &input {
            Input::ChildChanged { call_id, ordinal, .. } => Some((call_id.clone(), *ordinal)),
            _ => None,
        };
        self.step(input).await?;
        if let Some(place) = child {
            self.children.answer(&place);
        }
        Ok(())
    }

    /// Handles a request for a child: records it first, then starts it.
    pub(super) async fn child_asked(&mut self, ask: Ask) -> Result<(), RunError> {
        let toolbox = Arc::clone(&self.parts.toolbox);
        let wall_ms = self.deadline.map(|at| {
            u64::try_from(at.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX)
        });
        let found = match self.run.find_child(toolbox.catalog(), &ask.as_ask()) {
            Ok(found) => found.map(|child| Arc::<str>::from(child.run_id.as_str())),
            Err(refusal) => {
                ask.refuse(refusal);
                return Ok(());
            }
        };
        let is_new = found.is_none();
        let run_id = found.unwrap_or_else(new_id);
        // The child's initial values are checked against the schemas of their keys.
        let plan = aside_if(!ask.as_ask().request.seed.is_empty(), || {
            self.run.plan_child(toolbox.catalog(), &ask.as_ask(), &run_id, wall_ms)
        });
        match &plan {
            Err(error) if is_new => {
                ask.refuse(ChildRefusal::Error(error.clone()));
                return Ok(());
            }
            _ if is_new => self.step(ask.input(&run_id)).await?,
            _ => {}
        }
        let decision = self.run.decision_for_child(ask.as_ask().call_id, &run_id).cloned();
        let exports = ask.as_ask().request.exports.clone();
        let cancel = self.parts.cancel.child_token();
        let place = ask.place();
        let start = ChildStart { run_id, plan, decision, exports, cancel };
        if let Some(work) = self.children.take_up(&self.parts.host, ask, start, &self.parts.publisher) {
            self.work.push(EffectKey::Child(place.0, place.1), work);
        }
        Ok(())
    }

    /// Returns the run's resources that an attempt may use.
    pub(super) fn attempt_resources(&mut self, execution: &Execution) -> AttemptResources {
        let reports = Arc::new(CallReports {
            publisher: self.parts.publisher.clone(),
            call_id: execution.permit.call_id().clone(),
            attempt: execution.attempt,
        });
        let tool = execution.permit.tool();
        let is_own = tool.owner.id == HOST_ID;
        AttemptResources {
            outcomes: self.outcomes.clone(),
            refusals: self.refusals.clone(),
            children: self.children.of_attempt(&tool.delegates, &reports),
            reports,
            history: is_own.then(|| Arc::clone(self.run.messages())),
        }
    }
}
