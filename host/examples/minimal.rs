//! One host, one agent, one sandboxed tool: `cargo run --example minimal`
//!
//! ```text
//! It has 10 words, and 8 of them are different.
//! ```

mod components;

use serde_json::json;
use tollgate::{Agent, Host, RunRequest, ScriptedModel, ScriptedTurn, Toolbox};

const TEXT: &str = "To be, or not to be: that is the question";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Every component in the directory can be called. None of them has a grant: they
    // cannot use files, the network or variables.
    let dir = components::in_a_directory(&["word-count"])?;
    let tools = Toolbox::load(dir.path()).await?;

    // A scripted model needs no API key. A real one is
    // `ModelConfig::new(ProviderName::Anthropic, "claude-sonnet-4-5").connect()?`.
    let model = ScriptedModel::new(vec![
        ScriptedTurn::calls([("word_count", json!({"text": TEXT}))]),
        ScriptedTurn::text(
            "It has {{word_count/words}} words, and {{word_count/unique_words}} of them are different.",
        ),
    ]);

    // An agent may call the tools that it lists. An agent without a list may call none.
    let host = Host::builder()
        .toolbox(tools)
        .agent(Agent::new("assistant", model).with_tools(["word_count"]))
        .build()?;

    let question = format!("How many words are in: {TEXT}");
    let end = host.run(RunRequest::new("assistant", question)).await?.wait().await?;
    println!("{}", end.text);
    Ok(())
}
