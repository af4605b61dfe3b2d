//! K4 and K8: a tool that delegates to another agent.

use tollgate_sdk::{
    ChildError, ChildOutcome, ChildRun, ChildStatus, Context, Role, Streaming, ToolError, ToolResult, data,
    json, tool,
};

#[data]
#[derive(Debug, PartialEq)]
struct Verdict {
    good: bool,
}

/// Has a text judged.
#[tool]
fn judge(text: &str, ctx: &Context) -> Result<ToolResult, ToolError> {
    let child = ChildRun::new("critic")
        .with_message(Role::Assistant, "Show me the text.")
        .with_user_message(text)
        .with_seed("critic.strict", true)
        .with_export("critic.marks")
        .with_streaming(Streaming::Passthrough);
    let outcome = ctx.run_child(child)?;
    if let ChildStatus::Suspended(_) = outcome.status {
        return Ok(ToolResult::suspended("The critic asks."));
    }
    Ok(ToolResult::success(outcome.completed()?.output_as::<Verdict>()?.good))
}

fn child() -> ChildOutcome {
    ChildOutcome::answered("It is good.").with_output(json!({"good": true}))
}

#[test]
fn k4_a_child_is_run_and_its_outcome_read() {
    let ctx = Context::for_test().with_child(Ok(child()));
    assert_eq!(judge("Once upon a time", &ctx).unwrap().data(), json!(true));
    let [asked] = ctx.children().try_into().unwrap();
    assert_eq!(asked.agent_id, "critic");
    assert_eq!(asked.messages[1].text, "Once upon a time");
    assert_eq!(asked.seed, [("critic.strict".to_owned(), json!(true))]);
    assert_eq!(asked.exports, ["critic.marks"]);
    assert_eq!(asked.streaming, Streaming::Passthrough);
}

#[test]
fn k4_a_child_that_does_not_complete_is_an_outcome() {
    let waits = child().with_status(ChildStatus::Suspended(None));
    let ctx = Context::for_test().with_child(Ok(waits));
    assert!(judge("", &ctx).unwrap().is_pending());

    let failed = child().with_status(ChildStatus::Failed("no model".to_owned()));
    let ctx = Context::for_test().with_child(Ok(failed));
    let expected = ToolError::execution_failed("The child agent failed: no model.");
    assert_eq!(judge("", &ctx), Err(expected));
}

#[test]
fn k8_a_child_that_the_test_does_not_know_is_not_found() {
    let error = judge("", &Context::for_test()).unwrap_err();
    assert_eq!(error, ToolError::not_found("There is no agent `critic`."));
    let denied = Context::for_test().with_child(Err(ChildError::NotGranted("critic".to_owned())));
    assert!(matches!(judge("", &denied), Err(ToolError::Denied(_))));
}
