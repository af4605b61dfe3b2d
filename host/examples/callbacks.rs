//! Callbacks of one agent: a gate blocks a call, and a hook adds a line to the others' results:
//! `cargo run --example callbacks`
//!
//! ```text
//! read: the plan (checked)
//! delete: The call of 'delete' was denied: Files are never deleted here.
//! ```

use serde_json::{Value, json};
use tollgate::plugins::{Effects, HookError, HookedCall};
use tollgate::{
    Agent, CallEnd, FnTool, Gate, Hooks, Host, ProposedCall, RunRequest, ScriptedModel, ScriptedTurn,
    ToolResult, Verdict, async_trait,
};

/// `before_tool_callback`: it decides, and changes nothing.
struct NoDeleting;

#[async_trait]
impl Gate for NoDeleting {
    fn id(&self) -> &str {
        "no-deleting"
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        match call.tool.descriptor.name.as_str() {
            "delete" => Verdict::Deny("Files are never deleted here.".to_owned()),
            _ => Verdict::Allow,
        }
    }
}

/// `after_tool_callback`: it changes the result, and cannot veto.
struct Annotates;

#[async_trait]
impl Hooks for Annotates {
    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        let Some(CallEnd::Result(result)) = call.end else { return Ok(Effects::none()) };
        let annotated = format!("{} (checked)", result.data.words());
        Ok(Effects::none().replace(ToolResult::success(annotated)))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new(vec![
        ScriptedTurn::calls([("read", json!({}))]),
        ScriptedTurn::calls([("delete", json!({}))]),
        ScriptedTurn::text("read: {{read}}\ndelete: {{delete}}"),
    ]);
    let clerk = Agent::new("clerk", model).with_tools(["read", "delete"]).with_hooks(Annotates);
    let host = Host::builder()
        .tool(FnTool::new("read", "read", "Reads the file.", |_: Value, _| async { "the plan" }))
        .tool(FnTool::new("delete", "delete", "Deletes the file.", |_: Value, _| async { "gone" }))
        .gate(NoDeleting)
        .agent(clerk)
        .build()?;
    let end = host.run(RunRequest::new("clerk", "Read it, then delete it.")).await?.wait().await?;
    println!("{}", end.text);
    Ok(())
}
