//! A server's tools as the catalog takes them: under names that nobody else has, each
//! checked by itself, so that one that does not fit leaves the others alone.

use rmcp::model::Tool as Listed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind, Prepared};
use tollgate_agent::descriptor::{ComponentDescriptor, ExecutionPolicy, MAX_TOOLS, ToolDescriptor};
use tollgate_agent::name::server_prefix;
use tollgate_agent::schema::{MAX_PATTERNS_BYTES, Schema};
use tollgate_agent::text::one_line;

/// A tool of the server's, as its calls need it.
pub(super) struct RemoteTool {
    /// What the server calls it.
    pub(super) name: String,
    /// What it says that its structured answers are.
    pub(super) output: Option<Schema>,
}

/// What can be taken of a server's list.
pub(super) struct Taken {
    /// `None` if there is nothing.
    pub(super) prepared: Option<Prepared>,
    /// By the names under which they are called here.
    pub(super) names: BTreeMap<String, Arc<RemoteTool>>,
    /// Tells one list from another.
    pub(super) version: String,
    /// What was left out, and why.
    pub(super) notices: Vec<String>,
}

/// Takes what fits of the list.
pub(super) fn taken(server: &str, listed: &[Listed], timeout_ms: Option<u32>) -> Taken {
    let mut taken =
        Taken { prepared: None, names: BTreeMap::new(), version: version(listed), notices: Vec::new() };
    let mut tools = Vec::new();
    let mut pattern_bytes = MAX_PATTERNS_BYTES;
    for tool in listed {
        let left_out = match take_one(server, tool, tools.len(), timeout_ms, pattern_bytes) {
            _ if tools.len() >= MAX_TOOLS => Err(format!("at most {MAX_TOOLS} are taken of one server")),
            Ok(One { descriptor, .. }) if taken.names.contains_key(&descriptor.name) => {
                Err("the name is there twice".to_owned())
            }
            Ok(One { descriptor, output, pattern_bytes: taken_bytes }) => {
                pattern_bytes = pattern_bytes.saturating_sub(taken_bytes);
                let remote = RemoteTool { name: tool.name.to_string(), output };
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
    if !tools.is_empty() {
        match Prepared::new(component(server, tools)) {
            Ok(prepared) => taken.prepared = Some(prepared),
            Err(why) => taken.notices.push(format!("the server {server} is not served: {why}")),
        }
    }
    taken
}

fn take_one(
    server: &str,
    tool: &Listed,
    number: usize,
    timeout_ms: Option<u32>,
    most_pattern_bytes: usize,
) -> Result<One, String> {
    let description = tool.description.as_deref().unwrap_or("The server says nothing about it.");
    let prefix = server_prefix(server);
    let descriptor =
        ToolDescriptor::new(format!("{server}--{number}"), format!("{prefix}{}", tool.name), description)
            .with_parameters(Value::Object(tool.input_schema.as_ref().clone()))
            // Whether it may run again without harm is for nobody but its operator to say.
            .with_execution(ExecutionPolicy { timeout_ms, ..ExecutionPolicy::default() });
    let prepared = Prepared::new(component(server, vec![descriptor.clone()])).map_err(|e| e.to_string())?;
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
    Ok(One { descriptor, output, pattern_bytes })
}

/// A tool that can be taken.
struct One {
    descriptor: ToolDescriptor,
    output: Option<Schema>,
    /// The bytes of its compiled patterns.
    pattern_bytes: usize,
}

fn component(server: &str, tools: Vec<ToolDescriptor>) -> ComponentDescriptor {
    ComponentDescriptor { id: server.to_owned(), version: String::new(), tools, state: Vec::new() }
}

fn version(listed: &[Listed]) -> String {
    let text = serde_json::to_vec(listed).unwrap_or_default();
    tollgate_sandbox::digest(&text)
}
