//! A gate, a hook and a state key, installed as one plugin: `cargo run --example plugin`
//!
//! ```text
//! Two words were counted. The call of 'word_count' was denied: 3 cents are left.
//! 2 cents were spent
//! ```

mod components;

use serde_json::{Value, json};
use tollgate::plugins::{Effects, HookError, HookedCall, Hooks, Parts, Plugin, StateKey, async_trait};
use tollgate::{
    Agent, CallEnd, Gate, Host, KeyScope, ProposedCall, RunRequest, ScriptedModel, ScriptedTurn, Toolbox,
    Verdict,
};

/// The budget of a conversation, in cents. A word costs one.
const MAX_CENTS: u64 = 5;

/// The money spent: a typed state key with a reducer in Rust.
struct Spent;

impl StateKey for Spent {
    const NAME: &'static str = "till.spent";
    const COMMUTES: bool = true; // so that calls that run at once may all spend
    const SCOPE: KeyScope = KeyScope::Thread;
    type Value = u64;
    type Update = u64;

    fn apply(spent: &mut u64, cents: u64) {
        *spent += cents;
    }
}

/// A gate that denies calls that cost too much, a hook that subtracts the money, and their key.
struct Till;

impl Plugin for Till {
    fn name(&self) -> &str {
        "till"
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        parts.state::<Spent>().gate(Till).hooks(Till);
    }
}

#[async_trait]
impl Gate for Till {
    fn id(&self) -> &str {
        "till"
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        let spent = call.snapshot.get(call.keys, Spent::NAME).and_then(Value::as_u64).unwrap_or_default();
        let words = call.arguments.value()["text"].as_str().unwrap_or_default().split_whitespace().count();
        match spent + words as u64 {
            0..=MAX_CENTS => Verdict::Allow,
            _ => Verdict::Deny(format!("{} cents are left.", MAX_CENTS - spent)),
        }
    }
}

#[async_trait]
impl Hooks for Till {
    /// Runs once for each call. The effects are committed with the call's result, or not at all.
    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        let Some(CallEnd::Result(result)) = call.end else { return Ok(Effects::none()) };
        Ok(Effects::none().update::<Spent>(result.data["words"].as_u64().unwrap_or_default()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = components::in_a_directory(&["word-count"])?;
    let model = ScriptedModel::new(vec![
        ScriptedTurn::calls([("word_count", json!({"text": "Dear all"}))]),
        ScriptedTurn::calls([("word_count", json!({"text": "and everybody else out there"}))]),
        ScriptedTurn::text("Two words were counted. {{word_count#2}}"),
    ]);
    let host = Host::builder()
        .toolbox(Toolbox::load(dir.path()).await?)
        .plugin(Till)
        .agent(Agent::new("scribe", model).with_tools(["word_count"]))
        .build()?;
    let end = host.run(RunRequest::new("scribe", "Count.").on_thread("t")).await?.wait().await?;
    let spent = host.store().thread("t").await?.state.get(Spent::NAME).cloned().unwrap_or_default();
    println!("{}\n{spent} cents were spent", end.text);
    Ok(())
}
