//! The shortest tool: `cargo run --example greeting`
//!
//! ```text
//! Hello, Ada!
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate::{CallRequest, FnTool, Host};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Who {
    /// The name of the person to greet.
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let greet = FnTool::new("greet", "greet", "Greets a person.", |who: Who, _| async move {
        format!("Hello, {}!", who.name)
    });
    let host = Host::builder().tool(greet).build()?;
    let ada = Who { name: "Ada".to_owned() };
    let end = host.call(CallRequest::new("greet", &ada)?).await?;
    println!("{}", end.result().ok_or("the call failed")?.data.words());
    Ok(())
}
