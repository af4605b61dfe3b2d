//! Tests of many concurrent calls on one thread that write the same key.

use crate::place::sqlite;
use crate::watched::Watched;
use crate::with_each_store;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate::store::{Store, StoreError, restore_state};
use tollgate::tools::{NativePlugin, Toolbox};
use tollgate::{CallRequest, FnTool, Host, ToolContext, ToolOutput, ToolResult};
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::{ExecutionPolicy, StateAccess, StateKey};
use tollgate_agent::outcome::Mutation;
use tollgate_agent::run::CallEnd;
use tollgate_agent::state::{KeyScope, Reducer, State};

fn key(name: &str, initial: Value, schema: Option<Value>, reducer: Reducer) -> StateAccess {
    let (initial, schema) = (initial.into(), schema.map(Into::into));
    let defines = Some(StateKey { initial, schema, reducer, scope: KeyScope::Thread, persistent: true });
    StateAccess { key: format!("log.{name}"), read: false, write: true, defines }
}

/// Returns a host with a tool that writes its arguments to keys of each kind.
fn host(store: Arc<dyn Store>) -> Host {
    let write = |arguments: Value, _: ToolContext| async move {
        let mutation =
            |(key, update): (&String, &Value)| Mutation { key: format!("log.{key}"), update: update.clone() };
        let mutations = arguments.as_object().into_iter().flatten().map(mutation).collect();
        ToolOutput { result: ToolResult::success("written").into(), mutations, actions: Vec::new() }
    };
    let list = json!({"type": "array", "items": {"type": "string"}});
    let plugin = NativePlugin::new("log")
        .with_state(key("lines", json!([]), Some(list), Reducer::Append))
        .with_state(key("few", json!([]), Some(json!({"type": "array", "maxItems": 40})), Reducer::Append))
        .with_state(key("total", json!(0), None, Reducer::Add))
        .with_state(key("last", json!(""), None, Reducer::Replace))
        .with_state(key("members", json!({}), None, Reducer::MergePatch))
        // A call that may run again is stored once, when it ends.
        .with_tool(
            FnTool::new("write", "write", "Writes.", write)
                .with_execution(ExecutionPolicy { idempotent: true, ..ExecutionPolicy::default() }),
        );
    let mut toolbox = Toolbox::default();
    plugin.install(&mut toolbox).unwrap();
    Host::builder().toolbox(toolbox).store(store).build().unwrap()
}

/// Makes this many calls with a number of them in flight. Returns their duration and how many succeeded.
async fn calls(
    host: &Host,
    number: usize,
    in_flight: usize,
    arguments: impl Fn(usize) -> Value,
) -> (Duration, usize) {
    calls_on(host, "t", number, in_flight, arguments).await
}

/// Makes such calls on another thread.
async fn calls_on(
    host: &Host,
    thread: &'static str,
    number: usize,
    in_flight: usize,
    arguments: impl Fn(usize) -> Value,
) -> (Duration, usize) {
    let began = Instant::now();
    let one = |n: usize| {
        let (host, arguments) = (host.clone(), arguments(n).to_string());
        tokio::spawn(async move {
            let end = host.call(CallRequest::from_json("write", arguments).on_thread(thread)).await.unwrap();
            end.result().is_some_and(ToolResult::is_success)
        })
    };
    let succeeded = stream::iter((0..number).map(one)).buffer_unordered(in_flight);
    let succeeded = succeeded.filter(|good| std::future::ready(*good.as_ref().unwrap())).count().await;
    (began.elapsed(), succeeded)
}

async fn value(store: &Arc<dyn Store>, key: &str) -> Result<Value, StoreError> {
    Ok(store.thread("t").await?.state.get(key).cloned().unwrap_or_default())
}

