//! Tests of `tollgate audit` and `tollgate enable`, and of tools that trap too often.

use crate::place::Place;
use tollgate_artifacts::{good, hostile};

fn call(place: &Place, tool: &str) -> serde_json::Value {
    place.type_in(&["call", tool, "{}", "--json"]).json()["error"]["code"].clone()
}

#[test]
fn five_traps_in_a_row_disable_a_tool_until_a_person_enables_it() {
    let place = Place::new().with_tools(&[hostile::UNREACHABLE, good::ECHO]);
    for _ in 0..4 {
        assert_eq!(call(&place, "unreachable"), "trapped");
    }
    assert!(place.type_in(&["tools", "--json"]).json()["tools"][1]["disabled"].is_null());
    assert_eq!(call(&place, "unreachable"), "trapped");
    assert_eq!(call(&place, "unreachable"), "disabled");
    assert!(call(&place, "echo").is_null(), "its neighbour is not its fault");

    let tools = place.type_in(&["tools", "--json"]).json();
    assert_eq!(tools["tools"][1]["disabled"], "it trapped 5 times in a row");
    place
        .type_in(&["tools"])
        .answers("disabled unreachable: it trapped 5 times")
        .answers("enable unreachable");
    place.type_in(&["enable", "nobody"]).ends_with(2).says("there is no tool");
    place.type_in(&["enable", "unreachable"]).ends_with(0);
    assert_eq!(call(&place, "unreachable"), "trapped");
}

#[test]
fn a_new_version_is_in_use_again() {
    let place = Place::new().with_tools(&[hostile::UNREACHABLE]);
    for _ in 0..5 {
        call(&place, "unreachable");
    }
    assert_eq!(call(&place, "unreachable"), "disabled");
    let source: &'static str =
        hostile::UNREACHABLE.source.replace("(unreachable)", "(nop) (unreachable)").leak();
    place.write(
        "tools/unreachable.wasm",
        tollgate_artifacts::Guest { source, ..hostile::UNREACHABLE }.bytes(),
    );
    assert_eq!(call(&place, "unreachable"), "trapped");
}

#[test]
fn loads_refusals_calls_and_denials_are_in_the_audit() {
    let config = "[agents.direct]\ntools = [\"echo\"]\n";
    let place = Place::new().with_config(config).with_tools(&[good::ECHO, good::FAILS, hostile::TRUNCATED]);
    assert!(call(&place, "echo").is_null());
    assert_eq!(call(&place, "fails"), "denied");
    let audit = |more: &[&str]| {
        let read = place.type_in(&[&["audit", "--json"], more].concat()).ends_with(0).json();
        read.as_array().unwrap().clone()
    };
    let loads = audit(&["--kind", "load"]);
    assert_eq!(loads.len(), 2, "what did not change since the first call is noted once: {loads:?}");
    let refused = audit(&["--kind", "refusal"]);
    assert_eq!(refused.len(), 1);
    assert!(refused[0]["file"].as_str().unwrap().ends_with("truncated.wasm"));
    assert!(refused[0]["detail"].as_str().unwrap().contains("damaged or cut off"));

    let calls = audit(&["--tool", "echo"]);
    assert_eq!(calls.len(), 1);
    let digest = loads.iter().find(|load| load["component_id"] == "echo").unwrap()["digest"].clone();
    assert_eq!(calls[0]["digest"], digest);
    assert_eq!((&calls[0]["who"], &calls[0]["decision"]), (&"agent direct".into(), &"success".into()));
    assert!(calls[0]["usage"]["fuel"].as_u64().unwrap() > 0);
    assert!(calls[0]["run_id"].is_string() && calls[0]["call_id"].is_string());
    let run_id = calls[0]["run_id"].as_str().unwrap();
    assert_eq!(audit(&["--run", run_id]).len(), 1);
    let denials = audit(&["--decision", "denied"]);
    assert_eq!(
        (denials.len(), &denials[0]["kind"], &denials[0]["tool_name"]),
        (1, &"denial".into(), &"fails".into())
    );
    assert!(denials[0]["detail"].as_str().unwrap().starts_with("gate "), "{denials:?}");
    assert_eq!(audit(&["--since", "1h"]).len(), audit(&[]).len());
    assert_eq!(audit(&["--limit", "1"]).len(), 1);

    place.type_in(&["audit"]).ends_with(0).answers("agent direct").answers("echo");
    place.type_in(&["audit", "--since", "soon"]).ends_with(2);
    place.type_in(&["audit", "--kind", "nonsense"]).ends_with(2);
}

