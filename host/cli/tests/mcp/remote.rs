//! Tests of servers that provide tools, good and untrustworthy ones.

use crate::place::{Place, Said};
use crate::raw::Raw;
use serde_json::{Value, json};
use tollgate_artifacts::{good, hostile};

/// Creates a place whose server `other` is this program with these tools, and the place of that
/// server.
pub(crate) fn beside(tools: &[tollgate_artifacts::Guest]) -> (Place, Place) {
    let other = Place::new().with_tools(tools).with_config("");
    let place = Place::new().with_config(&format!(
        "[mcp.other]\ncommand = {:?}\nargs = [\"mcp\", \"--config\", {:?}, \"--data\", {:?}]\n",
        env!("CARGO_BIN_EXE_tollgate"),
        other.path().join("tollgate.toml"),
        other.path().join("data"),
    ));
    (place, other)
}

/// Like [`beside`], with a server that supports only versions that have a handshake.
pub(crate) fn beside_older(tools: &[tollgate_artifacts::Guest]) -> (Place, Place) {
    let (place, other) = beside(tools);
    place.write(
        "older.sh",
        r#"exec 3>&1
while read -r line; do
case "$line" in
*'"server/discover"'*) id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' >&3 ;;
*) printf '%s\n' "$line" ;;
esac
done | "$@"
"#,
    );
    let program = format!("command = {:?}\nargs = [", env!("CARGO_BIN_EXE_tollgate"));
    let through = format!("command = \"sh\"\nargs = [\"older.sh\", {:?}, ", env!("CARGO_BIN_EXE_tollgate"));
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    (place.with_config(&config.replace(&program, &through)), other)
}

/// Creates a place whose server `other` is a script that answers requests with `$id`.
pub(crate) fn scripted(script: &str) -> Place {
    let place = Place::new();
    place.write("server.sh", script);
    place.with_config(
        "[mcp.other]\ncommand = \"sh\"\nargs = [\"server.sh\"]\nstart_timeout_ms = 20_000\ntimeout_ms = 2_000\nanswer_bytes = 10_000\n",
    )
}

/// Returns a script that answers the handshake and the list like any server, and runs `on_call` for
/// each call.
pub(crate) fn server(tool: &str, on_call: &str) -> String {
    server_of("2025-06-18", tool, on_call)
}

/// Returns the script of a server of this version, which must have a handshake.
pub(crate) fn server_of(version: &str, tool: &str, on_call: &str) -> String {
    format!(
        r#"while read -r line; do
printf '%s\n' "$line" >> heard
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}' ;;
*'"server/discover"'*) echo '{{"jsonrpc":"2.0","id":'$id',"error":{{"code":-32601,"message":"no"}}}}' ;;
*'"tools/list"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"tools":[{tool}]}}}}' ;;
*'"tools/call"'*) {on_call} ;;
esac
done
"#
    )
}

pub(crate) const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object"}}"#;

