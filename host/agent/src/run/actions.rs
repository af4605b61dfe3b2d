//! Actions that a call may request in addition to its result: a note for the model, a handover of the
//! conversation to another agent, the end of the loop that the run is part of.

use super::event::{Event, FinishedCall};
use super::facts::LoopActions;
use super::spec::Task;
use super::transition::Transition;
use crate::agents::AgentSpec;
use crate::catalog::{Catalog, Tool};
use crate::code::Code;
use crate::context::AgentView;
use crate::outcome::{Action, ActionGrants, Fault, ScheduledNote, ToolResult};
use crate::state::{KeyScope, KeyUpdate, State, StateChange};
use crate::text::clean;
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of actions of one call.
const MAX_ACTIONS: usize = 16;
/// Maximum number of turns ahead for which a note may be scheduled.
const MAX_TURNS_AHEAD: u32 = 256;
/// Maximum number of scheduled notes that may be pending in one run.
const MAX_SCHEDULED: usize = 64;
/// Maximum length of a note for the model, in bytes.
const MAX_NOTE_BYTES: usize = 16 * 1024;
/// The thread key that holds the agent to which the thread was handed.
const AGENT_KEY: &str = "host.agent";

/// The tool or plugin that requests actions, and the actions that it was granted.
pub(super) struct Actor<'a> {
    /// The kind, for messages: `tool` or `plugin`.
    kind: &'static str,
    name: &'a str,
    /// The name of the component or plugin.
    owner: &'a str,
    grants: ActionGrants,
}

impl<'a> Actor<'a> {
    fn tool(tool: &'a Tool) -> Self {
        Self { kind: "tool", name: &tool.descriptor.name, owner: &tool.owner.id, grants: tool.actions }
    }

    pub(super) fn plugin(name: &'a str, grants: ActionGrants) -> Self {
        Self { kind: "plugin", name, owner: name, grants }
    }

    fn bad(&self, why: &str) -> Fault {
        Fault::new(Code::BadAction, format!("The {} '{}' {why}", self.kind, self.name))
    }

    fn ungranted(&self, action: &str) -> Fault {
        self.bad(&format!("asked for the action {action}, which is not granted to '{}'.", self.owner))
    }

    fn second_transfer(&self) -> Fault {
        self.bad("asked for a second transfer in one turn; only the first takes effect.")
    }

    /// Returns a note as the model reads it, marked with its author.
    fn note(&self, note: &str) -> String {
        format!("Note left by the {} '{}':\n{}", self.kind, self.name, clean(note, MAX_NOTE_BYTES))
    }
}

/// Checks the actions of a call and returns those to carry out.
///
/// # Errors
/// `bad_action`: there are too many actions, one is not granted to the tool's owner, or two name an
/// agent to hand the conversation to.
pub fn granted_actions(tool: &Tool, actions: &[Action]) -> Result<LoopActions, Fault> {
    granted(&Actor::tool(tool), actions)
}

/// Does the same for the actions of any actor.
pub(super) fn granted(by: &Actor<'_>, actions: &[Action]) -> Result<LoopActions, Fault> {
    if actions.len() > MAX_ACTIONS {
        let count = actions.len();
        return Err(
            by.bad(&format!("asked for {count} actions; at most {MAX_ACTIONS} are accepted from one call."))
        );
    }
    let mut asked = LoopActions::default();
    for action in actions {
        match action {
            Action::AddContext(note) if by.grants.add_context => asked.notes.push(by.note(note)),
            Action::ScheduleContext(later) if by.grants.add_context => {
                if !(1..=MAX_TURNS_AHEAD).contains(&later.in_turns) {
                    let words = format!(
                        "scheduled a note in {} turns; 1 to {MAX_TURNS_AHEAD} are accepted.",
                        later.in_turns
                    );
                    return Err(by.bad(&words));
                }
                asked.scheduled.push(ScheduledNote { note: by.note(&later.note), ..*later });
            }
            Action::FilterTools(filter) if by.grants.filter_tools => {
                asked.join(LoopActions { filter: Some(Box::new(filter.clone())), ..LoopActions::default() });
            }
            Action::TransferToAgent(agent) if by.grants.transfer => {
                if asked.transfer.replace(agent.clone()).is_some() {
                    return Err(by.second_transfer());
                }
            }
            Action::Escalate if by.grants.escalate => asked.escalates = true,
            Action::AddContext(_) | Action::ScheduleContext(_) => return Err(by.ungranted("add-context")),
            Action::FilterTools(_) => return Err(by.ungranted("filter-tools")),
            Action::TransferToAgent(_) => return Err(by.ungranted("transfer")),
            Action::Escalate => return Err(by.ungranted("escalate")),
        }
    }
    Ok(asked)
}

/// Returns the agent to which the requested agent handed the thread, if it did.
#[must_use]
pub fn handed_to<'a>(thread: &'a State, requested: &str) -> Option<&'a str> {
    let handed = thread.get(AGENT_KEY)?;
    let from = handed["from"].as_array()?;
    from.iter().any(|agent| agent == requested).then(|| handed["agent"].as_str()).flatten()
}

