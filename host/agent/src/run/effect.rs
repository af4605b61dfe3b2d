//! Effects: the work that a run asks the host to do.

use super::completion::EndedCall;
use crate::context::Resumption;
use crate::gate::{CallsBefore, Permit};
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
    After(EndedCall),
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
    /// The gates whose questions about this call a person answered; see [`resolve`](crate::gate::resolve).
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
