//! A custom gate: `cargo run --example custom_gate`
//!
//! ```text
//! no-addresses says allow to {"text":"Dear all"}
//! no-addresses says deny to {"text":"Dear ada@example.com"}
//! The first has 2 words. The call of 'word_count' was denied: E-mail addresses are private.
//! ```

mod components;

use serde_json::{Value, json};
use tollgate::{
    Agent, Event, Gate, Host, ProposedCall, RunRequest, ScriptedModel, ScriptedTurn, Toolbox, Verdict,
    async_trait,
};

/// Keeps e-mail addresses away from tools.
struct NoAddresses;

/// The host asks every gate about every call before it runs. The most severe answer wins: block,
/// deny, suspend, set-result, allow. A gate has no side effects, so the order of gates does not
/// matter. A gate that panics denies the call.
#[async_trait]
impl Gate for NoAddresses {
    fn id(&self) -> &str {
        "no-addresses"
    }

    // A gate sees the call as it will run: parsed arguments, not what the model wrote.
    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        match call.arguments.text().contains('@') {
            true => Verdict::Deny("E-mail addresses are private.".to_owned()),
            false => Verdict::Allow,
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = components::in_a_directory(&["word-count"])?;
    let model = ScriptedModel::new(vec![
        ScriptedTurn::calls([("word_count", json!({"text": "Dear all"}))]),
        ScriptedTurn::calls([("word_count", json!({"text": "Dear ada@example.com"}))]),
        // The model reads the reason as the result of its call.
        ScriptedTurn::text("The first has {{word_count#1/words}} words. {{word_count#2}}"),
    ]);
    let host = Host::builder()
        .toolbox(Toolbox::load(dir.path()).await?)
        .gate(NoAddresses)
        .agent(Agent::new("assistant", model).with_tools(["word_count"]))
        .build()?;
    let end = host.run(RunRequest::new("assistant", "Count both letters.")).await?.wait().await?;

    // The record holds the answer of each gate and the judged arguments.
    let mut arguments = Value::Null;
    for numbered in host.store().events(&end.run_id, 0).await? {
        match &numbered.event {
            Event::CallProposed(call) => arguments = json!(call.arguments),
            Event::CallGated { verdicts, .. } => {
                for answer in verdicts.iter().filter(|answer| answer.gate == "no-addresses") {
                    let word = if answer.verdict == Verdict::Allow { "allow" } else { "deny" };
                    println!("{} says {word} to {arguments}", answer.gate);
                }
            }
            _ => {}
        }
    }
    println!("{}", end.text);
    Ok(())
}
