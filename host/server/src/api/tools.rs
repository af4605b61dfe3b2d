//! Listing, showing and enabling tools.

use crate::access::Principal;
use crate::operator::ComponentFacts;
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use crate::scope::Scope;
use crate::state::Shared;
use crate::tool_limits::LimitOrigin;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_agent::catalog::{Catalog, Tool};
use utoipa::{IntoParams, ToSchema};

/// A tool.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolDocument {
    /// The name by which it is called.
    name: String,
    /// Its effect, in the words of its author.
    description: String,
    /// Its category.
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    /// The JSON Schema of its arguments.
    #[schema(value_type = Object)]
    parameters: Value,
    /// How it asks to be run: idempotent, timeout, retries.
    #[schema(value_type = Object)]
    execution: Value,
    /// The component, plugin, server or agent that provides it.
    component: String,
    /// The kind of the provider.
    kind: Value,
    /// The provider's version; for a component, the SHA-256 of its bytes.
    digest: String,
    /// `served`, or `disabled` after too many traps.
    state: &'static str,
    /// Why it is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whether the credential may call it.
    may_call: bool,
    /// The limits of an attempt. Only for a single tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<ToolLimits>,
    /// Its component; absent in lists, and for tools that are not components.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<ComponentDocument>,
}

/// The limits of an attempt of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolLimits {
    /// The maximum wall time in milliseconds, unless the agent's limits are lower.
    timeout_ms: u32,
    /// The maximum fuel, by the configuration; absent for tools that are not components.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
    /// The maximum memory in bytes, by the configuration; absent for tools that are not components.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    /// The place from which each of them comes.
    sources: LimitSources,
}

/// The place from which each limit comes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LimitSources {
    /// Of the wall time.
    timeout_ms: LimitOrigin,
    /// Of the fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<LimitOrigin>,
    /// Of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<LimitOrigin>,
}

/// The component of a tool: its origin and its powers, in words.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ComponentDocument {
    /// The version that it declares.
    version: String,
    /// The name of its file.
    file: String,
    /// Its origin in a registry; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// Its signer; absent if it is unsigned or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    /// The powers that it asks for; absent if it has no manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<Vec<String>>,
    /// The powers that it was granted.
    granted: Vec<String>,
    /// The powers that it asks for and was not granted.
    missing: Vec<MissingPower>,
}

/// A power that a component asks for and was not granted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MissingPower {
    /// The power.
    power: String,
    /// The command that grants it.
    command: String,
}

/// A file that is not served.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RefusedTool {
    /// The name of the file.
    file: String,
    /// Why it is not served.
    reason: String,
    /// The commands that get it served; absent if the reason says all.
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<String>,
}

/// A list of tools.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolList {
    /// The tools, by name.
    items: Vec<ToolDocument>,
    /// The files that are not served; only for credentials with the scope `read`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<RefusedTool>,
}

/// Which tools are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ToolQuery {
    /// Only tools in this state.
    #[param(inline)]
    state: Option<ToolState>,
}

/// The state of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolState {
    /// It can be called.
    Served,
    /// Its file is not served.
    Refused,
    /// It trapped too often.
    Disabled,
}

/// Returns a tool as this principal sees it.
fn described(tool: &Tool, catalog: &Catalog, principal: &Principal) -> ToolDocument {
    let descriptor = &tool.descriptor;
    let disabled = catalog.disabled(&descriptor.name);
    ToolDocument {
        name: descriptor.name.clone(),
        description: descriptor.description.clone(),
        category: descriptor.category.clone(),
        parameters: descriptor.parameters.clone(),
        execution: json!(descriptor.execution),
        component: tool.owner.id.to_string(),
        kind: json!(tool.owner.kind),
        digest: tool.digest().into_owned(),
        state: if disabled.is_some() { "disabled" } else { "served" },
        reason: disabled.map(str::to_owned),
        may_call: principal.may_use_tool(&descriptor.name),
        limits: None,
        provider: None,
    }
}

