//! Tests of the store's limits, of pruning, and of damage.

use crate::rules::{changed, commit, finished, started};
use crate::with_each_store;
use crate::world::{named, toolbox};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::run::RunEnd;
use tollgate::store::{
    AuditFilter, AuditStore, MemoryStore, PruneOptions, PruneReport, ReadOnlyStore, Remedy, RunFilter,
    RunStore, SqliteStore, StateStore, Store, StoreLimits, restore_state,
};
use tollgate::tools::MemoryBudget;
use tollgate::{Agent, CallRequest, ExecutionPolicy, FnTool, Host, HostError, RunRequest};
use tollgate_agent::code::Code;
use tollgate_agent::limit_places::LimitPlaces;
use tollgate_agent::run::{CallEnd, Event, RunStatus};
use tollgate_agent::state::State;

const NO_FLOOR: StoreLimits = StoreLimits {
    component_record_bytes: 1 << 30,
    thread_record_bytes: 1 << 30,
    principal_record_bytes: 1 << 30,
    min_free_bytes: 0,
};

static PLACES: LimitPlaces = LimitPlaces { store: "the settings", ..LimitPlaces::NONE };

fn host(store: impl Store + 'static) -> Host {
    let turns = vec![ScriptedTurn::calls([("echo", json!({}))]), ScriptedTurn::text("Done.")];
    let agent = Agent::new("default", Arc::new(ScriptedModel::new(turns))).with_tools(["*"]);
    let budget = MemoryBudget::new(1 << 30).with_limit_places(&PLACES);
    let host = Host::builder().toolbox(toolbox()).agent(agent).store(Arc::new(store));
    host.memory_budget(budget).build().unwrap()
}

/// Returns the message of the fault with which a call ended.
fn fault_of(end: RunEnd) -> String {
    let last = end.last_call.unwrap();
    let CallEnd::Fault(fault) = &last.end else { panic!("it ran") };
    fault.message.clone()
}

