//! A server's resources, listed and read by calls of tools.

use super::tools::RemoteCall;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolResult, ContentBlock, EmbeddedResource, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse,
};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Value, json};

/// The maximum number of resources and of templates that one answer lists.
const MAX_LISTED: usize = 1_000;

/// Lists or reads resources. The arguments have been checked against the tool's schema.
pub(super) async fn call(
    peer: &Peer<RoleClient>,
    call: &RemoteCall,
    arguments: &Value,
) -> Result<CallToolResult, ServiceError> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
    match call {
        RemoteCall::ReadResource => read(peer, text("uri").unwrap_or_default()).await,
        _ => list(peer, text("cursor")).await,
    }
}

async fn read(peer: &Peer<RoleClient>, uri: String) -> Result<CallToolResult, ServiceError> {
    match peer.read_resource_once(ReadResourceRequestParams::new(uri)).await? {
        ReadResourceResponse::Complete(result) => {
            let contents = result.contents.into_iter();
            let blocks = contents.map(|contents| ContentBlock::Resource(EmbeddedResource::new(contents)));
            Ok(CallToolResult::success(blocks.collect()))
        }
        // Reading a resource cannot be suspended to wait for a person's answer.
        _ => Ok(CallToolResult::error(vec![ContentBlock::text(
            "The server asks a person before it returns this resource, which is not supported.",
        )])),
    }
}

async fn list(peer: &Peer<RoleClient>, cursor: Option<String>) -> Result<CallToolResult, ServiceError> {
    let mut page = PaginatedRequestParams::default();
    page.cursor.clone_from(&cursor);
    let listed = peer.list_resources(Some(page)).await?;
    // Templates have pages of their own; the first one shows how the server forms its URIs.
    let templates = match cursor {
        None => peer.list_resource_templates(None).await.map(|listed| listed.resource_templates),
        Some(_) => Ok(Vec::new()),
    };
    let templates: Vec<Value> = templates
        .unwrap_or_default()
        .into_iter()
        .take(MAX_LISTED)
        .map(|template| json!({"uri_template": template.uri_template, "name": template.name, "description": template.description}))
        .collect();
    let resources: Vec<Value> = listed
        .resources
        .into_iter()
        .take(MAX_LISTED)
        .map(|resource| json!({"uri": resource.uri, "name": resource.name, "description": resource.description, "mime_type": resource.mime_type}))
        .collect();
    let answer = json!({"resources": resources, "templates": templates, "next_cursor": listed.next_cursor});
    Ok(CallToolResult::structured(answer))
}
