//! What the world tells a run.

use super::child_plan::{ChildEnd, Seed};
use super::spec::{Decision, RunSpec};
use crate::gate::GateVerdict;
use crate::hook::{HookAnswer, ModelHooked};
use crate::message::ModelReply;
use crate::outcome::{Fault, Outcome, Usage};
use crate::recorded_inputs::RecordedInputs;
use smol_str::SmolStr;
use std::sync::Arc;

/// One thing that the world tells a run. An input that comes too late, for a call
/// that has ended or an attempt that was replaced, gives no events.
#[derive(Debug, Clone)]
pub enum Input {
    /// The run shall begin.
    Start(Arc<RunSpec>),
    /// A direct call is refused before anything of it is read.
    StartRefused(Arc<RunSpec>, Fault),
    /// A child shall begin, with what its parent gives it.
    StartSeeded(Arc<RunSpec>, Seed),
    /// The model replied.
    Replied {
        /// Which time of asking.
        ask: u32,
        /// The reply.
        reply: ModelReply,
        /// What hooks did to the turn; none where they did nothing.
        hooked: Option<Box<ModelHooked>>,
    },
    /// The model cannot reply, for good.
    ModelFailed {
        /// Which time of asking.
        ask: u32,
        /// The provider's words.
        error: String,
    },
    /// A tool's own check of its arguments answered.
    Validated {
        /// The call.
        call_id: SmolStr,
        /// What it found wrong.
        fault: Option<Fault>,
    },
    /// The gates answered, about each call up to the first that is held back.
    Judged {
        /// Which round of questions.
        round: u32,
        /// The calls' ids with every gate's answer.
        answers: Vec<(SmolStr, Arc<[GateVerdict]>)>,
        /// The ids of those calls that were let through and whose hooks were asked
        /// for, with what the hooks before them answered.
        hooked: Vec<(SmolStr, Vec<HookAnswer>)>,
    },
    /// An attempt ended.
    Attempted {
        /// The call.
        call_id: SmolStr,
        /// Which attempt.
        attempt: u32,
        /// What came of it.
        outcome: Arc<Outcome>,
        /// What it used.
        usage: Usage,
        /// What it took from the world; none where it took nothing.
        taken: Option<Arc<RecordedInputs>>,
    },
    /// The hooks after a call answered.
    Hooked {
        /// The call.
        call_id: SmolStr,
        /// What each said, in the order in which they were asked.
        answers: Vec<HookAnswer>,
    },
    /// A call asks for a child that it does not have yet.
    ChildAsked {
        /// The call.
        call_id: SmolStr,
        /// Which attempt.
        attempt: u32,
        /// The request's place among the call's requests; 1 for the first.
        ordinal: u32,
        /// The agent.
        agent_id: String,
        /// What tells the request from another.
        digest: String,
        /// The child's run.
        run_id: String,
    },
    /// A child left off.
    ChildStands {
        /// The call.
        call_id: SmolStr,
        /// The child's place.
        ordinal: u32,
        /// How.
        end: ChildEnd,
    },
    /// A person decided.
    Decided(Decision),
    /// The user said something while the run waits.
    Message(String),
    /// The run shall end; what was under way has been stopped.
    Cancel {
        /// Why.
        reason: String,
    },
    /// The run's wall time is used up; what was under way has been stopped.
    WallTimeUp,
    /// The run shall end, and what was under way has been stopped. As [`Cancel`](Self::Cancel)
    /// and [`WallTimeUp`](Self::WallTimeUp), with what was counted of the stopped attempts.
    CutShort {
        /// Why; the wall time is used up where there is no reason.
        reason: Option<String>,
        /// The calls and what their attempts used at least.
        stopped: Vec<(SmolStr, Usage)>,
    },
    /// The process that ran this run is gone: what was under way is not.
    Restarted,
    /// The process that made this direct call is gone, and with it whoever waited for the
    /// answer: the call ends, and nothing of it runs again.
    Abandoned,
}

/// Why an input was not taken. Nothing happened; the run stands as it stood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub(super) String);
