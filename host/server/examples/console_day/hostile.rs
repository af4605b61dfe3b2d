//! An agent whose model, tool and component write everything that must be shown as plain text.

use serde_json::json;
use std::error::Error;
use std::sync::Arc;
use tollgate::models::{Delta, DeltaSink, ModelFault};
use tollgate::{
    Agent, FnTool, Host, HostBuilder, Model, RunRequest, Ticket, ToolContext, ToolResult, async_trait,
};
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};
use tollgate_server::console::ComponentFacts;

/// HTML, Markdown, links, terminal escapes, and characters that are invisible or reverse text.
pub(crate) const TEXT: &str = "<script>alert(1)</script><img src=https://evil.test/p.png onerror=alert(2)> \
    ![pixel](https://evil.test/q.png) [click](javascript:alert(3)) <a href=\"javascript:alert(4)\">here</a> \
    https://evil.test/?q=secret <iframe src=https://evil.test></iframe><style>body{display:none}</style> \
    \u{1b}[31mred\u{1b}[2J\u{1b}]8;;https://evil.test\u{7}link \u{202e}gnp.exe\u{2066} \u{200b}hidden\u{e0041} \
    \"'><svg onload=alert(5)> </textarea></pre></title></p>";

/// A model that calls the tool and then answers, with [`TEXT`] everywhere.
struct Writer;

#[async_trait]
impl Model for Writer {
    fn name(&self) -> &str {
        "writer"
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let asked = request.messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let after = &request.messages[asked.unwrap_or(0)..];
        let has_called = after.iter().any(|message| matches!(message, Message::Assistant(_)));
        let calls = if has_called {
            Vec::new()
        } else {
            let arguments = json!({"text": TEXT, TEXT: TEXT}).to_string();
            vec![ModelCall { name: "leaflet".to_owned(), arguments, ..ModelCall::default() }]
        };
        deltas(Delta::Text(TEXT.to_owned()));
        let message =
            AssistantMessage { text: TEXT.to_owned(), calls: Arc::new(calls), ..AssistantMessage::default() };
        Ok(ModelReply { message, ..ModelReply::default() })
    }
}

/// Adds the agent and its tool to a host.
pub(crate) fn with_agent(builder: HostBuilder) -> HostBuilder {
    let leaflet =
        FnTool::new("leaflet", "leaflet", TEXT, |_: serde_json::Value, call: ToolContext| async move {
            match call.resumption() {
                Some(_) => ToolResult::success_with_message(json!({TEXT: [TEXT]}), TEXT),
                None => ToolResult::suspended_with(Ticket {
                    parameters: json!({TEXT: TEXT}),
                    response_schema: Some(json!({"type": "object", "properties": {
                        TEXT: {"type": "string", "title": TEXT, "description": TEXT, "default": TEXT},
                        "choice": {"enum": [TEXT, "b"]},
                    }})),
                    ..Ticket::confirm(TEXT)
                }),
            }
        });
    builder.tool(leaflet).agent(Agent::new("stranger", Writer).with_description(TEXT).with_tools(["leaflet"]))
}

/// Records a run that has ended and one that waits.
pub(crate) async fn record(host: &Host) -> Result<(), Box<dyn Error>> {
    for thread in ["ada/hostile", "ada/hostile-open"] {
        let mut request = RunRequest::new("stranger", TEXT).on_thread(thread);
        request.principal = Some("ada".into());
        let end = host.run(request).await?.wait().await?;
        if let Some(asked) = end.waiting.first().filter(|_| thread == "ada/hostile") {
            let decision = tollgate::Decision::resume(asked.suspension_id.clone(), json!({})).because(TEXT);
            host.decide(&end.run_id, decision).await?.wait().await?;
        }
    }
    Ok(())
}

/// Returns the facts about the tool's component, with [`TEXT`] everywhere.
pub(crate) fn facts() -> ComponentFacts {
    ComponentFacts {
        version: TEXT.to_owned(),
        file: TEXT.to_owned(),
        origin: Some(TEXT.to_owned()),
        signer: Some(TEXT.to_owned()),
        licence: Some(TEXT.to_owned()),
        asks: Some(vec![TEXT.to_owned()]),
        granted: vec![TEXT.to_owned()],
        missing: vec![(TEXT.to_owned(), TEXT.to_owned())],
        ..ComponentFacts::default()
    }
}
