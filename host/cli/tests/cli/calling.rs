//! Tests of `tollgate call`.

use crate::place::{Place, Said};
use serde_json::json;
use tollgate_artifacts::{good, hostile};

#[test]
fn l2_a_call_answers_on_standard_output() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let said = place.type_in(&["call", "echo", r#"{"text": "hello"}"#]).ends_with(0).says("fuel");
    assert_eq!(said.json(), json!({"text": "hello"}));
}

#[test]
fn with_json_one_object_is_printed() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let answer = place.type_in(&["call", "echo", "{}", "--json"]).ends_with(0).json();
    let mut keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "call_id",
            "content",
            "data",
            "error",
            "message",
            "mutations",
            "status",
            "suspension",
            "tool",
            "usage"
        ]
    );
    assert_eq!((&answer["tool"], &answer["status"]), (&json!("echo"), &json!("success")));
    assert!(answer["usage"]["fuel"].as_u64().unwrap() > 0);
    assert_eq!(answer["usage"]["attempts"], 1);
}

#[test]
fn z21_what_a_call_used_that_was_cut_is_marked_as_at_least_that() {
    let limits = "[limits]\ntimeout_ms = 200\nfuel = 900_000_000_000\n";
    let place = Place::new().with_tools(&[hostile::SPIN_FOR_EVER]).with_config(limits);
    let answer = place.type_in(&["call", "spin-for-ever", "--json"]).ends_with(1).json();
    assert_eq!((&answer["error"]["code"], &answer["usage"]["at_least"]), (&json!("timed_out"), &json!(true)));
    let words = "its limit is timeout_ms = 200. An operator can raise it in tollgate.toml, under [limits] or \
                 [tools.spin-for-ever.limits].";
    place.type_in(&["call", "spin-for-ever"]).ends_with(1).says("at least").says(words);
    let audit = place.type_in(&["audit", "--json"]).ends_with(0).json();
    let is_call = |record: &&serde_json::Value| record["kind"] == "call";
    let record = audit.as_array().unwrap().iter().find(is_call).unwrap();
    assert_eq!(record["usage"]["at_least"], true, "{record}");
}

#[test]
fn t1_a_direct_call_has_the_wall_time_of_the_agent_direct() {
    let config = "[limits]\nfuel = 900_000_000_000\n[agents.direct]\ntools = [\"*\"]\n\
                  limits = { wall_ms = 250 }\n";
    let place = Place::new().with_tools(&[hostile::SPIN_FOR_EVER]).with_config(config);
    let answer = place.type_in(&["call", "spin-for-ever", "--json"]).ends_with(1).json();
    assert_eq!(answer["error"]["code"], "timed_out", "{answer}");
    let words = "after 250ms: its limit is wall_ms = 250. An operator can raise it in tollgate.toml, under \
                 [agents.direct.limits].";
    assert!(answer["error"]["message"].as_str().unwrap().ends_with(words), "{answer}");
    assert_eq!((&answer["usage"]["attempts"], &answer["usage"]["at_least"]), (&json!(1), &json!(true)));
}

#[test]
fn the_state_of_a_new_conversation_is_found_again_by_the_name_that_is_shown() {
    let place = Place::new().with_tools(&[good::ADDER]);
    let hint = "kept in a new conversation; continue it with --thread ";
    let said = place.type_in(&["call", "adder"]).ends_with(0).answers("0");
    let thread = said.stderr.split_once(hint).unwrap().1.lines().next().unwrap();
    let said = place.type_in(&["call", "adder", "--thread", thread]).ends_with(0).answers("1");
    assert!(!said.stderr.contains(hint), "{said:?}");
}

#[test]
fn z3_arguments_of_too_many_values_are_refused() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let arguments = format!("{{\"a\":[{}0]}}", "[],".repeat(500_000));
    let said = Said::of(&place.tollgate(&["call", "echo", "-"]).write_stdin(arguments).assert());
    said.ends_with(2).says("500000");
}

