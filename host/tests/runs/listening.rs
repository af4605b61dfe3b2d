//! Tests of clients that disconnect and reconnect, and of subscribers to all runs.

use crate::place::StoreAt;
use crate::world::{host, host_with, toolbox};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::run::{EventStream, RunEvent, RunUpdate};
use tollgate::tools::{MemoryBudget, NativePlugin};
use tollgate::{
    Agent, CallRequest, FnTool, FollowUntil, Host, HostBuilder, RunFollower, RunRequest, ToolContext,
    ToolOutput, ToolResult,
};
use tollgate_agent::descriptor::StateAccess;
use tollgate_agent::outcome::Mutation;
use tollgate_agent::run::{Event, RunStatus};

fn slow() -> Vec<ScriptedTurn> {
    vec![ScriptedTurn::calls([("slow", json!({}))]), ScriptedTurn::text("done")]
}

/// Reads until a call has started, and returns the last event number.
async fn until_a_call_started(events: &mut EventStream) -> u64 {
    let mut others = Vec::new();
    while let Some(told) = events.next().await {
        match told {
            RunUpdate::Stored(event) if matches!(event.event, Event::CallStarted { .. }) => {
                return event.number;
            }
            other => others.push(other),
        }
    }
    panic!("no call started: {}", json!(others));
}

