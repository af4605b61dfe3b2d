//! Tests of the versions of the protocol, each with a client that uses it.

use crate::place::Place;
use crate::raw::Raw;
use serde_json::json;
use tollgate_artifacts::{good, rust_guest_bytes};

const VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

#[test]
fn every_version_lists_and_calls_tools() {
    let place = Place::new().with_tools(&[good::ECHO, good::FAILS]);
    for version in VERSIONS {
        let mut raw = Raw::begin(&place, version, json!({}));
        let listed = raw.ask("tools/list", json!({}))["result"].clone();
        let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["echo", "fails"], "{version}");
        assert_eq!(listed["tools"][0]["inputSchema"]["type"], "object");
        let result = raw.call("echo", json!({"text": "hello"}));
        assert_eq!(result["structuredContent"], json!({"text": "hello"}), "{version}");
        assert_eq!(result["content"][0]["text"], r#"{"text":"hello"}"#);
        assert_eq!(result["isError"], false);
        let result = raw.call("fails", json!({}));
        assert_eq!(
            (&result["isError"], &result["structuredContent"]["error"]["code"]),
            (&json!(true), &json!("tool_failed"))
        );
    }
}

#[test]
fn a_version_that_nobody_knows_is_answered_with_one_that_is_spoken() {
    let place = Place::new();
    let mut raw = Raw::start(&place, &[]);
    let params = json!({
        "protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
    });
    let answer = raw.ask("initialize", params);
    assert!(VERSIONS.contains(&answer["result"]["protocolVersion"].as_str().unwrap()), "{answer}");
    assert_eq!(answer["result"]["serverInfo"]["name"], "tollgate");
}

#[test]
fn without_a_handshake_every_request_says_its_version() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let mut raw = Raw::start(&place, &[]);
    let answer = raw.ask("tools/list", json!({}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("send `initialize` first"), "{answer}");
    // A client can start a session whatever it sent before.
    raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    raw.send(&json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
    let unfit = raw.ask("initialize", json!({"protocolVersion": 7}));
    assert!(
        unfit["error"]["message"].as_str().unwrap().contains("invalid parameters for initialize"),
        "{unfit}"
    );
    let unknown = raw.ask("tools/list", json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "1999-01-01", "io.modelcontextprotocol/clientCapabilities": {},
    }}));
    assert!(unknown["error"]["data"]["supported"].is_array(), "{unknown}");
    raw.ask("ping", json!({}));
    raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
    });
    assert_eq!(raw.ask("initialize", params)["result"]["protocolVersion"], "2025-11-25");
    raw.call("echo", json!({}));
    drop(raw);
    let mut raw = Raw::begin(&place, "2026-07-28", json!({}));
    let answer = raw.ask("server/discover", json!({}));
    let versions = answer["result"]["supportedVersions"].as_array().unwrap();
    assert!(VERSIONS.iter().all(|version| versions.contains(&json!(version))), "{answer}");
}

#[test]
fn r4_a_tool_is_listed_with_its_schema_and_what_it_can_do() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let tool = raw.ask("tools/list", json!({}))["result"]["tools"][0].clone();
    let hints = &tool["annotations"];
    assert_eq!((&hints["readOnlyHint"], &hints["destructiveHint"]), (&json!(true), &json!(false)), "{tool}");
    assert_eq!(hints["openWorldHint"], false);
    assert!(!tool["description"].as_str().unwrap().is_empty());
}

#[test]
fn r4_a_tool_says_whether_it_may_run_again_as_its_descriptor_does() {
    let place = Place::new();
    for name in ["echo", "counter"] {
        place.write(&format!("tools/{name}.wasm"), rust_guest_bytes(name));
    }
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"].clone();
    let hints = |name: &str| {
        let tool = listed.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        tool["annotations"]["idempotentHint"].clone()
    };
    assert_eq!((hints("echo"), hints("counter")), (json!(true), json!(false)), "{listed}");
}

#[test]
fn a_tool_that_may_change_files_says_so() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config(
        "[grants.echo]\nfiles = [{ host = \"open\", guest = \"/open\", access = \"read-write\" }]\n",
    );
    place.write("open/file", "");
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let hints = raw.ask("tools/list", json!({}))["result"]["tools"][0]["annotations"].clone();
    assert_eq!((&hints["readOnlyHint"], &hints["destructiveHint"]), (&json!(false), &json!(true)));
}
