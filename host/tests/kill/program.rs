//! The program that is killed: a host with a component, native tools and a store on disk, which
//! continues the story from wherever the previous process left it.

use crate::moment::Moment;
use crate::place::{ADDS, DIRECTORY, MOMENT, THREAD, added};
use crate::script::{Author, Careful, install};
use crate::watched::Watched;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate::config::Config;
use tollgate::run::{RunEnd, RunHandle, RunUpdate};
use tollgate::store::{RunFilter, RunSummary, SqliteStore};
use tollgate::tools::directory;
use tollgate::{Agent, CallRequest, Host, HostError, RunRequest};
use tollgate_agent::run::{Decision, DecisionAnswer, Event, StoredEvent};
use tollgate_sandbox::{Sandbox, SandboxConfig};

/// The thread of the agent's run, and that of the direct call.
pub(crate) const THREADS: [&str; 2] = ["agent", "direct"];
/// The thread of a run in which the child of a call that may not run twice works next to a
/// question.
pub(crate) const BESIDE: &str = "beside";

#[test]
#[ignore = "the tests beside it start it as a process of its own"]
fn the_program_that_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let moment = std::env::var(MOMENT).ok().map(|text| text.parse().unwrap());
    let adds = std::env::var(ADDS).ok().map(|text| text.parse().unwrap());
    tollgate_sandbox::runtime().unwrap().block_on(async {
        let store = Arc::new(SqliteStore::open(&directory.join("data")).unwrap());
        let store = Watched::new(store, moment);
        let host = host(&directory, store).await;
        match adds {
            Some(times) => add(&host, &directory, times).await,
            None => match std::env::var(THREAD) {
                Ok(thread) => tell(&host, &directory, &[&thread]).await,
                Err(_) => tell(&host, &directory, &THREADS).await,
            },
        }
    });
}

async fn host(directory: &Path, store: Arc<Watched<Option<Moment>>>) -> Host {
    let granted =
        "[grants.appends]\nfiles = [{ host = \"ran\", guest = \"/ran\", access = \"read-write\" }]\n";
    let config = Config::parse(&directory.join("tollgate.toml"), granted).unwrap();
    let sandbox = Sandbox::new(SandboxConfig::default()).unwrap();
    let mut toolbox = directory::load(&sandbox, &config, &|_, _, _| {}).await.unwrap().toolbox;
    assert!(toolbox.refused().is_empty(), "{:?}", toolbox.refused());
    install(&mut toolbox, directory.join("ran"));
    let agent = |id: &str, author| Agent::new(id, Arc::new(author)).with_tools(["*"]);
    let host = Host::builder().toolbox(toolbox).gate(Careful).store(store).visible_keys(["*"]);
    let host = host.agent(agent("default", Author::Teller)).agent(agent("helper", Author::Helper));
    host.agent(agent(BESIDE, Author::Entruster)).agent(agent("napper", Author::Napper)).build().unwrap()
}

async fn add(host: &Host, directory: &Path, times: usize) {
    let report = added(directory, std::process::id());
    let mut report = File::options().create(true).append(true).open(report).unwrap();
    for _ in 0..times {
        let end = host.call(CallRequest::from_json("add", "{}").on_thread("agent")).await.unwrap();
        assert_eq!(end.last_call.unwrap().end.code(), None);
        report.write_all(b"x").unwrap();
    }
}

/// Drives the runs of these threads to their end, one after the other.
async fn tell(host: &Host, directory: &Path, threads: &[&str]) {
    let told = File::options().create(true).append(true).open(directory.join("told")).unwrap();
    write_line(&told, "null");
    for thread in threads {
        loop {
            let handle = match newest(host, thread).await {
                None => begin(host, thread).await,
                Some(run) if run.status == "waiting" => decide(host, &run).await,
                Some(run) if run.status == "running" => host.recover(&run.run_id).await,
                Some(_) => break,
            };
            let end = follow(handle.unwrap(), &told).await;
            let listed = newest(host, thread).await.unwrap().status;
            assert_eq!(listed == "waiting", end.status.is_none(), "it is listed as {listed}: {end:?}");
        }
    }
}

async fn newest(host: &Host, thread: &str) -> Option<RunSummary> {
    let filter = RunFilter { thread_id: Some(thread.to_owned()), limit: 1, ..RunFilter::default() };
    host.store().runs(filter).await.unwrap().pop()
}

async fn begin(host: &Host, thread: &str) -> Result<RunHandle, HostError> {
    match thread {
        "agent" => host.run(RunRequest::new("default", "Tell it.").on_thread(thread)).await,
        BESIDE => host.run(RunRequest::new(BESIDE, "Tell it.").on_thread(thread)).await,
        _ => host.start_call(CallRequest::from_json("ask", "{}").on_thread(thread)).await,
    }
}

/// Answers the first open question, with the same decision each time.
async fn decide(host: &Host, run: &RunSummary) -> Result<RunHandle, HostError> {
    let mut open: Vec<(String, String)> = Vec::new();
    for event in host.store().events(&run.run_id, 0).await.unwrap() {
        match &event.event {
            Event::CallSuspended(asked) => {
                open.push((asked.call_id.to_string(), asked.suspension_id.clone()))
            }
            Event::CallDecided { call_id, .. } => open.retain(|(other, _)| other != call_id),
            _ => {}
        }
    }
    let (_, suspension) = open.swap_remove(0);
    let answer = DecisionAnswer::Resume(serde_json::json!(true));
    let decision = Decision {
        id: format!("for {suspension}"),
        target: suspension,
        answer,
        reason: None,
        by: None,
        by_key: false,
        at_ms: 1,
    };
    host.decide(&run.run_id, decision).await
}

/// Writes every event that a client receives immediately, one line for each stored event.
async fn follow(mut handle: RunHandle, told: &File) -> RunEnd {
    while let Some(event) = handle.events.next().await {
        if let RunUpdate::Stored(event) = event {
            write_line(told, &line(&event));
        }
    }
    handle.wait().await.unwrap()
}

pub(crate) fn line(event: &StoredEvent) -> String {
    serde_json::to_string(event).unwrap()
}

fn write_line(mut file: &File, line: &str) {
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}
