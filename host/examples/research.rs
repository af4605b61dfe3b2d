//! A tool that lets another agent do the research: `cargo run --example research`
//!
//! ```text
//! The sky is blue because short waves of light scatter more.
//! ```

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tollgate::{Agent, ChildRequest, FnTool, Host, RunRequest, ScriptedModel, ScriptedTurn, ToolContext};

#[derive(Deserialize, JsonSchema)]
struct Question {
    /// The question to answer.
    question: String,
}

async fn research(question: Question, call: ToolContext) -> Result<String, String> {
    let child = ChildRequest::new("researcher", question.question);
    let outcome = call.run_child(child).await.map_err(|why| why.to_string())?;
    let outcome = outcome.completed().map_err(|why| why.to_string())?;
    Ok(outcome.response.unwrap_or_default())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let answers = ScriptedModel::new(vec![
        ScriptedTurn::calls([("research", json!({"question": "Why is the sky blue?"}))]),
        ScriptedTurn::text("The sky is blue because {{research}}"),
    ]);
    let reads = ScriptedModel::new(vec![ScriptedTurn::text("short waves of light scatter more.")]);
    let host = Host::builder()
        .tool(FnTool::new("research", "research", "Researches a question.", research))
        .agent(Agent::new("writer", answers).with_tools(["research"]))
        .agent(Agent::new("researcher", reads))
        .build()?;
    let end = host.run(RunRequest::new("writer", "Why is the sky blue?")).await?.wait().await?;
    println!("{}", end.text);
    Ok(())
}
