//! The example tools build once for all callers.
#![allow(clippy::unwrap_used, missing_docs)]

use tollgate_artifacts::{rust_guest, rust_guest_bytes};
use wasmparser::Parser;

#[test]
fn an_example_tool_is_a_component() {
    assert!(Parser::is_component(&rust_guest_bytes("word-count")));
}

#[test]
fn the_same_file_answers_again() {
    assert_eq!(rust_guest("word-count"), rust_guest("word-count"));
}

#[test]
#[should_panic(expected = "there is no example `no-such-tool`")]
fn an_unknown_tool_is_named() {
    let _ = rust_guest("no-such-tool");
}