impl Transition<'_> {
    /// Checks a tool's requested actions against the current state of the run. If it asked for a
    /// transfer to an unknown agent, drops the transfer and returns a result that replaces the tool's.
    pub(super) fn check_tool_actions(
        &self,
        tool: &Tool,
        asked: &mut LoopActions,
    ) -> Result<Option<ToolResult>, Fault> {
        self.check_possible(&Actor::tool(tool), asked)?;
        let unknown = asked.transfer.take_if(|target| !self.knows_delegate(target));
        Ok(unknown.map(|target| unknown_agent(&target, self.delegates())))
    }

    /// Checks that the requested actions are possible in the current state of the run.
    pub(super) fn check_possible(&self, by: &Actor<'_>, asked: &LoopActions) -> Result<(), Fault> {
        if asked.escalates && !self.run.spec.identity.in_loop {
            return Err(by.bad("asked to end a loop, but the run is not part of one."));
        }
        let (pending, added) = (self.run.scheduled.len(), asked.scheduled.len());
        if pending + added > MAX_SCHEDULED {
            return Err(by.bad(&format!(
                "scheduled {added} notes while {pending} are pending; at most {MAX_SCHEDULED} may be pending."
            )));
        }
        if asked.transfer.is_some() && matches!(self.run.spec.task, Task::Call { .. }) {
            let message = "A direct call has no conversation to hand over.".to_owned();
            return Err(Fault::new(Code::BadAction, message));
        }
        if asked.transfer.is_some() && self.transfer().is_some() {
            return Err(by.second_transfer());
        }
        Ok(())
    }

    pub(super) fn knows_delegate(&self, target: &str) -> bool {
        self.delegates().any(|id| id == target)
    }

    /// Returns the agents to which the run may be handed.
    pub(super) fn delegates(&self) -> impl Iterator<Item = &String> {
        let delegates = &self.run.spec.agent.view.delegates;
        delegates.iter().filter(|id| self.catalog.agent(id).is_some())
    }

    /// Returns the agent to which a call of this turn hands the conversation.
    pub(super) fn transfer(&self) -> Option<&str> {
        let now = self.finished().find_map(|finished| finished.transfer.as_deref());
        now.or_else(|| self.run.turn.as_ref()?.transfer.as_deref())
    }

    /// Returns whether a call ended the loop that the run is part of.
    pub(super) fn escalates(&self) -> bool {
        self.run.escalated || self.finished().any(|finished| finished.escalates)
    }

    /// Hands the conversation over if a call of this turn requested it.
    pub(super) fn hand_over(&mut self) {
        let Some(to) = self.transfer() else { return };
        let Some(agent) = self.catalog.agent(to).map(|known| Arc::clone(&known.spec)) else { return };
        let from = self.run.spec.identity.agent_id.clone();
        let change = handed_over(&self.state(), &from, &agent);
        self.push(Event::Transferred { from: from.into(), agent, change });
    }

    fn finished(&self) -> impl Iterator<Item = &FinishedCall> {
        self.events.iter().filter_map(|event| match event {
            Event::CallFinished(finished) => Some(finished.as_ref()),
            _ => None,
        })
    }
}

/// Returns the parameters of a transfer as the agent's model sees them: the possible targets and
/// the purpose of each.
pub(super) fn parameters(agent: &AgentView, catalog: &Catalog) -> Value {
    let known = agent.delegates.iter().filter_map(|id| Some((id, catalog.agent(id)?)));
    let (ids, lines): (Vec<&String>, Vec<String>) = known
        .map(|(id, known)| match &known.spec.view.description {
            Some(description) => (id, format!("{id}: {}", clean(description, 500))),
            None => (id, id.clone()),
        })
        .unzip();
    json!({
        "type": "object",
        "properties": {"agent": {"type": "string", "enum": ids, "description": lines.join("\n")}},
        "required": ["agent"],
        "additionalProperties": false,
    })
}

/// Returns the error result of a transfer to an unknown agent.
#[must_use]
pub fn unknown_agent<'a>(target: &str, known: impl Iterator<Item = &'a String>) -> ToolResult {
    let known: Vec<&str> = known.map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    ToolResult::error_with_code(
        "unknown_agent",
        format!("There is no agent '{}' to hand the conversation to; known: {known}.", clean(target, 64)),
    )
}

/// Returns the change that routes the thread's later messages to the new agent, whichever
/// of its earlier agents they name.
fn handed_over(state: &State, from: &str, to: &AgentSpec) -> StateChange {
    let to = to.view.id.as_str();
    let mut before: Vec<&str> = state
        .get(AGENT_KEY)
        .and_then(|handed| handed["from"].as_array())
        .map(|agents| agents.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    before.push(from);
    before.retain(|agent| *agent != to);
    before.sort_unstable();
    before.dedup();
    let value = Some(Arc::new(json!({"agent": to, "from": before})));
    let update = KeyUpdate {
        key: Arc::from(AGENT_KEY),
        scope: KeyScope::Thread,
        persistent: true,
        update: value.clone(),
        value,
        fold: None,
    };
    StateChange { revision: state.revision() + 1, updates: [update].into() }
}
