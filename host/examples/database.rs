//! A database tool with a timeout: a query that takes too long ends with a code, and the program
//! goes on: `cargo run --example database`
//!
//! ```text
//! SELECT 1: 1 row
//! SELECT sleep: timed_out
//! ```

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tollgate::tollgate_agent::descriptor::ExecutionPolicy;
use tollgate::{CallRequest, FnTool, Host};

#[derive(Deserialize, JsonSchema)]
struct Query {
    /// The query, in SQL.
    sql: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let query = FnTool::new("query", "query", "Runs a query.", |query: Query, _| async move {
        if query.sql.contains("sleep") {
            std::future::pending::<()>().await;
        }
        "1 row"
    });
    // Without `idempotent`, it is never repeated: a late query may have taken effect.
    let query = query.with_execution(ExecutionPolicy { timeout_ms: Some(200), ..Default::default() });
    let host = Host::builder().tool(query).build()?;
    for sql in ["SELECT 1", "SELECT sleep"] {
        let end = host.call(CallRequest::new("query", json!({"sql": sql}).to_string())).await?;
        let finished = end.last_call.ok_or("the call has no end")?;
        let code = finished.end.code().map(|code| code.as_str());
        println!("{sql}: {}", code.unwrap_or("1 row"));
    }
    Ok(())
}
