//! Runs of other agents on behalf of this run's calls: which agents may run, within what is left of
//! the parent's budget, and the status of each child.
//!
//! A parent records a child before it starts, by its call and its position among that call's
//! requests. The child's own record holds the rest.

use super::Run;
use super::call::Call;
use super::call_stage::Stage;
use super::event::Event;
use super::spec::{Decision, RunSpec, Task};
use super::transition::Transition;
use crate::agents::{AgentSpec, KnownAgent, RunLimits};
use crate::backend::Capabilities;
use crate::catalog::Catalog;
use crate::child::{
    ChildError, ChildRequest, ChildStatus, MAX_CHILD_MESSAGES, MAX_CHILD_MESSAGES_BYTES, MAX_CHILDREN,
    MAX_DEPTH,
};
use crate::context::RunIdentity;
use crate::json;
use crate::message::{Message, TokenUsage};
use crate::prompt;
use crate::question::ChildQuestion;
use crate::schema::MAX_STEPS;
use crate::state::{KeyUpdate, StateChange};
use crate::text::clean;
use serde_json::Value;
use smol_str::SmolStr;
use std::sync::Arc;

/// The identity of a child: its call, and its position among the call's requests.
pub type ChildPlace = (SmolStr, u32);

/// A child run from its parent's point of view.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The child's run.
    pub run_id: String,
    /// The digest that distinguishes its request from others.
    pub digest: String,
    /// The status of the child.
    pub state: ChildState,
}

/// The status of a child according to its parent's record.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildState {
    /// It was started and has not ended.
    Running,
    /// It waits for a person.
    Waiting(Box<ChildQuestion>),
    /// It ended.
    Ended,
}

/// The state in which a child was left.
#[derive(Debug, Clone)]
pub enum ChildEnd {
    /// It waits for a person.
    Waiting(Box<ChildQuestion>),
    /// It ended.
    Ended {
        /// The status with which it ended.
        status: ChildStatus,
        /// Model turns taken by the child and its own children.
        steps: u32,
        /// Tokens used by the child and its own children.
        tokens: TokenUsage,
    },
}

/// A request for a child, made by an attempt of a call.
#[derive(Debug, Clone, Copy)]
pub struct ChildAsk<'a> {
    /// The call.
    pub call_id: &'a str,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The position among the call's requests, counted from 1.
    pub ordinal: u32,
    /// The digest that distinguishes the request from others.
    pub digest: &'a str,
    /// The request.
    pub request: &'a ChildRequest,
}

/// The reason for refusing a request for a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildRefusal {
    /// The tool receives this error.
    Error(ChildError),
    /// An earlier request at this position differed. The call fails.
    AnotherRequest,
}

impl From<ChildError> for ChildRefusal {
    fn from(error: ChildError) -> Self {
        ChildRefusal::Error(error)
    }
}

/// The start of a new child.
#[derive(Debug, Clone)]
pub struct ChildPlan {
    /// The specification in its run's first event.
    pub spec: Arc<RunSpec>,
    /// Its initial state and conversation.
    pub seed: RunSeed,
}

/// The initial data of a run, in addition to its task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunSeed {
    /// Keys to set before the first step.
    pub change: Option<StateChange>,
    /// The earlier conversation.
    pub messages: Vec<Message>,
}

impl Run {
    /// Returns the child for the request if the call already has it; `None` if the child has yet to
    /// be created.
    ///
    /// # Errors
    /// The call is over, the agent is unknown or not granted, or the call made a different request
    /// at this position before.
    pub fn find_child(&self, catalog: &Catalog, ask: &ChildAsk<'_>) -> Result<Option<&Child>, ChildRefusal> {
        let call = self.calls().iter().find(|call| call.id == ask.call_id);
        let call = call.filter(|call| call.is_running() && call.attempts == ask.attempt);
        let tool = call.and_then(|call| call.tool(catalog)).ok_or_else(|| failed("the call is over"))?;
        tool.delegates.check(ask.request)?;
        match self.children.get(&(ask.call_id.into(), ask.ordinal)) {
            Some(child) if child.digest != ask.digest => Err(ChildRefusal::AnotherRequest),
            found => Ok(found),
        }
    }