with_each_store! {
    async fn s5_calls_at_once_that_append_and_add_never_conflict(at: StoreAt) {
        let store = Watched::new(at.open(), ());
        let host = host(Arc::clone(&store) as Arc<dyn Store>);
        let arguments = |n: usize| json!({"lines": format!("line {n}"), "total": n});
        let (_, succeeded) = calls(&host, 200, 128, arguments).await;
        assert_eq!((succeeded, store.writes()), (200, 200), "each call is committed once");
        let kept = at.open();
        let mut lines: Vec<String> = serde_json::from_value(value(&kept, "log.lines").await.unwrap()).unwrap();
        lines.sort_unstable();
        let mut expected: Vec<String> = (0..200).map(|n| format!("line {n}")).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected);
        assert_eq!(value(&kept, "log.total").await.unwrap(), json!(200 * 199 / 2));
        assert_eq!(kept.thread("t").await.unwrap().state.revision(), 200);
    }

    async fn s5_calls_at_once_that_merge_share_the_changes_that_they_missed(at: StoreAt) {
        let store = Watched::new(at.open(), ());
        let host = host(Arc::clone(&store) as Arc<dyn Store>);
        // Short values, and ones of which only a few are rewritten at once.
        for (part, long) in [("a", 10), ("b", 70_000)] {
            let state = State::restored(0, [("log.members".to_owned(), json!({"long": "x".repeat(long)}))]);
            restore_state(&*store, "t", &state).await.unwrap();
            let read = store.changes_read();
            let (_, succeeded) = calls(&host, 60, 60, |n| json!({"members": {format!("{part}{n}"): n}})).await;
            assert_eq!(succeeded, 60, "members of their own never conflict");
            let members = value(&at.open(), "log.members").await.unwrap();
            assert_eq!(members.as_object().unwrap().len(), 61);
            let read = store.changes_read() - read;
            assert!(read <= 120, "{read} changes read with whole values, {long} bytes each");
        }
    }

    async fn s5_calls_at_once_that_set_one_member_conflict_and_run_again(at: StoreAt) {
        let host = host(at.open());
        let state = State::restored(0, [("log.members".to_owned(), json!({"long": "x".repeat(70_000)}))]);
        restore_state(&*at.open(), "t", &state).await.unwrap();
        let (_, succeeded) = calls(&host, 40, 40, |n| json!({"members": {"one": n}})).await;
        assert_eq!(succeeded, 40);
        let revision = at.open().thread("t").await.unwrap().state.revision();
        assert_eq!(revision, 41);
        let last = at.open().changes("t", revision - 1, 1).await.unwrap()[0].updates[0].update.clone().unwrap();
        let members = value(&at.open(), "log.members").await.unwrap();
        assert_eq!(members["one"], last["one"]);
    }

    async fn z8_two_calls_at_once_do_not_exceed_the_limit_of_a_threads_state(at: StoreAt) {
        // Both decide on the empty state, because neither returns before both have begun.
        let both = Arc::new(tokio::sync::Barrier::new(2));
        let write = move |arguments: Value, _: ToolContext| {
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
                let key = format!("log.{}", arguments["key"].as_str().unwrap());
                let mutations = vec![Mutation { key, update: arguments["line"].clone() }];
                ToolOutput { result: ToolResult::success("written").into(), mutations, actions: Vec::new() }
            }
        };
        let list = json!({"type": "array", "items": {"type": "string"}});
        let plugin = NativePlugin::new("log")
            .with_state(key("lines", json!([]), Some(list), Reducer::Append))
            .with_state(key("last", json!(""), None, Reducer::Replace))
            .with_tool(FnTool::new("write", "write", "Writes.", write));
        let mut toolbox = Toolbox::default();
        plugin.install(&mut toolbox).unwrap();
        let host = Host::builder().toolbox(toolbox).store(at.open()).thread_state_bytes(10_000).build().unwrap();
        // The same key, and two keys of one owner.
        for (thread, keys) in [("one", ["lines", "lines"]), ("two", ["lines", "last"])] {
            let call = |key: &str| {
                let arguments = json!({"key": key, "line": "x".repeat(6_000)}).to_string();
                host.call(CallRequest::from_json("write", arguments).on_thread(thread))
            };
            let (first, second) = tokio::join!(call(keys[0]), call(keys[1]));
            let ends = [first.unwrap(), second.unwrap()];
            let failed: Vec<_> = ends.iter().filter(|end| end.result().is_none()).collect();
            let [failed] = failed.as_slice() else { panic!("{thread}: {} of 2 failed", failed.len()) };
            let CallEnd::Fault(fault) = &failed.last_call.as_ref().unwrap().end else { panic!("{thread}") };
            assert_eq!(fault.code, Code::BadMutation);
            assert!(fault.message.contains("thread_state_bytes = 10000"), "{}", fault.message);
            let state = at.open().thread(thread).await.unwrap().state;
            let bytes: usize = state.iter().map(|(_, value)| value.to_string().len()).sum();
            assert!((6_000..10_000).contains(&bytes), "{thread}: {bytes}");
        }
    }

    async fn s5_a_schema_that_an_order_may_break_is_checked_again_and_holds(at: StoreAt) {
        let store = Watched::new(at.open(), ());
        let host = host(Arc::clone(&store) as Arc<dyn Store>);
        let (_, succeeded) = calls(&host, 100, 100, |n| json!({"few": n})).await;
        assert_eq!(succeeded, 40, "its maxItems");
        assert_eq!(value(&at.open(), "log.few").await.unwrap().as_array().unwrap().len(), 40);
    }
}

