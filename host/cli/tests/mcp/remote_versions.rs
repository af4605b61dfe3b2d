//! Tests of servers that provide tools, in each version of the protocol.

use crate::place::Place;
use crate::raw::Raw;
use crate::remote::{TOOL, answers, decide, scripted, server, server_of};
use serde_json::{Value, json};

const META: &str = "io.modelcontextprotocol/protocolVersion";
const DONE: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;

/// Returns the script of a server of a version without a handshake. It announces a changed list
/// once the file `changed` exists, and only to subscribers.
fn server_without_handshake(tool: &str, on_call: &str) -> String {
    format!(
        r#"while read -r line; do
printf '%s\n' "$line" >> heard
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*'"server/discover"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{"listChanged":true}}}},"ttlMs":0,"cacheScope":"private"}}}}' ;;
*'"subscriptions/listen"'*) listens=$id
echo '{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{{"io.modelcontextprotocol/subscriptionId":'$id'}}}}}}' ;;
*'"tools/list"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":[{tool}]}}}}' ;;
*'"tools/call"'*) {on_call} ;;
*) echo '{{"jsonrpc":"2.0","id":'$id',"error":{{"code":-32601,"message":"no"}}}}' ;;
esac
done
"#
    )
}

/// Returns the messages that the server received with this method.
fn heard(place: &Place, method: &str) -> Vec<Value> {
    let heard = std::fs::read_to_string(place.path().join("heard")).unwrap();
    let messages = heard.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.filter(|message| message["method"] == method).collect()
}

#[track_caller]
fn calls(place: &Place) {
    let answer = place.type_in(&["call", "other__t", "--json"]).ends_with(0).json();
    assert_eq!(answer["data"], "done", "{answer}");
}

#[test]
fn a_server_of_a_version_with_a_handshake_is_spoken_to_with_it() {
    for version in ["2025-06-18", "2025-11-25"] {
        let place = scripted(&server_of(version, TOOL, &answers(DONE)));
        calls(&place);
        assert_eq!(
            heard(&place, "initialize")[0]["params"]["protocolVersion"],
            "2025-11-25",
            "the newest that has one"
        );
        assert_eq!(heard(&place, "notifications/initialized").len(), 1);
        assert_eq!(heard(&place, "tools/call")[0]["params"]["_meta"].get(META), None);
    }
}

#[test]
fn a_server_of_a_version_without_a_handshake_is_told_with_each_request_what_it_needs_to_know() {
    let place = scripted(&server_without_handshake(TOOL, &answers(DONE)));
    calls(&place);
    assert!(heard(&place, "initialize").is_empty());
    for method in ["tools/list", "tools/call", "subscriptions/listen"] {
        let meta = heard(&place, method)[0]["params"]["_meta"].clone();
        assert_eq!(meta[META], "2026-07-28", "{method}: {meta}");
        assert!(meta["io.modelcontextprotocol/clientCapabilities"]["elicitation"].is_object(), "{meta}");
    }
}

/// Servers of earlier versions may not know how to handle a message before the handshake.
#[test]
fn a_server_that_ends_or_is_silent_before_the_handshake_is_spoken_to_with_it() {
    for does in ["exit 1", ":"] {
        let script = server(TOOL, &answers(DONE));
        let at = script.find("*'\"server/discover\"'*)").unwrap();
        let end = at + script[at..].find(";;").unwrap();
        let place = scripted(&format!("{}*'\"server/discover\"'*) {does} {}", &script[..at], &script[end..]));
        let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
        calls(&place.with_config(&config.replace("start_timeout_ms = 20_000", "start_timeout_ms = 8_000")));
    }
}

/// Creates a place whose server sleeps this long before it reads anything, with this start timeout.
fn slow_to_begin(seconds: f64, limit_ms: u64) -> Place {
    let place = scripted(&format!("sleep {seconds}\n{}", server(TOOL, &answers(DONE))));
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    let limit = format!("start_timeout_ms = {limit_ms}");
    place.with_config(&config.replace("start_timeout_ms = 20_000", &limit))
}

#[test]
fn a_server_that_takes_most_of_its_time_to_begin_comes_up() {
    for (seconds, limit_ms) in [(7.0, 10_000), (10.5, 15_000)] {
        let place = slow_to_begin(seconds, limit_ms);
        calls(&place);
        assert_eq!(heard(&place, "tools/call").len(), 1);
    }
    let never = slow_to_begin(600.0, 1_500).type_in(&["tools"]);
    never.ends_with(0).says("the server other failed to start: it did not start within 1500 ms");
}

