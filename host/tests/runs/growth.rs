//! The cost of a commit does not depend on the size of the store; the memory of a state grows with it.

use crate::place::sqlite;
use crate::world::host_on;
use async_trait::async_trait;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::store::RunFilter;
use tollgate::tools::{MemoryBudget, NativePlugin, NativeTool, ToolCall, Toolbox};
use tollgate::{Agent, CallRequest, Host, RunRequest};
use tollgate_agent::descriptor::{StateAccess, StateKey, ToolDescriptor};
use tollgate_agent::outcome::{Fault, Mutation, ToolOutput, ToolResult};
use tollgate_agent::run::RunStatus;
use tollgate_agent::state::{KeyScope, Reducer};

/// Returns the median time of many direct calls, each of which is one commit.
async fn time_of_a_commit(host: &Host) -> Duration {
    let mut times = Vec::new();
    for _ in 0..40 {
        let began = Instant::now();
        host.call(CallRequest::from_json("echo", "{}").on_thread("t")).await.unwrap();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times[20]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_commit_does_not_grow_with_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let host = host_on(sqlite(folder.path()), Vec::new());
    let before = time_of_a_commit(&host).await;
    // Readers wait for records that are not written yet.
    assert_eq!(host.store().runs(RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap().len(), 40);
    let filler = "INSERT INTO events (id, at_ms, body)
        WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 301000)
        SELECT ((SELECT max(id) FROM runs) << 32) | i, 7, printf('{\"type\":\"step_finished\",\"step\":%d}', i) FROM n";
    rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap().execute(filler, []).unwrap();
    let after = time_of_a_commit(&host).await;
    // Scanning all 300,000 events takes far longer.
    assert!(after < before * 5 + Duration::from_millis(20), "{before:?}, then {after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_changes_state_writes_few_pages() {
    const CALLS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let host = host_on(sqlite(folder.path()), Vec::new());
    let pages = || {
        let log = std::fs::metadata(folder.path().join("tollgate.db-wal")).unwrap().len();
        log / (4096 + 24)
    };
    let set = async || {
        let request = CallRequest::from_json("set_city", r#"{"city": "Bern"}"#).on_thread("t");
        host.call(request).await.unwrap()
    };
    set().await;
    let before = pages();
    for _ in 0..CALLS {
        set().await;
    }
    let each = (pages() - before) as f64 / CALLS as f64;
    // One page for each table and index, and one or sometimes two for the record, which fills half
    // a page.
    assert!(each < 16.0, "{each} pages a call");
}

/// The size of the text that [`Grow`] appends, in bytes.
const ADDED_BYTES: usize = 200_000;

/// Appends a text to the state of its thread, and notes how much memory is reserved.
struct Grow {
    budget: MemoryBudget,
    seen: Arc<Mutex<Vec<u64>>>,
}

#[async_trait]
impl NativeTool for Grow {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new("grow", "grow", "Appends a text.")
    }

    async fn execute(&self, _call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        self.seen.lock().unwrap().push(self.budget.reserved_bytes());
        let update = json!("x".repeat(ADDED_BYTES));
        let mutations = vec![Mutation { key: "grower.texts".to_owned(), update }];
        Ok(ToolOutput { result: ToolResult::success("grown").into(), mutations, actions: Vec::new() })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_the_memory_of_a_state_is_reserved_again_as_it_grows() {
    const CALLS: usize = 6;
    let (budget, seen) = (MemoryBudget::new(128 << 20), Arc::new(Mutex::new(Vec::new())));
    let defines = StateKey {
        initial: json!([]).into(),
        schema: None,
        reducer: Reducer::Append,
        scope: KeyScope::Thread,
        persistent: true,
    };
    let key = StateAccess { key: "grower.texts".to_owned(), read: true, write: true, defines: Some(defines) };
    let grow = Grow { budget: budget.clone(), seen: Arc::clone(&seen) };
    let mut toolbox = Toolbox::default();
    NativePlugin::new("grower").with_state(key).with_tool(grow).install(&mut toolbox).unwrap();
    let turns = (0..CALLS).map(|n| ScriptedTurn::calls([("grow", json!({ "n": n }))]));
    let turns = turns.chain([ScriptedTurn::text("Done.")]).collect();
    let agent = Agent::new("default", Arc::new(ScriptedModel::new(turns))).with_tools(["*"]);
    let host = Host::builder().toolbox(toolbox).agent(agent).memory_budget(budget.clone()).build().unwrap();
    let end = host.run(RunRequest::new("default", "Grow.")).await.unwrap().wait().await.unwrap();
    assert_eq!(end.status, Some(RunStatus::Completed));
    let seen = seen.lock().unwrap();
    assert!(seen.len() == CALLS && seen[0] < 1 << 20, "{seen:?}");
    // The values of a large state, and its copies.
    let of_state = 8 * (CALLS - 1) * ADDED_BYTES;
    assert!(seen[CALLS - 1] >= of_state as u64, "{seen:?}");
    assert_eq!(budget.reserved_bytes(), 0);
}