/// The length of the long values, and the number of calls that write to each.
const LONG: usize = 512 << 10;
const CALLS: usize = 300;

/// Makes calls that write to one key of a long value, with 4 and then with 128 in flight. Returns the
/// bytes on disk.
async fn contend(key: &str, value: Value, calls: usize, arguments: impl Fn(usize) -> Value) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let store = Watched::new(sqlite(folder.path()), ());
    let host = host(Arc::clone(&store) as Arc<dyn Store>);
    for thread in ["few", "many"] {
        let state = State::restored(0, [(format!("log.{key}"), value.clone())]);
        restore_state(&*store, thread, &state).await.unwrap();
        calls_on(&host, thread, 20, 4, &arguments).await;
    }
    let (few, _) = calls_on(&host, "few", calls, 4, &arguments).await;
    let before = peak_bytes();
    let (many, succeeded) = calls_on(&host, "many", calls, 128, &arguments).await;
    // On a busy machine, a call may lose its turn to others until it has run as often as it may.
    assert!(succeeded * 100 >= calls * 98, "{succeeded} of {calls} calls succeeded");
    let rate = |time: Duration| calls as f64 / time.as_secs_f64();
    let more = peak_bytes().saturating_sub(before);
    println!("{key}: 4 in flight: {:.0}/s; 128: {:.0}/s, {} KiB more", rate(few), rate(many), more / 1024);
    // The machine may be busy with other tests for either half. Work that grows with the calls in flight takes 32 times.
    assert!(rate(many) * 4.0 > rate(few), "{few:?} with 4 in flight, {many:?} with 128");
    assert!(more <= 64 << 20, "{more} bytes more");
    let file = std::fs::metadata(folder.path().join("tollgate.db")).unwrap().len();
    let log = std::fs::metadata(folder.path().join("tollgate.db-wal")).unwrap().len();
    file + log
}

/// Whole values would come to hundreds of megabytes.
const DISK_BYTES: u64 = 32 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn s5_the_work_of_many_calls_that_append_grows_with_their_number_alone() {
    let line = "x".repeat(100);
    let long: Vec<&str> = std::iter::repeat_n(line.as_str(), LONG / line.len()).collect();
    let bytes = contend("lines", json!(long), CALLS, |n| json!({"lines": format!("{n} {line}")})).await;
    assert!(bytes < DISK_BYTES, "{bytes} bytes on disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_the_work_of_many_calls_that_replace_grows_with_their_number_alone() {
    let update = |n| json!({"last": format!("{n} {}", "x".repeat(100))});
    let bytes = contend("last", json!("x".repeat(LONG)), CALLS, update).await;
    assert!(bytes < DISK_BYTES, "{bytes} bytes on disk");
}

/// The record of each merge has the whole value, so the value is not as long.
#[tokio::test(flavor = "multi_thread")]
async fn s5_the_work_of_many_calls_that_merge_grows_with_their_number_alone() {
    let value = json!({"long": "x".repeat(LONG / 16)});
    let update = |n| json!({"members": {format!("{n}"): n}});
    contend("members", value, CALLS / 3, update).await;
}

/// Returns the peak memory of this process.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
