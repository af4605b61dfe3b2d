//! The tools that the server offers to its clients: every tool that direct calls may use, and the
//! agents that the operator chose, in the protocol's format.

use rmcp::model::{Tool as Listed, ToolAnnotations};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tollgate::tools::{DeclaredTool, Reach, Toolbox};
use tollgate::{Agent, DIRECT_AGENT, Host};
use tollgate_agent::catalog::{Catalog, HOST_ID, Tool};
use tollgate_agent::name;
use tollgate_agent::state::KeyReducer;

/// The number of tools on one page of the list.
pub(super) const PAGE_TOOLS: usize = 250;

/// The operator's choices for what is offered besides the tools.
#[derive(Debug, Clone, Default)]
pub struct ToolList {
    /// The agents that can be called like tools. Each takes a `request` and answers
    /// `{"response": text}`. An agent is not offered while a tool has its name, or one that looks
    /// like it.
    pub agents: OfferedAgents,
    /// The conversation whose state calls read and change. By default, each session has its own.
    pub thread_id: Option<String>,
    /// The command that decides about a waiting call; `None` if there is none.
    pub decide: Option<DecideCommand>,
    /// Whether a client may have an answer to a question of the permission rules remembered.
    /// Otherwise it can only answer yes or no to one call.
    pub answers_may_be_remembered: bool,
}

/// A command with which a person decides about a waiting call on a terminal of the host.
#[derive(Debug, Clone)]
pub struct DecideCommand {
    /// The command, to which run and call are appended.
    pub command: String,
    /// The option that resumes the call. The answer is appended if the question asks for one.
    pub resume: String,
    /// The option that cancels the call.
    pub cancel: String,
}

/// The agents that the operator chose to offer.
#[derive(Debug, Clone)]
pub enum OfferedAgents {
    /// Every agent of the host.
    All,
    /// The agents with these ids.
    Named(Vec<String>),
}

impl Default for OfferedAgents {
    /// Returns the choice of no agents.
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

/// An agent cannot be offered: a sentence for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct OfferError(String);

impl ToolList {
    /// Checks that each agent that is chosen by name exists and that its name is free.
    ///
    /// # Errors
    /// An agent is unknown, has no model, or has the name of a tool.
    pub fn check(&self, host: &Host) -> Result<(), OfferError> {
        let OfferedAgents::Named(ids) = &self.agents else { return Ok(()) };
        let toolbox = host.toolbox();
        let names = ToolNames::of(&toolbox);
        for id in ids {
            if !host.agents().any(|agent| &agent.spec.view.id == id) || id == DIRECT_AGENT {
                let known: Vec<&str> = host.agents().map(|agent| agent.spec.view.id.as_str()).collect();
                let known = known.iter().copied().filter(|id| *id != DIRECT_AGENT);
                let hint = name::did_you_mean(id, known).unwrap_or_default();
                return Err(OfferError(format!("there is no agent `{id}` that could be offered{hint}")));
            }
            if let Some(tool) = names.like(id) {
                return Err(OfferError(format!(
                    "the agent `{id}` cannot be offered: the tool `{tool}` has its name, or one that looks like it"
                )));
            }
        }
        Ok(())
    }

    /// Returns whether the operator chose the agent.
    fn has_agent(&self, agent: &Agent) -> bool {
        let id = &agent.spec.view.id;
        id != DIRECT_AGENT
            && match &self.agents {
                OfferedAgents::All => true,
                OfferedAgents::Named(ids) => ids.iter().any(|named| named == id),
            }
    }
}

/// The names of a toolbox's tools, by their folded form.
struct ToolNames<'t>(BTreeMap<String, &'t str>);

impl<'t> ToolNames<'t> {
    fn of(toolbox: &'t Toolbox) -> Self {
        let names = toolbox.catalog().tools().map(|tool| tool.descriptor.name.as_str());
        Self(names.map(|tool_name| (name::fold(tool_name), tool_name)).collect())
    }

    /// Returns the tool with this name, or with one that looks like it.
    fn like(&self, agent_id: &str) -> Option<&'t str> {
        self.0.get(&name::fold(agent_id)).copied()
    }
}

/// The offered tools and agents, rebuilt when another toolbox is published. The sessions of a
/// server share it.
#[derive(Default)]
pub(super) struct ListingCache {
    known: Mutex<Option<Arc<OfferedNames>>>,
}

/// The tools and agents that are offered with one toolbox.
pub(super) struct OfferedNames {
    pub(super) toolbox: Arc<Toolbox>,
    /// Sorted by name; agents come last. No two have the same name.
    pub(super) listed: Arc<Vec<Listed>>,
    /// The ids of the agents among them.
    agents: BTreeSet<String>,
}

impl OfferedNames {
    /// Returns whether the name is that of an offered agent.
    pub(super) fn has_agent(&self, name: &str) -> bool {
        self.agents.contains(name)
    }
}

