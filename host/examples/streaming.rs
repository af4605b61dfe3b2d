//! The events of a run as they happen: `cargo run --example streaming`
//!
//! ```text
//! Let me count.
//!   word_count {"text":"Never say never again","top":1}
//!   word_count answers: 4 words, most often "never"
//! Four words, one of them twice.
//! done after 2 turns and 1 call
//! ```

mod components;

use serde_json::json;
use std::time::Duration;
use tollgate::{
    Agent, CallEnd, Event, Host, LiveContent, RunRequest, RunUpdate, ScriptedModel, ScriptedTurn, Toolbox,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = components::in_a_directory(&["word-count"])?;
    let model = ScriptedModel::new(vec![
        ScriptedTurn::calls([("word_count", json!({"text": "Never say never again", "top": 1}))])
            .with_text("Let me count."),
        ScriptedTurn::text("Four words, one of them twice."),
    ]);
    let host = Host::builder()
        .toolbox(Toolbox::load(dir.path()).await?)
        .agent(Agent::new("assistant", model.with_pace(Duration::from_millis(5))).with_tools(["*"]))
        .build()?;

    // `events` is a `Stream` of text while the model writes it, and of every stored event
    // in order. It ends when the run ends.
    let mut run = host.run(RunRequest::new("assistant", "Count this: Never say never again")).await?;
    while let Some(update) = run.events.next().await {
        match update {
            RunUpdate::Live(live) => {
                if let LiveContent::TextDelta { text } = live.piece {
                    print!("{text}");
                }
            }
            // An event is stored before it is sent: a client that reconnects with this
            // number through `Host::follow` misses none.
            RunUpdate::Stored(stored) => show(&stored.event),
            RunUpdate::Child(_) => {} // updates of agents that this agent's tools run
        }
    }
    let end = run.wait().await?;
    println!("done after {} turns and {} call", end.usage.steps, end.usage.calls);
    Ok(())
}

fn show(event: &Event) {
    match event {
        Event::ModelReplied { .. } => println!(),
        Event::CallProposed(call) => {
            let arguments = call.arguments.as_ref().map_or("", |arguments| arguments.text());
            println!("  {} {arguments}", call.tool_name);
        }
        Event::CallFinished(finished) => match &finished.end {
            CallEnd::Result(result) => println!(
                "  {} answers: {} words, most often {}",
                finished.tool_name, result.data["words"], result.data["frequent_words"][0]["word"]
            ),
            CallEnd::Fault(fault) => println!("  {} fails: {}", finished.tool_name, fault.message),
        },
        _ => {}
    }
}
