//! Recovery after a store fails or a process ends: which calls have a record, how the others are
//! reported, and what happens to questions.

use crate::children::{agent, builder};
use crate::place::{StoreAt, sqlite};
use crate::watched::{FailsFrom, Watched};
use crate::with_each_store;
use crate::world::{host_on, toolbox};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tollgate::models::ScriptedTurn;
use tollgate::run::{RunHandle, RunUpdate, UnrecordedEffect};
use tollgate::store::{AuditFilter, RunFilter, RunSummary, Store, StoreErrorKind};
use tollgate::tools::NativePlugin;
use tollgate::{
    Busy, CallRequest, Fault, Host, HostError, NativeTool, RunRequest, ToolCall, ToolDescriptor, ToolOutput,
    ToolResult, async_trait,
};
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::ExecutionPolicy;
use tollgate_agent::run::{Event, RunStatus};

/// Counts how often it ran.
struct Acts {
    idempotent: bool,
    ran: Arc<AtomicU32>,
}

#[async_trait]
impl NativeTool for Acts {
    fn descriptor(&self) -> ToolDescriptor {
        let name = if self.idempotent { "look" } else { "act" };
        let execution = ExecutionPolicy { idempotent: self.idempotent, ..ExecutionPolicy::default() };
        ToolDescriptor::new(name, name, "Counts.").with_execution(execution)
    }

    async fn execute(&self, _call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        Ok(ToolResult::success("done").into())
    }
}

fn acting(store: Arc<dyn Store>, ran: &Arc<AtomicU32>) -> Host {
    let acts = |idempotent| Acts { idempotent, ran: Arc::clone(ran) };
    let mut toolbox = toolbox();
    NativePlugin::new("acts").with_tool(acts(true)).with_tool(acts(false)).install(&mut toolbox).unwrap();
    Host::builder().toolbox(toolbox).store(store).build().unwrap()
}

async fn refusal(host: &Host, tool: &str) -> String {
    host.call(CallRequest::from_json(tool, "{}")).await.unwrap_err().to_string()
}

async fn runs_of(at: &StoreAt, status: &str) -> Vec<RunSummary> {
    let filter = RunFilter { status: Some(status.to_owned()), ..RunFilter::default() };
    at.open().runs(filter).await.unwrap()
}

/// Waits for an event of this kind.
async fn until(handle: &mut RunHandle, wanted: fn(&Event) -> bool) {
    while let Some(told) = handle.events.next().await {
        if matches!(&told, RunUpdate::Stored(stored) if wanted(&stored.event)) {
            return;
        }
    }
    panic!("the run ended before that");
}

fn say(prompt: &str) -> RunRequest {
    RunRequest::new("default", prompt).on_thread("t")
}

