//! The floor: an echo served by rmcp alone.

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData};
use rmcp::model::{ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Serves its standard streams until their end.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        Echo.serve(streams).await.unwrap().waiting().await.unwrap();
    });
    runtime.shutdown_timeout(Duration::from_millis(10));
}

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema: Map<String, Value> = json!({"type": "object"}).as_object().unwrap().clone();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Echoes.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The same two forms of the answer as Tollgate's.
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        let mut result = CallToolResult::success(vec![ContentBlock::text(arguments.to_string())]);
        result.structured_content = Some(arguments);
        Ok(result.into())
    }
}
