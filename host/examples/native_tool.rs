//! Native tools beside sandboxed ones: `cargo run --example native_tool`
//!
//! ```text
//! March brought 3 orders worth 93.0 in all; the largest was 51.5.
//! May I have another month? Error: There are no orders of "Smarch".
//! ```

mod components;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use tollgate::{
    Agent, CallRequest, ExecutionPolicy, FnTool, Host, RunRequest, ScriptedModel, ScriptedTurn, Toolbox,
};

/// The arguments. Their schema is derived from this type. The model reads it, and the host
/// rejects arguments that do not match it before the tool runs.
#[derive(Deserialize, JsonSchema)]
struct Orders {
    /// The month, in English.
    month: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Only this program has this data, and no component can reach it. A native tool is
    // trusted, and its calls pass the same gates.
    // The second argument holds the caller, the time limit and a person's decision.
    let database = BTreeMap::from([("March", "order,amount\n1,12.5\n2,51.5\n3,29\n")]);
    let orders =
        FnTool::new("orders", "orders_of", "The orders of a month, as CSV.", move |args: Orders, _call| {
            let found = database.get(args.month.as_str()).copied();
            async move { found.ok_or_else(|| format!("There are no orders of {:?}.", args.month)) }
        })
        .with_execution(ExecutionPolicy {
            idempotent: true,
            timeout_ms: Some(2_000),
            ..Default::default()
        });

    // The table passes from one tool to the other. The sandboxed tool sees only its arguments.
    let dir = components::in_a_directory(&["csv-stats"])?;
    let model = ScriptedModel::new(vec![
        ScriptedTurn::calls([("orders_of", json!({"month": "March"}))]),
        ScriptedTurn::calls([("csv_stats", json!({"text": "{{orders_of}}"}))]),
        ScriptedTurn::text(
            "March brought {{csv_stats/rows}} orders worth {{csv_stats/columns/1/sum}} in all; \
             the largest was {{csv_stats/columns/1/max}}.",
        ),
    ]);
    let host = Host::builder()
        .toolbox(Toolbox::load(dir.path()).await?)
        .tool(orders) // `build` fails if the name is taken, and names the owner
        .agent(Agent::new("clerk", model).with_tools(["orders_of", "csv_stats"]))
        .build()?;
    let end = host.run(RunRequest::new("clerk", "How was March?")).await?.wait().await?;
    println!("{}", end.text);

    // The same tool without a model. The call is still judged and recorded.
    let end = host.call(CallRequest::new("orders_of", &json!({"month": "Smarch"}))?).await?;
    let words = end.result().and_then(|result| result.message.as_deref()).unwrap_or_default();
    println!("May I have another month? Error: {words}");
    Ok(())
}
