//! The state machine of a run: its events, their consequences and the effects that it requests.
//!
//! ```text
//! Input --> decide --> events --(committed)--> apply --> next --> effects
//!   ^                                                               |
//!   +---------- the world: model, gates, sandbox, a person ---------+
//! ```
//!
//! [`Run::decide`] is pure: it derives events from the current run and one input. [`Run::apply`]
//! folds one event in. Nothing else changes a run, except that [`Run::adopt`] and [`Run::absorb`]
//! take over what others committed to its thread. A restarted host folds the record through `apply`
//! and arrives at the same state. [`Run::next`] returns the effects that must be
//! in progress now. Effects follow only from applied events, and only committed events are applied.
//! A crash therefore cannot take back anything that was done or reported.

pub mod actions;
pub mod answer;
mod apply;
mod attempts;
pub mod call;
mod call_counts;
mod call_stage;
mod changes;
mod child_outcome;
pub mod child_plan;
pub mod completion;
mod decide;
mod decisions;
pub mod effect;
pub mod event;
mod expensive;
mod facts;
mod gates;
mod hooks;
pub mod input;
mod next;
pub mod replay;
pub mod spec;
mod transition;
mod turn;
mod usage;

pub use crate::agents::{AgentSpec, KnownAgent, RunLimits};
pub use actions::{granted_actions, handed_to};
pub use call::Call;
pub use child_outcome::OutputError;
pub use child_plan::{Child, ChildAsk, ChildEnd, ChildPlan, ChildRefusal, RunSeed};
pub use completion::EndedCall;
pub use effect::{Effect, EffectKey, Execution, Question};
pub use event::{Event, ModelUsage, RunUsage, StoredEvent};
pub use facts::{AfterTurn, CallCompletion, CallEnd, CallStatus, InvalidTransition, LoopActions, RunStatus};
pub use input::{Input, InputRefusal, RefusalKind};
pub use spec::{Decision, DecisionAnswer, RunSpec, Task, Thread};

use crate::message::{Message, ModelReply};
use crate::outcome::ToolFilter;
use crate::question::SuspendedCall;
use crate::state::State;
use call_counts::CallCounts;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use turn::Turn;

/// The placeholder specification of a run that has not begun.
static NOT_STARTED: LazyLock<Arc<RunSpec>> = LazyLock::new(|| {
    Arc::new(RunSpec {
        identity: crate::context::RunIdentity::default(),
        agent: Arc::default(),
        limits: RunLimits::default(),
        task: Task::Prompt(String::new()),
        detached: false,
    })
});

/// One run of an agent, or one direct call, built from its events.
#[derive(Debug, Clone)]
pub struct Run {
    spec: Arc<RunSpec>,
    phase: Phase,
    /// Whether the last event records that the run waits.
    is_waiting_recorded: bool,
    events: u64,
    step: u32,
    /// The number of requests to the model, including continuations.
    asks: u32,
    continuations: u32,
    messages: Arc<Vec<Message>>,
    state: State,
    turn: Option<Turn>,
    notes: Vec<String>,
    /// Text of replies that were cut off and are being continued.
    cut_off_text: String,
    last_text: String,
    /// All text of a child's replies, up to a bound; empty for other runs.
    streamed_text: String,
    call_ids: BTreeSet<SmolStr>,
    let_through: CallCounts,
    decisions: BTreeMap<String, Decision>,
    /// The ids of all suspensions and of their calls.
    asked: BTreeSet<String>,
    /// The last turn's calls, and how many consecutive turns requested the same calls.
    repeated: (Option<Arc<ModelReply>>, u32),
    usage: RunUsage,
    children: BTreeMap<child_plan::ChildPlace, Child>,
    /// Whether a call ended the loop that the run is part of.
    escalated: bool,
    /// The next step of a turn that was cut short, once the hooks after its calls have answered.
    cut: Option<AfterTurn>,
    /// The tools that the model sees in this turn.
    filter: ToolFilter,
    /// The tools that the model sees in the next turn.
    next_filter: ToolFilter,
    /// Notes for later turns, each with the number of its turn.
    scheduled: Vec<(u32, String)>,
}

/// The phase of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The run has no events yet.
    New,
    /// The model's reply is pending.
    Asking,
    /// Calls are being judged or executed.
    Calling,
    /// A person's decision is pending.
    Waiting,
    /// The run has ended.
    Finished(RunStatus),
}

impl Run {
    /// Creates a run that has not begun, from the data of its thread.
    #[must_use]
    pub fn new(thread: Thread) -> Self {
        Self {
            spec: Arc::clone(&NOT_STARTED),
            phase: Phase::New,
            is_waiting_recorded: false,
            events: 0,
            step: 0,
            asks: 0,
            continuations: 0,
            messages: thread.messages,
            state: thread.state,
            turn: None,
            notes: Vec::new(),
            cut_off_text: String::new(),
            last_text: String::new(),
            streamed_text: String::new(),
            call_ids: BTreeSet::new(),
            let_through: CallCounts::default(),
            decisions: BTreeMap::new(),
            asked: BTreeSet::new(),
            repeated: (None, 0),
            usage: RunUsage::default(),
            children: BTreeMap::new(),
            escalated: false,
            cut: None,
            filter: ToolFilter::default(),
            next_filter: ToolFilter::default(),
            scheduled: Vec::new(),
        }
    }

    /// Returns the specification of the run.
    #[must_use]
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// Returns the current phase.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns whether the run has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }

    /// Returns the number of applied events, which is also the number of the last one.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the conversation. Every call in it always has its answer, because a turn is added
    /// only when the last of its calls has ended. Drop the list before the next event is applied,
    /// or that event has to copy it.
    #[must_use]
    pub fn messages(&self) -> &Arc<Vec<Message>> {
        &self.messages
    }

    /// Returns the current keys of the thread and the run.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the calls of the current turn in the order in which the model asked for them, or the
    /// one direct call.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        self.turn.as_ref().map_or(&[], |turn| &turn.calls)
    }

    /// Returns the reply whose calls are the current turn's. `None` for a direct call, and if the current
    /// turn has no calls.
    #[must_use]
    pub fn reply(&self) -> Option<&Arc<ModelReply>> {
        self.turn.as_ref()?.reply.as_ref()
    }

    /// Returns the usage of the run so far.
    #[must_use]
    pub fn usage(&self) -> &RunUsage {
        &self.usage
    }

    /// Returns whether the turn was cut short, so that the run waits only for the hooks after its
    /// calls.
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        self.cut.is_some() && !self.is_finished()
    }

    /// Returns the filter that selects, from the tools that the agent lists, those that the model
    /// sees in this turn.
    #[must_use]
    pub fn filter(&self) -> &ToolFilter {
        &self.filter
    }

    /// Returns whether a call ended the loop that the run is part of.
    #[must_use]
    pub fn has_escalated(&self) -> bool {
        self.escalated
    }

    /// Returns the model's most recent text.
    #[must_use]
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    /// Returns the questions for whose answers calls wait, in the order of the calls.
    pub fn open_questions(&self) -> impl Iterator<Item = &Arc<SuspendedCall>> {
        self.calls().iter().filter_map(Call::question)
    }
}
