//! The events of a run: facts in one order, numbered without gaps.
//!
//! Events are the only memory of a run. Folding them with [`Run::apply`](super::Run::apply)
//! restores everything that the run knows, in this process or another.

pub use super::usage::{ChildUsage, ModelUsage, RunUsage};
pub use crate::catalog::ToolVersion;
pub use crate::question::{ChildQuestion, SuspendedCall};

use super::facts::{AfterTurn, CallCompletion, CallEnd, RunStatus};
use super::spec::{Decision, RunSpec};
use crate::agents::AgentSpec;
use crate::catalog::Tool;
use crate::child::ChildStatus;
use crate::gate::GateVerdict;
use crate::hook::{HookAnswer, HookPoint, ModelHooked};
use crate::message::{Message, ModelReply, TokenUsage};
use crate::outcome::{Fault, Mutation, Outcome, ScheduledNote, ToolFilter, Usage};
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
        /// Identity and limits of the run.
        spec: Arc<RunSpec>,
    },
    /// The run began with a conversation from its client, or with state and a conversation from its
    /// parent.
    RunSeeded {
        /// The keys that were set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<StateChange>,
        /// The earlier conversation.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<Message>,
    },
    /// A message of the user joined the conversation.
    MessageAdded {
        /// The text of the message.
        text: String,
    },
    /// A turn of the model began.
    StepStarted {
        /// 1 for the first.
        step: u32,
    },
    /// Hooks changed the model's request or its reply.
    ModelHooked {
        /// The turn.
        step: u32,
        /// The changes that the hooks made.
        hooked: Box<ModelHooked>,
    },
    /// The model replied. Every call in the reply has its own id.
    ModelReplied {
        /// The turn.
        step: u32,
        /// The whole reply.
        reply: Arc<ModelReply>,
    },
    /// A call was checked.
    CallProposed(Arc<CheckedCall>),
    /// The tool's own argument check answered.
    CallValidated {
        /// The call.
        call_id: SmolStr,
        /// The problem that the check found; `None` if the arguments passed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
    },
    /// Every gate was asked about the call.
    CallGated {
        /// The call.
        call_id: SmolStr,
        /// The answer of each gate.
        verdicts: Arc<[GateVerdict]>,
    },
    /// A batch of calls runs at once on the current state.
    BatchStarted {
        /// The calls, in the order in which the model asked for them.
        call_ids: Vec<SmolStr>,
        /// The revision of the state.
        revision: u64,
    },
    /// An attempt starts.
    CallStarted {
        /// The call.
        call_id: SmolStr,
        /// 1 for the first.
        attempt: u32,
        /// The earliest start, in milliseconds since the Unix epoch.
        #[serde(default)]
        not_before_ms: u64,
        /// The deadline of the whole call, in milliseconds since the Unix epoch; 0 if unknown. It
        /// applies only in the process that started the attempt: time during which no host runs the
        /// call does not count.
        #[serde(skip)]
        until_ms: u64,
    },
    /// The inputs that an attempt took from the world. The same commit records how the attempt
    /// ended.
    CallTook {
        /// The call.
        call_id: SmolStr,
        /// The attempt, counted from 1.
        attempt: u32,
        /// The inputs with which the attempt can be run again.
        taken: Arc<RecordedInputs>,
    },
    /// An attempt timed out, and another follows.
    CallRetried {
        /// The call.
        call_id: SmolStr,
        /// The attempt that failed.
        attempt: u32,
        /// The fault that ended the attempt.
        fault: Fault,
        /// Resources used by the attempt.
        usage: Usage,
    },
    /// The call returned before its turn to be applied.
    CallReturned {
        /// The call.
        call_id: SmolStr,
        /// The outcome, with the proposed mutations of persistent keys.
        outcome: Arc<Outcome>,
        /// The proposed mutations of other keys. They are not recorded and are lost at a restart.
        #[serde(skip)]
        unrecorded: Vec<Mutation>,
        /// Resources used by the attempt.
        usage: Usage,
    },
    /// Another call of the batch changed the same key. The gates judge this call again, and it runs
    /// again on the current state.
    CallConflicted {
        /// The call.
        call_id: SmolStr,
        /// The key.
        key: String,
        /// Resources used by the attempt.
        usage: Usage,
    },
    /// The call ended. Its changes are part of the state from here on.
    CallFinished(Arc<FinishedCall>),
    /// The call waits for a person.
    CallSuspended(Box<SuspendedCall>),
    /// The hooks before or after a call answered.
    CallHooked {
        /// The call.
        call_id: SmolStr,
        /// The side of the call on which the hooks ran.
        point: HookPoint,
        /// The answers, in the order in which the hooks were asked. Writes of hooks after the call
        /// are part of the change that ends the call.
        answers: Vec<HookAnswer>,
    },
    /// The end of the call is known. The hooks after it are asked before the call ends.
    CallEnding(Box<CallCompletion>),
    /// A person decided about a suspended call.
    CallDecided {
        /// The call.
        call_id: SmolStr,
        /// The decision.
        decision: Box<Decision>,
        /// The change that the host keeps from the decision for later calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<StateChange>,
    },
    /// A call requested a run of another agent, which starts now.
    ChildStarted {
        /// The call.
        call_id: SmolStr,
        /// The position among the call's requests, counted from 1.
        ordinal: u32,
        /// The child's run.
        child_run_id: String,
        /// The agent.
        agent_id: String,
        /// The digest that distinguishes the request from others.
        digest: String,
    },
    /// A child waits for a person.
    ChildWaiting {
        /// The call.
        call_id: SmolStr,
        /// The position of the child among the call's requests.
        ordinal: u32,
        /// The child's question.
        question: Box<ChildQuestion>,
    },
    /// A child ended.
    ChildFinished {
        /// The call.
        call_id: SmolStr,
        /// The position of the child among the call's requests.
        ordinal: u32,
        /// The status with which it ended.
        status: ChildStatus,
        /// Model turns taken by the child and its own children.
        steps: u32,
        /// Tokens used by the child and its own children.
        tokens: TokenUsage,
    },
    /// The conversation was handed to another agent, which continues from here.
    Transferred {
        /// The agent that handed it over.
        from: String,
        /// The agent that continues.
        agent: Arc<AgentSpec>,
        /// The change that routes the thread's later messages to the new agent.
        change: StateChange,
    },
    /// The open part of the turn ends early. `then` follows once the hooks after its calls have
    /// answered.
    TurnCut {
        /// The step that follows.
        then: AfterTurn,
    },
    /// The turn is over. Every call in it has its answer.
    StepFinished {
        /// The turn.
        step: u32,
    },
    /// The run cannot continue before a person decides.
    RunWaiting,
    /// The run ended. No event follows.
    RunFinished {
        /// The reason for the end.
        status: RunStatus,
        /// The answer, or the last text if there is no answer.
        text: String,
        /// Total usage of the run.
        usage: Box<RunUsage>,
    },
}

