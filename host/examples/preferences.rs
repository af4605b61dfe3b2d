//! Tools that keep a person's preferences in the state of a conversation:
//! `cargo run --example preferences`
//!
//! ```text
//! Noted. You prefer metric units.
//! {"units":"metric"}
//! ```

use serde_json::{Map, Value, json};
use tollgate::plugins::mutation;
use tollgate::tools::NativePlugin;
use tollgate::{
    Agent, FnTool, Host, Json, KeyScope, RunRequest, ScriptedModel, ScriptedTurn, StateKey, ToolContext,
    ToolOutput, ToolResult,
};

/// The preferences of a conversation, by name. They survive the process.
struct Preferences;

impl StateKey for Preferences {
    const NAME: &'static str = "person.preferences";
    const COMMUTES: bool = false; // the later of two writes wins
    const SCOPE: KeyScope = KeyScope::Thread;
    const PERSISTENT: bool = true;
    type Value = Map<String, Value>;
    type Update = Map<String, Value>;

    fn apply(preferences: &mut Self::Value, update: Self::Update) {
        preferences.extend(update);
    }
}

async fn remember(given: Map<String, Value>, _: ToolContext) -> ToolOutput {
    let mutations = vec![mutation::<Preferences>(&given)];
    ToolOutput { mutations, ..ToolResult::success("Noted.").into() }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recall = |_: Value, call: ToolContext| async move { Json(call.read::<Preferences>()) };
    let person = NativePlugin::new("person")
        .with_key::<Preferences>()
        .with_tool(FnTool::new("remember", "remember", "Remembers preferences.", remember))
        .with_tool(FnTool::new("recall", "recall", "Recalls the preferences.", recall));
    let model = ScriptedModel::new(vec![
        ScriptedTurn::calls([("remember", json!({"units": "metric"}))]),
        ScriptedTurn::text("{{remember}} You prefer metric units."),
        ScriptedTurn::calls([("recall", json!({}))]),
        ScriptedTurn::text("{{recall}}"),
    ]);
    let assistant = Agent::new("assistant", model).with_tools(["remember", "recall"]);
    let host = Host::builder().plugin(person).agent(assistant).build()?;
    for prompt in ["I like metric units.", "What do I like?"] {
        let run = host.run(RunRequest::new("assistant", prompt).on_thread("ada")).await?;
        println!("{}", run.wait().await?.text);
    }
    Ok(())
}