#[test]
fn arguments_come_from_standard_input() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let said =
        Said::of(&place.tollgate(&["call", "echo", "-"]).write_stdin(r#"{"a": 1}"#).assert()).ends_with(0);
    assert_eq!(said.json(), json!({"a": 1}));
}

#[test]
fn a_tool_does_not_read_what_is_piped_to_the_program() {
    let place = Place::new().with_tools(&[hostile::READ_STANDARD_INPUT]);
    let mut command = place.tollgate(&["call", "read-standard-input", "{}"]);
    // The guest traps if it reads any input.
    Said::of(&command.write_stdin("secret").assert()).ends_with(0).answers("refused");
}

#[test]
fn what_was_called_is_what_the_host_says_whatever_the_tool_claims() {
    let place = Place::new().with_tools(&[hostile::SPEAK_FOR_ANOTHER_TOOL]);
    let answer = place.type_in(&["call", "speak-for-another-tool", "--json"]).ends_with(0).json();
    assert_eq!(
        (&answer["tool"], &answer["data"]["tool"]),
        (&json!("speak-for-another-tool"), &json!("approve"))
    );
    let audit = place.type_in(&["audit", "--json"]).ends_with(0);
    assert!(
        audit.stdout.contains("speak-for-another-tool") && !audit.stdout.contains("approve"),
        "{audit:?}"
    );
}

#[test]
fn what_a_tool_was_refused_is_said_and_audited() {
    let place = Place::new().with_tools(&[hostile::SEND_A_REQUEST, hostile::OPEN_A_SOCKET]);
    place
        .type_in(&["call", "send-a-request"])
        .ends_with(0)
        .says("not granted: http GET https://localhost:1/")
        .says("tollgate grant send-a-request --http 'GET https://localhost:1/'");
    place.type_in(&["call", "open-a-socket"]).ends_with(0).says("not granted: sockets: a UDP socket");
    let audit = place.type_in(&["audit", "--json"]).ends_with(0);
    for noted in ["http GET https://localhost:1/", "sockets: a TCP socket", "sockets: a UDP socket"] {
        assert!(audit.stdout.contains(noted), "{noted}: {audit:?}");
    }
}

#[test]
fn a4_arguments_that_are_not_json_end_with_2() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.type_in(&["call", "echo", "{'a': 1}"]).ends_with(2).says("not acceptable JSON").says("{'a': 1}");
    place.type_in(&["call", "echo", r#"{"a": 1, "a": 2}"#]).ends_with(2).says("not acceptable JSON");
    place.type_in(&["call", "echo", "[1]"]).ends_with(2).says("must be a JSON object");
}

#[test]
fn l7_an_unknown_tool_is_answered_with_the_nearest() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.type_in(&["call", "ecco"]).ends_with(1).says("not_found:").says("Did you mean 'echo'?");
    let answer = place.type_in(&["call", "ecco", "--json"]).ends_with(1).json();
    assert_eq!((&answer["status"], &answer["error"]["code"]), (&json!("error"), &json!("not_found")));
}

#[test]
fn l4_a_tool_that_fails_ends_with_1_and_says_so() {
    let place = Place::new().with_tools(&[good::FAILS]);
    place.type_in(&["call", "fails"]).ends_with(1).says("tool_failed:").says("The printer is on fire");
    let answer = place.type_in(&["call", "fails", "--json"]).ends_with(1).json();
    assert_eq!(answer["error"]["code"], "tool_failed");
    assert_eq!(answer["data"], json!(null));
}

#[test]
fn l5_a_guest_that_breaks_out_of_its_limits_has_its_code() {
    let place = Place::new()
        .with_tools(&[hostile::UNREACHABLE])
        .with_config("[tools.unreachable.limits]\nfuel = 1000000\n");
    let answer = place.type_in(&["call", "unreachable", "--json"]).ends_with(1).json();
    assert_eq!(answer["error"]["code"], "trapped");
}

#[test]
fn w1_a_call_that_waits_for_a_person_ends_with_3() {
    let place = Place::new().with_tools(&[good::SUSPENDS]);
    place.type_in(&["call", "suspends"]).ends_with(3).says("Shall I?");
    let answer = place.type_in(&["call", "suspends", "--json"]).ends_with(3).json();
    assert_eq!(answer["status"], "pending");
    assert_eq!(answer["suspension"]["ticket"]["action"], "approve");
}

#[test]
fn what_a_tool_reports_goes_to_standard_error() {
    let place = Place::new().with_tools(&[good::REPORTS]);
    let said = place.type_in(&["call", "reports"]).ends_with(0);
    assert!(said.stderr.lines().count() > 1, "{said:?}");
    let said = place.type_in(&["call", "reports", "--json"]).ends_with(0);
    assert_eq!(said.stderr, "");
    said.json();
}

#[test]
fn g3_direct_calls_are_made_as_the_agent_direct() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config("[agents.direct]\ntools = [\"other\"]\n");
    let answer = place.type_in(&["call", "echo", "--json"]).ends_with(1).json();
    assert!(["denied", "not_found"].contains(&answer["error"]["code"].as_str().unwrap()), "{answer}");
}

#[test]
fn what_to_type_next_names_the_configuration_and_the_store_that_were_named() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.write("a place/strict.toml", "");
    let file = std::fs::canonicalize(place.path().join("a place/strict.toml")).unwrap();
    let named = format!(" --config '{}'", file.display());
    let line = format!("tollgate{named} tools` lists what there is");
    place.type_in(&["call", "ecco", "--config", "a place/strict.toml"]).ends_with(1).says(&line);
    let store = std::fs::canonicalize(place.path()).unwrap().join("other");
    let both = format!("tollgate{named} --data {} tools`", store.display());
    let typed = ["call", "ecco", "--config", "a place/strict.toml", "--data", "other"];
    place.type_in(&typed).ends_with(1).says(&both);
    place.type_in(&["call", "ecco"]).ends_with(1).says("tollgate tools` lists what there is");
}
