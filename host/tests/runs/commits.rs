//! Tests of the number of commits of runs and calls, and of the speed of reading a long record.

use crate::hooks::plugin::Keeper;
use crate::place::StoreAt;
use crate::watched::Watched;
use crate::with_each_store;
use crate::world::toolbox;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::plugins::HookPoints;
use tollgate::store::Store;
use tollgate::{Agent, CallRequest, Host, HostBuilder, RunRequest};
use tollgate_agent::run::{Run, RunLimits, Thread};

/// Creates a host on a store that counts writes, with an agent that plays these turns.
fn counted(at: &StoreAt, turns: Vec<ScriptedTurn>) -> (Host, Arc<Watched<()>>) {
    counted_with(at, turns, |builder| builder)
}

fn counted_with(
    at: &StoreAt,
    turns: Vec<ScriptedTurn>,
    more: impl FnOnce(HostBuilder) -> HostBuilder,
) -> (Host, Arc<Watched<()>>) {
    let store = Watched::new(at.open(), ());
    let limits = RunLimits {
        model_turns: u32::MAX,
        tool_calls: u32::MAX,
        identical_turns: u32::MAX,
        ..RunLimits::default()
    };
    let agent =
        Agent::new("default", Arc::new(ScriptedModel::new(turns))).with_tools(["*"]).with_limits(limits);
    let builder = more(Host::builder().toolbox(toolbox()).agent(agent));
    (builder.store(Arc::clone(&store) as Arc<dyn Store>).build().unwrap(), store)
}

/// Returns the commits of a run with this many turns of one call each.
async fn commits_of_a_run(at: &StoreAt, tool: &str, turns: usize) -> u64 {
    commits_with_hooks(at, tool, turns, HookPoints::NONE).await
}

/// Returns the commits of such a run with a plugin whose hooks are asked at these points.
async fn commits_with_hooks(at: &StoreAt, tool: &str, turns: usize, points: HookPoints) -> u64 {
    let asks = |_| ScriptedTurn::calls([(tool, json!({"n": 1}))]);
    let turns = (0..turns).map(asks).chain([ScriptedTurn::text("Done.")]).collect();
    let (host, store) = counted_with(at, turns, |builder| builder.plugin(Keeper { points, waits: None }));
    host.run(RunRequest::new("default", "Go")).await.unwrap().wait().await.unwrap();
    store.writes()
}

with_each_store! {
    async fn at_most_three_commits_for_a_call_of_a_run_and_two_for_a_direct_call(store: StoreAt) {
        for tool in ["add", "echo", "checked"] {
            let (few, many) = (commits_of_a_run(&store, tool, 1).await, commits_of_a_run(&store, tool, 11).await);
            assert!(many - few <= 3 * 10, "{tool}: {} commits for ten calls", many - few);
            let (host, store) = counted(&store, Vec::new());
            host.call(CallRequest::from_json(tool, json!({"n": 1}).to_string()).on_thread("t")).await.unwrap();
            // One more before it runs, if it may not run twice.
            assert_eq!(store.writes(), if tool == "add" { 2 } else { 1 }, "{tool}");
        }
    }

    async fn h3_hooks_before_calls_cost_no_commit_and_hooks_after_them_one(store: StoreAt) {
        let before = HookPoints { after_call: false, ..HookPoints::ALL };
        for (points, most) in [(before, 3), (HookPoints::ALL, 4)] {
            let few = commits_with_hooks(&store, "add", 1, points).await;
            let many = commits_with_hooks(&store, "add", 11, points).await;
            assert!(many - few <= most * 10, "{points:?}: {} commits for ten calls", many - few);
        }
    }

    async fn a_long_record_is_read_and_folded_in_time_that_grows_with_its_length(store: StoreAt) {
        let mut times = Vec::new();
        for turns in [100, 1_000] {
            let asks = |_| ScriptedTurn::calls([("echo", json!({"n": 1}))]);
            let (host, _) = counted(&store, (0..turns).map(asks).chain([ScriptedTurn::text("Done.")]).collect());
            let end = host.run(RunRequest::new("default", "Go")).await.unwrap().wait().await.unwrap();
            times.push(time_of_folding(&host, &end.run_id).await);
        }
        // Ten times as long: a quadratic fold would take a hundred times as long.
        assert!(times[1] < times[0] * 40 + Duration::from_millis(20), "{times:?}");
    }
}

/// Returns the least processor time of several measurements of reading a run and folding it. Unlike the
/// time of a clock, it does not grow while other programs keep the machine busy.
async fn time_of_folding(host: &Host, run_id: &str) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let began = processor_time();
        let mut run = Run::new(Thread::default());
        for event in host.store().events(run_id, 0).await.unwrap() {
            run.apply(&event.event).unwrap();
        }
        assert!(run.is_finished());
        least = least.min(processor_time() - began);
    }
    least
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap()
}
