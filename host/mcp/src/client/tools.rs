//! A server's tools, prepared for the catalog under unique names. Each is checked separately, so
//! that an invalid tool does not affect the others.

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

/// A server's tool, as its calls need it.
pub(super) struct RemoteTool {
    /// The server's name for it.
    pub(super) name: String,
    /// The schema that the server declares for structured answers.
    pub(super) output: Option<Schema>,
}

/// The valid part of a server's list.
pub(super) struct Taken {
    /// `None` if there are no valid tools.
    pub(super) prepared: Option<Prepared>,
    /// The tools by the names under which they are called here.
    pub(super) names: BTreeMap<String, Arc<RemoteTool>>,
    /// A version that differs between lists.
    pub(super) version: String,
    /// The tools that were left out, with the reasons.
    pub(super) notices: Vec<String>,
}

/// Takes the valid tools of the list.
pub(super) fn taken(server: &str, listed: &[Listed], timeout_ms: Option<u32>) -> Taken {
    let mut taken =
        Taken { prepared: None, names: BTreeMap::new(), version: version(listed), notices: Vec::new() };
    let mut tools = Vec::new();
    let mut pattern_bytes = MAX_PATTERNS_BYTES;
    for tool in listed {
        let left_out = match take_one(server, tool, tools.len(), timeout_ms, pattern_bytes) {
            _ if tools.len() >= MAX_TOOLS => {
                Err(format!("at most {MAX_TOOLS} tools are accepted from one server"))
            }
            Ok(One { descriptor, .. }) if taken.names.contains_key(&descriptor.name) => {
                Err("the name is used twice".to_owned())
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
    let description = tool.description.as_deref().unwrap_or("The server provides no description.");
    let prefix = server_prefix(server);
    let descriptor =
        ToolDescriptor::new(format!("{server}--{number}"), format!("{prefix}{}", tool.name), description)
            .with_parameters(Value::Object(tool.input_schema.as_ref().clone()))
            // Only the operator can declare that it may run twice without harm.
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

/// A valid tool.
struct One {
    descriptor: ToolDescriptor,
    output: Option<Schema>,
    /// The size of its compiled patterns, in bytes.
    pattern_bytes: usize,
}

fn component(server: &str, tools: Vec<ToolDescriptor>) -> ComponentDescriptor {
    ComponentDescriptor { id: server.to_owned(), version: String::new(), tools, state: Vec::new() }
}

fn version(listed: &[Listed]) -> String {
    let text = serde_json::to_vec(listed).unwrap_or_default();
    tollgate_sandbox::digest(&text)
}
