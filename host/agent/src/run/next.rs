//! The effects that must be in progress now, derived from the applied events alone.

use super::actions;
use super::call::Call;
use super::call_stage::Stage;
use super::turn::{Batch, Turn};
use super::{Effect, Execution, Phase, Question, Run};
use crate::catalog::Catalog;
use crate::gate::CallsBefore;
use crate::hook::HookPoint;
use crate::message::ToolSpec;

impl Run {
    /// Returns everything that must be in progress now.
    #[must_use]
    pub fn next(&self, catalog: &Catalog) -> Vec<Effect> {
        let mut effects = match (&self.phase, &self.turn) {
            (Phase::Asking, _) => vec![Effect::AskModel { ask: self.asks }],
            (Phase::Calling, Some(turn)) => match &turn.batch {
                Some(batch) => self.executions(turn, batch, catalog),
                None => self.questions(turn, catalog),
            },
            _ => Vec::new(),
        };
        effects.extend(self.ending_calls().map(Effect::After));
        effects.extend(self.orphans().map(|((call_id, ordinal), child)| Effect::EndChild {
            call_id: call_id.clone(),
            ordinal: *ordinal,
            run_id: child.run_id.clone(),
        }));
        effects
    }

    /// Returns the attempts in progress.
    fn executions(&self, turn: &Turn, batch: &Batch, catalog: &Catalog) -> Vec<Effect> {
        let calls = batch.calls.iter().map(|at| &turn.calls[*at]);
        let executions = calls.filter_map(|call| {
            let Stage::Running { clearance, not_before_ms } = call.stage else { return None };
            let permit = clearance.permit(call.proposal(catalog)?);
            Some(Effect::Execute(Execution {
                attempt: call.attempts,
                not_before_ms,
                until_ms: call.until_ms,
                timeout_ms: self.spec.limits.attempt_timeout_ms(&permit.tool().descriptor.execution),
                snapshot: batch.snapshot.clone(),
                resume: call.decision_for_tool().cloned(),
                permit,
            }))
        });
        executions.collect()
    }

    /// Returns the questions to the tools' own checks, or else to the gates.
    fn questions(&self, turn: &Turn, catalog: &Catalog) -> Vec<Effect> {
        // Gates see the state with the writes of the hooks after a call.
        if turn.calls.iter().any(|call| call.completion().is_some())
            || !turn.calls.iter().any(Call::is_judging)
        {
            return Vec::new();
        }
        let most = if self.spec.limits.concurrency == 1 { 1 } else { usize::MAX };
        let pending = || {
            let wanting = turn.calls.iter().filter(|call| call.is_judging());
            wanting.filter(|call| call.tool(catalog).is_some() && call.arguments.is_some()).take(most)
        };
        let is_unasked = |call: &&Call| {
            !call.is_validated && call.tool(catalog).is_some_and(|tool| tool.descriptor.execution.validates)
        };
        let unasked = pending().filter(is_unasked).filter_map(|call| call.proposal(catalog));
        let unasked: Vec<Effect> = unasked.map(Effect::Validate).collect();
        if !unasked.is_empty() {
            return unasked;
        }
        let has_hooks = catalog.has_hooks(HookPoint::Before);
        let question = |(call, calls_before): (&Call, CallsBefore)| {
            Some(Question {
                calls_before,
                proposal: call.proposal(catalog)?,
                asks_hooks: has_hooks && call.hooks_before.is_none(),
                resumption: call.resumption().cloned(),
                approved_gates: call.approved_gates().to_vec(),
            })
        };
        // Most turns have one call, and a question is large.
        let mut questions = Vec::with_capacity(pending().count());
        questions.extend(pending().zip(self.let_through.before(pending())).filter_map(question));
        vec![Effect::Judge { round: turn.rounds, questions }]
    }

    /// Returns the tools as the model sees them: those that the agent lists and that are not hidden
    /// in this turn, sorted by name. Each has only a name, a description and parameters.
    #[must_use]
    pub fn tool_specs(&self, catalog: &Catalog) -> Vec<ToolSpec> {
        catalog
            .tools()
            .map(|tool| &tool.descriptor)
            .filter(|descriptor| self.spec.agent.lists(&descriptor.name))
            .filter(|descriptor| self.filter.shows(&descriptor.name))
            .map(|descriptor| ToolSpec {
                name: descriptor.name.clone(),
                description: descriptor.description.clone(),
                parameters: match descriptor.name == crate::name::TRANSFER {
                    true => actions::parameters(&self.spec.agent.view, catalog),
                    false => descriptor.parameters.clone(),
                },
            })
            .collect()
    }
}
