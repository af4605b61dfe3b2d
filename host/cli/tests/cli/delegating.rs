//! Tests of agents that call agents, as they are configured and run: the example tool `research`,
//! with recorded models.

use crate::cancelling::interrupt;
use crate::place::Place;
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tollgate_artifacts::{hostile, rust_guest_bytes};

const CONFIG: &str = "\
[agents.default]
tools = [\"research\"]
model = { provider = \"recorded\", file = \"front.toml\" }

[agents.researcher]
instructions = \"Find out what you are asked. The brief is {research.brief}.\"
tools = [\"record_finding\", \"request_approval\"]
model = { provider = \"recorded\", file = \"researcher.toml\" }

[grants.research]
actions = [\"add-context\"]
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

/// Starts this command without waiting for it.
fn begin(place: &Place, arguments: &[&str]) -> Child {
    let mut begun = place.program(arguments);
    begun.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the condition holds.
fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has_a_child(place: &Place) -> bool {
    runs(place).iter().any(|run| run["kind"] == "child")
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
fn d3_an_agent_that_the_manifest_does_not_ask_for_is_not_run_though_it_is_granted() {
    let place = place(RECORD);
    place.write("tools/research.toml", "[asks]\nactions = [\"add-context\"]\n");
    let said = place.type_in(&["call", "research", r#"{"question": "?"}"#, "--json"]).ends_with(1);
    assert_eq!(said.json()["error"]["code"], "tool_denied");
    assert!(runs(&place).iter().all(|run| run["kind"] == "call"));
    place.write("tools/research.toml", "[asks]\ndelegates = [\"researcher\"]\n");
    let said = place.type_in(&["run", "--thread", "t", "Find out."]).ends_with(0);
    assert_eq!(said.stdout, "Gates judge. (1)\n");
}

/// Starts this command, interrupts it once the child's record contains `once`, and checks that
/// nothing is left running or waiting.
fn interrupted(researcher: &str, front: &str, typed: &[&str], once: &str) {
    let place = place(researcher).with_tools(&[hostile::SLEEP_FOR_EVER]);
    let config = CONFIG.replace("tools = [", "tools = [\"sleep-for-ever\", ");
    place.write("tollgate.toml", format!("{config}\n[limits]\ntimeout_ms = 240_000\n"));
    place.write("front.toml", front);
    let mut begun = begin(&place, typed);
    until(once, || {
        runs(&place).iter().filter(|run| run["kind"] == "child").any(|child| {
            let child = child["run_id"].as_str().unwrap();
            place.type_in(&["show", child, "--json"]).ends_with(0).stdout.contains(once)
        })
    });
    assert!(begun.try_wait().unwrap().is_none(), "it is still at work");
    interrupt(begun.id());
    assert_eq!(begun.wait().unwrap().code(), Some(1), "{typed:?}");
    let left = runs(&place);
    assert_eq!(left.len(), 2, "{left:?}");
    for run in left {
        assert_eq!((run["status"].as_str(), &run["at_work"]), (Some("cancelled"), &json!(false)), "{run}");
    }
    place.write("front.toml", "[[turn]]\ntext = \"Yes?\"\n");
    assert_eq!(place.type_in(&["run", "--thread", "t", "Hello?"]).ends_with(0).stdout, "Yes?\n");
}

#[test]
fn z8_a_run_whose_child_finds_no_room_says_how_to_make_some() {
    let finds = |claim| {
        format!(
            "[[turn]]\ncalls = [{{ name = \"record_finding\", \
             arguments = {{ claim = \"{claim}\", source = \"a.md:1\" }} }}]\n"
        )
    };
    let calls: String = ["Gates judge.", "Hosts act.", "Stores keep."].into_iter().map(finds).collect();
    let place = place(&format!("{calls}[[turn]]\ntext = \"There is no room.\"\n"));
    // Enough for the first call of each component, not for the third.
    place.write("tollgate.toml", format!("{CONFIG}\n[store]\ncomponent_record_bytes = 1500\n"));
    let said = place.type_in(&["run", "Find out."]).ends_with(0);
    said.says("record_finding overloaded").says("tollgate prune --older-than 30d");
}

#[test]
fn d6_x1_an_interrupt_cancels_the_child_that_is_at_work() {
    let run = ["run", "--thread", "t", "Find out."];
    let sleeps = "[[turn]]\ncalls = [{ name = \"sleep-for-ever\", arguments = {} }]\n";
    interrupted(sleeps, FRONT, &run, "\"call_started\"");
    let call = ["call", "research", r#"{"question": "?"}"#, "--thread", "t"];
    interrupted(sleeps, FRONT, &call, "\"call_started\"");
    // Its model is in the middle of its first words.
    let speaks =
        format!("pace_ms = 30_000\n\n{RECORD}").replacen("calls =", "text = \"Let me look.\"\ncalls =", 1);
    interrupted(&speaks, FRONT, &run, "\"run_seeded\"");
}

#[test]
fn d6_x1_an_interrupt_cancels_the_child_that_waits_for_a_person() {
    // The run does not wait with its child, because it has another call to make.
    let both = FRONT.replacen("calls = [", "calls = [{ name = \"sleep-for-ever\", arguments = {} }, ", 1);
    interrupted(ASK, &both, &["run", "--thread", "t", "Find out."], "\"call_suspended\"");
}

#[test]
fn d8_a_question_of_the_child_is_answered_at_the_parent_in_another_process() {
    let place = place(ASK);
    let said = place.type_in(&["run", "--thread", "t", "Find out."]).ends_with(3);
    let asks = "The tool `request_approval` of the agent `researcher`, below `research`, asks";
    drop(said.says(asks).says("read the archive?"));
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
    // It is killed while the researcher's first words are being streamed.
    let slow = RECORD.replacen("calls =", "text = \"Let me look for it.\"\ncalls =", 1);
    let place = place(&format!("pace_ms = 2000\n\n{slow}"));
    let mut killed = begin(&place, &["run", "--thread", "t", "Find out."]);
    until("a child is started", || has_a_child(&place));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let child = run_of(&place, "child");

    // The interrupted run is finished before the next one of its thread.
    place.write("researcher.toml", RECORD);
    let rest = FRONT.split_once("\n\n").unwrap().1;
    place.write("front.toml", format!("{rest}\n[[turn]]\ntext = \"Yes.\"\n"));
    let said = place.type_in(&["run", "--thread", "t", "Well?"]).ends_with(0);
    assert_eq!(said.stdout, "Yes.\n");
    assert_eq!(run_of(&place, "child"), child, "no child ran twice");
    let state = place.type_in(&["state", "export", "t"]).ends_with(0).stdout;
    assert_eq!(state.matches("Gates judge.").count(), 1, "{state}");
}

#[test]
fn d8_a_direct_call_that_was_killed_ends_with_its_child_at_the_next_start() {
    // It is killed while the researcher's first words are being streamed.
    let slow = RECORD.replacen("calls =", "text = \"Let me look for it.\"\ncalls =", 1);
    let place = place(&format!("pace_ms = 2000\n\n{}", slow.replace("expect = \"Who decides?\"\n", "")));
    let mut killed = begin(&place, &["call", "research", r#"{"question": "?"}"#]);
    until("a child is started", || has_a_child(&place));
    killed.kill().unwrap();
    killed.wait().unwrap();
    place.type_in(&["call", "nothing"]).ends_with(1);
    let left: Vec<Value> = runs(&place).into_iter().filter(|run| run["title"] != "nothing").collect();
    let statuses: Vec<&str> = left.iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["cancelled", "failed"], "the child, and the call: {left:?}");
}

#[test]
fn d7_a_call_that_waits_for_its_child_lends_it_its_place() {
    let place = place(RECORD);
    // The child's call would wait for the only slot until the time limit.
    place.write("tollgate.toml", format!("{CONFIG}\n[limits]\nconcurrent_calls = 1\nwall_ms = 120_000\n"));
    let said = place.type_in(&["run", "--thread", "t", "Find out."]).ends_with(0);
    assert_eq!(said.stdout, "Gates judge. (1)\n");
}

#[test]
fn t2_the_wait_for_a_child_does_not_count_against_the_calls_time() {
    // The researcher takes at least five seconds for its first words.
    let slow = RECORD.replacen("calls =", "text = \"Let me look for it.\"\ncalls =", 1);
    let place = place(&format!("pace_ms = 1000\n\n{slow}"));
    place.write("tollgate.toml", format!("{CONFIG}\n[tools.research.limits]\ntimeout_ms = 3_000\n"));
    let began = Instant::now();
    let said = place.type_in(&["run", "--thread", "t", "Find out."]).ends_with(0);
    assert_eq!(said.stdout, "Gates judge. (1)\n");
    assert!(began.elapsed() > Duration::from_secs(3), "the child took no time: {:?}", began.elapsed());
    let record = place.type_in(&["show", &run_of(&place, "prompt"), "--json"]).ends_with(0).stdout;
    assert!(!record.contains("\"call_retried\""), "its time was up: {record}");
}

#[test]
fn an_agent_made_of_others_runs_them_with_their_own_models() {
    let place = Place::new().with_config(
        "[agents.one]\nmodel = { provider = \"recorded\", file = \"one.toml\" }\n\
         [agents.all]\nkind = \"sequential\"\nagents = [\"one\"]\n",
    );
    place.write("one.toml", "[[turn]]\ntext = \"One did it.\"\n");
    let said = place.type_in(&["run", "--agent", "all", "Go."]).ends_with(0).stdout;
    assert!(said.contains("One did it."), "{said}");
    std::fs::remove_file(place.path().join("one.toml")).unwrap();
    let said = place.type_in(&["run", "--agent", "all", "Go."]).ends_with(2);
    said.says("the agent one, a part of all, cannot run: ").says("one.toml");
}
