//! An agent that calls another, which starts with seeded state and exports some of it:
//! `cargo run --example sub_agents`
//!
//! ```text
//! the archivist begins with 1 note and ends with 2, after 2 turns
//! Filed: it is with the minutes of Monday.
//! ```

mod components;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::{
    Agent, ChildRequest, FnTool, Host, RunRequest, ScriptedModel, ScriptedTurn, ToolContext, ToolResult,
    Toolbox,
};

/// The key under which the component `notes` keeps a conversation's notes.
const NOTES: &str = "notes.items";

#[derive(Deserialize, JsonSchema)]
struct File {
    /// The text to keep.
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = components::in_a_directory(&["notes"])?;
    let archivist = ScriptedModel::new(vec![
        ScriptedTurn::calls([("add_note", json!({"text": "Tuesday: the roof leaks."}))]),
        ScriptedTurn::text("it is with the minutes of Monday."),
    ]);
    let secretary = ScriptedModel::new(vec![
        ScriptedTurn::calls([("file", json!({"text": "Tuesday: the roof leaks."}))]),
        ScriptedTurn::text("Filed: {{file}}"),
    ]);
    let host = Host::builder()
        .toolbox(Toolbox::load(dir.path()).await?)
        .tool(FnTool::new("file", "file", "Hands minutes to the archivist.", file))
        .agent(Agent::new("secretary", secretary).with_tools(["file"]))
        // The child has its own tools, not those of its parent.
        .agent(Agent::new("archivist", archivist).with_tools(["add_note", "list_notes"]))
        .build()?;
    let end = host.run(RunRequest::new("secretary", "File what happened on Tuesday.")).await?.wait().await?;
    println!("{}", end.text);
    Ok(())
}

/// Runs the archivist as a child of this call. The child run has its own state. Only the
/// seed goes in, and only the exports come out.
async fn file(minutes: File, call: ToolContext) -> Result<ToolResult, String> {
    let monday = json!({"n1": {"text": "Monday: the roof is fine.", "created_ms": 0}});
    let request =
        ChildRequest::new("archivist", minutes.text).with_seed(NOTES, monday.clone()).with_export(NOTES);
    let outcome = call.run_child(request).await.map_err(|why| why.to_string())?;
    // The tool decides how to continue if a child does not complete. This tool accepts only
    // completion.
    let outcome = outcome.completed().map_err(|why| why.to_string())?;
    let notes = outcome.thread_state.as_ref().and_then(|state| state.get(NOTES)).map(AsRef::as_ref);
    println!(
        "the archivist begins with {} note and ends with {}, after {} turns",
        count(Some(&monday)),
        count(notes),
        outcome.steps
    );
    Ok(ToolResult::success(outcome.response.unwrap_or_default()))
}

fn count(notes: Option<&Value>) -> usize {
    notes.and_then(Value::as_object).map_or(0, serde_json::Map::len)
}
