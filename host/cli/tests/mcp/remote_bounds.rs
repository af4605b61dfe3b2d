//! Tests of servers that list or send far too much.

use crate::place::Place;
use crate::raw::Raw;
use crate::remote::{TOOL, scripted, server};
use crate::remote_http::{HttpServer, Reply, place_of};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Returns the script of a server with an endless list. Each page has a cursor, and a tool whose
/// schema has this `default`, which the shell writes.
fn endless_list(default: &str) -> String {
    let pages = format!(
        r#"*'"tools/list"'*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{"nextCursor":"more","tools":[{{"name":"t","inputSchema":{{"type":"object","default":' "$id"
{default}
echo '}}}}]}}}}' ;;
*'"never"'*)"#
    );
    server(TOOL, ":").replace(r#"*'"tools/list"'*)"#, &pages)
}

#[test]
fn z15_all_pages_of_a_list_are_bounded_together() {
    for (default, what) in [
        (r#"printf '"'; head -c 1500000 /dev/zero | tr '\0' x; printf '"'"#, "4194304 bytes"),
        (r#"printf '['; yes 0, | head -n 40000 | tr -d '\n'; printf '0]'"#, "100000 JSON nodes"),
    ] {
        let place = scripted(&endless_list(default));
        let said = place.type_in(&["call", "other__t", "--json"]).says("the server other failed to start");
        let said = said.says(&format!("its list of tools has more than {what}"));
        assert_eq!(said.json()["error"]["code"], "not_found");
    }
}

#[test]
fn z15_a_message_of_too_many_nodes_is_not_parsed() {
    let on_call = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":[' "$id"; yes 0, | head -n 600000 | tr -d '\n'; echo '0]}}'"#;
    let said = scripted(&server(TOOL, on_call)).type_in(&["call", "other__t", "--json"]).json();
    assert_eq!(said["error"]["code"], "malformed_output", "{said}");
}

#[test]
fn z15_a_server_that_floods_over_http_is_cut_off_and_not_served() {
    let event =
        format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"p\":\"{}\"}}\n\n", "x".repeat(1 << 20));
    let comment = ": a comment, which is not a message at all\n".repeat(1_000);
    for flood in [event, comment] {
        let flooded = AtomicBool::new(false);
        let place = place_of(HttpServer::start(move |asked| match asked.method.as_str() {
            _ if flooded.load(Ordering::Relaxed) => Reply::answer("503 Gone", ""),
            "tools/call" => {
                flooded.store(true, Ordering::Relaxed);
                Reply::Stream(flood.clone(), usize::MAX)
            }
            _ => Reply::Usual,
        }));
        let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
        let failed = raw.call("other__t", json!({}));
        assert!(failed.to_string().contains("it flooded its connection"), "{failed}");
        let began = Instant::now();
        while raw.ask("tools/list", json!({}))["result"]["tools"] != json!([]) {
            assert!(began.elapsed() < Duration::from_secs(60), "its tools are still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn z15_a_server_over_http_that_asks_without_reading_makes_nothing_grow() {
    let pings = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n".repeat(1_000);
    let place = place_of(HttpServer::start(move |asked| match asked.method.as_str() {
        "GET" => Reply::Stream(pings.clone(), usize::MAX),
        "tools/call" | "answer" => Reply::Silence,
        _ => Reply::Usual,
    }));
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    let place = place.with_config(&config.replace("\ntimeout_ms = 60_000", "\ntimeout_ms = 8_000"));
    let grown = grown_during(&place, &json!({"name": "other__t", "arguments": {}}));
    assert!(grown <= 64, "{grown} MiB for unread answers");
}

/// Returns a script that answers with this member, byte by byte, because `echo` would interpret its
/// escapes.
fn answers_with(member: &str) -> String {
    format!(r#"printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "$id" '{member}'"#)
}

#[test]
fn z14_what_a_server_says_of_itself_is_one_clean_line() {
    let broken = answers_with(
        r#""error":{"code":-32000,"message":"\u001b]0;owned\u0007\u009b2J\nerror: the host says\u202e\u00ad"}"#,
    );
    let place = scripted(&server(TOOL, &broken));
    let said = place.type_in(&["call", "other__t"]).ends_with(1);
    let shown = &said.stderr;
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{ad}']), "{shown:?}");
    assert!(shown.lines().all(|line| !line.starts_with("error: the host says")), "{shown}");
    assert!(shown.contains("owned"), "it is shown: {shown}");
    // Also in a warning if the server does not start.
    let fails = server(TOOL, ":")
        .replace(r#"*'"tools/list"'*)"#, &format!("*'\"tools/list\"'*) {broken} ;;\n*'\"never\"'*)"));
    let said = scripted(&fails).type_in(&["tools"]);
    let shown = &said.stderr;
    assert!(shown.contains("owned") && !shown.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{shown:?}");
    assert!(shown.lines().all(|line| !line.starts_with("error: the host says")), "{shown}");
}

#[test]
fn z14_a_tool_of_several_lines_is_marked_line_by_line() {
    let text = r#""result":{"isError":true,"content":[{"type":"text","text":"no\nerror: the disk is full\nwarning: x"}]}"#;
    let said = scripted(&server(TOOL, &answers_with(text))).type_in(&["call", "other__t"]).ends_with(1);
    let shown = &said.stderr;
    assert!(shown.contains("| error: the disk is full"), "{shown}");
    assert!(
        shown.lines().all(|line| !line.starts_with("error:") && !line.starts_with("warning:")),
        "{shown}"
    );
}

/// A server that announces a change of its list after each reading of it.
#[test]
fn z15_a_list_that_keeps_changing_is_read_ever_less_often() {
    let changes = r#"; date +%s%N >> lists; echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' ;;
*'"tools/call"'*)"#;
    let script = server(TOOL, ":").replace(
        r#" ;;
*'"tools/call"'*)"#,
        changes,
    );
    let place = scripted(&script);
    let _raw = Raw::begin(&place, "2025-11-25", json!({}));
    let began = Instant::now();
    let lists = loop {
        let lists = std::fs::read_to_string(place.path().join("lists")).unwrap_or_default();
        let lists: Vec<u64> = lists.lines().map(|at| at.parse().unwrap()).collect();
        if lists.len() >= 7 {
            break lists;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{lists:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    // The pauses begin with 50 ms, and each is twice the last.
    let last = Duration::from_nanos(lists[6] - lists[5]);
    assert!(last > Duration::from_millis(1_500), "{last:?}");
}

/// Servers that ask without end and never read the answers: each time with another id, or always with
/// the same one.
#[test]
fn z15_a_server_that_asks_without_reading_makes_nothing_grow() {
    for asks in [
        r#"seq -f '{"jsonrpc":"2.0","id":%.0f,"method":"ping"}' 1 1000000000"#,
        r#"yes '{"jsonrpc":"2.0","id":1,"method":"ping"}'"#,
    ] {
        let place = scripted(&server(TOOL, asks)).with_config(
            "[mcp.other]\ncommand = \"sh\"\nargs = [\"server.sh\"]\nstart_timeout_ms = 20_000\ntimeout_ms = 8_000\n",
        );
        let grown = grown_during(&place, &json!({"name": "other__t", "arguments": {}}));
        assert!(grown <= 64, "{grown} MiB for unread answers to {asks}");
    }
}

/// Returns how many MiB of memory a call takes at most.
fn grown_during(place: &Place, call: &Value) -> u64 {
    let mut raw = Raw::begin(place, "2025-11-25", json!({}));
    let before = raw.resident_kib();
    raw.begin_asking("asks", "tools/call", call.clone());
    let mut most = 0;
    while !raw.has_answered(&json!("asks")) {
        most = most.max(raw.resident_kib());
        raw.ask("ping", json!({}));
        std::thread::sleep(Duration::from_millis(20));
    }
    most.saturating_sub(before) >> 10
}

/// Links, images and resources are described in one clean text, within the limit on answers.
#[test]
fn z14_links_and_images_of_a_server_are_clean_and_bounded() {
    let content = r#""result":{"content":[
        {"type":"image","data":"AAAA","mimeType":"image/png\u001b[2J\u202e"},
        {"type":"audio","data":"AAAA","mimeType":"a\u0007b"},
        {"type":"resource_link","name":"n\u001b]0;owned\u0007","uri":"file:///etc/passwd\u00ad"},
        {"type":"resource","resource":{"uri":"x://y","mimeType":"t","text":"\u009b2Jhidden\ue0041"}}]}"#;
    let content = content.replace("\n        ", "");
    let place = scripted(&server(TOOL, &answers_with(&content)));
    let said = place.type_in(&["call", "other__t"]).ends_with(0).stdout;
    for words in ["image/png", "is not a media type", "file:///etc/passwd"] {
        assert!(said.contains(words), "{words}: {said:?}");
    }
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{ad}']), "{said:?}");
    // Their encoded bytes are not passed on, but count as they arrive.
    let large = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[' "$id"; yes '{"type":"resource_link","name":"n","uri":"x://y"},' | head -n 2000 | tr -d '\n'; echo '{"type":"text","text":"z"}]}}'"#;
    let said = scripted(&server(TOOL, large)).type_in(&["call", "other__t", "--json"]).json();
    assert_eq!(said["error"]["code"], "too_large", "{said}");
}