async fn code(host: &Host, tool: &str, thread: &str) -> Option<Code> {
    let end = host.call(CallRequest::from_json(tool, r#"{"n": 1}"#).on_thread(thread)).await.unwrap();
    end.last_call.unwrap().end.code()
}

async fn runs(host: &Host) -> usize {
    host.store().runs(RunFilter { limit: 1_000, ..RunFilter::default() }).await.unwrap().len()
}

/// Fills the record limits of one component and of one thread.
async fn fill(with_limits: impl Fn(StoreLimits) -> Host) {
    let host = with_limits(StoreLimits { thread_record_bytes: 20_000, ..NO_FLOOR });
    let mut calls = 0;
    while code(&host, "echo", "full").await.is_none() {
        calls += 1;
        assert!(calls < 900, "the thread never becomes full");
    }
    assert!(calls > 2);
    let refused = host.call(CallRequest::from_json("add", r#"{"n": 1}"#).on_thread("full")).await.unwrap();
    let words = fault_of(refused);
    let place = "= 20000. An operator can change it in the settings, or remove old runs.";
    assert!(words.contains("limit is thread_record_bytes = 20000") && words.ends_with(place), "{words}");
    assert_eq!(code(&host, "echo", "empty").await, None, "another thread has room of its own");
    assert_eq!(runs(&host).await, calls + 1, "what was refused left no record");
    let refused = host.run(RunRequest::new("default", "Go").on_thread("full")).await;
    let Err(why @ HostError::StoreFull(_)) = refused else { panic!("it ran") };
    let words = why.to_string();
    assert!(words.starts_with("the store is full: "), "{words}");
    assert!(words.contains("thread_record_bytes = 20000"), "{words}");

    let host = with_limits(StoreLimits { component_record_bytes: 20_000, ..NO_FLOOR });
    let mut calls = 0;
    while code(&host, "echo", &format!("t{calls}")).await.is_none() {
        calls += 1;
        assert!(calls < 900, "the component never reaches its limit");
    }
    assert!(calls > 2);
    // In a run, the model reads the reason, and the run continues.
    let end =
        host.run(RunRequest::new("default", "Go").on_thread("run")).await.unwrap().wait().await.unwrap();
    assert_eq!((&end.status, end.text.as_str()), (&Some(RunStatus::Completed), "Done."));
    assert_eq!(end.last_call.as_ref().unwrap().end.code(), Some(Code::Overloaded));
    let words = fault_of(end);
    assert!(words.contains("component_record_bytes = 20000") && words.ends_with(place), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_records_of_one_component_and_of_one_thread_are_bounded_in_memory() {
    fill(|limits| host(MemoryStore::new().with_limits(limits))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_records_of_one_component_and_of_one_thread_are_bounded_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let place = std::sync::atomic::AtomicUsize::new(0);
    fill(|limits| {
        let number = place.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        host(SqliteStore::open(&folder.path().join(number.to_string())).unwrap().with_limits(limits))
    })
    .await;
    // Another process counts the records that this one wrote.
    let limits = StoreLimits { thread_record_bytes: 20_000, ..NO_FLOOR };
    let again = host(SqliteStore::open(&folder.path().join("0")).unwrap().with_limits(limits));
    assert_eq!(code(&again, "echo", "full").await, Some(Code::Overloaded));
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_a_disk_that_is_almost_full_takes_no_new_call_and_no_new_run() {
    let folder = tempfile::tempdir().unwrap();
    let open = |min_free_bytes| {
        let limits = StoreLimits { min_free_bytes, ..NO_FLOOR };
        host(SqliteStore::open(folder.path()).unwrap().with_limits(limits))
    };
    let host = open(u64::MAX);
    let end = host.call(CallRequest::from_json("add", r#"{"n": 1}"#).on_thread("t")).await.unwrap();
    let words = format!("{:?}", end.last_call.unwrap().end);
    assert!(words.contains("Overloaded") && words.contains("min_free_bytes"), "{words}");
    let refused = host.run(RunRequest::new("default", "Go")).await;
    assert!(matches!(refused, Err(HostError::StoreFull(_))));
    assert_eq!(runs(&host).await, 0);
    assert_eq!(host.store().thread("t").await.unwrap().state.revision(), 0, "it did not run");
    // Records of active runs can still be stored.
    host.store().commit(commit("r", 0, vec![started("r"), changed(1, 10)])).await.unwrap();
    drop(host);
    assert_eq!(code(&open(0), "add", "t").await, None);
}

async fn prune(folder: &Path, before_ms: u64, dry_run: bool) -> PruneReport {
    let folder = folder.to_owned();
    let pruning = PruneOptions { before_ms, dry_run, give_back: true };
    tokio::task::spawn_blocking(move || SqliteStore::prune(&folder, pruning)).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_pruning_returns_space_to_the_disk_unless_another_process_uses_the_store() {
    let folder = tempfile::tempdir().unwrap();
    for is_in_use in [true, false] {
        let store = SqliteStore::open(folder.path()).unwrap();
        for n in 1..=30 {
            let said = Event::MessageAdded { text: "y".repeat(20_000) };
            let run = format!("old{n}");
            store.commit(commit(&run, 0, vec![started(&run), said, finished()])).await.unwrap();
        }
        let store = Some(store).filter(|_| is_in_use);
        let pruned = prune(folder.path(), 1_000, false).await;
        assert_eq!((pruned.runs, pruned.events, pruned.is_in_use), (30, 90, is_in_use));
        assert!(is_in_use || pruned.freed_bytes > 100_000, "{pruned:?}");
        drop(store);
    }
    assert!(SqliteStore::open(folder.path()).unwrap().verify().await.unwrap().is_sound());
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_a_run_that_is_left_can_be_replayed_after_pruning() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(SqliteStore::open(folder.path()).unwrap());
    for _ in 0..4 {
        assert_eq!(code(&host, "add", "t").await, None);
    }
    let connection = rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap();
    // The second and the last run are new.
    connection.execute("UPDATE runs SET updated_at_ms = 5 WHERE id NOT IN (2, 4)", []).unwrap();
    assert_eq!(prune(folder.path(), 10, false).await.runs, 2);
    let left = host.store().runs(RunFilter::default()).await.unwrap();
    assert_eq!(left.len(), 2);
    for run in left {
        assert!(host.replay(&run.run_id, None).await.unwrap().is_same(), "{}", run.run_id);
    }
    assert_eq!(host.store().thread("t").await.unwrap().state.get("basics.total"), Some(&json!(4)));
}

with_each_store! {
    async fn z8_counts_are_kept_in_the_commit(at: StoreAt) {
        let store = at.open();
        store.admit(Some("t"), Some("basics"), None).await.unwrap();
        store.commit(commit("r", 0, vec![started("r")])).await.unwrap();
        store.admit(Some("t"), None, None).await.unwrap();
    }
}

/// Changes a byte of an event as a failing disk would.
fn flip(folder: &Path, number: u64) {
    let connection = rusqlite::Connection::open(folder.join("tollgate.db")).unwrap();
    let sql = "UPDATE events SET body = replace(body, 'step_started', 'step_starteD') WHERE number = ?1";
    assert_eq!(connection.execute(sql, [number.cast_signed()]).unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_record_that_lost_an_event_or_was_altered_is_refused_and_found() {
    let steps = || (1..=5).map(|step| Event::StepStarted { step }).collect::<Vec<_>>();
    let damages: [(&str, &str); 4] = [
        (
            "UPDATE events SET body = replace(body, '\"step\":3', '\"step\":7') WHERE number = 4",
            "event 4: it was altered",
        ),
        ("DELETE FROM events WHERE number = 3", "event 3: it is missing"),
        ("DELETE FROM events WHERE number = 6", "event 6: it is missing"),
        ("UPDATE events SET at_ms = 9 WHERE number = 2", "event 2: it was altered"),
    ];
    for (damage, words) in damages {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let events = std::iter::once(started("r")).chain(steps()).collect();
        store.commit(commit("r", 0, events)).await.unwrap();
        store.commit(commit("good", 0, vec![started("good")])).await.unwrap();
        assert!(store.verify().await.unwrap().is_sound());
        let connection = rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap();
        assert_eq!(connection.execute(damage, []).unwrap(), 1, "{damage}");
        let refused = store.events("r", 0).await.unwrap_err();
        assert!(refused.to_string().contains(words), "{damage}: {refused}");
        assert_eq!(refused.remedy(), Some(&Remedy::ShowRun("r".to_owned())), "{damage}");
        let record = store.record("r").await.unwrap();
        assert!(record.damage.unwrap().contains(words) && record.events.len() >= 5, "{damage}");
        let found = store.verify().await.unwrap();
        assert_eq!(
            found.damaged.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(),
            ["r"],
            "{damage}"
        );
        assert_eq!(store.events("good", 0).await.unwrap().len(), 1);
    }
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.commit(commit("r", 0, vec![started("r"), Event::StepStarted { step: 1 }])).await.unwrap();
    flip(folder.path(), 2);
    assert_eq!(store.verify().await.unwrap().damaged.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_store_is_read_without_writing_anything() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.commit(commit("r", 0, vec![started("r"), changed(1, 10)])).await.unwrap();
    let files = || {
        let mut files: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        files.sort();
        files
    };
    // Read during and after writes of another process.
    let reader = ReadOnlyStore::open(folder.path()).unwrap();
    assert_eq!(reader.events("r", 0).await.unwrap().len(), 2);
    drop((store, reader));
    let before = (files(), std::fs::read(folder.path().join("tollgate.db")).unwrap());
    let reader = ReadOnlyStore::open(folder.path()).unwrap();
    assert_eq!(reader.runs(RunFilter::default()).await.unwrap().len(), 1);
    assert_eq!(reader.thread("t").await.unwrap().state.get("k.n"), Some(&json!(10)));
    assert!(reader.audit(AuditFilter::default()).await.unwrap().is_empty());
    let verified = reader.verify().await.unwrap();
    assert!(verified.is_sound() && verified.events == 2, "{verified:?}");
    let refused = reader.commit(commit("s", 0, vec![started("s")])).await.unwrap_err().to_string();
    assert!(refused.contains("can only be read"), "{refused}");
    drop(reader);
    assert_eq!((files(), std::fs::read(folder.path().join("tollgate.db")).unwrap()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_link_on_the_way_to_the_store_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("real")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("real"), folder.path().join("link")).unwrap();
    let store = SqliteStore::open(&folder.path().join("link/data")).unwrap();
    store.commit(commit("r", 0, vec![started("r")])).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&folder.path().join("real/data")).unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len(), 1);
    drop(store);
    // The file itself is not a link.
    let (data, file) = (folder.path().join("real/data"), folder.path().join("real/data/tollgate.db"));
    std::fs::rename(&file, folder.path().join("elsewhere.db")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere.db"), &file).unwrap();
    let refused = SqliteStore::open(&data).map(drop).unwrap_err().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_a_call_reads_the_state_that_its_tool_may_see_if_there_is_memory_for_it() {
    let data = tempfile::tempdir().unwrap();
    let notes = [("basics.notes".to_owned(), json!(["x".repeat(600_000)]))];
    let earlier = SqliteStore::open(data.path()).unwrap();
    restore_state(&earlier, "large", &State::restored(0, notes)).await.unwrap();
    drop(earlier);
    let store = SqliteStore::open(data.path()).unwrap();
    let budget = MemoryBudget::new(32 << 20);
    let host = Host::builder().toolbox(toolbox()).tool(named("other"));
    let host = host.store(Arc::new(store)).memory_budget(budget.clone()).build().unwrap();
    assert_eq!(code(&host, "add", "large").await, None);
    assert_eq!(budget.reserved_bytes(), 0);
    let rest = budget.try_reserve(28 << 20).unwrap();
    let refused = host.call(CallRequest::from_json("add", r#"{"n": 1}"#).on_thread("large")).await.unwrap();
    let end = refused.last_call.unwrap();
    let CallEnd::Fault(fault) = &end.end else { panic!("it ran") };
    assert_eq!(fault.code, Code::Overloaded, "{fault:?}");
    assert!(fault.message.contains("no memory to read the state of its thread for 'add'"), "{fault:?}");
    assert_eq!(code(&host, "other", "large").await, None, "it has no key of the thread");
    assert_eq!(code(&host, "add", "small").await, None);
    drop(rest);
    assert_eq!(code(&host, "add", "large").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_a_conversation_that_would_take_half_of_the_memory_is_not_read() {
    let data = tempfile::tempdir().unwrap();
    let long = RunRequest::new("default", "x".repeat(1_200_000)).on_thread("long");
    host(SqliteStore::open(data.path()).unwrap()).run(long).await.unwrap().wait().await.unwrap();
    let with = |budget: MemoryBudget| {
        let agent = Agent::new("default", Arc::new(ScriptedModel::new(vec![ScriptedTurn::text("Read.")])));
        let store = Arc::new(SqliteStore::open(data.path()).unwrap());
        Host::builder().agent(agent).store(store).memory_budget(budget).build().unwrap()
    };
    let next = || RunRequest::new("default", "Go on.").on_thread("long");
    let (little, enough) = (MemoryBudget::new(8 << 20), MemoryBudget::new(16 << 20));
    let Err(HostError::Overloaded { message: words, .. }) = with(little.clone()).run(next()).await else {
        panic!("it was read")
    };
    assert!(words.contains("begin a new thread, or raise memory_budget_bytes"), "{words}");
    assert_eq!(little.reserved_bytes(), 0);
    let end = with(enough).run(next()).await.unwrap().wait().await.unwrap();
    assert_eq!(end.text, "Read.");
}

/// A record takes more memory than its text when it is read as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn z3_a_whole_record_is_read_only_if_there_is_memory_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let budget = MemoryBudget::new(8 << 20);
    let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
    let host = Host::builder().toolbox(toolbox()).store(Arc::clone(&store) as Arc<dyn Store>);
    let host = host.memory_budget(budget.clone()).build().unwrap();
    let echo = async |bytes: usize| {
        let arguments = json!({"text": "x".repeat(bytes)}).to_string();
        host.call(CallRequest::from_json("echo", arguments)).await.unwrap().run_id
    };
    let (small, large) = (echo(1_000).await, echo(400_000).await);
    let whole = store.events(&large, 0).await.unwrap();
    let text: usize = whole.iter().map(|event| serde_json::to_string(&event.event).unwrap().len()).sum();
    assert_eq!(store.record_bytes(&large).await.unwrap(), text as u64);
    assert!(host.room_for_record(&small).await.unwrap().is_none());
    let memory = host.room_for_record(&large).await.unwrap().unwrap();
    assert!(memory.bytes() >= 4 * text as u64, "{} of {text}", memory.bytes());
    drop(memory);
    let held = budget.try_reserve(6 << 20).unwrap();
    for refused in [host.room_for_record(&large).await.err(), host.replay(&large, None).await.err()] {
        let Some(HostError::Overloaded { message: words, .. }) = refused else { panic!("{refused:?}") };
        assert!(words.contains("or raise memory_budget_bytes (now 8388608)"), "{words}");
    }
    drop(held);
    assert_eq!(host.replay(&large, None).await.unwrap().attempts.len(), 1);
    assert_eq!(budget.reserved_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_a_deferred_record_keeps_its_memory_until_it_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let budget = MemoryBudget::new(16 << 20);
    let echo = FnTool::new("echo", "echo", "Echoes.", |_: Value, _| async { json!({}) })
        .with_execution(ExecutionPolicy { idempotent: true, ..ExecutionPolicy::default() });
    let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
    let host = Host::builder().tool(echo).store(store).memory_budget(budget.clone()).build().unwrap();
    let other = rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let arguments = json!({"list": vec![1; 5_000]}).to_string();
    let end = host.call(CallRequest::from_json("echo", arguments)).await.unwrap();
    assert!(end.result().is_some());
    assert!(budget.reserved_bytes() > 0, "the record is in memory");
    other.execute_batch("ROLLBACK").unwrap();
    host.store().flush().await.unwrap();
    assert_eq!(budget.reserved_bytes(), 0);
}
