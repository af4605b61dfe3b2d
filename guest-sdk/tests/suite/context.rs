//! K4: the call in progress.

use crate::schema;
use std::time::Duration;
use tollgate_sdk::{
    Action, AgentView, Context, Level, ProgressStatus, Report, Resumption, RunIdentity, Ticket, ToolError,
    ToolResult, data, json, tool,
};

/// Says who calls.
#[tool]
fn whoami(prefix: &str, ctx: &Context) -> String {
    format!("{prefix} {} {}", ctx.agent().id, ctx.identity().run_id)
}

/// Tells everything.
#[tool]
fn tell(ctx: &mut Context) -> bool {
    ctx.activity("search", "reading");
    ctx.activity_delta("search", json!([{"op": "add", "path": "/n", "value": 1}]));
    ctx.progress(0.5, "half way");
    ctx.progress_status(ProgressStatus::Done, None, None);
    ctx.stream_output("piece");
    ctx.log(Level::Warn, "careful");
    ctx.is_cancelled()
}

/// Asks everything.
#[tool]
fn ask(ctx: &Context) {
    ctx.transfer_to("billing");
    ctx.escalate();
    ctx.add_context("mind the gap");
}

#[data]
struct Choice {
    file: String,
}

/// Waits for a choice.
#[tool]
fn choose(ctx: &Context) -> Result<ToolResult, ToolError> {
    match ctx.resume() {
        Some(decision) => Ok(ToolResult::success(decision.value::<Choice>()?.file)),
        None => Ok(ToolResult::suspended_with(Ticket::new("choose", "Which?").with_response::<Choice>())),
    }
}

#[test]
fn k4_the_context_is_no_argument() {
    let shared = schema(&whoami {});
    assert_eq!(shared["properties"], json!({"prefix": {"type": "string"}}));
    assert_eq!(schema(&tell {}).get("properties"), None);
}

#[test]
fn k4_identity_attempt_and_deadline() {
    let ctx = Context::for_test()
        .with_identity(RunIdentity {
            run_id: "r".to_owned(),
            parent_call_id: Some("c".to_owned()),
            ..RunIdentity::default()
        })
        .with_agent(AgentView {
            id: "a".to_owned(),
            description: Some("Helps.".to_owned()),
            delegates: vec!["b".to_owned()],
        })
        .with_call_id("call-9")
        .with_tool_name("whoami")
        .with_attempt(2)
        .with_revision(7)
        .with_deadline(Duration::from_millis(250));
    assert_eq!(whoami("I am", &ctx), "I am a r");
    assert_eq!(ctx.identity().parent_call_id.as_deref(), Some("c"));
    assert_eq!(ctx.agent().delegates, ["b"]);
    assert_eq!((ctx.call_id(), ctx.tool_name()), ("call-9", "whoami"));
    assert_eq!((ctx.attempt(), ctx.revision()), (2, 7));
    assert_eq!(ctx.deadline(), Duration::from_millis(250));
}

#[test]
fn k4_a_first_attempt_has_nothing_to_resume() {
    let ctx = Context::for_test();
    assert_eq!((ctx.attempt(), ctx.resume()), (1, None));
    assert!(!ctx.is_cancelled());
}

#[test]
fn k4_what_is_told_is_told_in_order() {
    let mut ctx = Context::for_test().cancelled();
    assert!(tell(&mut ctx), "the run is being cancelled");
    assert_eq!(
        ctx.reports(),
        [
            Report::Activity { kind: "search".to_owned(), content: "reading".to_owned() },
            Report::ActivityDelta {
                kind: "search".to_owned(),
                patch: json!([{"op": "add", "path": "/n", "value": 1}]),
            },
            Report::Progress {
                status: ProgressStatus::Running,
                message: Some("half way".to_owned()),
                progress: Some(0.5),
            },
            Report::Progress { status: ProgressStatus::Done, message: None, progress: None },
            Report::Output("piece".to_owned()),
            Report::Log(Level::Warn, "careful".to_owned()),
        ]
    );
}

#[test]
fn k4_actions_are_handed_back() {
    let ctx = Context::for_test();
    ask(&ctx);
    let asked = [
        Action::TransferToAgent("billing".to_owned()),
        Action::Escalate,
        Action::AddContext("mind the gap".to_owned()),
    ];
    assert_eq!(ctx.actions(), asked);
}

#[test]
fn k4_a_decision_is_read_as_what_was_asked_for() {
    assert!(choose(&Context::for_test()).unwrap().is_pending());

    let decided = Context::for_test().with_resume(json!({"file": "a.txt"}));
    assert_eq!(choose(&decided).unwrap().data(), json!("a.txt"));

    let wrong = Context::for_test().with_resume(true);
    assert!(matches!(choose(&wrong), Err(ToolError::Internal(_))));
}

#[test]
fn k4_a_resumption_says_what_was_asked_and_why() {
    let mut resumption = Resumption::new("go");
    resumption.action = "approve".to_owned();
    resumption.message = "Sure?".to_owned();
    resumption.reason = Some("it is fine".to_owned());
    let ctx = Context::for_test().with_resumption(resumption.clone());
    assert_eq!(ctx.resume(), Some(&resumption));
    assert_eq!(ctx.resume().unwrap().json(), json!("go"));
}
