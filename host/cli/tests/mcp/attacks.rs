//! Tests of misbehaving clients: they neither end the server nor make it grow without bound.

use crate::place::Place;
use crate::raw::{Raw, assert_no_panic, kept};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::Duration;
use tollgate_artifacts::{good, hostile};

const MIB: usize = 1024 * 1024;

fn begun() -> (Place, Raw) {
    let place = Place::new().with_tools(&[good::ECHO]);
    let raw = Raw::begin(&place, "2025-11-25", json!({}));
    (place, raw)
}

#[track_caller]
fn still_answers(raw: &mut Raw) {
    assert_eq!(raw.call("echo", json!({"here": 1}))["structuredContent"]["here"], 1);
}

#[test]
fn what_is_no_message_is_answered_with_an_error() {
    let (_place, mut raw) = begun();
    for (line, code) in [
        ("{", -32700),
        ("nonsense", -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("1", -32600),
        ("null", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1e400,"method":"ping"}"#, -32700),
        (r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, -32602),
    ] {
        raw.send_line(line);
        let answer = raw.wait_for(|message| message.get("error").is_some());
        assert_eq!(answer["error"]["code"], code, "{line} is answered {answer}");
    }
    let deep = "[".repeat(100_000);
    raw.send_line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{deep}"#));
    raw.wait_for(|message| message.get("error").is_some());
    raw.send_line(r#"{"jsonrpc":"2.0","method":"notifications/no/such","params":{"a":1}}"#);
    raw.send_line(r#"{"jsonrpc":"2.0","id":"nobody asked","result":{}}"#);
    raw.send_line(r#"{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"x"}}"#);
    still_answers(&mut raw);
}

#[test]
fn ids_come_back_as_they_were_sent() {
    let (_place, mut raw) = begun();
    for id in
        [json!(0), json!(-1), json!(i64::MAX), json!(""), json!("ä \u{1f600}"), json!("x".repeat(10_000))]
    {
        raw.begin_asking(id.clone(), "ping", json!({}));
        assert!(raw.answer(id).get("result").is_some());
    }
}

#[test]
fn nothing_but_a_request_begins_a_session() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let mut raw = Raw::start(&place, &[]);
    raw.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    raw.send_line(r#"{"jsonrpc":"2.0","id":4,"result":{}}"#);
    raw.send_line("nonsense");
    raw.ask("ping", json!({}));
    assert!(raw.ask("tools/call", json!({"name": "echo"})).get("error").is_some());
    assert_eq!(raw.leave().1, 0);
}

#[test]
fn a_message_that_is_too_long_is_skipped() {
    let (_place, mut raw) = begun();
    still_answers(&mut raw);
    let before = raw.resident_kib();
    for _ in 0..4 {
        raw.send_line(&"x".repeat(20 * MIB));
        let answer = raw.wait_for(|message| message.get("error").is_some());
        assert!(answer["error"]["message"].as_str().unwrap().contains("bytes"), "{answer}");
    }
    still_answers(&mut raw);
    // One such line is longer than the tolerated growth of the server.
    assert!(raw.resident_kib() < before + 16 * 1024, "{before} KiB, then {}", raw.resident_kib());
}

#[test]
fn z3_arguments_are_counted_before_they_are_read() {
    let (_place, mut raw) = begun();
    still_answers(&mut raw);
    let before = raw.resident_kib();
    for (id, value) in [("lists", "[],"), ("objects", "{\"\":0},")] {
        let arguments = format!("{{\"a\":[{}0]}}", value.repeat(500_000));
        raw.send_raw_call(id, "echo", &arguments);
        let answer = raw.answer(id);
        assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "invalid_arguments", "{answer}");
        assert!(raw.resident_kib() < before + 32 * 1024, "{before} KiB, then {}", raw.resident_kib());
    }
    // The same text anywhere else is a protocol error.
    let request = raw.request("else", "tools/list", json!({"_meta": {"a": "HERE"}})).to_string();
    raw.send_line(&request.replace("\"HERE\"", &format!("[{}0]", "[],".repeat(500_000))));
    let answer = raw.answer("else");
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    still_answers(&mut raw);
}

#[test]
fn z3_without_memory_for_its_arguments_a_call_is_overloaded() {
    let place = Place::new()
        .with_tools(&[good::ECHO])
        .with_config("[limits]\nmemory_bytes = 16_777_216\nmemory_budget_bytes = 33_554_432\n");
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.send_raw_call("large", "echo", &format!("{{\"a\":[{}0]}}", "0,".repeat(400_000)));
    let answer = raw.answer("large");
    assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "overloaded", "{answer}");
    // Outside of arguments, the message itself is not read.
    let params = json!({"_meta": {"many": vec![0; 400_000]}});
    raw.send(&json!({"jsonrpc": "2.0", "id": "many", "method": "tools/list", "params": params}));
    let answer = raw.answer("many");
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    still_answers(&mut raw);
}

#[test]
fn a_thousand_calls_at_once_are_all_answered() {
    let (_place, mut raw) = begun();
    for id in 0..1_000 {
        raw.begin_asking(id, "tools/call", json!({"name": "echo", "arguments": {"id": id}}));
    }
    for id in 0..1_000 {
        assert_eq!(raw.answer(id)["result"]["structuredContent"]["id"], id);
    }
}

#[test]
fn more_requests_than_are_carried_are_refused_and_can_still_be_cancelled() {
    let place = Place::new()
        .with_tools(&[good::ECHO, hostile::SPIN_FOR_EVER])
        .with_config("[limits]\ntimeout_ms = 60_000\nfuel = 900_000_000_000\n");
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    const SENT: i64 = 2_100;
    for id in 0..SENT {
        raw.begin_asking(id, "tools/call", json!({"name": "spin-for-ever", "arguments": {}}));
    }
    let refused = raw.wait_for(|message| message.get("error").is_some());
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    for id in 0..SENT {
        let params = json!({"requestId": id});
        raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }
    let begins = |raw: &mut Raw| -> Value { raw.ask("tools/call", json!({"name": "echo", "arguments": {}})) };
    while begins(&mut raw).get("error").is_some() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(raw.leave().1, 0);
}

#[test]
fn a_client_that_never_reads_makes_nothing_grow_and_can_leave() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let place = Place::new().with_tools(&[good::ECHO]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("mcp").current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = kept(child.stderr.take().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let pid = child.id();
    let writing = std::thread::spawn(move || {
        let client =
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"r","version":"1"}}"#;
        let _ = writeln!(stdin, r#"{{"jsonrpc":"2.0","id":"i","method":"initialize","params":{client}}}"#);
        let text = "x".repeat(60_000);
        // The server would use 300 MB if it accepted all of them.
        for id in 0..5_000 {
            let call = json!({"name": "echo", "arguments": {"text": text}});
            let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
            if writeln!(stdin, "{line}").is_err() {
                return;
            }
        }
    });
    std::thread::sleep(Duration::from_secs(5));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kib = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = kib.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 280 * 1024, "{kib} KiB are resident");
    // The client disconnects without ever having read.
    drop(child.stdout.take());
    let code = child.wait().unwrap().code();
    writing.join().unwrap();
    assert_eq!(code, Some(0));
    assert_no_panic(Some(stderr));
}

/// Each notification of a call repeats the token that its request gave.
#[test]
fn z3_a_large_progress_token_is_not_repeated_a_thousand_times() {
    let place = Place::new().with_tools(&[good::ECHO, hostile::FLOOD_OF_PROGRESS]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let call = |token: Value| {
        let mut request = json!({"jsonrpc": "2.0", "id": "floods", "method": "tools/call"});
        request["params"] =
            json!({"name": "flood-of-progress", "arguments": {}, "_meta": {"progressToken": token}});
        request
    };
    for (token, is_repeated) in [(json!("t".repeat(1_000)), true), (json!("t".repeat(100_000)), false)] {
        raw.send(&call(token.clone()));
        let told = Cell::new(0);
        raw.wait_for(|message| {
            told.set(told.get() + usize::from(message["params"]["progressToken"] == token));
            message["id"] == "floods"
        });
        let (told, bytes) = (told.get(), token.to_string().len());
        assert_eq!(told > 0, is_repeated, "{told} notifications with a token of {bytes} bytes");
    }
    still_answers(&mut raw);
}