    /// Plans a new child with this run id. `wall_ms` is the remaining wall time of this run.
    ///
    /// # Errors
    /// The child cannot be run. The error is for the tool.
    pub fn plan_child(
        &self,
        catalog: &Catalog,
        ask: &ChildAsk<'_>,
        run_id: &str,
        wall_ms: Option<u64>,
    ) -> Result<ChildPlan, ChildError> {
        let request = ask.request;
        let depth = self.spec.identity.depth + 1;
        let unknown = || ChildError::AgentNotFound(clean(&request.agent_id, 64));
        let agent = catalog.agent(&request.agent_id).ok_or_else(unknown)?;
        if depth > MAX_DEPTH {
            return Err(ChildError::TooDeep(depth));
        }
        if ask.ordinal > MAX_CHILDREN {
            return Err(ChildError::too_many_children());
        }
        let (prompt, earlier) = conversation(&request.messages)?;
        let lacking = agent.spec.backend.lacking(needs(&agent.spec, request));
        if !lacking.is_empty() {
            return Err(ChildError::Unsupported(lacking));
        }
        let change = seed(catalog, &agent.spec, &request.seed)?;
        let parent = &self.spec.identity;
        let spec = RunSpec {
            identity: RunIdentity {
                run_id: run_id.into(),
                thread_id: run_id.into(),
                agent_id: SmolStr::new(&request.agent_id),
                parent_run_id: Some(parent.run_id.clone()),
                parent_thread_id: Some(parent.thread_id.clone()),
                parent_call_id: Some(ask.call_id.into()),
                principal: parent.principal.clone(),
                asked_by_agent: parent.asked_by_agent,
                depth,
                in_loop: self.spec.agent.is_loop || self.hands_on_its_loop(),
            },
            agent: Arc::clone(&agent.spec),
            limits: self.limits_of_child(agent, wall_ms)?,
            task: Task::Prompt(prompt.to_owned()),
            detached: false,
        };
        Ok(ChildPlan { spec: Arc::new(spec), seed: RunSeed { change, messages: earlier.to_vec() } })
    }

    /// Returns whether child runs belong to the loop that this run belongs to. That is the case if
    /// this run is made of other agents.
    fn hands_on_its_loop(&self) -> bool {
        self.spec.agent.is_made_of_agents() && self.spec.identity.in_loop
    }

    /// Returns the child's own limits, capped at what is left of this run's.
    fn limits_of_child(&self, agent: &KnownAgent, wall_ms: Option<u64>) -> Result<RunLimits, ChildError> {
        let mut limits = agent.limits.clone();
        let own = &self.spec.limits;
        let left = own.model_turns.saturating_sub(self.usage.all_steps());
        limits.model_turns = limits.model_turns.min(left);
        if let Some(most) = own.tokens {
            let left = most.saturating_sub(self.usage.all_tokens().total());
            limits.tokens = Some(limits.tokens.map_or(left, |of_child| of_child.min(left)));
        }
        limits.wall_ms = limits.wall_ms.min(wall_ms.unwrap_or(u64::MAX));
        for (what, left) in [
            ("model_turns", u64::from(limits.model_turns)),
            ("tokens", limits.tokens.unwrap_or(1)),
            ("wall_ms", limits.wall_ms),
        ] {
            if left == 0 {
                return Err(ChildError::ExecutionFailed(format!("nothing is left of the run's {what}")));
            }
        }
        Ok(limits)
    }

    /// Returns a person's decision about the question of this call's child, as it is passed to the
    /// child.
    #[must_use]
    pub fn decision_for_child(&self, call_id: &str, run_id: &str) -> Option<&Decision> {
        self.calls().iter().find(|call| call.id == call_id)?.decision_for_child(run_id)
    }

    /// Returns the children that have not ended, with their positions.
    pub fn open_children(&self) -> impl Iterator<Item = (&ChildPlace, &Child)> {
        self.children.iter().filter(|(_, child)| child.state != ChildState::Ended)
    }

    /// Returns the open children whose call has ended and no longer waits for them.
    pub(super) fn orphans(&self) -> impl Iterator<Item = (&ChildPlace, &Child)> {
        let over = |call_id: &str| {
            let call = self.calls().iter().find(|call| call.id == call_id);
            call.is_none_or(|call| matches!(call.stage, Stage::Completing(..) | Stage::Ended(_)))
        };
        self.open_children().filter(move |((call_id, _), _)| over(call_id))
    }

    /// Returns the question of the call's first child that waits for a person.
    pub(super) fn question_of_child(&self, call_id: &str) -> Option<&ChildQuestion> {
        self.children.iter().find_map(|((of, _), child)| match &child.state {
            ChildState::Waiting(question) if of == call_id => Some(question.as_ref()),
            _ => None,
        })
    }
}

