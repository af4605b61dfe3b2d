//! Listing, showing and enabling tools.

use crate::auth::Principal;
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use crate::state::Shared;
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
}

/// A file that is not served.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RefusedTool {
    /// The name of the file.
    file: String,
    /// Why it is not served.
    reason: String,
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
    }
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
    let sees_all = principal.has(crate::auth::Scope::Read);
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
    if !principal.has(crate::auth::Scope::Read) {
        state.check_tool(&principal, &name)?;
    }
    let toolbox = state.host.toolbox();
    let tool = toolbox.catalog().tool(&name).ok_or_else(|| Problem::not_found("tool"))?;
    Ok(Json(described(tool, toolbox.catalog(), &principal)))
}

/// Put a tool back into use that was disabled because it trapped too often
#[utoipa::path(post, path = "/api/v1/tools/{name}/enable", tag = "tools", security(("key" = ["operate"])),
    params(("name" = String, Path, description = "The tool's name")),
    responses((status = 204, description = "The tool is enabled")))]
pub(super) async fn enable(
    State(state): State<Shared>,
    PathParameters(name): PathParameters<String>,
) -> Result<StatusCode, Problem> {
    state.host.enable(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
