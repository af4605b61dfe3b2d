//! What happened in a run: facts, in one order, numbered without gaps.
//!
//! Events are the only memory of a run. Folding them by [`Run::apply`](super::Run::apply)
//! gives back everything that the run knows, in this process or another.

pub use super::answer_schema::AnswerSchema;
pub use super::usage::{ChildUsage, RunUsage};

use super::call::CallEnd;
use super::completion::{AfterTurn, CallCompletion};
use super::spec::{AgentSpec, Decision, RunSpec};
use crate::catalog::Tool;
use crate::child::ChildStatus;
use crate::gate::GateVerdict;
use crate::hook::{HookAnswer, HookPoint, ModelHooked, ToolFilter};
use crate::message::{Message, ModelReply, TokenUsage};
use crate::outcome::{Fault, Mutation, Outcome, ScheduledNote, Ticket, Usage};
use crate::proposal::Arguments;
use crate::recorded_inputs::RecordedInputs;
use crate::state::StateChange;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::sync::Arc;

/// One fact.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run began.
    RunStarted {
        /// Whose run it is and what bounds it.
        spec: Arc<RunSpec>,
    },
    /// The run began with state and a conversation that its parent gave it.
    RunSeeded {
        /// The keys that were set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<StateChange>,
        /// What was said before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<Message>,
    },
    /// A message of the user joined the conversation.
    MessageAdded {
        /// What the user said.
        text: String,
    },
    /// A turn of the model began.
    StepStarted {
        /// 1 for the first.
        step: u32,
    },
    /// Hooks had a say in what the model was asked or replied.
    ModelHooked {
        /// The turn.
        step: u32,
        /// What they did.
        hooked: Box<ModelHooked>,
    },
    /// The model replied; every call in it has an id of its own.
    ModelReplied {
        /// The turn.
        step: u32,
        /// The whole reply.
        reply: Arc<ModelReply>,
    },
    /// A call was checked.
    CallProposed(Arc<Proposed>),
    /// The tool's own check of the arguments was asked.
    CallValidated {
        /// The call.
        call_id: SmolStr,
        /// What the check found wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
    },
    /// Every gate was asked about the call.
    CallGated {
        /// The call.
        call_id: SmolStr,
        /// Every answer.
        verdicts: Arc<[GateVerdict]>,
    },
    /// These calls run at once, on the state as it stands here.
    BatchStarted {
        /// The calls, in the order in which the model asked.
        call_ids: Vec<SmolStr>,
        /// The state's revision.
        revision: u64,
    },
    /// An attempt begins.
    CallStarted {
        /// The call.
        call_id: SmolStr,
        /// 1 for the first.
        attempt: u32,
        /// It begins no earlier, in milliseconds since the Unix epoch.
        #[serde(default)]
        not_before_ms: u64,
        /// When the whole call must have ended, in milliseconds since the Unix epoch; 0 where
        /// that is not known. It is for the process that started the attempt alone: time in
        /// which nobody runs the call does not count.
        #[serde(skip)]
        until_ms: u64,
    },
    /// An attempt took this from the world; how it ended is said in the same commit.
    CallTook {
        /// The call.
        call_id: SmolStr,
        /// Which attempt.
        attempt: u32,
        /// With what it can be run again.
        taken: Arc<RecordedInputs>,
    },
    /// An attempt timed out, and another follows.
    CallRetried {
        /// The call.
        call_id: SmolStr,
        /// The attempt that failed.
        attempt: u32,
        /// Why.
        fault: Fault,
        /// What the attempt used.
        usage: Usage,
    },
    /// The call returned before it is its turn to be applied.
    CallReturned {
        /// The call.
        call_id: SmolStr,
        /// What it returned, with the mutations that it proposes to keys that persist.
        outcome: Arc<Outcome>,
        /// Those to other keys, which no record holds: after a restart they are gone.
        #[serde(skip)]
        unrecorded: Vec<Mutation>,
        /// What the attempt used.
        usage: Usage,
    },
    /// Another call of the batch changed the same key; this one is judged and run
    /// again on the state as it is now.
    CallConflicted {
        /// The call.
        call_id: SmolStr,
        /// The key.
        key: String,
        /// What the attempt used.
        usage: Usage,
    },
    /// The call ended, and what it changed is part of the state from here on.
    CallFinished(Arc<Finished>),
    /// The call waits for a person.
    CallSuspended(Box<Suspended>),
    /// The hooks on one side of a call answered.
    CallHooked {
        /// The call.
        call_id: SmolStr,
        /// Which side.
        point: HookPoint,
        /// What each said, in the order in which they were asked. What hooks after
        /// the call wrote is part of the change of its end.
        answers: Vec<HookAnswer>,
    },
    /// How the call ends is known; the hooks after it are asked before it does.
    CallEnding(Box<CallCompletion>),
    /// A person decided about a suspended call.
    CallDecided {
        /// The call.
        call_id: SmolStr,
        /// The decision.
        decision: Box<Decision>,
        /// What the host keeps of it for calls to come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<StateChange>,
    },
    /// A call asked for a run of another agent, which begins now.
    ChildStarted {
        /// The call.
        call_id: SmolStr,
        /// The request's place among the call's requests; 1 for the first.
        ordinal: u32,
        /// The child's run.
        child_run_id: String,
        /// The agent.
        agent_id: String,
        /// What tells the request from another.
        digest: String,
    },
    /// A child waits for a person.
    ChildWaiting {
        /// The call.
        call_id: SmolStr,
        /// The child's place.
        ordinal: u32,
        /// What is asked.
        question: Box<ChildQuestion>,
    },
    /// A child ended.
    ChildFinished {
        /// The call.
        call_id: SmolStr,
        /// The child's place.
        ordinal: u32,
        /// How it ended.
        status: ChildStatus,
        /// The turns of the model that it and its own children took.
        steps: u32,
        /// The tokens that they took.
        tokens: TokenUsage,
    },
    /// The conversation was handed to another agent, which goes on from here.
    Transferred {
        /// Who handed it over.
        from: String,
        /// Who goes on.
        agent: Arc<AgentSpec>,
        /// Has the thread's later messages go to the new agent.
        change: StateChange,
    },
    /// What is open of the turn ends early; once the hooks after its calls have
    /// answered, this follows.
    TurnCut {
        /// What.
        then: AfterTurn,
    },
    /// The turn is over; every call of it has its answer.
    StepFinished {
        /// The turn.
        step: u32,
    },
    /// Nothing can go on before a person decides.
    RunWaiting,
    /// The run ended; nothing follows.
    RunFinished {
        /// How.
        status: RunStatus,
        /// The answer, or the last text where there is none.
        text: String,
        /// What it used in all.
        usage: Box<RunUsage>,
    },
}

