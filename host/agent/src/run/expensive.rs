//! Estimates whether a decision could be slow and therefore belongs on a separate thread.
//!
//! The slow parts are checking values against untrusted schemas, of which the maximum number of steps is
//! known in advance, and changing long values.

use super::call_stage::Stage;
use super::spec::Task;
use super::{Event, Input, Run};
use crate::catalog::Catalog;
use crate::gate::Verdict;
use crate::outcome::{Outcome, ToolResult, ToolStatus};
use crate::schema::{SHORT_STEPS, parts, parts_of_text};

/// A value of more bytes may take milliseconds to copy and to change.
const LONG_VALUE_BYTES: usize = 1024 * 1024;

impl Run {
    /// Returns whether the decision on this input could take more than a few milliseconds of
    /// checking values against schemas, or compiles a schema.
    #[must_use]
    pub fn takes_long(&self, catalog: &Catalog, input: &Input) -> bool {
        let mut steps = Steps { left: SHORT_STEPS };
        let fits = match input {
            Input::Start(spec) | Input::StartSeeded(spec, _) => match &spec.task {
                Task::Call { tool_name, arguments } => steps.arguments(catalog, tool_name, arguments),
                Task::Prompt(_) => Some(()),
            },
            Input::Replied { reply, .. } => {
                let mut calls = reply.message.calls.iter();
                calls.try_for_each(|call| steps.arguments(catalog, &call.name, &call.arguments))
            }
            Input::Attempted { outcome, .. } => {
                steps.outcome(self, catalog, outcome).and_then(|()| steps.returned(self, catalog))
            }
            Input::Hooked { .. } | Input::ChildChanged { .. } | Input::Restarted | Input::Abandoned => {
                steps.returned(self, catalog)
            }
            Input::Judged { answers, .. } => {
                let mut verdicts = answers.iter().flat_map(|(_, recorded)| recorded.iter());
                verdicts.try_for_each(|recorded| match &recorded.verdict {
                    Verdict::Suspend(ticket) => not_compiled(ticket.response_schema.is_some()),
                    Verdict::SetResult(result) => ticket_of(result),
                    Verdict::Allow | Verdict::Deny(_) | Verdict::Block(_) => Some(()),
                })
            }
            // A person is waiting, and the schema of the question may have to be compiled.
            Input::Decided(_) => None,
            Input::ModelFailed { .. }
            | Input::Validated { .. }
            | Input::ChildAsked { .. }
            | Input::Message(_)
            | Input::Cancel { .. }
            | Input::WallTimeUp
            | Input::StartRefused(..)
            | Input::CutShort { .. } => Some(()),
        };
        fits.is_none()
    }

    /// Returns whether applying this event could take more than a few milliseconds, because it changes a
    /// long value.
    #[must_use]
    pub fn changes_long_value(&self, event: &Event) -> bool {
        let mut updates = event.change().into_iter().flat_map(|change| change.updates.iter());
        updates.any(|update| self.state.bytes_of(&update.key) > LONG_VALUE_BYTES)
    }
}

/// The remaining steps. Every method returns `None` once they are used up.
struct Steps {
    left: u64,
}

impl Steps {
    fn take(&mut self, steps: u64) -> Option<()> {
        self.left = self.left.checked_sub(steps)?;
        Some(())
    }

    fn arguments(&mut self, catalog: &Catalog, tool_name: &str, text: &str) -> Option<()> {
        let Some(tool) = catalog.tool(tool_name) else { return Some(()) };
        self.take(tool.arguments.most_steps(parts_of_text(text)))
    }

    /// Counts the checks of earlier outcomes, which are processed with the next input.
    fn returned(&mut self, run: &Run, catalog: &Catalog) -> Option<()> {
        for call in run.calls() {
            match &call.stage {
                Stage::Returned { outcome, .. } => self.outcome(run, catalog, outcome)?,
                Stage::Completing(_, completion) => {
                    let mutations = completion.mutations.iter();
                    let updates = mutations.map(|m| (m.key.as_str(), m.update.as_ref()));
                    self.mutations(run, catalog, updates)?;
                }
                _ => {}
            }
        }
        Some(())
    }

    fn outcome(&mut self, run: &Run, catalog: &Catalog, outcome: &Outcome) -> Option<()> {
        let Outcome::Returned(output) = outcome else { return Some(()) };
        ticket_of(&output.result)?;
        self.mutations(run, catalog, output.mutations.iter().map(|m| (m.key.as_str(), Some(&m.update))))
    }

    fn mutations<'m>(
        &mut self,
        run: &Run,
        catalog: &Catalog,
        mutations: impl Iterator<Item = (&'m str, Option<&'m serde_json::Value>)>,
    ) -> Option<()> {
        // Each mutation of a key adds to the result of the ones before it.
        let mut added = 0;
        for (key, update) in mutations {
            let Some(definition) = catalog.keys().get(key) else { continue };
            if run.state.bytes_of(key) > LONG_VALUE_BYTES {
                return None;
            }
            let Some(schema) = &definition.schema else { continue };
            added += update.map_or(0, parts);
            // For a list that only grows, only the added elements are checked.
            let present = match definition.grows_alone() {
                true => 1,
                false => parts(run.state.get(key).unwrap_or(&definition.initial)),
            };
            self.take(schema.most_steps(present + added))?;
        }
        Some(())
    }
}

/// Charges the compilation of a ticket's schema, which happens before its question is asked.
fn ticket_of(result: &ToolResult) -> Option<()> {
    let ToolStatus::Pending(Some(ticket)) = &result.status else { return Some(()) };
    not_compiled(ticket.response_schema.is_some())
}

fn not_compiled(has_schema: bool) -> Option<()> {
    (!has_schema).then_some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::catalog::{CatalogGrants, Owner, OwnerKind};
    use crate::descriptor::{ComponentDescriptor, ToolDescriptor};
    use crate::run::{RunSpec, Thread};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn z1_large_checks_do_not_hold_up_a_thread_that_others_wait_for() {
        let owner =
            Owner { id: "o".into(), kind: OwnerKind::Component, origin: "o".into(), version: "1".into() };
        let parameters = json!({"properties": {"list": {"items": {"type": "integer", "minimum": 0}}}});
        let tool = ToolDescriptor::new("t", "t", "Does it.").with_parameters(parameters);
        let descriptor =
            ComponentDescriptor { id: "o".into(), version: "1".into(), tools: vec![tool], state: Vec::new() };
        let mut catalog = Catalog::default();
        catalog.add(owner, descriptor, &CatalogGrants::default()).unwrap();
        let run = Run::new(Thread::default());
        let call = |count: usize| {
            let arguments = json!({"list": vec![1; count]}).to_string().into();
            let task = Task::Call { tool_name: "t".into(), arguments };
            Input::Start(Arc::new(RunSpec { task, ..(**run.spec()).clone() }))
        };
        assert!(!run.takes_long(&catalog, &call(100)));
        assert!(run.takes_long(&catalog, &call(100_000)));
    }
}
