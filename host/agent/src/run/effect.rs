//! Effects: the work that a run asks the host to do.

use super::Run;
use super::call::{Call, Validation};
use super::completion::Ended;
use super::{Phase, turn::Turn};
use crate::catalog::{Catalog, Tool};
use crate::context::Resumption;
use crate::gate::{self, CallsBefore, Judgement, Permit};
use crate::hook::HookPoint;
use crate::proposal::Proposal;
use crate::state::Snapshot;
use smol_str::SmolStr;
use std::sync::Arc;

/// Work that must be in progress once the events so far are committed.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Ask the model for its next turn.
    AskModel {
        /// The number of the request to the model.
        ask: u32,
    },
    /// Ask the tool's own argument check, in a sealed sandbox.
    Validate(Proposal),
    /// Ask every gate about each of these calls in order, up to the first call that is held back.
    /// If there are no calls, no gate is asked; the equally empty answer ends the calls whose tool
    /// is gone.
    Judge {
        /// The round of questions.
        round: u32,
        /// The calls.
        questions: Vec<Question>,
    },
    /// Run one attempt.
    Execute(Execution),
    /// Ask the hooks after a call whose end is known.
    After(Ended),
    /// End a child whose call no longer waits for it.
    EndChild {
        /// The call that requested the child.
        call_id: SmolStr,
        /// The position of the child among the call's requests.
        ordinal: u32,
        /// The child's run.
        run_id: String,
    },
}

/// The identity of an effect. An effect that is already in progress is not started again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EffectKey {
    /// The request to the model with this number.
    Model(u32),
    /// The check of this call's arguments.
    Validate(SmolStr),
    /// This round of questions to the gates.
    Judge(u32),
    /// This attempt of this call.
    Execute(SmolStr, u32),
    /// The hooks after this call.
    After(SmolStr),
    /// The child at this position of this call.
    Child(SmolStr, u32),
}

/// A call about which the gates are asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// The call.
    pub proposal: Proposal,
    /// The person's decision, if the call continues after one.
    pub resumption: Option<Arc<Resumption>>,
    /// The gates whose questions about this call a person answered; see [`gate::resolve`].
    pub approved_gates: Vec<SmolStr>,
    /// How many other calls of the run were let through, assuming that the calls before this one
    /// are.
    pub calls_before: CallsBefore,
    /// Whether the hooks before the call are asked once the gates let it through. They are asked
    /// only once for each call.
    pub asks_hooks: bool,
}

/// One attempt to run.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The permit to run the call.
    pub permit: Permit,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The earliest start, in milliseconds since the Unix epoch; 0 means at once.
    pub not_before_ms: u64,
    /// The timeout of the attempt, in milliseconds.
    pub timeout_ms: u32,
    /// The deadline of the whole call including this attempt, in milliseconds since the Unix epoch;
    /// 0 if unknown.
    pub until_ms: u64,
    /// The state at the start of the batch.
    pub snapshot: Snapshot,
    /// The person's decision, if the call continues after one.
    pub resume: Option<Arc<Resumption>>,
}

impl Effect {
    /// Returns the identity of the effect.
    #[must_use]
    pub fn key(&self) -> EffectKey {
        match self {
            Effect::AskModel { ask } => EffectKey::Model(*ask),
            Effect::Validate(proposal) => EffectKey::Validate(proposal.call_id().clone()),
            Effect::Judge { round, .. } => EffectKey::Judge(*round),
            Effect::EndChild { call_id, ordinal, .. } => EffectKey::Child(call_id.clone(), *ordinal),
            Effect::After(ended) => EffectKey::After(ended.call_id.clone()),
            Effect::Execute(e) => EffectKey::Execute(e.permit.call_id().clone(), e.attempt),
        }
    }
}

impl Run {
    /// Returns everything that must be in progress now.
    #[must_use]
    pub fn next(&self, catalog: &Catalog) -> Vec<Effect> {
        let mut effects = match (&self.phase, &self.turn) {
            (Phase::Asking, _) => vec![Effect::AskModel { ask: self.asks }],
            (Phase::Calling, Some(turn)) if turn.batch.is_some() => self.executions(turn, catalog),
            (Phase::Calling, Some(turn)) => self.questions(turn, catalog),
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

    fn executions(&self, turn: &Turn, catalog: &Catalog) -> Vec<Effect> {
        let Some(batch) = &turn.batch else {
            return Vec::new();
        };
        batch
            .calls
            .iter()
            .map(|at| &turn.calls[*at])
            .filter(|call| call.is_under_way())
            .filter_map(|call| {
                let Judgement::Permitted(permit) =
                    gate::judge(call.proposal(catalog)?, call.let_through.as_ref()?, &call.approved_gates)
                else {
                    return None;
                };
                Some(Effect::Execute(Execution {
                    attempt: call.attempts,
                    not_before_ms: call.not_before_ms,
                    until_ms: call.until_ms,
                    timeout_ms: self.spec.limits.attempt_timeout_ms(&permit.tool().descriptor.execution),
                    snapshot: batch.snapshot.clone(),
                    resume: call.shown.clone(),
                    permit,
                }))
            })
            .collect()
    }

    fn questions(&self, turn: &Turn, catalog: &Catalog) -> Vec<Effect> {
        // Gates see the state with the writes of the hooks after a call.
        if turn.calls.iter().any(|call| call.ending.is_some())
            || !turn.calls.iter().any(Call::wants_judgement)
        {
            return Vec::new();
        }
        let most = if self.spec.limits.concurrency == 1 { 1 } else { usize::MAX };
        let pending = || {
            let wanting = turn.calls.iter().filter(|call| call.wants_judgement());
            wanting.filter(|call| call.tool(catalog).is_some() && call.arguments.is_some()).take(most)
        };
        let is_unasked = |call: &&Call| {
            call.validation == Validation::Unasked
                && call.tool(catalog).is_some_and(|tool| tool.descriptor.execution.validates)
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
                asks_hooks: has_hooks && call.hooked.is_none(),
                resumption: call.resumption.clone(),
                approved_gates: call.approved_gates.clone(),
            })
        };
        // Most turns have one call, and a question is large.
        let mut questions = Vec::with_capacity(pending().count());
        questions.extend(pending().zip(self.let_through.before(pending())).filter_map(question));
        vec![Effect::Judge { round: turn.rounds, questions }]
    }
}

impl Call {
    /// Returns the tool in the version on which the call began, if it still exists.
    pub(super) fn tool<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
        if self.tool.is_some() {
            return self.tool.as_ref();
        }
        let version = self.version.as_ref()?;
        let is_same =
            |tool: &&Arc<Tool>| tool.owner.id == version.id && tool.owner.version == version.version;
        catalog.tool(&self.tool_name).filter(is_same)
    }

    /// Returns the tool, or the version that replaced it. That version determines what a call that
    /// returned before an upgrade may change.
    pub(super) fn tool_or_successor<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
        let version = self.version.as_ref()?;
        let successor = || catalog.tool(&self.tool_name).filter(|tool| tool.owner.id == version.id);
        self.tool(catalog).or_else(successor)
    }

    fn proposal(&self, catalog: &Catalog) -> Option<Proposal> {
        Some(Proposal::recorded(&self.id, Arc::clone(self.tool(catalog)?), self.arguments.clone()?))
    }
}
