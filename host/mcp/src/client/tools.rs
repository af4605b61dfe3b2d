//! A server's tools, prepared for the catalog under unique names. Each is checked separately, so
//! that an invalid tool does not affect the others.

use super::rewrite::requires_task;
use rmcp::model::Tool as Listed;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tollgate::tools::DeclaredTool;
use tollgate_agent::SmolStr;
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind, PreparedComponent};
use tollgate_agent::descriptor::{ComponentDescriptor, ExecutionPolicy, MAX_TOOLS, ToolDescriptor};
use tollgate_agent::name::{fold, server_prefix};
use tollgate_agent::schema::{MAX_PATTERNS_BYTES, Schema, make_readable};
use tollgate_agent::text::{clean, one_line};

/// The names of the tools that list and read resources.
const LIST_RESOURCES: &str = "list_resources";
const READ_RESOURCE: &str = "read_resource";
/// The longest title, in bytes; a longer one is cut.
const MAX_TITLE_BYTES: usize = 200;

/// A server's tool, as its calls need it.
pub(super) struct RemoteTool {
    /// The request that a call makes.
    pub(super) call: RemoteCall,
    /// The schema that the server declares for structured answers.
    pub(super) output: Option<Schema>,
    /// The claims of the server for its clients.
    pub(super) declared: DeclaredTool,
}

/// The request that a call makes of the server.
pub(super) enum RemoteCall {
    /// A call of the tool that has this name there.
    Tool(String),
    /// One page of its list of resources.
    ListResources,
    /// The contents of a resource.
    ReadResource,
}

/// The tools and resources of a server.
pub(super) struct ServerOffer<'a> {
    /// Its list of tools.
    pub(super) tools: &'a [Listed],
    /// Whether it has resources.
    pub(super) resources: bool,
    /// The tools that it refused to call although it lists them, by its names.
    pub(super) refused: &'a BTreeSet<String>,
}

/// The valid part of a server's list.
pub(super) struct ValidTools {
    /// `None` if there are no valid tools.
    pub(super) prepared: Option<PreparedComponent>,
    /// The tools by the names under which they are called here.
    pub(super) names: BTreeMap<String, Arc<RemoteTool>>,
    /// A version that differs between lists.
    pub(super) version: String,
    /// The tools that were left out, with the reasons.
    pub(super) notices: Vec<String>,
}

/// Takes the valid tools of the list.
pub(super) fn taken(server: &str, offered: &ServerOffer<'_>, timeout_ms: Option<u32>) -> ValidTools {
    let mut taken =
        ValidTools { prepared: None, names: BTreeMap::new(), version: version(offered), notices: Vec::new() };
    let mut tools = Vec::new();
    let mut pattern_bytes = MAX_PATTERNS_BYTES;
    let mut alike: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for tool in offered.tools {
        alike.entry(fold(&tool.name)).or_default().insert(&tool.name);
    }
    for tool in offered.tools {
        let other =
            alike.get(&fold(&tool.name)).and_then(|names| names.iter().find(|name| **name != tool.name));
        let one = check_counts(tools.len(), taken.notices.len())
            .and_then(|()| take_one(server, tool, tools.len(), timeout_ms, pattern_bytes));
        let left_out = match one {
            Ok(CheckedTool { descriptor, .. }) if taken.names.contains_key(&descriptor.name) => {
                Err("the name is used twice".to_owned())
            }
            Ok(_) if let Some(other) = other => Err(format!(
                "its name is easily confused with \"{}\", another tool of the server",
                one_line(other, 80)
            )),
            _ if requires_task(tool) => {
                Err("the server only runs it as a task, which is not supported".to_owned())
            }
            _ if offered.refused.contains(&*tool.name) => {
                Err("the server refuses ordinary calls of it; it may require a task, which is not supported"
                    .to_owned())
            }
            Ok(CheckedTool { descriptor, output, declared, pattern_bytes: taken_bytes }) => {
                pattern_bytes = pattern_bytes.saturating_sub(taken_bytes);
                let remote = RemoteTool { call: RemoteCall::Tool(tool.name.to_string()), output, declared };
                taken.names.insert(descriptor.name.clone(), Arc::new(remote));
                tools.push(descriptor);
                Ok(())
            }
            Err(why) => Err(why),
        };
        if let Err(why) = left_out {
            let (name, why) = (one_line(&tool.name, 80), one_line(&why, 500));
            taken.notices.push(format!("the tool \"{name}\" of the server {server} is left out: {why}"));
        }
    }
    if offered.resources {
        add_resource_tools(server, &mut tools, &mut taken, timeout_ms);
    }
    if !tools.is_empty() {
        match PreparedComponent::new(component(server, tools)) {
            Ok(prepared) => taken.prepared = Some(prepared),
            Err(why) => taken.notices.push(format!("the server {server} is not served: {why}")),
        }
    }
    taken
}

/// Checks whether another tool is looked at. Compiling a schema takes time, also if it is refused then.
fn check_counts(accepted: usize, left_out: usize) -> Result<(), String> {
    if accepted >= MAX_TOOLS {
        return Err(format!("at most {MAX_TOOLS} tools are accepted from one server"));
    }
    if left_out >= MAX_TOOLS {
        return Err(format!("{MAX_TOOLS} other tools of the server were left out before it"));
    }
    Ok(())
}

