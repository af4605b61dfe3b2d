//! Tests of components that do not implement the contract, on the command line.

use crate::place::Place;
use tollgate_artifacts::good;

#[test]
fn inspect_and_tools_show_what_it_is_and_what_is_left_out() {
    let place = Place::new().with_tools(&[good::PLAIN_DIVIDE]);
    let said = place.type_in(&["inspect", "tools/plain-divide.wasm"]).ends_with(0);
    said.answers("plain-divide 2.0.0 (plain component)")
        .answers("tool whole-divide")
        .answers("divide: func(dividend: u32, divisor: u32) -> result<u32, enum { by-zero, uneven }>")
        .answers("dividend (integer, required) u32")
        .answers("left out arithmetic:plain/whole@2.0.0#open");
    let seen = place.type_in(&["inspect", "tools/plain-divide.wasm", "--json"]).ends_with(0).json();
    assert_eq!((seen["plain"].as_bool(), seen["id"].as_str()), (Some(true), Some("plain-divide")));
    assert!(seen["left_out"][0]["reason"].as_str().unwrap().contains("resource"), "{seen}");
    let tools = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(tools["tools"][0]["name"], "whole-divide");
    assert_eq!(tools["left_out"][0]["component"], "plain-divide");
    place.type_in(&["tools"]).ends_with(0).answers("left out of plain-divide");
}

#[test]
fn its_error_is_the_tools_own() {
    let place = Place::new().with_tools(&[good::PLAIN_DIVIDE]);
    let said = place.type_in(&["call", "whole-divide", r#"{"dividend": 1, "divisor": 0}"#, "--json"]);
    let said = said.ends_with(1).json();
    assert_eq!((&said["error"]["code"], &said["data"]), (&"tool_error".into(), &"by-zero".into()));
}

#[test]
fn it_has_what_its_files_name_was_granted() {
    let place = Place::new().with_tools(&[good::PLAIN_COUNTS_DIRECTORIES]);
    place.type_in(&["call", "directories"]).ends_with(0).answers("0");
    place.write("given/file.txt", "text");
    let place = place.with_config(
        "[grants.plain-counts-directories]\nfiles = [{ host = \"given\", guest = \"/given\", access = \"read\" }]\n",
    );
    place.type_in(&["call", "directories"]).ends_with(0).answers("1");
}

#[test]
fn g2_its_calls_pass_the_same_gates_and_limits() {
    let place = Place::new().with_tools(&[good::PLAIN_DIVIDE]).with_config(
        "[permissions]\nallow = [\"whole-divide\"]\ndeny = [{ tool = \"whole-divide\", at = \"/divisor\", matches = \"^0$\" }]\n",
    );
    let call = |arguments: &str| place.type_in(&["call", "whole-divide", arguments, "--json"]);
    call(r#"{"dividend": 6, "divisor": 3}"#).ends_with(0);
    let said = call(r#"{"dividend": 6, "divisor": 0}"#).ends_with(1).json();
    assert_eq!(said["error"]["code"], "denied");
    place.write("tollgate.toml", "[tools.whole-divide.limits]\nfuel = 1\n");
    let said = call(r#"{"dividend": 6, "divisor": 3}"#).ends_with(1).json();
    assert_eq!(said["error"]["code"], "out_of_fuel");
}
