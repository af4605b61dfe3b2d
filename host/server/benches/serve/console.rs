//! The pages of the console for a run of 10,000 events: their size with everything they load, and
//! the time until they are complete.

use crate::at;
use crate::client::{Connection, request, runtime};
use crate::server::serve;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use tollgate::{Agent, FnTool, Host, RunLimits, RunRequest, ScriptedModel, ScriptedTurn, SqliteStore};

const EVENTS: usize = 10_000;
/// The events of one turn with one call.
const PER_CALL: usize = 8;

pub(crate) fn table() {
    let data = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(data.path()).unwrap());
    let echo =
        FnTool::new("echo", "echo", "Answers with its arguments.", |args: Value, _| async move { args });
    let mut turns: Vec<_> =
        (0..EVENTS / PER_CALL).map(|n| ScriptedTurn::calls([("echo", json!({"n": n}))])).collect();
    turns.push(ScriptedTurn::text("Done."));
    let mut agent = Agent::new("long", ScriptedModel::new(turns)).with_tools(["*"]);
    agent.limits =
        RunLimits { model_turns: 20_000, tool_calls: 20_000, wall_ms: 3_600_000, ..RunLimits::default() };
    let served = serve(async { Host::builder().store(store).tool(echo).agent(agent).build().unwrap() });
    let (run_id, events) = served.runtime.block_on(async {
        let mut long = RunRequest::new("long", "Count.").on_thread("bench/long");
        long.principal = Some("bench".into());
        let end = served.state.host.run(long).await.unwrap().wait().await.unwrap();
        let events = served.state.host.record(&end.run_id, 0).await.unwrap().len();
        (end.run_id.to_string(), events)
    });
    println!(
        "## Console, with a run of {events} events\n\nGoals: 80 KB and 50 ms.\n\n| page | bytes, with script and style | p50 of 20 | first |\n|---|---:|---:|---:|"
    );
    let clients = runtime();
    clients.block_on(async {
        let mut connection = Connection::open(served.address).await;
        for path in [
            "/console".to_owned(),
            "/console/runs".to_owned(),
            format!("/console/runs/{run_id}"),
            format!("/console/runs/{run_id}?view=conversation"),
            format!("/console/runs/{run_id}?view=events"),
            format!("/console/runs/{run_id}?view=state"),
            "/console/usage".to_owned(),
        ] {
            let get = |path: &str| request("GET", path, &served.key, "text/html", None);
            let (mut times, mut page) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let began = Instant::now();
                let (status, body) = connection.send(&get(&path)).await;
                times.push(began.elapsed().as_secs_f64() * 1e3);
                assert_eq!(status, 200, "{path}");
                page = body;
            }
            let text = String::from_utf8_lossy(&page).into_owned();
            let mut size = page.len();
            for asset in text.split('"').filter(|word| word.starts_with("/console/assets/")) {
                let (status, body) = connection.send(&get(asset)).await;
                assert_eq!(status, 200, "{asset}");
                size += body.len();
            }
            let first = times[0];
            let shown = path.replace(&run_id, "RUN");
            println!("| `{shown}` | {size} | {:.1} ms | {first:.1} ms |", at(&mut times, 50));
        }
    });
    println!();
}