impl Transition<'_> {
    /// Handles a call's request for a child that it does not have yet.
    pub(super) fn child_asked(
        &mut self,
        place: ChildPlace,
        attempt: u32,
        agent_id: String,
        digest: String,
        run_id: String,
    ) {
        let asks = |call: &&Call| call.is_running() && call.attempts == attempt;
        if self.call(&place.0).filter(asks).is_none() || self.run.children.contains_key(&place) {
            return;
        }
        let (call_id, ordinal) = place;
        self.push(Event::ChildStarted { call_id, ordinal, child_run_id: run_id, agent_id, digest });
    }

    /// Returns whether a child must still be ended because its call has ended.
    pub(super) fn has_orphans(&self) -> bool {
        let call_is_over =
            |call_id: &str| self.position(call_id).is_none_or(|at| self.statuses[at].is_final());
        let ended_here = |place: &ChildPlace| {
            self.events.iter().any(|event| {
                matches!(event, Event::ChildFinished { call_id, ordinal, .. }
                    if (call_id, ordinal) == (&place.0, &place.1))
            })
        };
        self.run.open_children().any(|(place, _)| call_is_over(&place.0) && !ended_here(place))
    }

    /// Records that a child ended or waits for a person, unless the record has that already.
    pub(super) fn record_child_state(&mut self, place: ChildPlace, end: ChildEnd) {
        let Some(child) = self.run.children.get(&place) else { return };
        if self.run.is_finished() || child.state == ChildState::Ended {
            return;
        }
        let (call_id, ordinal) = place;
        match end {
            ChildEnd::Ended { status, steps, tokens } => {
                self.push(Event::ChildFinished { call_id, ordinal, status, steps, tokens });
                self.wait_if_suspended();
            }
            ChildEnd::Waiting(question) => {
                let same = |old: &ChildQuestion| old.suspension_id == question.suspension_id;
                if !matches!(&child.state, ChildState::Waiting(old) if same(old)) {
                    self.push(Event::ChildWaiting { call_id, ordinal, question });
                }
            }
        }
    }
}

/// Returns the capabilities that a request needs of its agent's backend.
fn needs(agent: &AgentSpec, request: &ChildRequest) -> Capabilities {
    Capabilities {
        cancellation: true,
        transcript: request.messages.len() > 1,
        state: !request.seed.is_empty() || !request.exports.is_empty(),
        ..agent.needs()
    }
}

/// Returns the child's task and the conversation before it.
fn conversation(messages: &[Message]) -> Result<(&str, &[Message]), ChildError> {
    let failed = |why: String| Err(ChildError::ExecutionFailed(why));
    let bytes = |message: &Message| match message {
        Message::User(text) | Message::Note(text) => text.len(),
        Message::Assistant(said) => said.text.len(),
        Message::Answer(answer) => answer.content.len(),
    };
    if messages.len() > MAX_CHILD_MESSAGES
        || messages.iter().map(bytes).sum::<usize>() > MAX_CHILD_MESSAGES_BYTES
    {
        return Err(ChildError::too_many_messages());
    }
    match messages.split_last() {
        Some((Message::User(prompt), earlier)) => Ok((prompt, earlier)),
        _ => failed("the last message to a child must be the user's".to_owned()),
    }
}

/// Returns the seed as the child's first change.
fn seed(
    catalog: &Catalog,
    agent: &AgentSpec,
    entries: &[(String, Value)],
) -> Result<Option<StateChange>, ChildError> {
    if entries.is_empty() {
        return Ok(None);
    }
    if entries.len() > crate::state::change::MAX_MUTATIONS {
        return Err(ChildError::BadSeed(format!("more than {} keys", crate::state::change::MAX_MUTATIONS)));
    }
    let mut steps_left = MAX_STEPS;
    let updates = entries.iter().map(|(key, value)| seeded(catalog, agent, key, value, &mut steps_left));
    Ok(Some(StateChange { revision: 1, updates: updates.collect::<Result<_, _>>()? }))
}

/// Returns the update of one key of a seed, if the agent uses the key and it accepts the value.
fn seeded(
    catalog: &Catalog,
    agent: &AgentSpec,
    key: &str,
    value: &Value,
    steps_left: &mut u64,
) -> Result<KeyUpdate, ChildError> {
    let bad = |why: &str| ChildError::BadSeed(format!("the key \"{}\" {why}", clean(key, 140)));
    let definition = catalog
        .keys()
        .get(key)
        .filter(|_| registers(catalog, agent, key))
        .ok_or_else(|| bad("is not one that its tools or its instructions use"))?;
    let schema = definition.schema.as_ref();
    let fits = schema.is_none_or(|schema| schema.violations_within(value, steps_left).is_empty());
    if !definition.reducer.accepts(value) || !fits || json::depth(value) > json::MAX_DEPTH {
        return Err(bad("does not accept that value"));
    }
    let value = Arc::new(value.clone());
    Ok(KeyUpdate::set(definition, Arc::clone(&value), value))
}

/// Returns whether the agent uses the key: one of its tools reads or writes it, or its instructions
/// name it.
fn registers(catalog: &Catalog, agent: &AgentSpec, key: &str) -> bool {
    let uses = |access: &crate::state::Access| access.may_read(key) || access.may_write(key);
    prompt::names(catalog, agent, key)
        || catalog.tools().any(|tool| agent.lists(&tool.descriptor.name) && uses(&tool.access))
}

fn failed(why: &str) -> ChildRefusal {
    ChildRefusal::Error(ChildError::ExecutionFailed(why.to_owned()))
}
