//! Agents that call agents, as they are configured and typed: the example tool
//! `research`, with recorded models.

use crate::place::Place;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tollgate_artifacts::rust_guest_bytes;

const CONFIG: &str = "\
[agents.default]
tools = [\"research\"]
model = { provider = \"recorded\", file = \"front.toml\" }

[agents.researcher]
instructions = \"Find out what you are asked. The brief is {brief}.\"
tools = [\"record_finding\", \"request_approval\"]
model = { provider = \"recorded\", file = \"researcher.toml\" }

[grants.research]
delegates = [{ agent = \"researcher\", seed = [\"research.brief\"], export = [\"research.findings\"] }]
";

const FRONT: &str = "\
[[turn]]
calls = [{ name = \"research\", arguments = { question = \"Who decides?\", places = [\"docs\"] } }]

[[turn]]
text = \"{{research/findings/0/claim}} ({{research/new}})\"
";

const RECORD: &str = "\
[[turn]]
expect = \"Who decides?\"
calls = [{ name = \"record_finding\", arguments = { claim = \"Gates judge.\", source = \"a.md:1\" } }]

[[turn]]
text = \"Gates do.\"
";

const ASK: &str = "\
[[turn]]
calls = [{ name = \"request_approval\", arguments = { question = \"May I read the archive?\" } }]
";

fn place(researcher: &str) -> Place {
    let place = Place::new().with_config(CONFIG);
    for tool in ["research", "approve"] {
        place.write(&format!("tools/{tool}.wasm"), rust_guest_bytes(tool));
    }
    place.write("front.toml", FRONT);
    place.write("researcher.toml", researcher);
    place
}

fn runs(place: &Place) -> Vec<Value> {
    place.type_in(&["runs", "--json"]).ends_with(0).json().as_array().unwrap().clone()
}

fn run_of(place: &Place, kind: &str) -> String {
    let all = runs(place);
    let found: Vec<&Value> = all.iter().filter(|run| run["kind"] == kind).collect();
    let [one] = found.as_slice() else { panic!("one {kind}: {all:?}") };
    one["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn d3_research_seeds_a_child_and_brings_its_findings_back() {
    let place = place(RECORD);
    let said = place.type_in(&["run", "--thread", "t", "Find out."]).ends_with(0);
    assert_eq!(said.stdout, "Gates judge. (1)\n");
    said.says("agent researcher").says("record_finding").says("the agent answered");
    let state = place.type_in(&["state", "export", "t"]).ends_with(0).stdout;
    assert!(state.contains("Gates judge."), "the findings are the thread's: {state}");

    let child = run_of(&place, "child");
    let parent = run_of(&place, "prompt");
    place.type_in(&["show", &parent]).ends_with(0).answers("agent researcher").answers(&child);
    place.type_in(&["show", &child]).ends_with(0).answers("record_finding");
    let record = place.type_in(&["show", &child, "--json"]).ends_with(0).stdout;
    let seeded = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let seeded = seeded.into_iter().find(|event| event["type"] == "run_seeded").unwrap();
    assert_eq!(seeded["change"]["updates"][0]["value"]["places"], json!(["docs"]));
}

#[test]
fn d3_without_the_grant_nothing_is_started() {
    let place = place(RECORD);
    place.write("tollgate.toml", CONFIG.split("[grants").next().unwrap());
    let said = place.type_in(&["call", "research", r#"{"question": "?"}"#, "--json"]).ends_with(1);
    assert_eq!(said.json()["error"]["code"], "tool_denied");
    assert!(runs(&place).iter().all(|run| run["kind"] == "call"));
}

#[test]
fn d8_a_question_of_the_child_is_answered_at_the_parent_in_another_process() {
    let place = place(ASK);
    let said = place.type_in(&["run", "--thread", "t", "Find out."]).ends_with(3);
    let said =
        said.says("request_approval of the agent researcher, below research").says("read the archive?");
    drop(said);
    let (parent, child) = (run_of(&place, "prompt"), run_of(&place, "child"));
    place.type_in(&["decide", &child, "call-1-1", "--resume", "{\"approved\": true}"]).ends_with(2);
    place.write("researcher.toml", RECORD.replace("expect = \"Who decides?\"\n", ""));
    place.write("front.toml", FRONT.split_once("\n\n").unwrap().1);
    let said =
        place.type_in(&["decide", &parent, "call-1-1", "--resume", "{\"approved\": true}"]).ends_with(0);
    assert_eq!(said.stdout, "Gates judge. (1)\n");
    assert_eq!(run_of(&place, "child"), child, "no child ran twice");
}

#[test]
fn d8_a_killed_process_leaves_a_child_that_the_next_one_takes_up() {
    // It is killed while the researcher's first words are on their way.
    let slow = RECORD.replacen("calls =", "text = \"Let me look for it.\"\ncalls =", 1);
    let place = place(&format!("pace_ms = 2000\n\n{slow}"));
    let mut killed = std::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let typed = place.tollgate(&["run", "--thread", "t", "Find out."]);
    killed.args(typed.get_args()).current_dir(place.path());
    for (name, value) in typed.get_envs() {
        if let Some(value) = value {
            killed.env(name, value);
        }
    }
    let mut killed =
        killed.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !runs(&place).iter().any(|run| run["kind"] == "child") {
        assert!(began.elapsed() < Duration::from_secs(60), "no child was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let child = run_of(&place, "child");

    // The interrupted run is carried to its end before the next one of its thread.
    place.write("researcher.toml", RECORD);
    let rest = FRONT.split_once("\n\n").unwrap().1;
    place.write("front.toml", format!("{rest}\n[[turn]]\ntext = \"Yes.\"\n"));
    let said = place.type_in(&["run", "--thread", "t", "Well?"]).ends_with(0);
    assert_eq!(said.stdout, "Yes.\n");
    assert_eq!(run_of(&place, "child"), child, "no child ran twice");
    let state = place.type_in(&["state", "export", "t"]).ends_with(0).stdout;
    assert_eq!(state.matches("Gates judge.").count(), 1, "{state}");
}
