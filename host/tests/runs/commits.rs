//! How often a run and a call are committed, and that a long record is read fast.

use crate::hooks::plugin::Keeper;
use crate::place::StoreAt;
use crate::with_each_store;
use crate::world::toolbox;
use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tollgate::model::{Recorded, Turn};
use tollgate::plugin::HookPoints;
use tollgate::store::{
    AuditFilter, AuditRecord, Commit, CommitError, RunFilter, RunSummary, Store, StoreError, ToolHealth,
};
use tollgate::{Agent, CallRequest, Host, HostBuilder, RunRequest};
use tollgate_agent::run::{Numbered, Run, RunLimits, Thread};
use tollgate_agent::state::StateChange;

/// A store that counts its commits.
struct Counting {
    store: Arc<dyn Store>,
    commits: AtomicU32,
}

#[async_trait]
impl Store for Counting {
    async fn commit(&self, commit: Commit) -> Result<Vec<Arc<Numbered>>, CommitError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.store.commit(commit).await
    }

    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        self.store.thread(thread_id).await
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<Numbered>>, StoreError> {
        self.store.events(run_id, after).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.store.runs(filter).await
    }

    async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.store.note(records).await
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.store.audit(filter).await
    }

    async fn trapping(&self) -> Result<Vec<ToolHealth>, StoreError> {
        self.store.trapping().await
    }

    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        self.store.changes(thread_id, after, limit).await
    }

    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.component(digest).await
    }

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        self.store.change(thread_id, change).await
    }

    fn let_go(&self, run_id: &str) {
        self.store.let_go(run_id);
    }
}

/// A host on a store that counts, with an agent that asks for these turns.
fn counted(at: &StoreAt, turns: Vec<Turn>) -> (Host, Arc<Counting>) {
    counted_with(at, turns, |builder| builder)
}

fn counted_with(
    at: &StoreAt,
    turns: Vec<Turn>,
    more: impl FnOnce(HostBuilder) -> HostBuilder,
) -> (Host, Arc<Counting>) {
    let store = Arc::new(Counting { store: at.open(), commits: AtomicU32::new(0) });
    let limits = RunLimits {
        model_turns: u32::MAX,
        tool_calls: u32::MAX,
        identical_turns: u32::MAX,
        ..RunLimits::default()
    };
    let agent = Agent::new("default", Arc::new(Recorded::new(turns))).with_tools(["*"]).with_limits(limits);
    let builder = more(Host::builder().toolbox(toolbox()).agent(agent));
    (builder.store(Arc::clone(&store) as Arc<dyn Store>).build().unwrap(), store)
}

/// The commits of a run of so many turns of one call each.
async fn commits_of_a_run(at: &StoreAt, tool: &str, turns: usize) -> u32 {
    commits_with_hooks(at, tool, turns, HookPoints::NONE).await
}

/// The same, with a plugin whose hooks are asked at these points.
async fn commits_with_hooks(at: &StoreAt, tool: &str, turns: usize, points: HookPoints) -> u32 {
    let asks = |_| Turn::calls([(tool, json!({"n": 1}))]);
    let turns = (0..turns).map(asks).chain([Turn::text("Done.")]).collect();
    let (host, store) = counted_with(at, turns, |builder| builder.plugin(Keeper { points, waits: None }));
    host.run(RunRequest::new("default", "Go")).await.unwrap().wait().await.unwrap();
    store.commits.load(Ordering::Relaxed)
}

with_each_store! {
    async fn at_most_three_commits_for_a_call_of_a_run_and_one_for_a_direct_call(store: StoreAt) {
        for tool in ["add", "echo", "checked"] {
            let (few, many) = (commits_of_a_run(&store, tool, 1).await, commits_of_a_run(&store, tool, 11).await);
            assert!(many - few <= 3 * 10, "{tool}: {} commits for ten calls", many - few);
            let (host, store) = counted(&store, Vec::new());
            host.call(CallRequest::new(tool, json!({"n": 1}).to_string()).on_thread("t")).await.unwrap();
            assert_eq!(store.commits.load(Ordering::Relaxed), 1, "{tool}");
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
            let asks = |_| Turn::calls([("echo", json!({"n": 1}))]);
            let (host, _) = counted(&store, (0..turns).map(asks).chain([Turn::text("Done.")]).collect());
            let end = host.run(RunRequest::new("default", "Go")).await.unwrap().wait().await.unwrap();
            times.push(time_of_folding(&host, &end.run_id).await);
        }
        // Ten times as long: a quadratic fold would take a hundred times as long.
        assert!(times[1] < times[0] * 40 + Duration::from_millis(20), "{times:?}");
    }
}

/// The least of several times of reading a run and folding it.
async fn time_of_folding(host: &Host, run_id: &str) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let mut run = Run::new(Thread::default());
        for event in host.store().events(run_id, 0).await.unwrap() {
            run.apply(&event.event).unwrap();
        }
        assert!(run.is_finished());
        least = least.min(began.elapsed());
    }
    least
}