/// A checked call: a known tool and its arguments, or the problem with them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CheckedCall {
    /// The call's id, unique within the run.
    pub call_id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// The owner of the tool (a component, plugin, server or agent) and its version; `None` if the
    /// tool is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ToolVersion>,
    /// The parsed arguments; `None` if they are not acceptable JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arguments>,
    /// Why the call cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The tool itself, while this process lives. A call keeps the version of the tool on which it
    /// began.
    #[serde(skip)]
    pub tool: Option<Arc<Tool>>,
}

/// The part of an event's record that changes the state: what [`Event::change`] returns, read without the
/// rest, which may be much longer.
#[derive(Debug, Deserialize)]
pub struct RecordedChange {
    /// The change, if the event has one.
    #[serde(default)]
    pub change: Option<StateChange>,
}

/// The end of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FinishedCall {
    /// The call.
    pub call_id: SmolStr,
    /// The tool's name, stamped by the host.
    pub tool_name: SmolStr,
    /// The result or the fault.
    pub end: CallEnd,
    /// The change of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<StateChange>,
    /// The original end of the call, if hooks replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Box<CallEnd>>,
    /// Notes for the model's next turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Notes for later turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduled: Vec<ScheduledNote>,
    /// The tools that the model sees in its next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Box<ToolFilter>>,
    /// The agent to which the call hands the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
    /// Whether the call ends the loop that the run is part of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalates: bool,
    /// Usage of all attempts. (Records of earlier versions hold only that of the last attempt.)
    #[serde(default)]
    pub usage: Usage,
    /// The share of the attempts before the last.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub earlier: Usage,
}

impl FinishedCall {
    /// Creates the end of a call that changed nothing and used nothing.
    #[must_use]
    pub fn new(call_id: impl Into<SmolStr>, tool_name: impl Into<SmolStr>, end: CallEnd) -> Self {
        Self {
            call_id: call_id.into(),
            tool_name: tool_name.into(),
            end,
            change: None,
            replaced: None,
            notes: Vec::new(),
            scheduled: Vec::new(),
            filter: None,
            transfer: None,
            escalates: false,
            usage: Usage::default(),
            earlier: Usage::default(),
        }
    }

    /// Returns the usage of the last attempt.
    #[must_use]
    pub fn last_attempt(&self) -> Usage {
        self.usage.without(self.earlier)
    }
}

/// An event with its position in the run's stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredEvent {
    /// The run.
    pub run_id: Arc<str>,
    /// The event's number in the run, counted from 1 without gaps.
    pub number: u64,
    /// The time of the decision, in milliseconds since the Unix epoch. Events that are committed
    /// together share it.
    pub at_ms: u64,
    /// The event itself.
    #[serde(flatten)]
    pub event: Event,
}

impl StoredEvent {
    /// Numbers these events of a run that already has `after` events, and returns them as one list.
    pub fn list(
        run_id: &Arc<str>,
        after: u64,
        at_ms: u64,
        events: impl IntoIterator<Item = Event>,
    ) -> Arc<[Self]> {
        let numbers = after + 1..;
        let numbered = events.into_iter().zip(numbers).map(|(event, number)| Self {
            run_id: Arc::clone(run_id),
            number,
            at_ms,
            event,
        });
        numbered.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::outcome::ToolResult;
    use crate::state::KeyUpdate;
    use serde_json::json;

    #[test]
    fn the_change_of_a_record_is_that_of_its_event() {
        let change = StateChange { revision: 7, updates: [KeyUpdate::restored("k.a", json!([1.50]))].into() };
        let end = || CallEnd::Result(Arc::new(ToolResult::success("done")));
        let finished = |change| FinishedCall { change, ..FinishedCall::new("c", "echo", end()) };
        for event in [
            Event::CallFinished(Arc::new(finished(Some(change.clone())))),
            Event::CallFinished(Arc::new(finished(None))),
            Event::StepStarted { step: 1 },
        ] {
            let record = serde_json::to_string(&event).unwrap();
            let read: RecordedChange = crate::json::from_record(&record).unwrap();
            let again: Event = crate::json::from_record(&record).unwrap();
            assert_eq!(read.change.as_ref(), again.change(), "{record}");
        }
    }
}
