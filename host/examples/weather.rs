//! A tool whose attempts are repeated after a timeout, because repeating it is harmless:
//! `cargo run --example weather`
//!
//! ```text
//! 22.5 degrees in Bern, at attempt 3
//! ```

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate::tollgate_agent::descriptor::ExecutionPolicy;
use tollgate::{CallRequest, FnTool, Host, ToolContext};

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// The name of the city.
    city: String,
}

/// Asks a server that answers the third request.
async fn weather(place: Place, call: ToolContext) -> String {
    if call.attempt() < 3 {
        std::future::pending::<()>().await;
    }
    format!("22.5 degrees in {}, at attempt {}", place.city, call.attempt())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = ExecutionPolicy {
        timeout_ms: Some(100), // for each attempt
        max_retries: Some(3),
        idempotent: true,
        ..ExecutionPolicy::default()
    };
    let weather =
        FnTool::new("weather", "get_weather", "The weather of a city.", weather).with_execution(policy);
    let host = Host::builder().tool(weather).build()?;
    let end = host.call(CallRequest::new("get_weather", r#"{"city": "Bern"}"#)).await?;
    println!("{}", end.result().ok_or("the call failed")?.data.words());
    Ok(())
}