impl ListingCache {
    /// Returns the tools and agents that are offered now.
    pub(super) fn of(&self, host: &Host, offer: &ToolList) -> Arc<OfferedNames> {
        let toolbox = host.toolbox();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offered) = known.as_ref()
            && Arc::ptr_eq(&offered.toolbox, &toolbox)
        {
            return Arc::clone(offered);
        }
        let names = ToolNames::of(&toolbox);
        let tools = toolbox.catalog().tools().filter(|tool| may_call(host, tool));
        let mut all: Vec<Listed> = tools.map(|tool| listed(tool, &toolbox)).collect();
        let mut agents = BTreeSet::new();
        for agent in host.agents().filter(|agent| offer.has_agent(agent)) {
            let id = agent.spec.view.id.as_str();
            match names.like(id) {
                None => {
                    all.push(agent_tool(agent));
                    agents.insert(id.to_owned());
                }
                Some(tool) if known.as_ref().is_some_and(|before| before.has_agent(id)) => {
                    tracing::warn!(
                        "the agent `{id}` is not offered while the tool `{tool}` has its name, or one that looks like it"
                    );
                }
                Some(_) => {}
            }
        }
        let offered = Arc::new(OfferedNames { toolbox, listed: Arc::new(all), agents });
        *known = Some(Arc::clone(&offered));
        offered
    }
}

/// Returns whether it is one of the host's own tools, which are not offered to clients. They
/// serve an agent's conversation, and a client has its own. One of them runs any agent, and the
/// operator decides which agents a client may run.
pub(super) fn is_hosts_own(tool: &Tool) -> bool {
    tool.owner.id == HOST_ID
}

/// Returns whether direct calls may use this tool at all; others are not listed.
fn may_call(host: &Host, tool: &Tool) -> bool {
    if is_hosts_own(tool) {
        return false;
    }
    let mut agents = host.agents();
    agents.any(|agent| agent.spec.view.id == DIRECT_AGENT && agent.spec.lists(&tool.descriptor.name))
}

fn listed(tool: &Tool, toolbox: &Toolbox) -> Listed {
    let descriptor = &tool.descriptor;
    let schema = object(descriptor.parameters.clone());
    let mut listed = Listed::new(descriptor.name.clone(), descriptor.description.clone(), schema)
        .with_annotations(annotations(tool, toolbox));
    if let Some(declared) = declared(toolbox, &descriptor.name) {
        listed.title.clone_from(&declared.title);
        listed.output_schema = declared.output_schema.clone().map(|schema| Arc::new(object(schema)));
    }
    listed
}

/// Returns whether the tool is listed with a schema of its results.
pub(super) fn has_output_schema(host: &Host, tool_name: &str) -> bool {
    declared(&host.toolbox(), tool_name).is_some_and(|declared| declared.output_schema.is_some())
}

/// Returns the claims of a tool's owner about it.
fn declared<'t>(toolbox: &'t Toolbox, tool_name: &str) -> Option<&'t DeclaredTool> {
    toolbox.runner(tool_name)?.declared(tool_name)
}

/// Returns the hints that a client may show for a call. The sandbox enforces what a tool can do,
/// and the hints describe that.
fn annotations(tool: &Tool, toolbox: &Toolbox) -> ToolAnnotations {
    let reach = toolbox.runner(&tool.descriptor.name).map(|runner| runner.reach()).unwrap_or_default();
    let hints = ToolAnnotations::new().idempotent(tool.descriptor.execution.idempotent);
    let Reach::Within { changes_files, reaches_network } = reach else {
        return match declared(toolbox, &tool.descriptor.name) {
            Some(declared) => declared_hints(declared, hints),
            None => hints,
        };
    };
    let changes_state = tool.access.writes().next().is_some();
    let outside = changes_files || reaches_network;
    hints
        .read_only(!changes_state && !outside)
        .destructive(outside || tool.access.writes().any(|key| overwrites(toolbox.catalog(), key)))
        .open_world(reaches_network)
}

/// Returns the hints of a tool's owner, for tools that no sandbox confines. An operator's word that a
/// call may be repeated comes first.
fn declared_hints(declared: &DeclaredTool, mut hints: ToolAnnotations) -> ToolAnnotations {
    hints.title.clone_from(&declared.title);
    hints.read_only_hint = declared.read_only;
    hints.destructive_hint = declared.destructive;
    hints.open_world_hint = declared.open_world;
    hints.idempotent_hint = hints.idempotent_hint.filter(|repeatable| *repeatable).or(declared.idempotent);
    hints
}

/// Returns whether an update of the key may remove existing data.
fn overwrites(catalog: &Catalog, key: &str) -> bool {
    let reducer = catalog.keys().get(key).map(|definition| &definition.reducer);
    !matches!(reducer, Some(KeyReducer::Standard(reducer)) if reducer.commutes())
}

fn agent_tool(agent: &Agent) -> Listed {
    let view = &agent.spec.view;
    let description = view.description.clone().unwrap_or_else(|| format!("Asks the agent {}.", view.id));
    let schema = json!({
        "type": "object",
        "properties": {"request": {"type": "string", "description": "The task for the agent."}},
        "required": ["request"],
        "additionalProperties": false,
    });
    Listed::new(view.id.clone(), description, object(schema))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        // The catalog accepts no other schema of arguments.
        _ => Map::new(),
    }
}