async fn status(host: &Host, run_id: &str) -> Option<RunStatus> {
    let events = host.store().events(run_id, 0).await.unwrap();
    events.iter().find_map(|event| match &event.event {
        Event::RunFinished { status, .. } => Some(status.clone()),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn x2_a_run_that_its_client_left_is_cancelled_after_10_s() {
    let host = host(&StoreAt::memory(), slow());
    let mut handle = host.run(RunRequest::new("default", "go")).await.unwrap();
    until_a_call_started(&mut handle.events).await;
    let run_id = Arc::clone(&handle.run_id);
    drop(handle);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(status(&host, &run_id).await, None);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(matches!(status(&host, &run_id).await, Some(RunStatus::Cancelled { .. })));
}

#[tokio::test(start_paused = true)]
async fn x2_a_detached_run_goes_on() {
    let host = host(&StoreAt::memory(), slow());
    let mut handle = host.run(RunRequest::new("default", "go").detached()).await.unwrap();
    until_a_call_started(&mut handle.events).await;
    let run_id = Arc::clone(&handle.run_id);
    drop(handle);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(
        status(&host, &run_id).await.is_some_and(|status| !matches!(status, RunStatus::Cancelled { .. }))
    );
}

#[tokio::test(start_paused = true)]
async fn e1_a_client_that_comes_back_misses_nothing_and_keeps_the_run_alive() {
    let host = host(&StoreAt::memory(), slow());
    let mut handle = host.run(RunRequest::new("default", "go")).await.unwrap();
    let last = until_a_call_started(&mut handle.events).await;
    let run_id = Arc::clone(&handle.run_id);
    drop(handle);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut again = host.follow(&run_id, last).await.unwrap();
    let mut numbers = Vec::new();
    while let Some(told) = again.next().await {
        if let RunUpdate::Stored(event) = told {
            numbers.push(event.number);
        }
    }
    let stored = host.store().events(&run_id, 0).await.unwrap().len() as u64;
    assert_eq!(numbers, (last + 1..=stored).collect::<Vec<_>>());
    assert!(
        status(&host, &run_id).await.is_some_and(|status| !matches!(status, RunStatus::Cancelled { .. }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn e1_a_finished_run_is_told_from_its_record() {
    let host = host(&StoreAt::memory(), vec![ScriptedTurn::text("done")]);
    let end = host.run(RunRequest::new("default", "go")).await.unwrap().wait().await.unwrap();
    let mut again = host.follow(&end.run_id, 1).await.unwrap();
    let Some(RunUpdate::Stored(first)) = again.next().await else { panic!() };
    assert_eq!(first.number, 2);
    assert!(host.follow("nope", 0).await.is_err());
}

fn subscribed(builder: HostBuilder, turns: Vec<ScriptedTurn>) -> Host {
    let agent = Agent::new("default", Arc::new(ScriptedModel::new(turns))).with_tools(["*"]);
    builder.toolbox(toolbox()).agent(agent).build().unwrap()
}

/// Waits until the condition holds, because subscribers are notified a little later.
fn soon(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never held");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_names_prefixes_and_short_names_are_told() {
    let names: Arc<Mutex<Vec<(&str, String)>>> = Arc::default();
    let mut builder = Host::builder();
    for pattern in ["run.finished", "step.*", "*", "tool.call", "tool.result"] {
        let names = Arc::clone(&names);
        builder = builder.subscribe(pattern, move |happening: &RunEvent| {
            let payload = happening.payload.to_string();
            names.lock().unwrap().push((pattern, format!("{} {payload}", happening.name)));
        });
    }
    let turns = vec![ScriptedTurn::calls([("echo", json!({"a": 1}))]), ScriptedTurn::text("done")];
    let host = subscribed(builder, turns);
    let end = host.run(RunRequest::new("default", "go")).await.unwrap().wait().await.unwrap();
    let stored = host.store().events(&end.run_id, 0).await.unwrap().len();
    let of = |pattern: &str| -> Vec<String> {
        let told = names.lock().unwrap();
        told.iter().filter(|(by, _)| *by == pattern).map(|(_, name)| name.clone()).collect()
    };
    soon(|| of("*").iter().filter(|name| !name.contains(".delta ")).count() == stored);
    soon(|| of("run.finished").len() == 1 && of("step.*").len() == 4 && of("tool.result").len() == 1);
    assert!(!of("*").iter().any(|name| name.starts_with("tool.")), "nothing is reported twice");
    assert_eq!(of("tool.call"), [r#"tool.call {"tool":"echo","args":{"a":1}}"#]);
    assert!(of("tool.result")[0].contains(r#""tool":"echo""#));
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_arguments_that_nest_as_deep_as_they_may_are_told() {
    let told: Arc<Mutex<Vec<Value>>> = Arc::default();
    let by = Arc::clone(&told);
    let builder = Host::builder().subscribe("call.proposed", move |happening: &RunEvent| {
        by.lock().unwrap().push(happening.payload["arguments"].clone());
    });
    let host = subscribed(builder, Vec::new());
    let deep = format!(r#"{{"a":{}0{}}}"#, "[".repeat(127), "]".repeat(127));
    let end = host.call(CallRequest::from_json("echo", deep.as_str())).await.unwrap();
    assert_eq!(end.result().unwrap().data.text(), deep);
    soon(|| !told.lock().unwrap().is_empty());
    assert_eq!(told.lock().unwrap()[0].to_string(), deep);
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_a_subscriber_that_is_slow_or_panics_neither_delays_nor_fails_a_run() {
    let told: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
    let seen = Arc::clone(&told);
    let builder = Host::builder()
        .subscribe("*", |_: &RunEvent| std::thread::sleep(Duration::from_secs(600)))
        .subscribe("*", move |happening: &RunEvent| {
            seen.lock().unwrap().extend(happening.number);
            panic!("on purpose");
        });
    let host = subscribed(builder, vec![ScriptedTurn::text("done")]);
    let end = host.run(RunRequest::new("default", "go")).await.unwrap().wait().await.unwrap();
    assert_eq!(end.status, Some(RunStatus::Completed));
    let stored = host.store().events(&end.run_id, 0).await.unwrap().len();
    soon(|| told.lock().unwrap().len() == stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_what_a_slow_subscriber_lost_is_counted_and_told() {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let lost: Arc<Mutex<u64>> = Arc::default();
    let counted = Arc::clone(&lost);
    let builder = Host::builder().subscribe("*", move |happening: &RunEvent| {
        if happening.name == "bus.dropped" {
            *counted.lock().unwrap() += happening.payload["count"].as_u64().unwrap();
        } else {
            let _ = gate.lock().unwrap().recv();
        }
    });
    let host = subscribed(builder, Vec::new());
    let call = || host.call(CallRequest::from_json("echo", "{}"));
    let each = {
        let end = call().await.unwrap();
        host.store().events(&end.run_id, 0).await.unwrap().len()
    };
    for _ in 0..1_100 / each + 1 {
        call().await.unwrap();
    }
    drop(open);
    soon(|| *lost.lock().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn e4_transient_events_stand_behind_a_stored_one_and_are_stored_nowhere() {
    let host = host(&StoreAt::memory(), vec![ScriptedTurn::text("one two three")]);
    let mut handle = host.run(RunRequest::new("default", "go")).await.unwrap();
    let (mut last, mut indexes, mut text) = (0, Vec::new(), String::new());
    while let Some(told) = handle.events.next().await {
        match told {
            RunUpdate::Stored(event) => last = event.number,
            RunUpdate::Live(transient) => {
                assert_eq!(transient.after, last);
                indexes.push(transient.index);
                if let tollgate::run::LiveContent::TextDelta { text: piece } = transient.piece {
                    text.push_str(&piece);
                }
            }
            RunUpdate::Child(child) => panic!("the run has no children: {child:?}"),
        }
    }
    assert_eq!(indexes, (1..=indexes.len() as u64).collect::<Vec<_>>());
    assert_eq!(text, "one two three");
    let end = handle.wait().await.unwrap();
    assert_eq!(end.text, text, "the finished event holds the whole of it");
    assert_eq!(host.store().events(&end.run_id, 0).await.unwrap().len() as u64, last);
}

#[tokio::test(start_paused = true)]
async fn x1_a_thousand_cancelled_runs_leave_no_task_and_no_file_behind() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let turns = (0..1_000).map(|_| ScriptedTurn::calls([("slow", json!({}))])).collect();
    let host = host(&StoreAt::memory(), turns);
    let (tasks_before, files_before) = (alive(), files());
    let (mut run_ids, mut cancelled) = (Vec::new(), Vec::new());
    for n in 0..1_000 {
        let mut handle = host.run(RunRequest::new("default", "go")).await.unwrap();
        until_a_call_started(&mut handle.events).await;
        run_ids.push(Arc::clone(&handle.run_id));
        if n % 2 == 0 {
            handle.cancel();
            cancelled.push(handle);
        } // The only client of the others disconnects.
    }
    for handle in cancelled {
        handle.wait().await.unwrap();
    }
    // Ten seconds without a client, and time for the host's own tasks to end.
    tokio::time::sleep(Duration::from_secs(15)).await;
    for run_id in run_ids {
        assert!(matches!(status(&host, &run_id).await, Some(RunStatus::Cancelled { .. })));
    }
    assert_eq!(alive(), tasks_before);
    assert!(files() <= files_before + 8, "{} of {files_before} files were open before", files());
}

/// Creates a plugin whose tool writes 41 to `basics.total` and `sesame` to `basics.city`.
fn quiet() -> NativePlugin {
    let key =
        |key: &str| StateAccess { key: format!("basics.{key}"), read: false, write: true, defines: None };
    let mutation = |key: &str, update| Mutation { key: format!("basics.{key}"), update };
    let tool = FnTool::new("quiet", "quiet", "Writes.", move |_: Value, _| async move {
        let mutations = vec![mutation("total", json!(41)), mutation("city", json!("sesame"))];
        ToolOutput { result: ToolResult::success("done").into(), mutations, actions: Vec::new() }
    });
    NativePlugin::new("quiet").with_state(key("total")).with_state(key("city")).with_tool(tool)
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_of_state_that_changed_the_keys_that_are_visible_are_told_and_no_others() {
    // The first call is slow: the second call's result is published before it is applied.
    let turns = vec![ScriptedTurn::calls([("ask_slowly", json!({})), ("quiet", json!({}))])];
    let (all, changed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (hears_all, hears) = (Arc::clone(&all), Arc::clone(&changed));
    let host = host_with(&StoreAt::memory(), turns, |builder| {
        builder
            .plugin(quiet())
            .visible_keys(["basics.tot*"])
            .subscribe("state.changed", move |h: &RunEvent| hears.lock().unwrap().push(h.payload.clone()))
            .subscribe("*", move |h: &RunEvent| hears_all.lock().unwrap().push(json!([h.name, h.payload])))
    });
    let mut run = host.run(RunRequest::new("default", "go")).await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = run.events.next().await {
        told.push(serde_json::to_string(&event).unwrap());
    }
    let mut followed = host.follow(&run.run_id, 0).await.unwrap();
    while let Some(event) = followed.next().await {
        told.push(serde_json::to_string(&event).unwrap());
    }
    soon(|| all.lock().unwrap().iter().any(|event| event[0] == "run.waiting"));
    told.extend(all.lock().unwrap().iter().map(Value::to_string));
    let holding = |lines: &[String], what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(
        holding(&told, r#""reducer":"add","update":41"#),
        3,
        "to the client, who comes back, and the subscriber"
    );
    assert!(holding(&told, "call_returned") == 3 && holding(&told, "basics.city") == 3, "{told:#?}");
    assert_eq!(holding(&told, "sesame"), 0, "{told:#?}");
    let stored = host.store().events(&run.run_id, 0).await.unwrap();
    let stored: Vec<_> = stored.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    assert_eq!(holding(&stored, "sesame"), 2, "the store has all of it");
    soon(|| !changed.lock().unwrap().is_empty());
    let total =
        json!({"key": "basics.total", "scope": "thread", "persistent": true, "update": 41, "value": 41});
    assert_eq!(*changed.lock().unwrap(), [json!({"revision": 2, "updates": [total]})]);
}

/// A client may read slowly, and have many streams.
#[tokio::test(flavor = "multi_thread")]
async fn z3_the_memory_of_a_large_event_is_reserved_while_a_client_reads_it() {
    let budget = MemoryBudget::new(16 << 20);
    let (place, begins) = (StoreAt::sqlite(), Arc::new(Notify::new()));
    let begin = Arc::clone(&begins);
    let waits = FnTool::new("waits", "waits", "Waits.", move |_: Value, _: ToolContext| {
        let begin = Arc::clone(&begin);
        async move {
            begin.notified().await;
            let result = ToolResult::success("x".repeat(1_200_000)).into();
            ToolOutput { result, mutations: Vec::new(), actions: Vec::new() }
        }
    });
    let host = Host::builder().toolbox(toolbox()).tool(waits).store(place.open());
    let host = host.memory_budget(budget.clone()).build().unwrap();
    let from = async |run_id: &str| host.follow_until(run_id, 0, FollowUntil::End).await.unwrap();
    let mut request = CallRequest::from_json("waits", "{}").on_thread("t");
    request.detached = true;
    let run = host.start_call(request).await.unwrap();
    let run_id = Arc::clone(&run.run_id);
    let (mut live, mut other) = (from(&run_id).await, from(&run_id).await);
    begins.notify_one();
    let is_large = |update: &RunUpdate| json!(update).to_string().len() > 1 << 20;
    let until_large = async |follower: &mut RunFollower| {
        while !is_large(&follower.next().await.unwrap().unwrap()) {}
    };
    let soon = Duration::from_secs(10);
    tokio::time::timeout(soon, until_large(&mut live)).await.unwrap();
    assert!(budget.reserved_bytes() > 3_600_000, "{}", budget.reserved_bytes());
    assert!(tokio::time::timeout(Duration::from_millis(100), until_large(&mut other)).await.is_err());
    run.wait().await.unwrap();
    drop(live);
    tokio::time::timeout(soon, until_large(&mut other)).await.unwrap();
    // Those who read it from the record wait, too.
    let mut late = from(&run_id).await;
    assert!(tokio::time::timeout(Duration::from_millis(100), until_large(&mut late)).await.is_err());
    drop(other);
    tokio::time::timeout(soon, until_large(&mut late)).await.unwrap();
    drop(late);
    assert_eq!(budget.reserved_bytes(), 0);
}

/// A server leaves a call when the client of its request is gone.
#[tokio::test]
async fn a_call_goes_on_if_the_task_that_waits_for_it_leaves() {
    let (begun, may_end) = <(Arc<Notify>, Arc<Notify>)>::default();
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&may_end));
    let waits = FnTool::new("waits", "waits", "Waits.", move |_: Value, _: ToolContext| {
        let (begins, ends) = (Arc::clone(&begins), Arc::clone(&ends));
        async move {
            begins.notify_one();
            ends.notified().await;
            "ended"
        }
    });
    let host = Host::builder().tool(waits).build().unwrap();
    let request = |run_id: &str| CallRequest {
        run_id: Some(run_id.to_owned()),
        ..CallRequest::from_json("waits", "{}")
    };
    tokio::select! {
        ended = host.call_with_events(request("left")) => panic!("it ended: {ended:?}"),
        () = begun.notified() => {}
    }
    may_end.notify_one();
    let mut follower = host.follow_until("left", 0, FollowUntil::Rest).await.unwrap();
    while follower.next().await.unwrap().is_some() {}
    assert_eq!(status(&host, "left").await, Some(RunStatus::Completed));
    may_end.notify_one();
    let (end, events) = host.call_with_events(request("awaited")).await.unwrap();
    assert_eq!(end.result().unwrap().data, "ended");
    assert_eq!(json!(events), json!(host.record("awaited", 0).await.unwrap()));
}
