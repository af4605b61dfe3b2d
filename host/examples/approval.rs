//! A call that waits for a person's approval: `cargo run --example approval`
//!
//! ```text
//! request_approval asks: Publish version 2 today?
//! the answer has to fit: {"approved":"boolean"}
//! an answer that does not fit is refused, and the call goes on waiting
//! It is approved. The comment: "after lunch"
//! ```

mod components;

use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tollgate::{
    Agent, Decision, Host, HostError, RunRequest, ScriptedModel, ScriptedTurn, SqliteStore, Toolbox,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tools = components::in_a_directory(&["approve"])?;
    let data = tempfile::tempdir()?;

    // The tool asks and the run is suspended. No instance, task or connection is kept.
    let asks = ScriptedTurn::calls([("request_approval", json!({"question": "Publish version 2 today?"}))]);
    let host = host(tools.path(), data.path(), vec![asks]).await?;
    let end = host.run(RunRequest::new("publisher", "Publish version 2")).await?.wait().await?;
    let question = end.waiting.first().ok_or("nobody asks")?;
    println!("{} asks: {}", question.tool_name, question.ticket.message);
    let schema = question.ticket.response_schema.clone().unwrap_or_default();
    println!("the answer has to fit: {}", json!({"approved": schema["properties"]["approved"]["type"]}));
    drop(host);

    // Days later, in another process: everything that it needs is in the store.
    let says = ScriptedTurn::text("It is approved. The comment: \"{{request_approval/comment}}\"");
    let host = self::host(tools.path(), data.path(), vec![says]).await?;
    let answer = |value: Value| Decision::resume(question.call_id.as_str(), value);
    match host.decide(&end.run_id, answer(json!("yes"))).await {
        Err(HostError::DoesNotFit { .. }) => {
            println!("an answer that does not fit is refused, and the call goes on waiting");
        }
        other => return Err(format!("it should not have been taken: {other:?}").into()),
    }
    let decision = answer(json!({"approved": true, "comment": "after lunch"})).because("Ada said so");
    let end = host.decide(&end.run_id, decision).await?.wait().await?;
    println!("{}", end.text);
    Ok(())
}

/// A host with the tools and the data of this example.
async fn host(
    tools: &Path,
    data: &Path,
    turns: Vec<ScriptedTurn>,
) -> Result<Host, Box<dyn std::error::Error>> {
    Ok(Host::builder()
        .toolbox(Toolbox::load(tools).await?)
        .store(Arc::new(SqliteStore::open(data)?))
        .agent(Agent::new("publisher", ScriptedModel::new(turns)).with_tools(["request_approval"]))
        .build()?)
}
