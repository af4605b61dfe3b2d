//! Agents that run as tools: agents that are offered under a tool name, and the parts of
//! composed agents. `transfer_to_agent` hands the conversation to another agent.

use crate::agents::Agent;
use crate::tools::{NativeTool, ToolCall};
use async_trait::async_trait;
use serde_json::json;
use tollgate_agent::child::{ChildOutcome, ChildRequest, ChildStatus, Streaming};
use tollgate_agent::code::Code;
use tollgate_agent::composition::PartAnswer;
use tollgate_agent::descriptor::{ExecutionPolicy, ToolDescriptor};
use tollgate_agent::name::{RUN_AGENT, TRANSFER};
use tollgate_agent::outcome::{Action, Fault, ToolOutput, ToolResult};

/// The longest answer that one part of an agent passes to the next, in bytes. It always fits
/// the answer of a call.
const MAX_HANDED_BYTES: usize = 40 * 1024;

/// Running it again is harmless, because a call has each child only once.
const POLICY: ExecutionPolicy =
    ExecutionPolicy { timeout_ms: None, max_retries: None, idempotent: true, validates: false };

/// An agent that is offered as a tool, with one argument and one answer.
pub(super) struct AgentTool {
    agent_id: String,
    name: String,
    description: String,
}

impl AgentTool {
    pub(super) fn new(agent: &Agent, name: &str) -> Self {
        let view = &agent.spec.view;
        let description = view.description.clone().unwrap_or_else(|| format!("Asks the agent {}.", view.id));
        Self { agent_id: view.id.clone(), name: name.to_owned(), description }
    }
}

#[async_trait]
impl NativeTool for AgentTool {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new(self.agent_id.clone(), self.name.clone(), self.description.clone())
            .with_category("agents")
            .with_execution(POLICY)
            .with_parameters(json!({
                "type": "object",
                "properties": {"request": {"type": "string", "description": "The request to the agent."}},
                "required": ["request"],
                "additionalProperties": false,
            }))
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let request = call.arguments()["request"].as_str().unwrap_or_default();
        let outcome = child(&call, ChildRequest::new(&self.agent_id, request)).await?;
        Ok(match unfinished(&outcome) {
            Some(result) => result.into(),
            None => ToolResult::success(json!({"response": outcome.response.unwrap_or_default()})).into(),
        })
    }
}

/// Runs one of the parts of a composed agent. It is never offered to a model.
pub(super) struct RunAgent;

#[async_trait]
impl NativeTool for RunAgent {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new(
            RUN_AGENT.replace('_', "-"),
            RUN_AGENT,
            "Runs one part of a composed agent.",
        )
        .with_category("agents")
        .with_execution(POLICY)
        .with_parameters(json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string"},
                "request": {"type": "string"},
                "step": {"type": "integer", "description": "Distinguishes repeated requests."},
                "in_loop": {"type": "boolean", "description": "Whether the caller is the loop that an escalation ends."},
            },
            "required": ["agent", "request"],
            "additionalProperties": false,
        }))
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let arguments = call.arguments();
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let request =
            ChildRequest::new(text("agent"), text("request")).with_streaming(Streaming::Passthrough);
        let outcome = child(&call, request).await?;
        if let Some(result) = unfinished(&outcome) {
            return Ok(result.into());
        }
        let mut response = outcome.response.unwrap_or_default();
        if response.len() > MAX_HANDED_BYTES {
            tollgate_agent::text::cut(&mut response, MAX_HANDED_BYTES);
        }
        // An escalation ends its loop, and everything in between.
        let hands_on = outcome.escalated && arguments["in_loop"] != true && call.attempt().identity.in_loop;
        let answer = PartAnswer { agent: text("agent"), response, escalated: outcome.escalated };
        Ok(ToolOutput {
            result: ToolResult::success(json!(answer)).into(),
            mutations: Vec::new(),
            actions: if hands_on { vec![Action::Escalate] } else { Vec::new() },
        })
    }
}

async fn child(call: &ToolCall<'_>, request: ChildRequest) -> Result<ChildOutcome, Fault> {
    call.run_child(request)
        .await
        .map_err(|e| Fault::new(Code::ToolFailed, format!("The agent was not run: {e}.")))
}

/// Returns the result of a call whose child did not complete.
fn unfinished(outcome: &ChildOutcome) -> Option<ToolResult> {
    let words = outcome.status.words()?;
    Some(match outcome.status {
        ChildStatus::Suspended(_) => ToolResult::suspended(format!("The agent {words}")),
        _ => ToolResult::error_with_code("agent_failed", format!("The agent {words}")),
    })
}

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
