//! Tests that the server stays responsive whatever its tools do: calls that never end, and calls
//! that use all memory.

use crate::http::{Server, headers_of};
use crate::http_clients::spins;
use crate::place::Place;
use crate::raw::Raw;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tollgate_artifacts::{good, hostile, rust_guest_bytes};

const ENDLESS: i64 = 8;
/// Additional time beyond the guarantees, to allow for a busy machine.
const SLACK: Duration = Duration::from_secs(5);

/// Creates a session that has been idle until now, on a host whose calls have this limit.
fn idle(limit: Duration) -> (Place, Raw) {
    let place = Place::new()
        .with_tools(&[good::ECHO, hostile::SPIN_FOR_EVER])
        .with_config(&format!("[limits]\ntimeout_ms = {}\nfuel = 900_000_000_000\n", limit.as_millis()));
    let mut raw = Raw::begin_with(&place, &["--thread", "t"], "2025-11-25", json!({}));
    raw.call("echo", json!({}));
    (place, raw)
}

/// Starts [`ENDLESS`] endless calls.
fn begin_to_spin(raw: &mut Raw) {
    for id in 1..=ENDLESS {
        raw.begin_asking(id, "tools/call", json!({"name": "spin-for-ever", "arguments": {}}));
    }
    raw.call("echo", json!({}));
}

/// Creates a session with [`ENDLESS`] endless calls in progress, each with this limit.
fn under_load(limit: Duration) -> (Place, Raw) {
    let (place, mut raw) = idle(limit);
    begin_to_spin(&mut raw);
    (place, raw)
}

/// Returns the 99th percentile of a hundred requests.
fn p99(mut ask: impl FnMut()) -> Duration {
    let mut took: Vec<Duration> = (0..100)
        .map(|_| {
            let one = Instant::now();
            ask();
            one.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[98]
}

/// Compares the duration for other clients under load with the duration on an idle server. The
/// first bound is for a client that is scheduled among others. The second is for machines that are
/// fast when idle or become busier; it is far below the limits of the endless calls.
#[track_caller]
fn assert_keeps_up(idle: Duration, loaded: Duration) {
    assert!(loaded <= (idle * 20).max(Duration::from_secs(1)), "{idle:?} idle, {loaded:?} under load");
}

fn asks(raw: &mut Raw) -> Duration {
    let mut lists = false;
    p99(|| {
        lists = !lists;
        match lists {
            true => drop(raw.ask("tools/list", json!({}))),
            false => drop(raw.call("echo", json!({"still": "here"}))),
        }
    })
}

#[test]
fn t7_endless_calls_leave_the_rest_answering_and_end_at_their_limit() {
    let limit = Duration::from_secs(8);
    let (_place, mut raw) = idle(limit);
    let alone = asks(&mut raw);
    let began = Instant::now();
    begin_to_spin(&mut raw);
    let all_called = Instant::now();
    let among = asks(&mut raw);
    let asked_until = all_called.elapsed();
    let ended = (1..=ENDLESS).any(|id| raw.comes(|message| message["id"] == id, Duration::ZERO));
    assert!(!ended || began.elapsed() >= limit, "a call ended before its limit");
    for id in 1..=ENDLESS {
        let result = raw.answer(id)["result"].clone();
        assert_eq!(result["structuredContent"]["error"]["code"], "timed_out", "{result}");
    }
    assert!(began.elapsed() >= limit, "{:?}", began.elapsed());
    // Each ends at its limit, or has ended while the others were awaited.
    let due = limit.max(asked_until) + SLACK;
    assert!(all_called.elapsed() < due, "{:?} of {due:?}", all_called.elapsed());
    assert_keeps_up(alone, among);
}

/// Creates a place over HTTP whose endless calls last for two minutes.
fn over_http() -> (Place, Server) {
    let place = Place::new()
        .with_tools(&[good::ECHO, hostile::SPIN_FOR_EVER])
        .with_config("[limits]\ntimeout_ms = 120_000\nfuel = 900_000_000_000\nconcurrent_calls = 8\n");
    let server = Server::start(&place, &[]);
    (place, server)
}

/// Measures repeated requests of a session, each of which is answered.
fn asks_over_http(server: &Server, session: &str) -> Duration {
    p99(|| {
        let answer = server.call(session, 2, "echo", json!({"still": "here"}));
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.message()["result"]["isError"], false, "{}", answer.text);
    })
}

/// Sets the flag when it is dropped, also if a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn t7_a_client_that_floods_over_http_does_not_keep_another_session_from_being_answered() {
    let (_place, server) = over_http();
    let (floods, session) = (server.begin(), server.begin());
    let alone = asks_over_http(&server, &session);
    let (over, sent) = (AtomicBool::new(false), AtomicI64::new(10));
    let among = std::thread::scope(|scope| {
        let _over = Over(&over);
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    server.call(&floods, sent.fetch_add(1, Ordering::Relaxed), "echo", json!({}));
                }
            });
        }
        asks_over_http(&server, &session)
    });
    assert_keeps_up(alone, among);
}

