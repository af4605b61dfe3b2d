//! Tests that a thousand cancelled runs leave nothing behind, neither of sandboxed tools nor of
//! tools of an external server.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tollgate::config::Config;
use tollgate::tools::directory;
use tollgate::{
    Agent, CallRequest, Event, Host, RunRequest, RunStatus, RunUpdate, ScriptedModel, ScriptedTurn,
};
use tollgate_artifacts::{good, hostile};
use tollgate_mcp::Servers;
use tollgate_sandbox::{Occupancy, Sandbox};

const RUNS: usize = 1_000;
/// The number of instances that run at once; a leaked one is noticed.
const SLOTS: u32 = 32;
/// The number of concurrent runs, most of them with a call of the sandbox. No more calls ever wait,
/// so that a leaked place in the queue is noticed, too.
const AT_ONCE: u32 = 64;

/// No call reaches its timeout.
const CONFIG: &str = "\
[limits]
timeout_ms = 240_000
[mcp.other]
command = \"sh\"
args = [\"server.sh\"]
start_timeout_ms = 60_000
";

/// A server that records its calls and never answers, except those that contain instructions.
const SERVER: &str = r#"while read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
case "$line" in
*'"initialize"'*) say '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
*'"server/discover"'*) say '"error":{"code":-32601,"message":"no"}' ;;
*'"tools/list"'*) say '"result":{"tools":[{"name":"waits","inputSchema":{"type":"object"}}]}' ;;
*'"answer"'*) say '"result":{"content":[]}' ;;
*'"exit"'*) exit 3 ;;
*'"tools/call"'*) echo "$id" >> called ;;
esac
done
"#;

/// The resources of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    tasks: usize,
    files: usize,
    children: usize,
    used: Used,
}

/// The resources of the sandbox in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    calls: Occupancy,
    instances: u64,
    core_instances: u64,
    memories: usize,
    tables: usize,
    stacks: usize,
}

impl Used {
    fn of(sandbox: &Sandbox) -> Self {
        let pool = sandbox.engine().pooling_allocator_metrics().unwrap();
        Self {
            calls: sandbox.occupancy(),
            instances: pool.component_instances(),
            core_instances: pool.core_instances(),
            memories: pool.memories(),
            tables: pool.tables(),
            stacks: pool.stacks(),
        }
    }
}

/// A host whose runs call a tool that sleeps, one that computes, or one of a server, all of them
/// forever. The sandbox is full before half of them run.
struct World {
    dir: TempDir,
    sandbox: Sandbox,
    host: Host,
}

