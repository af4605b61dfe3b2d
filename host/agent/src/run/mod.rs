//! The step machine: what has happened, what follows from it, what it asks for.
//!
//! ```text
//! Input --> decide --> events --(committed)--> apply --> next --> effects
//!   ^                                                               |
//!   +---------- the world: model, gates, sandbox, a person ---------+
//! ```
//!
//! [`Run::decide`] is pure: the run as it stands and one input give the events
//! that follow. [`Run::apply`] folds one event in, and is the only thing that
//! changes a run: a restarted host folds the record through it and stands where
//! it stood. [`Run::next`] reads off what must be under way now. An effect follows
//! from applied events alone, and only committed events are applied; so nothing
//! is done, and nothing is told, that a crash could take back.

pub mod actions;
pub mod answer;
mod answer_schema;
mod apply;
mod attempts;
pub mod call;
mod call_counts;
mod changes;
mod child_outcome;
pub mod child_plan;
pub mod completion;
mod decide;
mod decisions;
pub mod effect;
pub mod event;
mod expensive;
mod gates;
mod hooks;
pub mod input;
pub mod replay;
pub mod spec;
mod stored_event;
mod transition;
mod turn;
mod usage;

pub use actions::{granted_actions, handed_to};
pub use apply::InvalidTransition;
pub use call::{Call, CallEnd, CallStatus};
pub use child_plan::{Child, ChildAsk, ChildEnd, ChildPlan, ChildRefusal, Seed};
pub use completion::{AfterTurn, CallCompletion, Ended};
pub use effect::{Effect, EffectKey, Execution, Question};
pub use event::{Event, RunStatus, RunUsage};
pub use expensive::SHORT_STEPS;
pub use input::{Input, Refused};
pub use spec::{AgentSpec, Decision, DecisionAnswer, KnownAgent, RunLimits, RunSpec, Task, Thread};
pub use stored_event::StoredEvent;

use crate::hook::ToolFilter;
use crate::message::{Message, ModelReply, ToolSpec};
use crate::state::State;
use call_counts::CallCounts;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use turn::Turn;

/// What a run is given before it has begun.
static NOT_STARTED: LazyLock<Arc<RunSpec>> = LazyLock::new(|| {
    Arc::new(RunSpec {
        identity: crate::context::RunIdentity::default(),
        agent: Arc::default(),
        limits: RunLimits::default(),
        task: Task::Prompt(String::new()),
    })
});

/// One run of an agent, or one direct call, as its events tell it.
#[derive(Debug, Clone)]
pub struct Run {
    spec: Arc<RunSpec>,
    phase: Phase,
    /// Whether the last event says that the run waits.
    is_told_waiting: bool,
    events: u64,
    step: u32,
    /// How often the model was asked, continuations included.
    asks: u32,
    continuations: u32,
    messages: Arc<Vec<Message>>,
    state: State,
    turn: Option<Turn>,
    notes: Vec<String>,
    /// Text of replies that were cut off and are being continued.
    carried: String,
    last_text: String,
    call_ids: BTreeSet<SmolStr>,
    let_through: CallCounts,
    decisions: BTreeMap<String, Decision>,
    /// The last turn's calls and how many turns in a row asked for the same.
    repeated: (Option<Arc<ModelReply>>, u32),
    usage: RunUsage,
    children: BTreeMap<child_plan::ChildPlace, Child>,
    /// Whether a call ended the loop that the run is part of.
    escalated: bool,
    /// What follows once the hooks after the turn's calls have answered, where it was
    /// cut short.
    cut: Option<AfterTurn>,
    /// Which tools the model is told of in this turn, and in the next.
    filter: ToolFilter,
    next_filter: ToolFilter,
    /// Notes for turns to come, each with its turn.
    scheduled: Vec<(u32, String)>,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nothing happened yet.
    New,
    /// The model is to reply.
    Asking,
    /// Calls are being judged or run.
    Calling,
    /// A person is to decide.
    Waiting,
    /// Nothing follows.
    Finished(RunStatus),
}

impl Run {
    /// A run that has not begun, on what its thread brings along.
    #[must_use]
    pub fn new(thread: Thread) -> Self {
        Self {
            spec: Arc::clone(&NOT_STARTED),
            phase: Phase::New,
            is_told_waiting: false,
            events: 0,
            step: 0,
            asks: 0,
            continuations: 0,
            messages: thread.messages,
            state: thread.state,
            turn: None,
            notes: Vec::new(),
            carried: String::new(),
            last_text: String::new(),
            call_ids: BTreeSet::new(),
            let_through: CallCounts::default(),
            decisions: BTreeMap::new(),
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

    /// What the run was given.
    #[must_use]
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// Where the run stands.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether nothing follows.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }

    /// How many events were applied: the number of the last one.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The conversation. Every call in it has its answer, at every moment: a turn
    /// joins it when the last of its calls has ended. Let go of the list before the
    /// next event is applied, or that event copies it.
    #[must_use]
    pub fn messages(&self) -> &Arc<Vec<Message>> {
        &self.messages
    }

    /// The thread's and the run's keys, as they stand.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The calls of the present turn, or the one direct call, in the order in which the model asked.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        self.turn.as_ref().map_or(&[], |turn| &turn.calls)
    }

    /// What the run used so far.
    #[must_use]
    pub fn usage(&self) -> &RunUsage {
        &self.usage
    }

    /// Whether the run's turn was cut short, so that nothing is waited for but the
    /// hooks after its calls.
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        self.cut.is_some() && !self.is_finished()
    }

    /// Which tools the model is told of in this turn, out of those that its agent lists.
    #[must_use]
    pub fn filter(&self) -> &ToolFilter {
        &self.filter
    }

    /// Whether a call ended the loop that the run is part of.
    #[must_use]
    pub fn has_escalated(&self) -> bool {
        self.escalated
    }

    /// The text that the model said last.
    #[must_use]
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    /// The tools as the model is told of them: those that the agent lists and nothing
    /// hides in this turn, sorted by name, and of each nothing but name, description and parameters.
    #[must_use]
    pub fn tool_specs(&self, catalog: &crate::catalog::Catalog) -> Vec<ToolSpec> {
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
