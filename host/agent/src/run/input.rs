//! Inputs: events from outside to which a run reacts.

use super::child_plan::{ChildEnd, RunSeed};
use super::spec::{Decision, RunSpec};
use crate::gate::GateVerdict;
use crate::hook::{HookAnswer, ModelHooked};
use crate::message::ModelReply;
use crate::outcome::{Fault, Outcome, Usage};
use crate::recorded_inputs::RecordedInputs;
use crate::schema::Violation;
use smol_str::SmolStr;
use std::sync::Arc;

/// One input to a run. An input that arrives too late, for a call that has ended or an attempt that
/// was replaced, produces no events.
#[derive(Debug, Clone)]
pub enum Input {
    /// Start the run.
    Start(Arc<RunSpec>),
    /// Reject a direct call before any of it is read.
    StartRefused(Arc<RunSpec>, Fault),
    /// Start a child with the data from its parent.
    StartSeeded(Arc<RunSpec>, RunSeed),
    /// The model replied.
    Replied {
        /// The number of the request to the model.
        ask: u32,
        /// The reply.
        reply: ModelReply,
        /// Changes that hooks made to the turn; `None` if they made none.
        hooked: Option<Box<ModelHooked>>,
    },
    /// The model failed for good.
    ModelFailed {
        /// The number of the request to the model.
        ask: u32,
        /// The provider's error message.
        error: String,
    },
    /// The tool's own argument check answered.
    Validated {
        /// The call.
        call_id: SmolStr,
        /// The problem that the check found; `None` if the arguments passed.
        fault: Option<Fault>,
    },
    /// The gates answered about each call, up to the first that is held back.
    Judged {
        /// The round of questions.
        round: u32,
        /// The ids of the calls, each with the answers of all gates.
        answers: Vec<(SmolStr, Arc<[GateVerdict]>)>,
        /// The answers of the hooks before a call, for each call that was let through and whose
        /// hooks were to be asked.
        hooked: Vec<(SmolStr, Vec<HookAnswer>)>,
    },
    /// An attempt ended.
    Attempted {
        /// The call.
        call_id: SmolStr,
        /// The attempt, counted from 1.
        attempt: u32,
        /// The outcome of the attempt.
        outcome: Arc<Outcome>,
        /// Resources used by the attempt.
        usage: Usage,
        /// Inputs that the attempt took from the world; `None` if it took none.
        taken: Option<Arc<RecordedInputs>>,
    },
    /// The hooks after a call answered.
    Hooked {
        /// The call.
        call_id: SmolStr,
        /// The answers, in the order in which the hooks were asked.
        answers: Vec<HookAnswer>,
    },
    /// A call requests a child that it does not have yet.
    ChildAsked {
        /// The call.
        call_id: SmolStr,
        /// The attempt, counted from 1.
        attempt: u32,
        /// The position among the call's requests, counted from 1.
        ordinal: u32,
        /// The agent.
        agent_id: String,
        /// The digest that distinguishes the request from others.
        digest: String,
        /// The child's run.
        run_id: String,
    },
    /// A child ended or waits.
    ChildChanged {
        /// The call.
        call_id: SmolStr,
        /// The position of the child among the call's requests.
        ordinal: u32,
        /// The state in which the child was left.
        end: ChildEnd,
    },
    /// A person decided about one or more calls. All decisions are taken, or none.
    Decided(Vec<Decision>),
    /// The user sent a message while the run waits.
    Message(String),
    /// End the run. Its work in progress has been stopped.
    Cancel {
        /// The reason.
        reason: String,
    },
    /// The run's wall time is used up. Its work in progress has been stopped.
    WallTimeUp,
    /// End the run, with the usage counted for its stopped attempts. Otherwise as
    /// [`Cancel`](Self::Cancel) and [`WallTimeUp`](Self::WallTimeUp).
    CutShort {
        /// The reason; `None` if the wall time is used up.
        reason: Option<String>,
        /// The calls, each with the minimum usage of its attempts.
        stopped: Vec<(SmolStr, Usage)>,
    },
    /// The process that ran this run is gone, and its work in progress with it.
    Restarted,
    /// The process that made this direct call is gone, and the caller with it. The call ends, and
    /// none of it runs again.
    Abandoned,
}

/// The reason for which an input was rejected. The run is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct InputRefusal {
    /// The kind of the reason.
    pub kind: RefusalKind,
    message: String,
}

/// The kind of reason for which an input was rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum RefusalKind {
    /// A decision names this target, and nothing of that id ever asked.
    UnknownTarget(String),
    /// The question was decided already, or ended without a decision.
    AlreadyDecided {
        /// The id of the call or question that a decision named.
        target: String,
        /// The decision that was made; `None` if there is none, or if it is not known here.
        decision: Option<Box<Decision>>,
    },
    /// The answer does not fit the question's schema.
    DoesNotFit(Vec<Violation>),
    /// Any other reason.
    Other,
}

impl InputRefusal {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::of(RefusalKind::Other, message)
    }

    /// Returns the refusal of a decision that came too late for the call or question with this id,
    /// with the decision that was made before, if it is known.
    #[must_use]
    pub fn already_decided(target: &str, decision: Option<Decision>) -> Self {
        let shown = crate::text::clean(target, 100);
        let message = format!("the question {shown} no longer waits: it was decided or cancelled already");
        let decision = decision.map(Box::new);
        Self::of(RefusalKind::AlreadyDecided { target: target.to_owned(), decision }, message)
    }

    pub(super) fn of(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}
