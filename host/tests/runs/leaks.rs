//! What a thousand cancelled runs of sandboxed tools leave behind: nothing.

use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tollgate::config::Config;
use tollgate::{Agent, CallRequest, Event, Host, Recorded, RunRequest, RunStatus, Told, Toolbox, Turn};
use tollgate_artifacts::{good, hostile};

const RUNS: usize = 1_000;
/// As many instances as run at once; one that is lost is missed.
const SLOTS: u32 = 32;

/// What this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    tasks: usize,
    files: usize,
    children: usize,
}

impl Held {
    fn now() -> Self {
        let entries = |dir: &str| std::fs::read_dir(dir).unwrap().count();
        let children = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| {
            let file = thread.unwrap().path().join("children");
            std::fs::read_to_string(file).map_or(0, |ids| ids.split_whitespace().count())
        });
        Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            files: entries("/proc/self/fd"),
            children: children.sum(),
        }
    }

    /// The same, once nothing is at work any more: a task ends a moment after its result
    /// is there.
    async fn at_rest() -> Self {
        for _ in 0..1_000 {
            if Self::now().tasks == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Self::now()
    }
}

/// A host whose runs call a tool that sleeps or one that computes, both for ever, in a
/// sandbox that is full before half of them run.
async fn host() -> Host {
    let dir = tempfile::tempdir().unwrap();
    for guest in [good::ECHO, hostile::SLEEP_FOR_EVER, hostile::SPIN_FOR_EVER] {
        std::fs::write(dir.path().join(guest.name).with_extension("wasm"), guest.bytes()).unwrap();
    }
    let mut config = Config { tools_dir: dir.path().to_owned(), ..Config::default() };
    config.limits.sandbox.concurrent_calls = SLOTS;
    config.limits.sandbox.waiting_calls = 4 * RUNS as u32;
    let turns = (0..RUNS).map(|n| {
        let tool = if n % 4 == 0 { "spin-for-ever" } else { "sleep-for-ever" };
        Turn::calls([(tool, json!({}))])
    });
    let agent = Agent::new("default", Recorded::new(turns.collect())).with_tools(["*"]);
    Host::builder().toolbox(Toolbox::load_with(&config).await.unwrap()).agent(agent).build().unwrap()
}

/// Cancels a run as soon as its calls have started.
async fn cancelled(host: Host) {
    let mut run = host.run(RunRequest::new("default", "go")).await.unwrap();
    while let Some(told) = run.events.next().await {
        if matches!(told, Told::Stored(event) if matches!(event.event, Event::CallStarted { .. })) {
            break;
        }
    }
    run.cancel();
    let end = run.wait().await.unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
}

/// Fills every slot of the sandbox at once.
async fn fill(host: &Host) {
    let calls = (0..SLOTS).map(|_| host.call(CallRequest::new("echo", r#"{"a": 1}"#)));
    for end in futures::future::join_all(calls).await {
        assert_eq!(end.unwrap().result().unwrap().data, json!({"a": 1}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_a_thousand_cancelled_runs_leave_no_instance_task_file_or_child_behind() {
    let host = host().await;
    fill(&host).await;
    cancelled(host.clone()).await;
    let before = Held::at_rest().await;
    let turns = Arc::new(tokio::sync::Semaphore::new(64));
    let mut runs = tokio::task::JoinSet::new();
    for _ in 1..RUNS {
        let (host, turn) = (host.clone(), Arc::clone(&turns).acquire_owned().await.unwrap());
        runs.spawn(async move {
            cancelled(host).await;
            drop(turn);
        });
        while let Some(ended) = runs.try_join_next() {
            ended.unwrap();
        }
    }
    runs.join_all().await;
    fill(&host).await;
    assert_eq!(Held::at_rest().await, before);
}
