//! Tests of threads: the order of their runs, values that remain when keys change, and runs whose
//! store failed.

use crate::place::sqlite;
use crate::watched::{Watch, Watched};
use crate::with_each_store;
use crate::world::{decision, host, host_on};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tollgate::models::ScriptedTurn;
use tollgate::run::{RunHandle, RunUpdate};
use tollgate::store::{RunFilter, RunStore as _, StoreError, restore_state};
use tollgate::tools::NativePlugin;
use tollgate::{
    Agent, Busy, CallRequest, Fault, Host, HostError, NativeTool, RequestRefusal, RunRequest, ScriptedModel,
    ToolCall, ToolDescriptor, ToolOutput, ToolResult, async_trait,
};
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::{ExecutionPolicy, StateAccess};
use tollgate_agent::message::{AssistantMessage, Message};
use tollgate_agent::run::{CallEnd, Event, RunStatus};
use tollgate_agent::state::State;

fn say(prompt: &str) -> RunRequest {
    RunRequest::new("default", prompt).on_thread("t")
}

fn queued(prompt: &str) -> RunRequest {
    RunRequest { busy: Busy::Queue, ..say(prompt) }
}

/// Never ends the first time. The second time, it returns the value of `basics.total` that it sees.
struct Recall;

#[async_trait]
impl NativeTool for Recall {
    fn descriptor(&self) -> ToolDescriptor {
        let execution = ExecutionPolicy { idempotent: true, ..ExecutionPolicy::default() };
        ToolDescriptor::new("recall", "recall", "Recalls the total.").with_execution(execution)
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        if call.attempt().attempt == 1 {
            std::future::pending::<()>().await;
        }
        Ok(ToolResult::success(call.state("basics.total").cloned().unwrap_or_default()).into())
    }
}

async fn until_a_call_runs(handle: &mut RunHandle) {
    while let Some(told) = handle.events.next().await {
        if matches!(told, RunUpdate::Stored(event) if matches!(event.event, Event::CallStarted { .. })) {
            return;
        }
    }
    panic!("no call was started");
}