/// A call as it was checked: a known tool and arguments, or what is wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Proposed {
    /// The call's id, unique within the run.
    pub call_id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// The component (or plugin, server, agent) that brings the tool, and its
    /// version; none where the tool is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ToolVersion>,
    /// The arguments as they were read; none where they are not acceptable JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arguments>,
    /// Why the call cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The tool itself, while this process lives: a call keeps to the version on
    /// which it began.
    #[serde(skip)]
    pub tool: Option<Arc<Tool>>,
}

/// Which version of whose tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolVersion {
    /// The owner's id.
    pub id: SmolStr,
    /// The owner's version, such as a component's digest.
    pub version: SmolStr,
}

/// How a call ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// The call.
    pub call_id: SmolStr,
    /// The tool's name, stamped by the host.
    pub tool_name: SmolStr,
    /// The result or the fault.
    pub end: CallEnd,
    /// What it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<StateChange>,
    /// How the call itself ended, where hooks made something else of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Box<CallEnd>>,
    /// Notes that it left for the model's next turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Notes for later turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduled: Vec<ScheduledNote>,
    /// Which tools the model is told of in its next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Box<ToolFilter>>,
    /// The agent to which it hands the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
    /// Whether it ends the loop that the run is part of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalates: bool,
    /// What all its attempts used. (Records of earlier versions have its last attempt alone.)
    #[serde(default)]
    pub usage: Usage,
    /// The part of that which attempts before the last used.
    #[serde(default, skip_serializing_if = "Usage::is_nothing")]
    pub earlier: Usage,
}

/// A question to a person, as the host stamped it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Suspended {
    /// The call.
    pub call_id: SmolStr,
    /// The suspension's own id, unique within the run.
    pub suspension_id: String,
    /// The tool's name, stamped by the host.
    pub tool_name: SmolStr,
    /// The call's arguments, stamped by the host. The record has them where the call was
    /// proposed or decided about.
    #[serde(skip)]
    pub arguments: Option<Arguments>,
    /// The question.
    pub ticket: Ticket,
    /// The version of the tool that is to go on; it asks again on another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ToolVersion>,
    /// The gate that asks; none where the tool itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<SmolStr>,
    /// The child whose question it is, and to which the decision goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<ChildQuestion>>,
    /// What the call changed before it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<StateChange>,
    /// What its last attempt used.
    #[serde(default)]
    pub usage: Usage,
    /// The compiled schema of the answer; not part of the record.
    #[serde(skip)]
    pub answer: AnswerSchema,
}

/// A question to a person that a child run asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildQuestion {
    /// The child's run.
    pub run_id: String,
    /// The child's agent.
    pub agent_id: String,
    /// The child's call that waits.
    pub call_id: SmolStr,
    /// The suspension's id in the child's run.
    pub suspension_id: String,
    /// The name of the tool that waits, stamped by the host.
    pub tool_name: SmolStr,
    /// That tool's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arguments>,
    /// The question.
    pub ticket: Ticket,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RunStatus {
    /// The model gave its answer, or the direct call was done.
    Completed,
    /// A gate ended it.
    Blocked {
        /// The gate's words.
        reason: String,
    },
    /// It met one of its limits.
    Stopped {
        /// The limit's name.
        limit: String,
    },
    /// It was cancelled.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// The model or the host failed.
    Failed {
        /// What happened, in words.
        error: String,
    },
}
