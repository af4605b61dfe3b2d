//! The tools that the server offers to its clients: every tool that direct calls may use, and the
//! agents that the operator chose, in the protocol's format.

use rmcp::model::{Tool as Listed, ToolAnnotations};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tollgate::tools::{DeclaredTool, Reach, Toolbox};
use tollgate::{DIRECT_AGENT, Host};
use tollgate_agent::catalog::{Catalog, HOST_ID, Tool};
use tollgate_agent::name;
use tollgate_agent::state::KeyReducer;

/// The number of tools on one page of the list.
pub(super) const PAGE_TOOLS: usize = 250;

/// The operator's choices for what is offered besides the tools.
#[derive(Debug, Clone, Default)]
pub struct ToolList {
    /// The ids of agents that can be called like tools. Each takes a `request` and answers
    /// `{"response": text}`.
    pub agents: Vec<String>,
    /// The conversation whose state calls read and change. By default, each session has its own.
    pub thread_id: Option<String>,
    /// The command that decides about a waiting call, to which run and call are appended:
    /// `tollgate decide`, with the options to find the same store.
    pub decide: String,
    /// Whether a client may have an answer to a question of the permission rules remembered.
    /// Otherwise it can only answer yes or no to one call.
    pub answers_may_be_remembered: bool,
}

/// An agent cannot be offered: a sentence for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct OfferError(String);

impl ToolList {
    /// Checks that each agent exists and that its name is free.
    ///
    /// # Errors
    /// An agent is unknown, has no model, or has the name of a tool.
    pub fn check(&self, host: &Host) -> Result<(), OfferError> {
        let toolbox = host.toolbox();
        for id in &self.agents {
            if !host.agents().any(|agent| &agent.spec.view.id == id) || id == DIRECT_AGENT {
                let known: Vec<&str> = host.agents().map(|agent| agent.spec.view.id.as_str()).collect();
                let near = name::nearest(id, known.iter().copied().filter(|id| *id != DIRECT_AGENT));
                let hint = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return Err(OfferError(format!("there is no agent `{id}` that could be offered{hint}")));
            }
            let folded = name::fold(id);
            let taken = toolbox.catalog().tools().find(|tool| name::fold(&tool.descriptor.name) == folded);
            if let Some(tool) = taken {
                return Err(OfferError(format!(
                    "the agent `{id}` cannot be offered: the tool `{}` has its name, or one that looks like it",
                    tool.descriptor.name
                )));
            }
        }
        Ok(())
    }

    /// Returns whether the name is that of an offered agent.
    pub(super) fn has_agent(&self, name: &str) -> bool {
        self.agents.iter().any(|id| id == name)
    }
}

/// The list of tools, rebuilt when another toolbox is published.
#[derive(Default)]
pub(super) struct Listing {
    known: Mutex<Option<CachedList>>,
}

/// A list and its toolbox.
struct CachedList {
    of: Arc<Toolbox>,
    listed: Arc<Vec<Listed>>,
}

impl Listing {
    /// Returns the current tools, sorted by name; agents come last.
    pub(super) fn of(&self, host: &Host, offer: &ToolList) -> Arc<Vec<Listed>> {
        let toolbox = host.toolbox();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(CachedList { of, listed }) = known.as_ref()
            && Arc::ptr_eq(of, &toolbox)
        {
            return Arc::clone(listed);
        }
        let tools = toolbox.catalog().tools().filter(|tool| may_call(host, tool));
        let tools = tools.map(|tool| listed(tool, &toolbox));
        let agents = host.agents().filter(|agent| offer.has_agent(&agent.spec.view.id)).map(agent_tool);
        let all: Arc<Vec<Listed>> = Arc::new(tools.chain(agents).collect());
        *known = Some(CachedList { of: toolbox, listed: Arc::clone(&all) });
        all
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

fn agent_tool(agent: &tollgate::Agent) -> Listed {
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
