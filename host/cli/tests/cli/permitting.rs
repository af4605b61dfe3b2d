//! Tests of `[permissions]`: calls that run, that wait for a person, and that are denied.

use crate::place::Place;
use tollgate_artifacts::good;

const RULES: &str = "# mine
[permissions]
allow = [\"adder\"]
deny = [{ tool = \"echo\", at = \"/path\", glob = \"**/.ssh/**\" }]  # never
";

fn place() -> Place {
    Place::new().with_tools(&[good::ECHO]).with_config(RULES)
}

/// Returns the run id of a call that waits.
fn waits(place: &Place, arguments: &str) -> String {
    place.type_in(&["call", "echo", arguments, "--json"]).ends_with(3);
    waiting(place)
}

/// Returns the id of the newest run that waits.
fn waiting(place: &Place) -> String {
    let runs = place.type_in(&["runs", "--status", "waiting", "--json"]).ends_with(0).json();
    runs[0]["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn g2_what_is_denied_is_not_asked_about() {
    let said = place().type_in(&["call", "echo", r#"{"path": "/a/.ssh/id"}"#, "--json"]).ends_with(1).json();
    assert_eq!(said["error"]["code"], "denied");
    assert!(said["error"]["message"].as_str().unwrap().contains("operator's rules"), "{said}");
}

#[test]
fn w3_an_answer_for_once_lets_this_call_run_and_no_other() {
    let place = place();
    let run = waits(&place, "{}");
    place.type_in(&["decide", &run, "call-1", "--resume"]).ends_with(0);
    place.type_in(&["call", "echo", "{}", "--json"]).ends_with(3);
}

#[test]
fn w3_an_answer_that_is_none_is_refused_and_the_call_goes_on_waiting() {
    let place = place();
    let run = waits(&place, "{}");
    place.type_in(&["decide", &run, "call-1", "--resume", r#"{"remember": "for ever"}"#]).ends_with(2);
    place.type_in(&["decide", &run, "call-1", "--cancel"]).ends_with(1);
}

#[test]
fn w8_an_answer_for_always_is_written_down_and_asks_no_more() {
    let place = place();
    let run = waits(&place, r#"{"a": 1}"#);
    place
        .type_in(&["decide", &run, "call-1", "--resume", r#"{"remember": "always"}"#])
        .ends_with(0)
        .says("remembered for always");
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    assert!(config.starts_with("# mine\n") && config.contains("# never"), "{config}");
    place.type_in(&["call", "echo", r#"{"a": 1}"#]).ends_with(0);
    place.type_in(&["call", "echo", r#"{"a": 2}"#]).ends_with(3);
}

#[test]
fn w8_an_answer_for_the_thread_holds_in_the_next_process_and_in_no_other_thread() {
    let place = place();
    let call = |thread: &str| place.type_in(&["call", "echo", r#"{"a": 1}"#, "--thread", thread]);
    call("mine").ends_with(3);
    place
        .type_in(&["decide", &waiting(&place), "call-1", "--resume", r#"{"remember": "thread"}"#])
        .ends_with(0);
    call("mine").ends_with(0);
    call("other").ends_with(3);
    // Of a thread with a long state, only a part is read.
    let state = format!(r#"{{"state": {{"gone.text": "{}"}}}}"#, "x".repeat(300_000));
    let import = ["state", "import", "mine", "--keep-unknown"];
    place.tollgate(&import).write_stdin(state).assert().success();
    call("mine").ends_with(0);
}

#[test]
fn w8_an_answer_for_the_run_ends_with_its_run() {
    let calls = "[[turn]]\ncalls = [{ name = \"echo\", arguments = { a = 1 } }]\n";
    let place =
        place().with_config(&format!("{RULES}\n[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n"));
    let run = || place.type_in(&["run", "--thread", "t", "Do it."]);
    place.write("turns.toml", calls);
    run().ends_with(3);
    let waiting = waiting(&place);

    // The same call in the same run does not ask again.
    place.write("turns.toml", format!("{calls}\n[[turn]]\ntext = \"Done.\"\n"));
    let answer = ["decide", &waiting, "call-1-1", "--resume", r#"{"remember": "run"}"#];
    assert_eq!(place.type_in(&answer).ends_with(0).stdout, "Done.\n");
    place.write("turns.toml", calls);
    run().ends_with(3);
}

#[test]
fn z11_an_answer_for_always_holds_for_the_version_that_was_asked_about() {
    let place = place();
    let run = waits(&place, r#"{"a": 1}"#);
    let answer = r#"{"remember": "always", "for": "tool"}"#;
    place.type_in(&["decide", &run, "call-1", "--resume", answer]).ends_with(0);
    place.type_in(&["call", "echo", r#"{"a": 2}"#]).ends_with(0);
    let source = Box::leak(good::ECHO.source.replacen(";; ", ";; Anew: ", 1).into_boxed_str());
    let next = tollgate_artifacts::Guest { source, ..good::ECHO };
    place.write("tools/echo.wasm", next.bytes());
    place.type_in(&["call", "echo", r#"{"a": 2}"#]).ends_with(3);
    // An answer from before versions were recorded is read, and the question is asked again.
    place.write("tollgate.toml", "[permissions]\nremembered = [{ tool = \"echo\" }]\n");
    place.type_in(&["call", "echo", r#"{"a": 2}"#]).ends_with(3).says("that name no version of a tool (1)");
}