/// Adds the tools that list and read a server's resources, unless the server has tools of these
/// names.
fn add_resource_tools(
    server: &str,
    tools: &mut Vec<ToolDescriptor>,
    taken: &mut ValidTools,
    timeout_ms: Option<u32>,
) {
    let list = (
        LIST_RESOURCES,
        RemoteCall::ListResources,
        "Lists the resources of the server, one page at a time.",
        json!({
            "type": "object",
            "properties": {"cursor": {"type": "string", "description": "The `next_cursor` of the page before."}},
            "additionalProperties": false,
        }),
    );
    let read = (
        READ_RESOURCE,
        RemoteCall::ReadResource,
        "Reads a resource of the server.",
        json!({
            "type": "object",
            "properties": {"uri": {"type": "string", "description": "The resource's URI.", "maxLength": 2048}},
            "required": ["uri"],
            "additionalProperties": false,
        }),
    );
    for (name, call, description, parameters) in [list, read] {
        let full = format!("{}{name}", server_prefix(server));
        if taken.names.contains_key(&full) || tools.len() >= MAX_TOOLS {
            continue;
        }
        let execution = ExecutionPolicy { timeout_ms, idempotent: true, ..ExecutionPolicy::default() };
        let descriptor = ToolDescriptor::new(format!("{server}--{name}"), full.clone(), description)
            .with_parameters(parameters)
            .with_execution(execution);
        // The name can be too long in full.
        if PreparedComponent::new(component(server, vec![descriptor.clone()])).is_ok() {
            let declared = DeclaredTool { read_only: Some(true), ..DeclaredTool::default() };
            taken.names.insert(full, Arc::new(RemoteTool { call, output: None, declared }));
            tools.push(descriptor);
        }
    }
}

fn take_one(
    server: &str,
    tool: &Listed,
    number: usize,
    timeout_ms: Option<u32>,
    most_pattern_bytes: usize,
) -> Result<CheckedTool, String> {
    let description = tool.description.as_deref().unwrap_or("The server provides no description.");
    let prefix = server_prefix(server);
    let descriptor =
        ToolDescriptor::new(format!("{server}--{number}"), format!("{prefix}{}", tool.name), description)
            .with_parameters(Value::Object(tool.input_schema.as_ref().clone()))
            // Only the operator can declare that it may run twice without harm.
            .with_execution(ExecutionPolicy { timeout_ms, ..ExecutionPolicy::default() });
    let prepared =
        PreparedComponent::new(component(server, vec![descriptor.clone()])).map_err(|e| e.to_string())?;
    let pattern_bytes = prepared.pattern_bytes();
    let left = most_pattern_bytes.checked_sub(pattern_bytes).ok_or_else(|| {
        format!("the compiled patterns of all tools of one server take at most {MAX_PATTERNS_BYTES} bytes")
    })?;
    let owner = Owner {
        id: server.into(),
        kind: OwnerKind::Mcp,
        origin: "itself".to_owned(),
        version: SmolStr::default(),
    };
    Catalog::default().add_prepared(owner, prepared, &CatalogGrants::default()).map_err(|e| e.to_string())?;
    let output = tool.output_schema.as_ref().map(|schema| Value::Object(schema.as_ref().clone()));
    let output = output.map(|schema| Schema::compile_within(&schema, left)).transpose();
    let output = output.map_err(|e| format!("the schema of its answers: {e}"))?;
    let pattern_bytes = pattern_bytes + output.as_ref().map_or(0, Schema::pattern_bytes);
    let declared = declared(tool)?;
    Ok(CheckedTool { descriptor, output, declared, pattern_bytes })
}

/// Returns a server's claims about its tool, with sanitized texts.
fn declared(tool: &Listed) -> Result<DeclaredTool, String> {
    let hints = tool.annotations.clone().unwrap_or_default();
    let title = tool.title.as_deref().or(hints.title.as_deref());
    let mut output_schema = tool.output_schema.as_ref().map(|schema| Value::Object(schema.as_ref().clone()));
    if let Some(schema) = &mut output_schema {
        make_readable(schema).map_err(|e| format!("the schema of its answers: {e}"))?;
    }
    Ok(DeclaredTool {
        title: title.map(|title| clean(title, MAX_TITLE_BYTES)).filter(|title| !title.is_empty()),
        output_schema,
        read_only: hints.read_only_hint,
        destructive: hints.destructive_hint,
        idempotent: hints.idempotent_hint,
        open_world: hints.open_world_hint,
    })
}

/// A valid tool.
struct CheckedTool {
    descriptor: ToolDescriptor,
    output: Option<Schema>,
    declared: DeclaredTool,
    /// The size of its compiled patterns, in bytes.
    pattern_bytes: usize,
}

fn component(server: &str, tools: Vec<ToolDescriptor>) -> ComponentDescriptor {
    ComponentDescriptor { id: server.to_owned(), version: String::new(), tools, state: Vec::new() }
}

fn version(offered: &ServerOffer<'_>) -> String {
    let text = serde_json::to_vec(&(offered.tools, offered.resources, offered.refused)).unwrap_or_default();
    tollgate_agent::digest::digest(&text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tool(name: &str, schema: &Value) -> Listed {
        serde_json::from_value(json!({"name": name, "inputSchema": schema})).unwrap()
    }

    fn names(tools: &[Listed]) -> (usize, Vec<String>) {
        let taken = taken("s", &ServerOffer { tools, resources: false, refused: &BTreeSet::new() }, None);
        (taken.names.len(), taken.notices)
    }

    /// A server could list a thousand tools whose schemas take long to compile.
    #[test]
    fn z2_no_more_schemas_are_compiled_than_tools_may_be_left_out() {
        let refused = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "["}}});
        let good = json!({"type": "object"});
        let mut tools: Vec<Listed> = (0..80).map(|n| tool(&format!("bad_{n}"), &refused)).collect();
        tools.push(tool("good", &good));
        let (taken, notices) = names(&tools);
        assert_eq!((taken, notices.len()), (0, 81));
        assert!(
            notices[80].contains("64 other tools of the server were left out before it"),
            "{}",
            notices[80]
        );
        let (taken, _) = names(&tools[50..]);
        assert_eq!(taken, 1);
    }
}
