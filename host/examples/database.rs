//! A database tool with a timeout: a query that takes too long is stopped and ends with a code, and
//! the program goes on: `cargo run --example database`
//!
//! ```text
//! SELECT 6 * 7: 42
//! a query without end: timed_out
//! ```

use rusqlite::Connection;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tollgate::{CallRequest, ExecutionPolicy, FnTool, Host};

#[derive(Deserialize, JsonSchema)]
struct Query {
    /// The query, in SQL.
    sql: String,
}

/// Counts forever.
const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

/// Runs a query on a thread of its own, and stops it when the call ends.
async fn run(query: Query) -> Result<String, String> {
    let call = Arc::new(());
    let of_call = Arc::downgrade(&call);
    let work = move || {
        let mut database = Connection::open_in_memory()?;
        database.progress_handler(1_000, Some(move || of_call.upgrade().is_none()))?;
        database.query_row(&query.sql, [], |row| row.get::<_, i64>(0))
    };
    let answered = tokio::task::spawn_blocking(work).await.map_err(|e| e.to_string())?;
    drop(call);
    answered.map(|number| number.to_string()).map_err(|e: rusqlite::Error| e.to_string())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let query = FnTool::new("query", "query", "Runs a query.", |query: Query, _| run(query));
    // Without `idempotent`, it is never repeated: a late query may have taken effect.
    let query = query.with_execution(ExecutionPolicy { timeout_ms: Some(500), ..Default::default() });
    let host = Host::builder().tool(query).build()?;
    for (name, sql) in [("SELECT 6 * 7", "SELECT 6 * 7"), ("a query without end", ENDLESS)] {
        let end = host.call(CallRequest::new("query", &json!({"sql": sql}))?).await?;
        let answer = end.result().map(|result| result.data.words().into_owned());
        let finished = end.last_call.as_ref().ok_or("the call has no end")?;
        let code = finished.end.code().map(|code| code.as_str().to_owned());
        println!("{name}: {}", code.or(answer).ok_or("no answer")?);
    }
    Ok(())
}
