//! Several hosts on one database: takeovers, lost answers, commands, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "../cluster/mod.rs"]
mod cluster;
mod commands;
mod components;
mod copying;
mod fencing;
mod full_disk;
mod interleavings;
mod pages;
mod prepared;
#[path = "../proxy/mod.rs"]
mod proxy;
mod pruning;
mod reading;
mod refusals;
mod roles;
mod statements;
mod tls;
mod working;

use std::sync::Arc;
use std::time::Duration;
use tollgate::store::Commit;
use tollgate_agent::context::RunIdentity;
use tollgate_agent::run::{AgentSpec, Event, RunLimits, RunSpec, RunStatus, Task};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Repeats a check until it holds.
async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < end, "{what} does not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a statement waits for a lock. A transaction of `client` would see one state of the activity.
async fn until_locked(what: &str, client: &tokio_postgres::Client) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let is_locked = async || client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0;
    until(what, async || is_locked().await.then_some(())).await;
}

fn started(run: &str, task: Task) -> Event {
    let identity = RunIdentity {
        run_id: run.into(),
        thread_id: "t".into(),
        agent_id: "a".into(),
        ..RunIdentity::default()
    };
    let spec = RunSpec {
        identity,
        agent: AgentSpec::default().into(),
        limits: RunLimits::default(),
        task,
        detached: false,
    };
    Event::RunStarted { spec: Arc::new(spec) }
}

fn finished() -> Event {
    Event::RunFinished { status: RunStatus::Completed, text: String::new(), usage: Box::default() }
}

fn prompt() -> Task {
    Task::Prompt("Go on.".to_owned())
}

fn call() -> Task {
    Task::Call { tool_name: "echo".into(), arguments: "".into() }
}

fn commit(run: &str, epoch: u64, after: u64, events: Vec<Event>) -> Commit {
    let mut commit = Commit::new(Arc::from(run), Arc::from("t"), after, 7, events);
    commit.epoch = epoch;
    commit
}

fn step(step: u32) -> Event {
    Event::StepStarted { step }
}
