//! What a call may ask of the loop beside its result: a note for the model, another
//! agent for the conversation, the end of the loop that the run is part of.

use super::draft::Draft;
use super::event::{Event, Finished};
use super::spec::{AgentSpec, Task};
use crate::catalog::{Catalog, Tool};
use crate::code::Code;
use crate::context::AgentView;
use crate::outcome::{Action, Fault, ToolResult};
use crate::state::{KeyScope, KeyUpdate, State, StateChange};
use crate::text::clean;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most actions that one call may ask for.
const MAX_ACTIONS: usize = 16;
/// The longest note that a call may leave for the model, in bytes.
const MAX_NOTE_BYTES: usize = 16 * 1024;
/// The thread's own key that says whom it was handed to.
const AGENT_KEY: &str = "host.agent";

/// What a call asked of the loop, and may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Notes for the model's next turn.
    pub notes: Vec<String>,
    /// The agent that is to go on.
    pub transfer: Option<String>,
    /// Whether the loop that the run is part of is to end.
    pub escalates: bool,
}

/// What the actions of a call come to.
///
/// # Errors
/// `bad_action`: too many actions, one that is not granted to the tool's owner, or
/// two agents to hand to.
pub fn granted_actions(tool: &Tool, actions: &[Action]) -> Result<Asked, Fault> {
    if actions.len() > MAX_ACTIONS {
        let message = format!(
            "The tool asked for {} actions; at most {MAX_ACTIONS} are taken from one call.",
            actions.len()
        );
        return Err(Fault::new(Code::BadAction, message));
    }
    let mut asked = Asked::default();
    for action in actions {
        match action {
            Action::AddContext(note) if tool.actions.add_context => {
                let note = clean(note, MAX_NOTE_BYTES);
                asked.notes.push(format!("Note left by the tool '{}':\n{note}", tool.descriptor.name));
            }
            Action::TransferToAgent(agent) if tool.actions.transfer => {
                if asked.transfer.replace(agent.clone()).is_some() {
                    return Err(second_transfer(tool));
                }
            }
            Action::Escalate if tool.actions.escalate => asked.escalates = true,
            Action::AddContext(_) => return Err(ungranted(tool, "add-context")),
            Action::TransferToAgent(_) => return Err(ungranted(tool, "transfer")),
            Action::Escalate => return Err(ungranted(tool, "escalate")),
        }
    }
    Ok(asked)
}

/// The agent to which the thread was handed, where that is another than the one
/// that is asked for.
#[must_use]
pub fn handed_to<'a>(thread: &'a State, asked_for: &str) -> Option<&'a str> {
    let handed = thread.get(AGENT_KEY)?;
    let from = handed["from"].as_array()?;
    from.iter().any(|agent| agent == asked_for).then(|| handed["agent"].as_str()).flatten()
}

impl Draft<'_> {
    /// Checks what the loop is asked against where the run stands. An agent that is
    /// not known gives a result in the place of the tool's.
    pub(super) fn check_asked(&self, tool: &Tool, asked: &mut Asked) -> Result<Option<ToolResult>, Fault> {
        if asked.escalates && !self.run.spec.identity.in_loop {
            let message = format!("'{}' asked to end a loop, and there is none.", tool.descriptor.name);
            return Err(Fault::new(Code::BadAction, message));
        }
        let Some(target) = asked.transfer.take() else { return Ok(None) };
        if matches!(self.run.spec.task, Task::Call { .. }) {
            let message = "A direct call has no conversation that could be handed over.".to_owned();
            return Err(Fault::new(Code::BadAction, message));
        }
        if self.transfer().is_some() {
            return Err(second_transfer(tool));
        }
        let delegates = &self.run.spec.agent.view.delegates;
        let known = |id: &&String| self.catalog.agent(id).is_some();
        if delegates.iter().filter(known).any(|id| *id == target) {
            asked.transfer = Some(target);
            return Ok(None);
        }
        Ok(Some(unknown_agent(&target, delegates.iter().filter(known))))
    }

    /// The agent to which a call of this turn hands the conversation.
    pub(super) fn transfer(&self) -> Option<&str> {
        let now = self.finished().find_map(|finished| finished.transfer.as_deref());
        now.or_else(|| self.run.turn.as_ref()?.transfer.as_deref())
    }

    /// Whether a call ended the loop that the run is part of.
    pub(super) fn escalates(&self) -> bool {
        self.run.escalated || self.finished().any(|finished| finished.escalates)
    }

    /// Hands the conversation over, where a call of this turn asked for it.
    pub(super) fn hand_over(&mut self) {
        let Some(to) = self.transfer() else { return };
        let Some(agent) = self.catalog.agent(to).map(|known| Arc::clone(&known.spec)) else { return };
        let from = self.run.spec.identity.agent_id.clone();
        let change = handed_over(&self.state, &from, &agent);
        self.state.apply(&change);
        self.push(Event::Transferred { from, agent, change });
    }

    fn finished(&self) -> impl Iterator<Item = &Finished> {
        self.events.iter().filter_map(|event| match event {
            Event::CallFinished(finished) => Some(finished),
            _ => None,
        })
    }
}

/// The arguments of a transfer as the agent's model is told of them: whom it may
/// hand to, and what each is for.
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

/// The error result of a transfer to nobody.
#[must_use]
pub fn unknown_agent<'a>(target: &str, known: impl Iterator<Item = &'a String>) -> ToolResult {
    let known: Vec<&str> = known.map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    ToolResult::error_with_code(
        "unknown_agent",
        format!("There is no agent '{}' to hand to; known: {known}.", clean(target, 64)),
    )
}

/// Later messages to anyone who handed the thread on go to the new agent.
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
        key: AGENT_KEY.to_owned(),
        scope: KeyScope::Thread,
        persistent: true,
        update: value.clone(),
        value,
    };
    StateChange { revision: state.revision() + 1, updates: vec![update] }
}

fn second_transfer(tool: &Tool) -> Fault {
    let message =
        format!("'{}' asked for a second transfer in one turn; the first stands.", tool.descriptor.name);
    Fault::new(Code::BadAction, message)
}

fn ungranted(tool: &Tool, action: &str) -> Fault {
    Fault::new(
        Code::BadAction,
        format!(
            "The tool '{}' asked for the action {action}, which is not granted to '{}'.",
            tool.descriptor.name, tool.owner.id
        ),
    )
}
