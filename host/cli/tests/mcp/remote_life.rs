//! Tests of servers that provide tools, over time: servers over HTTP, servers that restart, servers
//! whose tools change, and clients that do not wait for the answer.

use crate::http::{Server, TOKEN};
use crate::place::Place;
use crate::raw::Raw;
use crate::remote::{TOOL, answers, beside, scripted, server};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tollgate_artifacts::{good, rust_guest_bytes};

/// Far longer than the pauses before a server is tried again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a place whose server `other` is at this address, with a token.
fn reaching(address: &str) -> Place {
    Place::new().with_config(&format!(
        "[mcp.other]\nurl = \"http://{address}/mcp\"\ntoken_env = \"T\"\nstart_timeout_ms = 20_000\n"
    ))
}

/// Repeats the call until it succeeds.
fn until_it_works(raw: &mut Raw, tool: &str) -> Value {
    let began = Instant::now();
    loop {
        let result = raw.call(tool, json!({}));
        if result["isError"] != true {
            return result;
        }
        assert!(began.elapsed() < PATIENCE, "{result}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn until_it_is_there(file: &Path) {
    let began = Instant::now();
    while !file.exists() {
        assert!(began.elapsed() < PATIENCE, "{} is never written", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_over_http_is_called_with_its_token() {
    let other = Place::new().with_tools(&[good::ECHO]).with_config("");
    let server = Server::start_at(&other, "127.0.0.1:0", &[]);
    let place = reaching(&server.address);
    let called = place.tollgate(&["call", "other__echo", r#"{"a": 1}"#, "--json"]).env("T", TOKEN).assert();
    let said = crate::place::Said::of(&called).ends_with(0).json();
    assert_eq!(said["data"], json!({"a": 1}));
    let listed = place.tollgate(&["tools", "--json"]).env("T", TOKEN).assert();
    let listed = crate::place::Said::of(&listed).ends_with(0).json();
    assert_eq!(listed["remote_tools"][0]["name"], "other__echo", "{listed}");
    assert_eq!(listed["remote_tools"][0]["server"], "other");
    let wrong = place.tollgate(&["tools"]).env("T", "another").assert();
    crate::place::Said::of(&wrong).ends_with(0).says("the server other failed to start");
    let unset = place.tollgate(&["tools"]).env_remove("T").assert();
    crate::place::Said::of(&unset)
        .ends_with(0)
        .says("the environment variable T is not set; set it to the token");
}

#[test]
fn a_server_over_http_that_comes_back_is_connected_again() {
    let other = Place::new().with_tools(&[good::ECHO]).with_config("");
    let first = Server::start_at(&other, "127.0.0.1:0", &[]);
    let address = first.address.clone();
    let place = reaching(&address);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    assert_eq!(raw.call("other__echo", json!({"a": 1}))["structuredContent"], json!({"a": 1}));
    drop(first);
    let failed = raw.call("other__echo", json!({}));
    assert_eq!(failed["isError"], true);
    assert!(failed.to_string().contains("'other'"), "{failed}");
    let _second = Server::start_at(&other, &address, &[]);
    until_it_works(&mut raw, "other__echo");
}

#[test]
fn a_server_whose_process_ended_is_started_again() {
    let place = scripted(&server(TOOL, &format!("{}; exit 3", answers(r#"{"content":[]}"#))));
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    for _ in 0..3 {
        until_it_works(&mut raw, "other__t");
    }
}

/// Returns the times at which the server was started, in seconds.
fn starts(place: &Place) -> Vec<f64> {
    let written = std::fs::read_to_string(place.path().join("starts")).unwrap_or_default();
    written.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn l5_a_server_is_started_again_after_pauses_that_grow_and_start_over_once_it_stayed() {
    let counts = "date +%s.%N >> starts\ncase $(wc -l < starts) in 1|2|3|4|5|7) exit 1 ;; esac\n";
    let works = server(
        TOOL,
        &format!("case $(wc -l < starts) in 6) exit 3 ;; *) {} ;; esac", answers(r#"{"content":[]}"#)),
    );
    let place = scripted(&format!("{counts}{works}"));
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let waits_for = |count: usize| {
        let began = Instant::now();
        while starts(&place).len() < count {
            assert!(began.elapsed() < PATIENCE, "{:?}", starts(&place));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // At first it is tried in two ways at once, then once after each pause.
    waits_for(6);
    let begun = starts(&place);
    let pauses: Vec<f64> = begun.windows(2).skip(1).map(|two| two[1] - two[0]).collect();
    for (pause, least) in pauses.iter().zip([0.5, 1.0, 2.0, 4.0]) {
        assert!(*pause >= least, "{pauses:?}");
    }
    // It stays connected longer than a server that always dies.
    std::thread::sleep(Duration::from_secs(12));
    raw.call("other__t", json!({}));
    let died = Instant::now();
    waits_for(8);
    // Half a second and one second. Pauses that kept growing would be eight and sixteen.
    assert!(died.elapsed() < Duration::from_secs(8), "{:?}", starts(&place));
    until_it_works(&mut raw, "other__t");
}

/// Creates a place with a server whose tools are listed in the file `listed`, and that announces a
/// change with each call.
fn changing(tools: &str) -> Place {
    let tells = r#"echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'"#;
    let place =
        scripted(&server(r#"'"$(cat listed)"'"#, &format!("{tells}; {}", answers(r#"{"content":[]}"#))));
    place.write("listed", tools);
    place
}

fn tools_of(raw: &mut Raw) -> Vec<(String, Value)> {
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"].clone();
    let tools = listed.as_array().unwrap().iter();
    tools.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["description"].clone())).collect()
}

#[test]
fn tools_that_a_server_replaces_removes_and_adds_are_so_for_the_hosts_clients() {
    let place = changing(
        r#"{"name":"gone","description":"Gone.","inputSchema":{"type":"object"}},{"name":"t","description":"One.","inputSchema":{"type":"object"}}"#,
    );
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let mut newest = Raw::begin(&place, "2026-07-28", json!({}));
    newest.begin_asking(
        "listens",
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    newest.told("notifications/subscriptions/acknowledged");
    let tool = |name: &str, text: &str| (format!("other__{name}"), json!(text));
    assert_eq!(tools_of(&mut raw), [tool("gone", "Gone."), tool("t", "One.")]);
    place.write(
        "listed",
        r#"{"name":"added","description":"Added.","inputSchema":{"type":"object"}},{"name":"t","description":"Two.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}"#,
    );
    // Each has its own server, which announces the change when it is called.
    for raw in [&mut raw, &mut newest] {
        assert_eq!(raw.call("other__gone", json!({}))["isError"], false);
        raw.told("notifications/tools/list_changed");
        assert_eq!(tools_of(raw), [tool("added", "Added."), tool("t", "Two.")]);
        let unfit = raw.call("other__t", json!({}));
        assert_eq!(unfit["structuredContent"]["error"]["code"], "invalid_arguments", "{unfit}");
        assert_eq!(raw.call("other__t", json!({"n": 1}))["isError"], false);
        assert_eq!(raw.call("other__added", json!({}))["isError"], false);
        let removed = raw.ask("tools/call", json!({"name": "other__gone", "arguments": {}}));
        assert_eq!(removed["error"]["code"], -32602, "{removed}");
        assert!(
            removed["error"]["message"].as_str().unwrap().starts_with("Unknown tool: other__gone"),
            "{removed}"
        );
    }
}

#[test]
fn a_servers_new_tools_are_offered_and_clients_are_told() {
    let (place, other) = beside(&[good::ECHO]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.call("other__echo", json!({}));
    other.write("tools/counter.wasm", rust_guest_bytes("counter"));
    raw.told("notifications/tools/list_changed");
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["other__counter", "other__echo"]);
    assert_eq!(raw.call("other__counter", json!({}))["structuredContent"]["total"], 1);
}

#[test]
fn e2_a_servers_progress_is_passed_on() {
    let (place, _other) = beside(&[good::REPORTS]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let params = json!({"name": "other__reports", "arguments": {}, "_meta": {"progressToken": "p"}});
    raw.begin_asking(1, "tools/call", params);
    let progress = raw.told("notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p", "{progress}");
    assert_ne!(raw.answer(1)["result"]["isError"], true);
}

#[test]
fn x1_a_server_is_told_that_nobody_waits_any_more() {
    let told = r#"*'"notifications/cancelled"'*) printf '%s\n' "$line" > told ;;"#;
    let script = server(TOOL, "touch called").replace("esac", &format!("{told}\nesac"));
    let place = scripted(&script);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.begin_asking(1, "tools/call", json!({"name": "other__t", "arguments": {}}));
    until_it_is_there(&place.path().join("called"));
    raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    until_it_is_there(&place.path().join("told"));
}
