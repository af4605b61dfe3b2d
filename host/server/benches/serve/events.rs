//! The time from the end of a tool's work to the arrival of its event at each subscriber of the run.
//! The store is in memory, so the time of a disk is not part of it; the commit, the encoding and
//! the client are.

use crate::at;
use crate::client::{Connection, request, runtime};
use crate::server::serve;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tollgate::{Agent, FnTool, Host, RunLimits, ScriptedModel, ScriptedTurn};

const SUBSCRIBERS: usize = 100;
const CALLS: usize = 100;

pub(crate) fn table() {
    let ended: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let ends = Arc::clone(&ended);
    let tool = FnTool::new("tick", "tick", "Waits for 20 ms.", move |_: Value, _| {
        let ends = Arc::clone(&ends);
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            ends.lock().unwrap().push(Instant::now());
            "ticked"
        }
    });
    // Identical calls would end the run early.
    let turn = |number: usize| ScriptedTurn::calls([("tick", json!({"number": number}))]);
    let mut turns: Vec<_> = (0..CALLS).map(turn).collect();
    turns.push(ScriptedTurn::text("Done."));
    let mut agent = Agent::new("ticker", ScriptedModel::new(turns)).with_tools(["*"]);
    let most = 2 * CALLS as u32;
    agent.limits = RunLimits { model_turns: most, tool_calls: most, ..RunLimits::default() };
    let served = serve(async { Host::builder().tool(tool).agent(agent).build().unwrap() });
    let body = json!({"agent": "ticker", "input": "Tick.", "detached": true}).to_string();
    let sent = request(
        "POST",
        "/api/v1/runs",
        &served.key,
        "application/json\r\nPrefer: respond-async",
        Some(&body),
    );
    let clients = runtime();
    let arrived = clients.block_on(async {
        let mut connection = Connection::open(served.address).await;
        let (status, answer) = connection.send(&sent).await;
        assert_eq!(status, 202, "{}", String::from_utf8_lossy(&answer));
        let run: Value = serde_json::from_slice(&answer).unwrap();
        let path = format!("/api/v1/runs/{}/events", run["run_id"].as_str().unwrap());
        let follow = async || {
            let mut connection = Connection::open(served.address).await;
            connection.write(&request("GET", &path, &served.key, "text/event-stream", None)).await;
            let mut times = Vec::new();
            while times.len() < CALLS {
                connection.until(b"event: call_finished").await;
                times.push(Instant::now());
            }
            times
        };
        futures::future::join_all((0..SUBSCRIBERS).map(|_| follow())).await
    });
    let ended = ended.lock().unwrap();
    // The subscribers join during the first half; late ones get its events from the record.
    let joined = CALLS / 2;
    let late = arrived.iter().flat_map(|times| {
        times
            .iter()
            .zip(ended.iter())
            .skip(joined)
            .map(|(arrived, ended)| (*arrived - *ended).as_secs_f64() * 1e3)
    });
    let mut late: Vec<f64> = late.collect();
    println!("## Events\n\n| subscribers | arrivals | p50 | p99 | goal of p99 |\n|---:|---:|---:|---:|---:|");
    println!(
        "| {SUBSCRIBERS} | {} | {:.2} ms | {:.2} ms | 2 ms |\n",
        late.len(),
        at(&mut late, 50),
        at(&mut late, 99)
    );
}
