//! What a run asks of the world.

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

/// Something that must be under way, now that the events so far are committed.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Ask the model for its next turn.
    AskModel {
        /// Which time of asking.
        ask: u32,
    },
    /// Ask the tool's own check of the arguments, sealed.
    Validate(Proposal),
    /// Ask every gate about each of these calls, in order, up to the first that
    /// is held back. Without calls there is nobody to ask; the answer, which is
    /// as empty, ends the calls whose tool is gone.
    Judge {
        /// Which round of questions.
        round: u32,
        /// The calls.
        questions: Vec<Question>,
    },
    /// Run one attempt.
    Execute(Execution),
    /// Ask the hooks after a call, whose end is known.
    After(Ended),
    /// End a child for which nobody waits any more.
    EndChild {
        /// The call that asked for it.
        call_id: SmolStr,
        /// The child's place.
        ordinal: u32,
        /// The child's run.
        run_id: String,
    },
}

/// What tells one effect from another; an effect that is under way is not begun
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EffectKey {
    /// This time of asking the model.
    Model(u32),
    /// The check of this call's arguments.
    Validate(SmolStr),
    /// This round of questions to the gates.
    Judge(u32),
    /// This attempt of this call.
    Execute(SmolStr, u32),
    /// The hooks after this call.
    After(SmolStr),
    /// The child of this call in this place.
    Child(SmolStr, u32),
}

/// A call that the gates are asked about.
#[derive(Debug, Clone)]
pub struct Question {
    /// The call.
    pub proposal: Proposal,
    /// What a person decided about it, where the call goes on after a decision.
    pub resumption: Option<Arc<Resumption>>,
    /// The gates whose questions about this call a person answered; see
    /// [`gate::stands`].
    pub approved_gates: Vec<SmolStr>,
    /// How many other calls of the run were let through, if those that stand before
    /// it are.
    pub calls_before: CallsBefore,
    /// Whether the hooks before the call are to be asked, if the gates let it through:
    /// they are asked once for each call.
    pub asks_hooks: bool,
}

/// One attempt to run.
#[derive(Debug, Clone)]
pub struct Execution {
    /// Leave to run it.
    pub permit: Permit,
    /// 1 for the first.
    pub attempt: u32,
    /// It begins no earlier, in milliseconds since the Unix epoch; 0 for at once.
    pub not_before_ms: u64,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u32,
    /// When the whole call must have ended, this attempt included, in milliseconds since the
    /// Unix epoch; 0 where that is not known.
    pub until_ms: u64,
    /// The state as it stood when the batch began.
    pub snapshot: Snapshot,
    /// What a person decided, where the call goes on after a decision.
    pub resume: Option<Arc<Resumption>>,
}

impl Effect {
    /// What tells this effect from others.
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
    /// Everything that must be under way now.
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
        // What the hooks after a call write is part of the state that gates are shown.
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
    /// The tool of the version on which the call began, where it is still there.
    pub(super) fn tool<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
        if self.tool.is_some() {
            return self.tool.as_ref();
        }
        let version = self.version.as_ref()?;
        let is_same =
            |tool: &&Arc<Tool>| tool.owner.id == version.id && tool.owner.version == version.version;
        catalog.tool(&self.tool_name).filter(is_same)
    }

    /// The same, or the version that has taken its place: it says what a call that returned
    /// before an upgrade may change.
    pub(super) fn tool_or_successor<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
        let version = self.version.as_ref()?;
        let successor = || catalog.tool(&self.tool_name).filter(|tool| tool.owner.id == version.id);
        self.tool(catalog).or_else(successor)
    }

    fn proposal(&self, catalog: &Catalog) -> Option<Proposal> {
        Some(Proposal::recorded(&self.id, Arc::clone(self.tool(catalog)?), self.arguments.clone()?))
    }
}
