//! K6: the types that a tool may return, and their outputs.

use crate::call;
use std::collections::BTreeMap;
use std::fmt;
use tollgate_sdk::{CodedError, Mutation, ToolError, ToolOutput, ToolResult, data, json, tool};

#[data]
struct Point {
    x: i32,
    y: i32,
}

/// Returns data.
#[tool]
fn point() -> Point {
    Point { x: 1, y: 2 }
}

/// Returns nothing.
#[tool]
fn nothing() {}

/// Returns what may be none.
#[tool]
fn maybe(there: bool) -> Option<u8> {
    there.then_some(1)
}

/// Returns a result of the tool's own.
#[tool]
fn asked() -> ToolResult {
    ToolResult::suspended("Sure?")
}

/// Returns an output made by hand.
#[tool]
fn output() -> Result<ToolOutput, ToolError> {
    Ok(ToolOutput::new(ToolResult::success(1)).with_mutation(Mutation::new("a.b", &2)?))
}

/// Fails in a way that the type says.
#[tool]
fn fail(kind: &str) -> Result<u8, ToolError> {
    Err(match kind {
        "denied" => ToolError::denied("d"),
        "not_found" => ToolError::not_found("n"),
        "failed" => ToolError::execution_failed("f"),
        "invalid" => ToolError::invalid_arguments("i"),
        _ => ToolError::internal("x"),
    })
}

#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if f.alternate() { "It broke: the disk is full" } else { "It broke" })
    }
}

impl std::error::Error for Broken {}

/// Fails with an error of the author's own.
#[tool]
fn own_error() -> Result<Point, Broken> {
    Err(Broken)
}

/// Fails with a text, which could be data just as well.
#[tool]
fn text_error(fails: bool) -> Result<String, String> {
    if fails { Err("no".to_owned()) } else { Ok("yes".to_owned()) }
}

/// Fails with any error at all.
#[tool]
fn boxed(denies: bool) -> Result<(), Box<dyn std::error::Error>> {
    if denies {
        Err(ToolError::denied("not you"))?;
    }
    Err(Broken)?
}

/// Fails with any error that may travel.
#[tool]
fn boxed_to_send() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Err(ToolError::not_found("gone"))?
}

/// Returns what JSON cannot say.
#[tool]
fn unsayable() -> BTreeMap<Vec<u8>, u8> {
    BTreeMap::from([(vec![1], 1)])
}

#[test]
fn k6_what_can_be_serialised_is_the_data_of_a_success() {
    for (tool, args, data) in [
        (&point {} as &dyn tollgate_sdk::Tool, json!({}), json!({"x": 1, "y": 2})),
        (&nothing {}, json!({}), json!(null)),
        (&maybe {}, json!({"there": true}), json!(1)),
        (&maybe {}, json!({"there": false}), json!(null)),
        (&text_error {}, json!({"fails": false}), json!("yes")),
    ] {
        let result = call(tool, &args).unwrap().result;
        assert!(result.is_success());
        assert_eq!((result.data(), result.message()), (data, None));
    }
}

#[test]
fn k6_results_and_outputs_are_handed_back_as_they_are() {
    assert_eq!(call(&asked {}, &json!({})).unwrap().result, ToolResult::suspended("Sure?"));
    let output = call(&output {}, &json!({})).unwrap();
    assert_eq!(output.result, ToolResult::success(1));
    assert_eq!(output.mutations[0].update(), json!(2));
}

#[test]
fn k6_a_tool_error_ends_the_call() {
    for (kind, error) in [
        ("denied", ToolError::Denied("d".to_owned())),
        ("not_found", ToolError::NotFound("n".to_owned())),
        ("failed", ToolError::ExecutionFailed("f".to_owned())),
        ("invalid", ToolError::InvalidArguments("i".to_owned())),
        ("internal", ToolError::Internal("x".to_owned())),
    ] {
        assert_eq!(call(&fail {}, &json!({"kind": kind})), Err(error));
    }
    assert_eq!(call(&boxed {}, &json!({"denies": true})), Err(ToolError::denied("not you")));
    assert_eq!(call(&boxed_to_send {}, &json!({})), Err(ToolError::not_found("gone")));
}

#[test]
fn k6_any_other_error_is_the_tools_own_answer_with_its_causes() {
    let own = call(&own_error {}, &json!({})).unwrap().result;
    assert_eq!(own, ToolResult::error("It broke: the disk is full"));
    let text = call(&text_error {}, &json!({"fails": true})).unwrap().result;
    assert_eq!(text, ToolResult::error("no"));
    let boxed = call(&boxed {}, &json!({"denies": false})).unwrap().result;
    assert_eq!(boxed, ToolResult::error("It broke: the disk is full"));
}

/// Fails with a code, in a box or out of it.
#[tool]
fn coded(boxed: bool) -> Result<(), Box<dyn std::error::Error>> {
    if boxed {
        Err(CodedError::new("full", "The disk is full."))?
    } else {
        plainly_coded()?
    }
    Ok(())
}

/// Fails with a code.
#[tool]
fn plainly_coded() -> Result<(), CodedError> {
    Err(CodedError::new("full", "The disk is full."))
}

#[test]
fn k6_an_error_with_a_code_keeps_it() {
    let expected = ToolResult::error_with_code("full", "The disk is full.");
    assert_eq!(call(&plainly_coded {}, &json!({})).unwrap().result, expected);
    assert_eq!(call(&coded {}, &json!({"boxed": true})).unwrap().result, expected);
    assert_eq!(call(&coded {}, &json!({"boxed": false})).unwrap().result, expected);
}

#[test]
fn k6_data_that_is_no_json_is_a_fault_of_the_tool() {
    let error = call(&unsayable {}, &json!({})).unwrap_err();
    assert!(matches!(error, ToolError::Internal(_)));
}