#[test]
fn what_a_server_without_a_handshake_tells_its_subscriber_is_heard() {
    let tool = r#"'"$(cat tool)"'"#;
    let tells = r#"echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":'$listens'}}}'"#;
    let place = scripted(&server_without_handshake(tool, &format!("{tells}; {}", answers(DONE))));
    place.write("tool", TOOL);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    place.write("tool", TOOL.replace("\"t\"", "\"u\""));
    raw.call("other__t", json!({}));
    raw.told("notifications/tools/list_changed");
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(listed[0]["name"], "other__u", "{listed}");
}

#[test]
fn l5_a_server_that_takes_no_subscription_or_ends_it_stays_connected() {
    let script = server_without_handshake(TOOL, &answers(DONE));
    let at = script.find("*'\"subscriptions/listen\"'*)").unwrap();
    let end = at + script[at..].find(";;").unwrap();
    let silent = format!("{}*'\"subscriptions/listen\"'*) : {}", &script[..at], &script[end..]);
    calls(&scripted(&silent));
    // It accepts one subscription, ends it immediately, and refuses later ones.
    let closed = r#"echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32603,"message":"closed"}}'"#;
    let subscribes = &script[at..end];
    let (pattern, takes) = subscribes.split_once(')').unwrap();
    let once = format!("{pattern}) [ -e taken ] || {{ {takes}\ntouch taken; }}; {closed} ");
    let place = scripted(&format!("{}{once}{}", &script[..at], &script[end..]));
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let began = std::time::Instant::now();
    while heard(&place, "subscriptions/listen").len() < 3 {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "it is not asked again");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(raw.call("other__t", json!({}))["isError"], false);
    assert_eq!(heard(&place, "server/discover").len(), 1, "it is started once");
}

/// Creates a place with a server that asks this question in its answer until it is answered.
fn asking(question: &str) -> Place {
    asking_until(question, &answers(DONE))
}

/// Creates a place with a server that asks in its answer, and runs `on_answer` once it is answered;
/// `$required` is the question again.
fn asking_until(question: &str, on_answer: &str) -> Place {
    let form = r#"{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}"#;
    let params = format!(r#"{{"mode":"form","message":"{question}","requestedSchema":{form}}}"#);
    let required = format!(
        r#"{{"resultType":"input_required","requestState":"kept","inputRequests":{{"q":{{"method":"elicitation/create","params":{params}}}}}}}"#
    );
    let on_call = format!(
        "case \"$line\" in *'\"inputResponses\"'*) {} ;; *) {} ;; esac",
        on_answer.replace("$required", &answers(&required)),
        answers(&required)
    );
    scripted(&server_without_handshake(TOOL, &on_call))
}

#[test]
fn w1_what_a_server_asks_with_its_answer_suspends_the_call_and_is_answered_when_it_is_made_again() {
    let place = asking("Shall I?");
    let waits = place.type_in(&["call", "other__t", "--json"]).ends_with(3).json();
    assert_eq!(waits["message"], "The server 'other' asks: Shall I?", "{waits}");
    let decided = decide(&place, &waits, r#"{"ok": true}"#).ends_with(0).json();
    assert_eq!(decided["data"], "done", "{decided}");
    let sent = heard(&place, "tools/call").last().unwrap()["params"].clone();
    assert_eq!(sent["requestState"], "kept");
    assert_eq!(sent["inputResponses"]["q"], json!({"action": "accept", "content": {"ok": true}}), "{sent}");
}

#[test]
fn w3_an_answer_goes_to_the_question_that_it_was_given_to() {
    let place = asking(r#"Shall I, at '"$(date +%N)"'?"#);
    let waits = place.type_in(&["call", "other__t", "--json"]).ends_with(3).json();
    let failed = decide(&place, &waits, r#"{"ok": true}"#).ends_with(1).json();
    assert_eq!(failed["error"]["code"], "tool_failed", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("it asked something else"), "{failed}");
}

#[test]
fn w3_a_server_that_asks_once_more_after_its_answer_fails_the_call_and_asks_nobody_in_vain() {
    let place = asking_until("Shall I?", "$required");
    let waits = place.type_in(&["call", "other__t", "--json"]).ends_with(3).json();
    let failed = decide(&place, &waits, r#"{"ok": true}"#).ends_with(1).json();
    assert_eq!(failed["error"]["code"], "tool_failed", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("or once more"), "{failed}");
}
