//! The server stays alive, whatever its tools do: calls that never end, and calls that
//! take all memory.

use crate::place::Place;
use crate::raw::Raw;
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime};
use tollgate_artifacts::{good, hostile, rust_guest_bytes};

const ENDLESS: i64 = 8;
/// Beyond what is promised, for a busy machine.
const SLACK: Duration = Duration::from_secs(1);

/// A session with as many endless calls under way as [`ENDLESS`], each with this limit.
fn under_load(limit: Duration) -> (Place, Raw) {
    let place = Place::new()
        .with_tools(&[good::ECHO, hostile::SPIN_FOR_EVER])
        .with_config(&format!("[limits]\ntimeout_ms = {}\nfuel = 900_000_000_000\n", limit.as_millis()));
    let mut raw = Raw::begin_with(&place, &["--thread", "t"], "2025-11-25", json!({}));
    for id in 1..=ENDLESS {
        raw.begin_asking(id, "tools/call", json!({"name": "spin-for-ever", "arguments": {}}));
    }
    raw.call("echo", json!({}));
    (place, raw)
}

#[test]
fn t7_endless_calls_leave_the_rest_answering_and_end_at_their_limit() {
    let limit = Duration::from_secs(12);
    let began = Instant::now();
    let (_place, mut raw) = under_load(limit);
    let all_called = Instant::now();
    let mut took = Vec::new();
    for _ in 0..50 {
        let one = Instant::now();
        raw.call("echo", json!({"still": "here"}));
        took.push(one.elapsed());
        let one = Instant::now();
        raw.ask("tools/list", json!({}));
        took.push(one.elapsed());
    }
    let asked_until = all_called.elapsed();
    took.sort_unstable();
    // Whoever had to wait for an endless call would take until its limit. It is some
    // milliseconds where nothing else runs on the machine.
    assert!(took[98] < Duration::from_secs(1), "{took:?}");
    let ended = (1..=ENDLESS).any(|id| raw.comes(|message| message["id"] == id, Duration::ZERO));
    assert!(!ended || began.elapsed() >= limit, "a call ended before its limit");
    for id in 1..=ENDLESS {
        let result = raw.answer(id)["result"].clone();
        assert_eq!(result["structuredContent"]["error"]["code"], "timed_out", "{result}");
    }
    assert!(began.elapsed() >= limit, "{:?}", began.elapsed());
    // Each ends at its limit, or has ended while the others were asked.
    let due = limit.max(asked_until) + SLACK;
    assert!(all_called.elapsed() < due, "{:?} of {due:?}", all_called.elapsed());
}

#[test]
fn x1_a_cancellation_under_load_ends_that_call_and_no_other() {
    let (place, mut raw) = under_load(Duration::from_secs(60));
    let sent_at = SystemTime::now();
    raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}));
    let began = Instant::now();
    let cancelled = loop {
        let runs = place.type_in(&["runs", "--json"]).json();
        let all = runs.as_array().unwrap().iter().filter(|run| run["status"] == "cancelled");
        let ids: Vec<_> = all.map(|run| run["run_id"].as_str().unwrap().to_owned()).collect();
        if !ids.is_empty() {
            break ids;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{runs}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let [cancelled] = cancelled.as_slice() else { panic!("one call was cancelled: {cancelled:?}") };
    let record = place.type_in(&["show", cancelled, "--json"]).ends_with(0).stdout;
    let last: Value = serde_json::from_str(record.lines().last().unwrap()).unwrap();
    let ended_at = SystemTime::UNIX_EPOCH + Duration::from_millis(last["at_ms"].as_u64().unwrap());
    let took = ended_at.duration_since(sent_at).unwrap_or_default();
    assert!(took < Duration::from_millis(200) + SLACK, "{took:?}: {last}");
    raw.call("echo", json!({}));
    let answered = |id: i64, raw: &mut Raw| raw.comes(|message| message["id"] == id, Duration::ZERO);
    assert!((1..=ENDLESS).all(|id| !answered(id, &mut raw)), "the others go on");
}

#[test]
fn m1_a_tool_that_takes_all_memory_ends_its_call_and_works_the_next_time() {
    let place = Place::new()
        .with_tools(&[hostile::EAT_MEMORY])
        .with_config("[tools.echo.limits]\nmemory_bytes = 4_194_304\n");
    place.write("tools/echo.wasm", rust_guest_bytes("echo"));
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    for _ in 0..2 {
        let eaten = raw.call("eat-memory", json!({}));
        assert_eq!(eaten["structuredContent"]["error"]["code"], "out_of_memory", "{eaten}");
        let large = raw.call("echo", json!({"text": "x".repeat(3_900_000)}));
        assert_eq!(large["structuredContent"]["error"]["code"], "out_of_memory", "{large:.300}");
        let small = raw.call("echo", json!({"text": "x"}));
        assert_eq!(small["isError"], false, "{small}");
    }
}

#[test]
fn x1_at_the_end_of_input_calls_are_cancelled_and_the_program_ends() {
    let (place, mut raw) = under_load(Duration::from_secs(60));
    let (took, code) = raw.leave();
    // The calls themselves would go on for a minute.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(code, 0);
    let runs = place.type_in(&["runs", "--json"]).json();
    let cancelled = runs.as_array().unwrap().iter().filter(|run| run["status"] == "cancelled").count();
    assert_eq!(cancelled, usize::try_from(ENDLESS).unwrap(), "{runs}");
}
