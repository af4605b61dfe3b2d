//! Tests of gates in the directory `gates`: nothing runs unless all are in force.

use crate::place::Place;
use tollgate_artifacts::{gates, good, rust_gate_bytes};

const CALL: [&str; 4] = ["call", "echo", "{}", "--json"];

#[test]
fn g7_a_gate_that_was_dropped_in_judges_calls() {
    let place =
        Place::new().with_tools(&[good::ECHO]).with_config("[gates.budget.settings]\ncalls = { echo = 0 }\n");
    place.write("gates/budget.wasm", rust_gate_bytes("budget"));
    let said = place.type_in(&CALL).ends_with(1).json();
    assert_eq!(said["error"]["code"], "denied");
    assert!(said["error"]["message"].as_str().unwrap().contains("0 times"), "{said}");
    place.type_in(&["tools"]).ends_with(0).answers("budget").answers("100 M fuel");
    let read = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(read["gates"][0]["settings"]["calls"]["echo"], 0);
    place
        .type_in(&["inspect", "gates/budget.wasm"])
        .ends_with(0)
        .answers("is a gate")
        .answers("imports nothing");
}

#[test]
fn g6_nothing_runs_while_a_gate_is_not_in_force() {
    let broken = Place::new().with_tools(&[good::ECHO]);
    broken.write("gates/clock.wasm", gates::IMPORT_A_CLOCK.bytes());
    broken.type_in(&CALL).ends_with(2).says("refusing to run tools").says("wasi:clocks/wall-clock");
    broken.type_in(&["tools"]).ends_with(0).answers("No tool runs: gate gates/clock.wasm is not in force");

    let missing = Place::new().with_tools(&[good::ECHO]).with_config("[gates.budget.settings]\nall = 1\n");
    missing.type_in(&CALL).ends_with(2).says("[gates.budget]").says("no gate of that id");

    let nowhere = Place::new().with_tools(&[good::ECHO]).with_config("[tools]\ngates = \"gone\"\n");
    nowhere.type_in(&CALL).ends_with(2).says("the directory `gone` cannot be read");
    nowhere.type_in(&["tools"]).ends_with(0).answers("No tool runs: the directory `gone` cannot be read");

    let unset = Place::new().with_tools(&[good::ECHO]);
    unset.write("gates/budget.wasm", rust_gate_bytes("budget"));
    unset.type_in(&CALL).ends_with(2).says("[gates.budget.settings]");
}

#[test]
fn g7_limits_of_a_gate_are_checked_like_every_other() {
    let place = Place::new().with_config("[gates.budget.limits]\nfule = 3\n");
    place.type_in(&["tools"]).ends_with(2).says("did you mean `fuel`");
}

#[test]
fn g7_the_gates_directory_is_granted_to_no_tool() {
    let config = "[grants.echo]\nfiles = [{ host = \"gates\", guest = \"/g\", access = \"read-write\" }]\n";
    let place = Place::new().with_tools(&[good::ECHO]).with_config(config);
    place.write("gates/note.txt", "x");
    place.type_in(&["tools"]).ends_with(0).answers("the gates directory, which no tool may see");
}
