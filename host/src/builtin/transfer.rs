//! `transfer_to_agent`: hands the conversation to another agent.

use crate::tools::{NativeTool, ToolCall};
use async_trait::async_trait;
use serde_json::json;
use tollgate_agent::descriptor::ToolDescriptor;
use tollgate_agent::name::TRANSFER;
use tollgate_agent::outcome::{Action, Fault, ToolOutput, ToolResult};

/// Requests the transfer. The loop decides whether the agent is permitted.
pub(super) struct Transfer;

#[async_trait]
impl NativeTool for Transfer {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new(
            TRANSFER.replace('_', "-"),
            TRANSFER,
            "Hands the conversation to another agent, which continues in your place.",
        )
        .with_category("agents")
        .with_parameters(json!({
            "type": "object",
            "properties": {"agent": {"type": "string", "description": "The agent's id."}},
            "required": ["agent"],
            "additionalProperties": false,
        }))
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let agent = call.arguments()["agent"].as_str().unwrap_or_default().to_owned();
        Ok(ToolOutput {
            result: ToolResult::success(json!({"transferred_to": agent})).into(),
            mutations: Vec::new(),
            actions: vec![Action::TransferToAgent(agent)],
        })
    }
}