pub(crate) fn answers(result: &str) -> String {
    format!(r#"echo '{{"jsonrpc":"2.0","id":'$id',"result":{result}}}'"#)
}

fn call(place: &Place, tool: &str) -> Value {
    place.type_in(&["call", tool, "--json"]).json()
}

#[test]
fn a_servers_tools_are_called_like_any_other() {
    let (place, _other) = beside(&[good::ECHO, good::FAILS]);
    let answer = place.type_in(&["call", "other__echo", r#"{"a": 1}"#, "--json"]).ends_with(0).json();
    assert_eq!(answer["data"], json!({"a": 1}), "{answer}");
    let answer = place.type_in(&["call", "other__fails", "--json"]).ends_with(1).json();
    assert_eq!(answer["error"]["code"], "tool_error", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("The printer is on fire"));
}

#[test]
fn g3_a_servers_tool_passes_the_gate_and_is_offered_to_clients_in_turn() {
    let (place, _other) = beside(&[good::ECHO]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"][0].clone();
    assert_eq!(listed["name"], "other__echo");
    assert_eq!(listed["annotations"]["readOnlyHint"], true, "its own claim is passed on");
    assert_eq!(raw.call("other__echo", json!({"b": 2}))["structuredContent"], json!({"b": 2}));
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    let place = place.with_config(&format!("{config}[agents.direct]\ntools = []\n"));
    assert_eq!(call(&place, "other__echo")["error"]["code"], "denied");
}

#[test]
fn w1_what_a_server_asks_of_a_person_suspends_the_call() {
    for (place, _other) in [beside(&[good::SUSPENDS]), beside_older(&[good::SUSPENDS])] {
        let waits = place.type_in(&["call", "other__suspends", "--json"]).ends_with(3).json();
        assert!(waits["message"].as_str().unwrap().contains("The server 'other' asks"), "{waits}");
        let decided = decide(&place, &waits, r#"{"approved": true}"#).ends_with(0).json();
        assert_eq!(decided["data"], json!({"approved": true}), "{decided}");
    }
}

/// Answers the question of a call.
pub(crate) fn decide(place: &Place, waits: &Value, answer: &str) -> Said {
    let (run, call) = (waits["run_id"].as_str().unwrap(), waits["call_id"].as_str().unwrap());
    place.type_in(&["decide", run, call, "--resume", answer, "--json"])
}

#[test]
fn w3_what_lets_a_call_begin_is_no_answer_to_what_its_server_asks() {
    for (place, _other) in [beside(&[good::SUSPENDS]), beside_older(&[good::SUSPENDS])] {
        let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
        let place = place.with_config(&format!("{config}[permissions]\nask = [\"*\"]\n"));
        let gate = place.type_in(&["call", "other__suspends", "--json"]).ends_with(3).json();
        assert!(!gate["message"].as_str().unwrap().contains("The server 'other' asks"), "{gate}");
        let waits = decide(&place, &gate, "true").ends_with(3).json();
        assert!(waits["message"].as_str().unwrap().contains("The server 'other' asks"), "{waits}");
        let decided = decide(&place, &waits, r#"{"approved": true}"#).ends_with(0).json();
        assert_eq!(decided["data"], json!({"approved": true}), "{decided}");
    }
}

#[test]
fn l5_a_server_that_dies_fails_its_own_calls_by_its_name() {
    let place = scripted(&server(TOOL, "exit 3")).with_tools(&[good::ECHO]);
    let answer = call(&place, "other__t");
    assert_eq!(answer["error"]["code"], "tool_failed", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("'other'"), "{answer}");
    place.type_in(&["call", "echo"]).ends_with(0);
}

#[test]
fn l5_a_server_that_never_begins_is_named_and_the_rest_works() {
    let place = scripted("exit 0\n").with_tools(&[good::ECHO]);
    place.type_in(&["tools"]).ends_with(0).says("the server other failed to start");
    place.type_in(&["call", "other__t"]).ends_with(1).says("the server other failed to start");
    place.type_in(&["call", "echo"]).ends_with(0);
}

/// A server that never begins would be waited for.
#[test]
fn l5_a_call_connects_only_the_servers_that_it_may_need() {
    let place = scripted("touch started; sleep 600\n").with_tools(&[good::ECHO]);
    place.write("honest.sh", server(TOOL, &answers(r#"{"content":[{"type":"text","text":"fine"}]}"#)));
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    let honest = "[mcp.honest]\ncommand = \"sh\"\nargs = [\"honest.sh\"]\n";
    let place = place.with_config(&format!("{config}{honest}"));
    place.type_in(&["call", "echo"]).ends_with(0);
    assert_eq!(place.type_in(&["call", "honest__t", "--json"]).ends_with(0).json()["data"], "fine");
    assert!(!place.path().join("started").exists(), "the other server was started");
}

#[test]
fn t1_a_server_that_does_not_answer_is_not_waited_for() {
    let place = scripted(&server(TOOL, ":"));
    assert_eq!(call(&place, "other__t")["error"]["code"], "timed_out");
}

#[test]
fn answers_that_are_too_large_or_not_what_was_said_are_refused() {
    let large = format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(20_000));
    let place = scripted(&server(TOOL, &answers(&large)));
    assert_eq!(call(&place, "other__t")["error"]["code"], "too_large");
    let says_number = r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}"#;
    let lies = answers(r#"{"content":[],"structuredContent":{"n":"seven"}}"#);
    let place = scripted(&server(says_number, &lies));
    let answer = call(&place, "other__t");
    assert_eq!(answer["error"]["code"], "malformed_output", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("'other'"), "{answer}");
    let place = scripted(&server(says_number, &answers(r#"{"content":[{"type":"text","text":"7"}]}"#)));
    assert_eq!(call(&place, "other__t")["error"]["code"], "malformed_output", "what it said is not there");
}

#[test]
fn an_answer_with_a_number_that_cannot_be_kept_is_malformed() {
    for number in ["1e400", "123456789012345678901234567890"] {
        let answer = answers(&format!(r#"{{"content":[],"structuredContent":{{"x":{number}}}}}"#));
        let said = call(&scripted(&server(TOOL, &answer)), "other__t");
        assert_eq!(said["error"]["code"], "malformed_output", "{said}");
        assert!(said["error"]["message"].as_str().unwrap().contains(&number[..5]), "{said}");
    }
}

#[test]
fn r2_a_tool_whose_name_does_not_fit_is_left_out_and_named() {
    let two = r#"{"name":"no good","inputSchema":{"type":"object"}},{"name":"t","description":"Hides \u202e text.","inputSchema":{"type":"object"}}"#;
    let place = scripted(&server(two, &answers(r#"{"content":[{"type":"text","text":"a\u001b[31mb"}]}"#)));
    place.type_in(&["tools"]).ends_with(0).says("no good");
    let said = place.type_in(&["call", "other__t", "--json"]).ends_with(0);
    assert!(!said.stderr.contains("no good"), "a call of another tool: {said:?}");
    assert_eq!(said.json()["data"], "a[31mb", "what it says is cleaned");
}

#[test]
fn r2_tools_whose_names_look_alike_are_left_out() {
    let tools = ["t", "T", "u"].map(|name| TOOL.replace("\"t\"", &format!("\"{name}\"")));
    let place = scripted(&server(&tools.join(","), &answers(r#"{"content":[]}"#)));
    let said = place.type_in(&["tools"]).ends_with(0);
    let said = said.says("the tool \"t\" of the server other is left out");
    let said = said.says("the tool \"T\" of the server other is left out");
    assert!(!said.stderr.contains("no tool is served"), "other__u is: {said:?}");
    let said = place.type_in(&["call", "other__u", "--json"]).ends_with(0);
    assert!(!said.stderr.contains("left out"), "{said:?}");
    place.type_in(&["call", "other__t"]).ends_with(1).says("the tool \"t\" of the server other is left out");
    assert_eq!(call(&place, "other__t")["error"]["code"], "not_found");
}

#[test]
fn z3_a_server_s_message_of_too_many_values_is_not_read() {
    let on_call = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"a":[' "$id"
yes '[],' | head -n 600000 | tr -d '\n'
echo '0]}}}'"#;
    let place = scripted(&server(TOOL, on_call));
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    let place = place.with_config(&config.replace("\ntimeout_ms = 2_000", "\ntimeout_ms = 60_000"));
    let answer = call(&place, "other__t");
    assert_eq!(answer["error"]["code"], "malformed_output", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("500000"), "{answer}");
}

#[test]
fn l5_a_server_that_floods_is_cut_off() {
    // The call may take far longer; the byte limit ends it.
    let flood = server(TOOL, "cat /dev/zero");
    let place = scripted(&flood);
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    let place = place.with_config(&config.replace("\ntimeout_ms = 2_000", "\ntimeout_ms = 60_000"));
    let answer = call(&place, "other__t");
    assert_eq!(answer["error"]["code"], "tool_failed", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("it flooded its connection"), "{answer}");
}

/// A server asks a question without naming its call: with several calls, it is unknown which one asks.
#[test]
fn w1_a_server_that_asks_while_it_has_several_calls_gets_them_one_at_a_time() {
    let (place, other) = beside_older(&[good::SUSPENDS, hostile::SPIN_FOR_EVER]);
    other.write("tollgate.toml", "[limits]\ntimeout_ms = 5_000\nfuel = 900_000_000_000\n");
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.begin_asking(1, "tools/call", json!({"name": "other__spin-for-ever", "arguments": {}}));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let unclear = raw.call("other__suspends", json!({}));
    assert_eq!(unclear["structuredContent"]["error"]["code"], "tool_failed", "{unclear}");
    assert!(unclear.to_string().contains("'other' asked a person while it had several calls"), "{unclear}");
    // The other call asks nothing by itself. Two calls that ask run one at a time.
    for id in [2, 3] {
        let params = json!({"name": "other__suspends", "arguments": {"id": id}});
        raw.begin_asking(id, "tools/call", params);
    }
    for id in [2, 3] {
        let asked = raw.answer(id)["result"]["structuredContent"].clone();
        assert_eq!(asked["status"], "approval_required", "{asked}");
    }
    // It failed as well, because it may be the one that asked.
    let spun = raw.answer(1)["result"]["structuredContent"].clone();
    assert_eq!(spun["error"]["code"], "tool_failed", "{spun}");
}

#[test]
fn w1_a_server_that_says_in_its_answer_what_it_asks_may_have_other_calls_meanwhile() {
    let (place, other) = beside(&[good::SUSPENDS, hostile::SPIN_FOR_EVER]);
    other.write("tollgate.toml", "[limits]\ntimeout_ms = 30_000\nfuel = 900_000_000_000\n");
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.begin_asking(1, "tools/call", json!({"name": "other__spin-for-ever", "arguments": {}}));
    let asked = raw.call("other__suspends", json!({}))["structuredContent"].clone();
    assert_eq!(asked["status"], "approval_required", "{asked}");
}

#[test]
fn what_a_server_refuses_is_told_in_its_words() {
    let on_call =
        r#"echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32602,"message":"the tool t was removed"}}'"#;
    let answer = call(&scripted(&server(TOOL, on_call)), "other__t");
    let words = "The server 'other' refused the call: the tool t was removed (error -32602)";
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["message"]),
        (&json!("tool_failed"), &json!(words))
    );
}