#[test]
fn the_audit_names_the_model_that_asked_for_a_call() {
    let config = "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n";
    let place = Place::new().with_config(config).with_tools(&[good::ECHO]);
    let turns = "name = \"tour-1\"\n\
        [[turn]]\ntext = \"I ask.\"\ncalls = [{ name = \"echo\", arguments = {} }]\n\
        [[turn]]\ntext = \"Done.\"\n";
    place.write("turns.toml", turns);
    place.type_in(&["run", "Go!"]).ends_with(0);
    assert!(call(&place, "echo").is_null());
    let calls = place.type_in(&["audit", "--kind", "call", "--json"]).ends_with(0).json();
    let models: Vec<_> = calls.as_array().unwrap().iter().map(|record| record["model"].as_str()).collect();
    assert_eq!(models, [None, Some("tour-1")], "newest first; a direct call has none: {calls}");
    place.type_in(&["audit"]).ends_with(0).answers("MODEL").answers("tour-1");
}

#[test]
fn each_power_that_is_granted_and_revoked_is_in_the_audit_with_the_version_that_was_there() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.write("tools/echo.toml", "[asks]\nhttp = [\"https://a.test/\"]\nenvironment = [\"LANG\"]\n");
    let digest = place.type_in(&["tools", "--json"]).json()["tools"][0]["digest"].clone();
    let audit = |kind: &str, more: &[&str]| {
        let typed = [&["audit", "--json", "--kind", kind], more].concat();
        let records = place.type_in(&typed).ends_with(0).json().as_array().unwrap().clone();
        assert!(records.iter().all(|record| record["digest"] == digest && record["who"] == "person"));
        records
    };
    place.type_in(&["grant", "echo", "--asked", "--setting", "units=metric"]).ends_with(0);
    let http = audit("grant", &["--power", "http"]);
    assert_eq!(
        (http.len(), &http[0]["detail"]),
        (1, &"http https://a.test/ (reading requests to a.test)".into()),
        "{http:?}"
    );
    assert_eq!(audit("grant", &["--power", "environment"]).len(), 1);
    assert_eq!(audit("grant", &["--power", "settings"])[0]["detail"], "units = metric");
    assert!(audit("grant", &["--power", "files"]).is_empty());
    let approved = audit("grant", &["--decision", "approved"]);
    let words = approved[0]["detail"].as_str().unwrap();
    assert!(approved.len() == 1 && words.contains("send HTTP requests: https://a.test/"), "{words}");

    place.type_in(&["revoke", "echo", "--http", "https://a.test/"]).ends_with(0);
    assert_eq!(
        audit("revocation", &["--power", "http"])[0]["detail"],
        "http https://a.test/ (reading requests to a.test)"
    );
    place.type_in(&["revoke", "echo", "--all"]).ends_with(0);
    assert_eq!(audit("revocation", &[]).len(), 3);
}

#[test]
fn what_cannot_be_noted_is_not_granted() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.write("data", "no directory");
    place.type_in(&["grant", "echo", "--env", "LANG"]).ends_with(1);
    assert!(!place.path().join("tollgate.toml").exists());
}

#[test]
fn a_warm_start_compiles_nothing() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let entries = || std::fs::read_dir(place.path().join("cache")).unwrap().count();
    place.type_in(&["call", "echo", "{\"n\": 1}"]).ends_with(0);
    assert_eq!(entries(), 2, "the key and one entry");
    let written = || {
        let files = std::fs::read_dir(place.path().join("cache")).unwrap().map(|entry| entry.unwrap());
        files.map(|file| (file.file_name(), file.metadata().unwrap().modified().unwrap())).collect::<Vec<_>>()
    };
    let before = written();
    place.type_in(&["call", "echo", "{\"n\": 2}"]).ends_with(0).answers("2");
    assert_eq!(written(), before);
}

#[test]
fn a_cache_that_cannot_be_used_is_told_and_done_without() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.write("cache", "no directory");
    place.type_in(&["call", "echo", "{}"]).ends_with(0).says("compiled code is not kept");
}

#[test]
fn where_address_space_is_short_tools_run_without_a_pool() {
    let place = Place::new().with_tools(&[good::ECHO, hostile::EAT_MEMORY]);
    let type_in = |line: &str| {
        let program = env!("CARGO_BIN_EXE_tollgate");
        let shell = format!("ulimit -v 6000000; exec '{program}' {line}");
        let mut command = assert_cmd::Command::new("/bin/sh");
        command.args(["-c", &shell]).current_dir(place.path());
        command
            .env("TOLLGATE_DATA", place.path().join("data"))
            .env("TOLLGATE_CACHE", place.path().join("cache"));
        crate::place::Said::of(&command.assert())
    };
    type_in("call echo '{\"n\": 7}'").ends_with(0).answers("7").says("the pool cannot be created");
    assert_eq!(type_in("call eat-memory '{}' --json").json()["error"]["code"], "out_of_memory");
}