async fn add(host: &Host) -> Value {
    let request = CallRequest::from_json("add", r#"{"n": 1}"#).on_thread("t");
    match host.call(request).await.unwrap().last_call.unwrap().end.clone() {
        CallEnd::Result(result) => Value::clone(&result.data),
        CallEnd::Fault(fault) => panic!("{fault:?}"),
    }
}

with_each_store! {
    async fn a8_a_second_run_is_queued_where_the_caller_says_so(at: StoreAt) {
        let host = host(&at, vec![ScriptedTurn::calls([("slow", json!({}))]), ScriptedTurn::text("Second.")]);
        let mut first = host.run(say("one")).await.unwrap();
        until_a_call_runs(&mut first).await;
        let second = tokio::spawn({
            let host = host.clone();
            async move { host.run(queued("two")).await.unwrap().wait().await.unwrap() }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!second.is_finished());
        first.cancel();
        first.wait().await.unwrap();
        assert_eq!(second.await.unwrap().text, "Second.");
    }

    async fn a8_a_caller_that_has_read_a_runs_end_may_use_its_thread_at_once(at: StoreAt) {
        let host = host(&at, (0..30).map(|_| ScriptedTurn::text("Done.")).collect());
        let store = at.open();
        for _ in 0..30 {
            let run = host.run(say("go")).await.unwrap();
            while host.summary(&run.run_id).await.unwrap().unwrap().status != "completed" {
                tokio::task::yield_now().await;
            }
        }
        let runs = store.runs(RunFilter::default()).await.unwrap();
        assert_eq!(runs.iter().filter(|run| run.status == "completed").count(), 30);
    }

    async fn w7_a_queued_message_supersedes_what_the_run_before_it_asked(at: StoreAt) {
        let host = host(&at, vec![ScriptedTurn::calls([("ask", json!({}))]), ScriptedTurn::text("Never mind.")]);
        let (first, second) = tokio::join!(host.run(say("one")), host.run(queued("two")));
        let first = first.unwrap().wait().await.unwrap();
        let second = second.unwrap().wait().await.unwrap();
        assert_eq!((first.status, first.waiting.len()), (None, 1));
        assert_eq!((second.run_id, second.text.as_str()), (first.run_id, "Never mind."));
    }

    async fn s7_a_value_that_no_longer_fits_is_set_aside_once(at: StoreAt) {
        let old = State::restored(0, [("basics.total".to_owned(), json!("three"))]);
        restore_state(&*at.open(), "t", &old).await.unwrap();
        let host = host(&at, Vec::new());
        assert_eq!((add(&host).await, add(&host).await), (json!(0), json!(1)), "it starts from its initial value");
        let state = at.open().thread("t").await.unwrap().state;
        assert_eq!(state.get("host.set-aside/basics.total@1"), Some(&json!("three")));
        assert_eq!(state.iter().filter(|(key, _)| key.starts_with("host.")).count(), 1);
    }

    async fn s7_keys_of_what_is_not_loaded_are_kept(at: StoreAt) {
        let old = State::restored(0, [("gone.items".to_owned(), json!(["kept"]))]);
        restore_state(&*at.open(), "t", &old).await.unwrap();
        add(&host(&at, Vec::new())).await;
        assert_eq!(at.open().thread("t").await.unwrap().state.get("gone.items"), Some(&json!(["kept"])));
    }

    async fn s6_what_a_thread_kept_of_a_key_of_runs_is_no_runs_beginning(at: StoreAt) {
        let old = State::restored(0, [("basics.steps".to_owned(), json!(7))]);
        restore_state(&*at.open(), "t", &old).await.unwrap();
        let host = host(&at, Vec::new());
        let step = async |thread| {
            let end = host.call(CallRequest::from_json("step", "{}").on_thread(thread)).await.unwrap();
            end.result().unwrap().data.clone()
        };
        assert_eq!(step("t").await, step("another").await);
        assert_eq!(at.open().thread("t").await.unwrap().state.get("basics.steps"), Some(&json!(7)), "it is kept");
    }

    async fn a_run_whose_store_failed_goes_on_once_it_works_again(at: StoreAt) {
        let store = Watched::new(at.open(), Disk::default());
        let host = host_on(store.clone(), vec![ScriptedTurn::calls([("slow", json!({}))]), ScriptedTurn::text("First."), ScriptedTurn::text("Second.")]);
        let mut first = host.run(say("one")).await.unwrap();
        until_a_call_runs(&mut first).await;
        store.watch.full.store(true, Ordering::Relaxed);
        first.cancel();
        let failed = first.wait().await.unwrap_err();
        assert!(failed.to_string().contains("the disk is full"), "{failed}");
        assert!(host.run(say("two")).await.is_err(), "it is full still");
        store.watch.full.store(false, Ordering::Relaxed);
        let end = host.run(say("two")).await.unwrap().wait().await.unwrap();
        assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "Second."));
        let runs = at.open().runs(RunFilter::default()).await.unwrap();
        assert_eq!(runs.iter().map(|run| run.status.as_str()).collect::<Vec<_>>(), ["completed", "completed"]);
        let record = at.open().events(&runs[1].run_id, 0).await.unwrap();
        let codes = record.iter().filter_map(|event| match &event.event {
            Event::CallFinished(finished) => finished.end.code(),
            _ => None,
        });
        assert_eq!(codes.collect::<Vec<_>>(), [Code::Interrupted], "it may have run");
    }

    async fn s1_a_call_that_runs_again_after_a_restart_sees_what_it_saw(at: StoreAt) {
        let store = Watched::new(at.open(), Disk::default());
        let agent = Agent::new("default", ScriptedModel::new(vec![ScriptedTurn::calls([("recall", json!({}))]), ScriptedTurn::text("Done.")]));
        let total = StateAccess { key: "basics.total".to_owned(), read: true, write: false, defines: None };
        let mut toolbox = crate::world::toolbox();
        NativePlugin::new("recalls").with_state(total).with_tool(Recall).install(&mut toolbox).unwrap();
        let builder = Host::builder().toolbox(toolbox).agent(agent.with_tools(["*"]));
        let host = builder.store(store.clone()).build().unwrap();
        add(&host).await;
        let mut run = host.run(say("go")).await.unwrap();
        until_a_call_runs(&mut run).await;
        add(&host).await;
        store.watch.full.store(true, Ordering::Relaxed);
        run.cancel();
        let run_id = run.run_id.clone();
        run.wait().await.unwrap_err();
        store.watch.full.store(false, Ordering::Relaxed);
        let end = host.recover(&run_id).await.unwrap().wait().await.unwrap();
        assert_eq!(end.text, "Done.");
        assert_eq!(end.result().unwrap().data, json!(1), "neither the key's beginning nor what came later");
        assert_eq!(at.open().thread("t").await.unwrap().state.get("basics.total"), Some(&json!(2)));
    }

    async fn s9_a_run_whose_driver_stops_is_released_though_the_release_takes_time(at: StoreAt) {
        let disk = Disk { release_time: Duration::from_millis(50), ..Disk::default() };
        let store = Watched::new(at.open(), disk);
        let host = host_on(store.clone(), vec![ScriptedTurn::calls([("slow", json!({}))])]);
        let mut run = host.run(say("one")).await.unwrap();
        until_a_call_runs(&mut run).await;
        store.watch.full.store(true, Ordering::Relaxed);
        run.cancel();
        run.wait().await.unwrap_err();
        let is_released = async {
            while store.runs(RunFilter::default()).await.unwrap()[0].is_driven {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), is_released).await.expect("it is released");
    }

    async fn a10_a_client_brings_the_history_of_a_new_thread(at: StoreAt) {
        let host = host(&at, vec![ScriptedTurn::text("It was blue."), ScriptedTurn::text("Yes.")]);
        let history = vec![
            Message::User("My car is blue.".to_owned()),
            Message::Assistant(AssistantMessage { text: "Noted.".to_owned(), ..AssistantMessage::default() }),
        ];
        let request = say("Which colour?").with_history(history.clone());
        let end = host.run(request.clone()).await.unwrap().wait().await.unwrap();
        assert_eq!(end.text, "It was blue.");
        let events = host.store().events(&end.run_id, 0).await.unwrap();
        assert!(matches!(&events[1].event, Event::RunSeeded { messages, .. } if *messages == history));
        assert_eq!(host.store().thread("t").await.unwrap().messages.len(), 4);
        let refused = host.run(request).await;
        let is_why = |why: &HostError| matches!(why, HostError::Refused(RequestRefusal::ThreadHasMessages(id)) if id == "t");
        assert!(refused.as_ref().is_err_and(is_why), "it has messages: {refused:?}");
        host.run(say("Sure?")).await.unwrap().wait().await.unwrap();
        assert_eq!(host.store().thread("t").await.unwrap().messages.len(), 6);
    }

    async fn a9_a_direct_call_that_goes_on_is_never_run_twice(at: StoreAt) {
        let store = Watched::new(at.open(), Disk::default());
        let host = host_on(store.clone(), Vec::new());
        let asked = host.call(CallRequest::from_json("ask_slowly", "{}")).await.unwrap();
        let decided = |id: &str| decision(id, &asked.waiting[0].call_id, json!({"ok": true}));
        let mut resumed = host.decide(&asked.run_id, decided("d1")).await.unwrap();
        until_a_call_runs(&mut resumed).await;
        store.watch.full.store(true, Ordering::Relaxed);
        resumed.wait().await.unwrap_err();
        store.watch.full.store(false, Ordering::Relaxed);
        let again = host.decide(&asked.run_id, decided("d2")).await;
        assert!(matches!(again, Err(HostError::AlreadyDecided { .. })), "it was decided, and may have run: {again:?}");
        let end = host.recover(&asked.run_id).await.unwrap().wait().await.unwrap().last_call.unwrap().end.clone();
        assert_eq!(end.code(), Some(Code::Interrupted));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_run_of_another_process_is_waited_for_or_refused() {
    let data = tempfile::tempdir().unwrap();
    let one = host_on(sqlite(data.path()), vec![ScriptedTurn::calls([("slow", json!({}))])]);
    let other = host_on(sqlite(data.path()), vec![ScriptedTurn::text("Second.")]);
    let mut first = one.run(say("one")).await.unwrap();
    until_a_call_runs(&mut first).await;
    let refused = other.run(say("two")).await;
    assert!(matches!(refused, Err(HostError::Busy(_))), "{refused:?}");
    let second = tokio::spawn(async move { other.run(queued("two")).await.unwrap().wait().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert!(!second.is_finished());
    first.cancel();
    first.wait().await.unwrap();
    assert_eq!(second.await.unwrap().text, "Second.");
}

/// A disk that can be full.
#[derive(Default)]
struct Disk {
    full: AtomicBool,
    release_time: Duration,
}

impl Watch for Disk {
    fn before(&self, _write: u64) -> Result<(), StoreError> {
        match self.full.load(Ordering::Relaxed) {
            true => Err(StoreError::full("the disk is full")),
            false => Ok(()),
        }
    }

    fn release_time(&self) -> Duration {
        self.release_time
    }
}