#[test]
fn l8_a_client_that_takes_all_that_it_gets_over_http_leaves_room_for_another_session() {
    let (_place, server) = over_http();
    let (takes, session) = (server.begin(), server.begin());
    // More calls than run at once in total, with more bytes than one session may have in progress.
    // Their streams are kept, and none of the calls ends before its limit.
    let mut kept = Vec::new();
    let statuses = (10..40).map(|id| {
        let request = server.request(&headers_of(&takes), &spins(id, 1_000_000));
        let mut stream = TcpStream::connect(&server.address).unwrap();
        // The server does not read a refused request to the end.
        let _ = stream.write_all(request.as_bytes());
        let mut begins = [0; 12];
        let read = stream.read_exact(&mut begins);
        kept.push(stream);
        read.map_or(0, |()| String::from_utf8_lossy(&begins[9..]).parse::<u16>().unwrap())
    });
    let taken = statuses.take_while(|status| *status == 200).count();
    assert!((10..20).contains(&taken), "{taken} of its calls are carried");
    let began = Instant::now();
    let answer = server.call(&session, 2, "echo", json!({"a": 1}));
    assert_eq!(answer.message()["result"]["structuredContent"], json!({"a": 1}), "{}", answer.text);
    // A session that begins now has room, too.
    let begun = server.begin();
    assert_eq!(server.call(&begun, 2, "echo", json!({})).status, 200);
    // A request that waits for a slot waits until the limit of those calls.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    drop(kept);
}

#[test]
fn l8_clients_without_sessions_that_take_all_that_they_get_leave_room_for_a_session() {
    let (_place, server) = over_http();
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "spin-for-ever")];
    let call = |pad: usize| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "pad": "x".repeat(pad),
        });
        let params = json!({"name": "spin-for-ever", "arguments": {}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    };
    // This fills their share to the last bytes: fewer are left than any request needs.
    let body = call(4 * 1024 * 1024 - 16 - call(0).len());
    let kept: Vec<TcpStream> = (0..4).map(|_| server.open(&server.request(&headers, &body))).collect();
    let began = Instant::now();
    // An id that was never issued has no share of its own.
    while server.call("made up", 2, "echo", json!({})).status != 503 {
        assert!(began.elapsed() < Duration::from_secs(30), "their share is never taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    let session = server.begin();
    assert_eq!(server.call(&session, 2, "echo", json!({})).status, 200);
    assert_eq!(server.call("made up", 2, "echo", json!({})).status, 503, "it is still taken");
    drop(kept);
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
    // The calls themselves would continue for a minute.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(code, 0);
    let runs = place.type_in(&["runs", "--json"]).json();
    let cancelled = runs.as_array().unwrap().iter().filter(|run| run["status"] == "cancelled").count();
    assert_eq!(cancelled, usize::try_from(ENDLESS).unwrap(), "{runs}");
}
