//! A host whose model and tools take no time, so that only the host and the store are measured.

use serde_json::json;
use std::sync::Arc;
use tollgate::models::{DeltaSink, Model, ModelFault};
use tollgate::tools::{NativePlugin, NativeTool, ToolCall, Toolbox};
use tollgate::{Agent, Host, async_trait};
use tollgate_agent::descriptor::ToolDescriptor;
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};
use tollgate_agent::outcome::{Fault, ToolOutput, ToolResult};
use tollgate_postgres::PostgresStore;

pub(crate) const AGENT: &str = "quick";

/// Makes three calls, one after another, and answers.
struct Quick;

#[async_trait]
impl Model for Quick {
    fn name(&self) -> &str {
        "quick"
    }

    async fn reply(&self, request: ModelRequest, _: &mut DeltaSink<'_>) -> Result<ModelReply, ModelFault> {
        let turns =
            request.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let message = match turns {
            0..3 => {
                let arguments = json!({ "turn": turns }).to_string();
                let call = ModelCall { name: "echo".to_owned(), arguments, ..ModelCall::default() };
                AssistantMessage { calls: Arc::new(vec![call]), ..AssistantMessage::default() }
            }
            _ => AssistantMessage { text: "Done.".to_owned(), ..AssistantMessage::default() },
        };
        Ok(ModelReply { message, ..ModelReply::default() })
    }
}

struct Echo;

#[async_trait]
impl NativeTool for Echo {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new("echo", "echo", "Answers at once.")
    }

    async fn execute(&self, _: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        Ok(ToolResult::success("done").into())
    }
}

pub(crate) fn host(store: Arc<PostgresStore>) -> Host {
    let mut toolbox = Toolbox::default();
    NativePlugin::new("quick").with_tool(Echo).install(&mut toolbox).unwrap();
    let agent = Agent::new(AGENT, Arc::new(Quick)).with_tools(["*"]);
    Host::builder().toolbox(toolbox).agent(agent).store(store).build().unwrap()
}