impl World {
    async fn new() -> (Self, Servers) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("server.sh"), SERVER).unwrap();
        let mut config = Config::parse(&dir.path().join("tollgate.toml"), CONFIG).unwrap();
        config.limits.sandbox.concurrent_calls = SLOTS;
        config.limits.sandbox.waiting_calls = AT_ONCE;
        std::fs::create_dir(&config.tools_dir).unwrap();
        for guest in [good::ECHO, hostile::SLEEP_FOR_EVER, hostile::SPIN_FOR_EVER] {
            let file = config.tools_dir.join(guest.name).with_extension("wasm");
            std::fs::write(file, guest.bytes()).unwrap();
        }
        let turns = (0..RUNS).map(|n| {
            let tool = ["spin-for-ever", "sleep-for-ever", "other__waits", "sleep-for-ever"][n % 4];
            ScriptedTurn::calls([(tool, json!({}))])
        });
        let agent = Agent::new("default", ScriptedModel::new(turns.collect())).with_tools(["*"]);
        let sandbox = Sandbox::new(config.limits.sandbox.clone()).unwrap();
        let toolbox = directory::load(&sandbox, &config, &|_, _, _| {}).await.unwrap().toolbox;
        let host = Host::builder()
            .toolbox(toolbox)
            .agent(agent.with_limits(config.limits.run.clone()))
            .build()
            .unwrap();
        let servers = Servers::connect(&host, &config).await;
        assert!(servers.failed.is_empty() && servers.notices.is_empty(), "{servers:?}");
        (Self { dir, sandbox, host }, servers)
    }

    fn held(&self) -> Held {
        let entries = |dir: &str| std::fs::read_dir(dir).unwrap().count();
        // A thread may end during the listing.
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let children = threads.map(|thread| {
            let file = thread.map_or_else(|_| PathBuf::new(), |thread| thread.path().join("children"));
            std::fs::read_to_string(file).map_or(0, |ids| ids.split_whitespace().count())
        });
        Held {
            children: children.sum(),
            tasks: Handle::current().metrics().num_alive_tasks(),
            files: entries("/proc/self/fd"),
            used: Used::of(&self.sandbox),
        }
    }

    /// Returns the same resources once they stop changing, because a task ends a moment after its
    /// result.
    async fn held_at_rest(&self) -> Held {
        let (mut held, mut looks_alike) = (self.held(), 0);
        for _ in 0..2_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = self.held();
            looks_alike = if now == held { looks_alike + 1 } else { 0 };
            held = now;
            if looks_alike == 50 {
                break;
            }
        }
        held
    }

    /// Cancels this many runs. Returns the peak use of the sandbox.
    async fn cancel_runs(&self, runs: usize) -> Used {
        let turns = Arc::new(tokio::sync::Semaphore::new(AT_ONCE as usize));
        let mut under_way = tokio::task::JoinSet::new();
        let mut most = Used::default();
        for _ in 0..runs {
            let (host, turn) = (self.host.clone(), Arc::clone(&turns).acquire_owned().await.unwrap());
            under_way.spawn(async move {
                cancelled(host).await;
                drop(turn);
            });
            while let Some(ended) = under_way.try_join_next() {
                ended.unwrap();
            }
            let now = Used::of(&self.sandbox);
            most.calls.waiting_calls = most.calls.waiting_calls.max(now.calls.waiting_calls);
            most.instances = most.instances.max(now.instances);
            most.stacks = most.stacks.max(now.stacks);
        }
        under_way.join_all().await;
        most
    }

    /// Fills every slot of the sandbox at once.
    async fn fill(&self) {
        let calls = (0..SLOTS).map(|_| self.host.call(CallRequest::from_json("echo", r#"{"a": 1}"#)));
        for end in futures::future::join_all(calls).await {
            assert_eq!(end.unwrap().result().unwrap().data, json!({"a": 1}));
        }
    }

    /// Returns whether the server succeeds with a call that contains an instruction.
    async fn server_does(&self, what: &str) -> bool {
        let request = CallRequest::from_json("other__waits", json!({what: true}).to_string());
        self.host.call(request).await.unwrap().result().is_some_and(|result| result.is_success())
    }

    async fn until_the_server_answers(&self) {
        for _ in 0..600 {
            if self.server_does("answer").await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the server does not come back");
    }
}

/// Cancels a run a moment after its call has started.
async fn cancelled(host: Host) {
    let mut run = host.run(RunRequest::new("default", "go")).await.unwrap();
    while let Some(told) = run.events.next().await {
        if matches!(told, RunUpdate::Stored(event) if matches!(event.event, Event::CallStarted { .. })) {
            break;
        }
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    run.cancel();
    let end = run.wait().await.unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_a_thousand_cancelled_runs_leave_no_instance_slot_task_file_or_child_behind() {
    let (world, servers) = World::new().await;
    world.fill().await;
    world.until_the_server_answers().await;
    world.cancel_runs(8).await;
    let before = world.held_at_rest().await;
    assert_eq!((before.used, before.children), (Used::default(), 1), "{before:?}");

    let most = world.cancel_runs(RUNS / 2).await;
    assert!(!world.server_does("exit").await, "its process ends, and another takes its place");
    world.until_the_server_answers().await;
    world.cancel_runs(RUNS / 2 - 8).await;
    world.fill().await;
    world.until_the_server_answers().await;
    assert_eq!(world.held_at_rest().await, before);

    // The test could have detected leaks: the resources were in use.
    assert!(most.instances > 0 && most.stacks > 0 && most.calls.waiting_calls > 0, "{most:?}");
    let called = std::fs::read_to_string(world.dir.path().join("called")).unwrap();
    assert!(called.lines().count() > RUNS / 8, "the server had {} calls", called.lines().count());
    drop(servers);
    let rest = world.held_at_rest().await;
    assert_eq!((rest.children, rest.tasks), (0, 0), "{rest:?}");
}
