//! Tests of `tollgate tools` and `tollgate inspect`.

use crate::place::Place;
use tollgate_artifacts::{good, hostile};

#[test]
fn the_table_shows_each_tool_with_its_file_and_limits() {
    let place = Place::new().with_tools(&[good::ECHO, good::ADDER]);
    place
        .type_in(&["tools"])
        .ends_with(0)
        .answers("TOOL")
        .answers("echo.wasm")
        .answers("20 G fuel, 64 MiB, 15 s")
        .says("call one: ");
}

#[test]
fn an_empty_place_says_what_to_type() {
    Place::new().type_in(&["tools"]).ends_with(0).says("no tool is served from tools").says("new hello");
}

#[test]
fn r1_a_broken_file_is_reported_and_the_rest_is_served() {
    let place = Place::new().with_tools(&[good::ECHO, hostile::TRUNCATED, hostile::TEXT_INSTEAD_OF_BINARY]);
    let read = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(read["tools"].as_array().unwrap().len(), 1);
    let refused: Vec<&str> =
        read["refused"].as_array().unwrap().iter().map(|r| r["file"].as_str().unwrap()).collect();
    assert_eq!(refused, ["tools/text-instead-of-binary.wasm", "tools/truncated.wasm"]);
    place.type_in(&["tools"]).ends_with(0).answers("refused tools/truncated.wasm: ");
}

#[test]
fn r1_of_two_that_collide_the_later_by_file_name_loses() {
    let place = Place::new();
    for name in ["a", "b"] {
        place.write(&format!("tools/{name}.wasm"), good::ECHO.bytes());
    }
    let read = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(read["tools"][0]["file"], "tools/a.wasm");
    assert_eq!(read["refused"][0]["file"], "tools/b.wasm");
    let reason = read["refused"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("a.wasm") && reason.contains("b.wasm"), "{reason}");
}

#[test]
fn a_tool_that_imports_a_power_names_the_command_that_shows_how_to_grant_it() {
    let place = Place::new().with_tools(&[hostile::OPEN_A_LONG_PATH]);
    place
        .type_in(&["tools", "open-a-long-path"])
        .ends_with(0)
        .answers("imports without a grant: files")
        .says("inspect tools/open-a-long-path.wasm");
}

#[test]
fn no_grant_is_named_for_sockets() {
    let place = Place::new();
    place.write("sockets.wasm", hostile::OPEN_A_SOCKET.bytes());
    let said = place.type_in(&["inspect", "sockets.wasm"]).ends_with(0).answers("never granted");
    assert!(!said.stdout.contains("grant `sockets`"), "{said:?}");
    let shown = place.type_in(&["inspect", "sockets.wasm", "--json"]).ends_with(0).json();
    assert_eq!(shown["lacking"], serde_json::json!([]));
}

#[test]
fn inspect_shows_what_a_component_is() {
    let place = Place::new();
    place.write("echo.wasm", good::ECHO.bytes());
    place
        .type_in(&["inspect", "echo.wasm"])
        .ends_with(0)
        .answers("tool echo")
        .answers("sha256:")
        .answers("imports");
    let seen = place.type_in(&["inspect", "echo.wasm", "--json"]).ends_with(0).json();
    assert_eq!(seen["id"], "echo");
    assert_eq!(seen["digest"].as_str().unwrap().len(), 64);
}

#[test]
fn inspect_says_why_a_file_would_not_be_served() {
    let place = Place::new();
    place.type_in(&["inspect", "gone.wasm"]).ends_with(2).says("gone.wasm cannot be read");
    place.write("text.wasm", "not wasm");
    place.type_in(&["inspect", "text.wasm"]).ends_with(1).says("text.wasm");
    place.type_in(&["inspect", "."]).ends_with(1);
    place.write("bad-id.wasm", hostile::BAD_ID.bytes());
    assert_eq!(place.type_in(&["inspect", "bad-id.wasm"]).code, 1);
}
