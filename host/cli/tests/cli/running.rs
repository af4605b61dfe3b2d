//! Tests of `tollgate run` with a recorded model.

use crate::place::{Place, Said};
use serde_json::Value;
use tollgate_artifacts::{good, hostile};

const CONFIG: &str = "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n";
const TURNS: &str = "\
[[turn]]
text = \"I will ask the echo.\"
calls = [{ name = \"echo\", arguments = { word = \"mountain\" } }]

[[turn]]
text = \"It said {{echo/word}}.\"
";

fn place() -> Place {
    let place = Place::new().with_tools(&[good::ECHO]).with_config(CONFIG);
    place.write("turns.toml", TURNS);
    place
}

#[test]
fn the_answer_goes_to_standard_output_and_the_rest_beside_it() {
    let said = place().type_in(&["run", "What does it say?"]).ends_with(0);
    assert_eq!(said.stdout, "It said mountain.\n");
    said.says("turn 1")
        .says("→ echo")
        .says("let through by gate tool-list")
        .says("✓ echo")
        .says("2 turns, 1 call");
}

#[test]
fn e3_with_json_every_line_is_an_event_and_the_last_says_how_it_ended() {
    let said = place().type_in(&["run", "--json", "What does it say?"]).ends_with(0);
    let events: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "run_started");
    assert_eq!(events.iter().filter(|event| event["type"] == "run_finished").count(), 1);
    assert_eq!(events.last().unwrap()["type"], "run_finished");
    assert_eq!(said.stderr, "");
}

#[test]
fn the_prompt_comes_from_standard_input() {
    let said = Said::of(&place().tollgate(&["run", "-"]).write_stdin("What does it say?\n").assert());
    assert_eq!(said.ends_with(0).stdout, "It said mountain.\n");
    Said::of(&place().tollgate(&["run"]).write_stdin("").assert()).ends_with(2).says("missing prompt");
}

#[test]
fn a2_a_run_that_meets_a_limit_ends_with_1_and_names_it() {
    let place = place().with_config(&format!("{CONFIG}[limits]\nmodel_turns = 1\n"));
    place.type_in(&["run", "What does it say?"]).ends_with(1).says("model_turns");
}

#[test]
fn a12_options_limit_this_run_within_the_agents_limits() {
    let place = Place::new().with_tools(&[good::ECHO, hostile::SPIN_FOR_EVER]).with_config(CONFIG);
    let turn = |tool: &str| {
        format!(
            "[[turn]]\ncalls = [{{ name = \"{tool}\" }}]\nusage = {{ input_tokens = 7, output_tokens = 3 }}\n"
        )
    };
    let end = "[[turn]]\ntext = \"Done.\"\n";
    place.write("turns.toml", format!("{}{}{end}", turn("echo"), turn("echo")));
    place.type_in(&["run", "Go."]).ends_with(0);
    for (option, limit) in [
        (["--max-turns", "1"], "model_turns"),
        (["--max-calls", "1"], "tool_calls"),
        (["--max-tokens", "5"], "tokens"),
        (["--max-seconds", "0"], "wall_ms"),
    ] {
        let [name, value] = option;
        place.type_in(&["run", "Go.", name, value]).ends_with(1).says(limit);
    }
    place.write("turns.toml", format!("{}{end}", turn("spin-for-ever")));
    place.type_in(&["run", "Go.", "--timeout", "1"]).ends_with(0).says("timed_out");
    // The operator's ceiling is below the option.
    place
        .with_config(&format!("{CONFIG}[limits]\ntimeout_ceiling_ms = 100\n"))
        .type_in(&["run", "Go.", "--timeout", "600"])
        .ends_with(0)
        .says("timed_out");
}

#[test]
fn a2_a_text_that_the_configuration_names_ends_the_run_and_calls_beside_it_do_not_run() {
    let agent = "[agents.default]\ntools = [\"*\"]\nstop_on_texts = [\"ask the echo\"]\n";
    let place = place().with_config(&format!("{CONFIG}{agent}"));
    let said = place.type_in(&["run", "What does it say?"]).ends_with(1).says("stop_on_texts");
    assert!(!said.stderr.contains("✓ echo"), "{}", said.stderr);
    place.write("tollgate.toml", format!("{CONFIG}{}", agent.replace("the echo", "The Echo")));
    place.type_in(&["run", "What does it say?"]).ends_with(0);
}

#[test]
fn without_a_model_the_lines_to_write_are_shown() {
    Place::new().type_in(&["run", "hello"]).ends_with(2).says("[model]").says("provider = \"openai\"");
}

#[test]
fn a_model_is_named_on_the_command_line() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.write("turns.toml", TURNS);
    let said = place.type_in(&["run", "--model", "recorded/turns.toml", "hello"]).ends_with(0);
    assert_eq!(said.stdout, "It said mountain.\n");
    place.type_in(&["run", "--model", "recorded/gone.toml", "hello"]).ends_with(2).says("gone.toml");
    place.type_in(&["run", "--model", "gpt-5-mini", "hello"]).ends_with(2).says("PROVIDER/NAME");
    let place = place.with_config(CONFIG);
    place.type_in(&["run", "--model", "gpt-5-mini", "hello"]).ends_with(2).says("PROVIDER/NAME");
    let misspelt = ["run", "--model", "opneai/gpt-5-mini", "hello"];
    place.type_in(&misspelt).ends_with(2).says("did you mean --model openai/gpt-5-mini?");
}

#[test]
fn an_unknown_agent_is_answered_with_the_nearest() {
    let place = place().with_config(&format!("{CONFIG}[agents.reviewer]\ntools = [\"*\"]\n"));
    place.type_in(&["run", "--agent", "reviewr", "hello"]).ends_with(2).says("did you mean `reviewer`?");
    place.type_in(&["run", "hello"]).ends_with(0);
}

#[test]
fn a_conversation_goes_on_with_its_agent() {
    let place = place()
        .with_config(&format!("{CONFIG}[agents.one]\ntools = [\"*\"]\n[agents.two]\ntools = [\"*\"]\n"));
    place.type_in(&["run", "What does it say?"]).ends_with(2).says("--agent one or --agent two");
    place.type_in(&["run", "--agent", "two", "--thread", "t", "What does it say?"]).ends_with(0);
    place.write("turns.toml", "[[turn]]\ntext = \"Nothing more.\"\n");
    for thread in ["t", "last"] {
        place.type_in(&["run", "--thread", thread, "And now?"]).ends_with(0).answers("Nothing more.");
    }
    let runs = place.type_in(&["runs", "--json"]).ends_with(0).json();
    assert!(runs.as_array().unwrap().iter().all(|run| run["agent_id"] == "two"), "{runs}");
}