with_each_store! {
    async fn a9_a_direct_call_that_may_not_run_twice_is_recorded_before_it_runs(at: StoreAt) {
        let (store, ran) = (Watched::new(at.open(), FailsFrom::default()), Arc::<AtomicU32>::default());
        let host = acting(store.clone(), &ran);
        store.watch.0.store(1, Ordering::Relaxed);
        let words = refusal(&host, "act").await;
        assert_eq!(ran.load(Ordering::Relaxed), 0, "{words}");
        assert!(words.contains("nothing was run") && words.contains("the disk is full"), "{words}");
        let why = host.call(CallRequest::from_json("act", "{}")).await.unwrap_err();
        let HostError::Run(why) = why else { panic!("{why}") };
        assert_eq!((why.kind(), why.effect()), (StoreErrorKind::Full, UnrecordedEffect::NothingRan));

        store.watch.0.store(0, Ordering::Relaxed);
        let before = store.writes();
        host.call(CallRequest::from_json("act", "{}")).await.unwrap();
        let writes = store.writes() - before;
        assert_eq!((writes, ran.load(Ordering::Relaxed)), (2, 1), "before it runs, and when it ended");
    }

    async fn a9_a_call_whose_end_cannot_be_stored_is_not_to_be_repeated(at: StoreAt) {
        let (store, ran) = (Watched::new(at.open(), FailsFrom(AtomicU64::new(2))), Arc::<AtomicU32>::default());
        let host = acting(store.clone(), &ran);
        let why = host.call(CallRequest::from_json("act", "{}")).await.unwrap_err();
        let HostError::Run(why) = why else { panic!("{why}") };
        assert_eq!((why.kind(), why.effect()), (StoreErrorKind::Full, UnrecordedEffect::Ran));
        let words = why.to_string();
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        for part in ["'act' has run", "the disk is full", "do not repeat it"] {
            assert!(words.contains(part), "{part:?} is not in {words}");
        }
        assert!(!words.contains("again"), "{words}");

        store.watch.0.store(0, Ordering::Relaxed);
        let left = runs_of(&at, "running").await;
        assert_eq!(left.len(), 1, "it is in the record");
        let end = host.recover(&left[0].run_id).await.unwrap().wait().await.unwrap();
        assert_eq!(end.last_call.unwrap().end.code(), Some(Code::Interrupted));
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        let audit = at.open().audit(AuditFilter::default()).await.unwrap();
        assert!(audit.iter().any(|record| record.decision == "interrupted"), "{audit:?}");
    }

    async fn a9_a_call_that_may_run_twice_is_stored_once_and_may_be_repeated(at: StoreAt) {
        let (store, ran) = (Watched::new(at.open(), FailsFrom(AtomicU64::new(1))), Arc::<AtomicU32>::default());
        let words = refusal(&acting(store.clone(), &ran), "look").await;
        assert_eq!((store.writes(), ran.load(Ordering::Relaxed)), (1, 1));
        assert!(!words.contains("do not repeat"), "{words}");
    }

    async fn w7_a_question_that_recovery_raises_is_not_superseded_unseen(at: StoreAt) {
        let store = Watched::new(at.open(), FailsFrom::default());
        let turns = vec![ScriptedTurn::calls([("ask", json!({})), ("slow", json!({}))]), ScriptedTurn::text("Never mind.")];
        let host = host_on(store.clone(), turns);
        let mut run = host.run(say("one")).await.unwrap();
        until(&mut run, |event| matches!(event, Event::CallSuspended(_))).await;
        store.watch.0.store(1, Ordering::Relaxed);
        let run_id = run.run_id.to_string();
        run.cancel();
        run.wait().await.unwrap_err();
        store.watch.0.store(0, Ordering::Relaxed);

        let stopped = host.run(say("two")).await;
        assert!(matches!(&stopped, Err(HostError::Waiting(waits)) if *waits == run_id), "{stopped:?}");
        assert_eq!(runs_of(&at, "waiting").await[0].run_id, run_id);
        let asked = host.recover(&run_id).await.unwrap().wait().await.unwrap();
        assert_eq!((asked.waiting.len(), asked.status), (1, None), "it can be asked");
        let end = host.run(say("three")).await.unwrap().wait().await.unwrap();
        assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "Never mind."));
    }

    async fn w2_d8_a_run_that_waits_is_listed_so_though_a_child_had_to_be_ended(at: StoreAt) {
        let slow = agent("scout", vec![ScriptedTurn::calls([("slow", json!({}))])]);
        let leaves = ("delegate", json!({"agent": "scout", "leave": true}));
        let default = agent("default", vec![ScriptedTurn::calls([("ask", json!({})), leaves])]);
        let host = builder(&at, vec![slow, default]).build().unwrap();
        let end = host.run(say("Go.")).await.unwrap().wait().await.unwrap();
        assert_eq!(end.waiting.len(), 1);
        let waiting = runs_of(&at, "waiting").await;
        assert!(waiting.iter().any(|run| *run.run_id == *end.run_id), "{waiting:?}");
        let record = at.open().events(&end.run_id, 0).await.unwrap();
        assert!(record.iter().any(|event| matches!(event.event, Event::ChildFinished { .. })));
        assert!(matches!(record.last().unwrap().event, Event::RunWaiting));
    }
}

/// Each host stands for a separate process.
#[tokio::test(flavor = "multi_thread")]
async fn a8_all_that_queue_for_a_thread_have_their_turn() {
    const PROCESSES: usize = 6;
    const RUNS: usize = 3;
    let data = tempfile::tempdir().unwrap();
    let hosts: Vec<Host> = (0..PROCESSES)
        .map(|_| host_on(sqlite(data.path()), (0..RUNS).map(|_| ScriptedTurn::text("Done.")).collect()))
        .collect();
    let queued = hosts.iter().flat_map(|host| (0..RUNS).map(|_| host.clone())).map(|host| {
        tokio::spawn(async move {
            let request = RunRequest { busy: Busy::Queue, ..say("Go.") };
            host.run(request).await?.wait().await.map_err(HostError::from)
        })
    });
    for ended in queued.collect::<Vec<_>>() {
        let ended = ended.await.unwrap();
        assert!(ended.as_ref().is_ok_and(|end| end.text == "Done."), "{ended:?}");
    }
    let thread = hosts[0].store().thread("t").await.unwrap();
    assert_eq!(thread.messages.len(), 2 * PROCESSES * RUNS, "each said something, and was answered");
}