/// Adds what only the description of a single tool contains.
fn with_details(mut document: ToolDocument, tool: &Tool, state: &Shared) -> ToolDocument {
    let facts = state.operator.as_ref().and_then(|operator| operator.component(&tool.owner.id));
    let of_tool = |facts: &ComponentFacts| {
        facts.limits.iter().find(|(name, _)| *name == tool.descriptor.name).map(|(_, limits)| *limits)
    };
    let limits = facts.as_ref().and_then(of_tool);
    let (timeout_ms, timeout_source) = state.timeout_of(tool, limits.as_ref());
    document.limits = Some(ToolLimits {
        timeout_ms,
        fuel: limits.map(|limits| limits.fuel),
        memory_bytes: limits.map(|limits| limits.memory_bytes),
        sources: LimitSources {
            timeout_ms: timeout_source,
            fuel: limits.map(|limits| limits.fuel_source.into()),
            memory_bytes: limits.map(|limits| limits.memory_source.into()),
        },
    });
    document.provider = facts.map(|facts| ComponentDocument {
        version: facts.version,
        file: facts.file,
        origin: facts.origin,
        signer: facts.signer,
        asks: facts.asks,
        granted: facts.granted,
        missing: facts
            .missing
            .into_iter()
            .map(|(power, arguments)| MissingPower {
                command: format!("tollgate grant {} {arguments}", tool.owner.id),
                power,
            })
            .collect(),
    });
    document
}

/// List the tools that the credential may call, or all with the scope `read`
#[utoipa::path(get, path = "/api/v1/tools", tag = "tools", security(("key" = ["use"]), ("key" = ["read"])), params(ToolQuery),
    responses((status = 200, description = "The tools", body = ToolList)))]
pub(super) async fn list(
    State(state): State<Shared>,
    principal: Principal,
    QueryParameters(query): QueryParameters<ToolQuery>,
) -> Json<ToolList> {
    let toolbox = state.host.toolbox();
    let catalog = toolbox.catalog();
    let sees_all = principal.has(Scope::Read);
    let seen = catalog.tools().filter(|tool| sees_all || principal.may_use_tool(&tool.descriptor.name));
    let items = seen.map(|tool| described(tool, catalog, &principal)).filter(|tool| match query.state {
        None => true,
        Some(ToolState::Served) => tool.state == "served",
        Some(ToolState::Disabled) => tool.state == "disabled",
        Some(ToolState::Refused) => false,
    });
    let wants_refused = sees_all && query.state.is_none_or(|wanted| wanted == ToolState::Refused);
    let refused = toolbox.refused().iter().filter(|_| wants_refused).map(|refused| RefusedTool {
        // The path of the directory is for the operator only.
        file: refused.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        reason: refused.reason.clone(),
        commands: state.commands_for(refused),
    });
    Json(ToolList { items: items.collect(), refused: refused.collect() })
}

/// Show a tool
#[utoipa::path(get, path = "/api/v1/tools/{name}", tag = "tools", security(("key" = ["use"]), ("key" = ["read"])),
    params(("name" = String, Path, description = "The tool's name")),
    responses((status = 200, description = "The tool", body = ToolDocument)))]
pub(super) async fn one(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(name): PathParameters<String>,
) -> Result<Json<ToolDocument>, Problem> {
    let toolbox = state.host.toolbox();
    let found = toolbox.catalog().tool(&name);
    let Some(tool) = found.filter(|_| principal.has(Scope::Read) || principal.may_use_tool(&name)) else {
        return Err(state.no_such_tool(&principal, &name));
    };
    Ok(Json(with_details(described(tool, toolbox.catalog(), &principal), tool, &state)))
}

/// Put a tool back into use that was disabled because it trapped too often
#[utoipa::path(post, path = "/api/v1/tools/{name}/enable", tag = "tools", security(("key" = ["operate"])),
    params(("name" = String, Path, description = "The tool's name")),
    responses((status = 204, description = "The tool is enabled")))]
pub(super) async fn enable(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(name): PathParameters<String>,
) -> Result<StatusCode, Problem> {
    if state.host.toolbox().catalog().tool(&name).is_none() {
        return Err(state.no_such_tool(&principal, &name));
    }
    state.host.enable_by(&name, &principal.name).await?;
    Ok(StatusCode::NO_CONTENT)
}
