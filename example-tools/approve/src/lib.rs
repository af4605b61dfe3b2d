//! `request_approval`: asks a person and continues with the answer.
//!
//! The first run returns a ticket and ends; nothing waits in memory. When a
//! person has decided, the host runs the call again with the same arguments, and
//! the decision is in the context.

use serde::Serialize;
use tollgate_sdk::{Context, Ticket, ToolError, ToolResult, component, data, json, tool};

/// The longest question, in characters. The host's own bound is 4 KiB.
const MAX_QUESTION_CHARS: usize = 1000;

/// A person's answer.
#[data]
#[derive(Debug, Clone, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Whether the agent may go on.
    pub approved: bool,
    /// A comment for the agent.
    pub comment: Option<String>,
}

/// The answer as shown to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Whether the agent may go on.
    pub approved: bool,
    /// The person's comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The reason for the decision, if one was given beside the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub decided_at_ms: u64,
}

/// Asks a person to approve something, and waits for the answer however long it
/// takes. Returns whether it was approved, and the person's comment.
///
/// Args:
///     question: What to approve, as one question that can be answered with yes
///         or no.
///     details: What the person should see before they answer.
#[tool(id = "approve", category = "people")]
pub fn request_approval(
    question: String,
    details: Option<String>,
    ctx: &Context,
) -> Result<ToolResult, ToolError> {
    if question.trim().is_empty() || question.chars().count() > MAX_QUESTION_CHARS {
        return Ok(ToolResult::error_with_code(
            "bad_question",
            format!("The question has 1 to {MAX_QUESTION_CHARS} characters. The rest are details."),
        ));
    }
    let Some(resumption) = ctx.resume() else {
        let ticket = Ticket::new("approve", question)
            .with_parameters(json!({ "details": details }))
            .with_response::<Answer>();
        return Ok(ToolResult::suspended_with(ticket));
    };
    let answer: Answer = resumption.value()?;
    Ok(ToolResult::success(Decision {
        approved: answer.approved,
        comment: answer.comment,
        reason: resumption.reason.clone(),
        decided_at_ms: resumption.decided_at_ms,
    }))
}

component! { id: "approve", tools: [request_approval] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, ResumeMode, Value};

    fn ask(ctx: Context) -> Result<ToolResult, ToolError> {
        let mut ctx = ctx.with_tool_name("request_approval");
        let args = json!({"question": "Delete 3 files?", "details": "a, b, c"});
        Ok(Exported::execute(&args.to_string(), &mut ctx)?.result)
    }

    #[test]
    fn the_first_run_asks() {
        let result = ask(Context::for_test()).unwrap();
        let ticket = result.ticket().unwrap();
        assert_eq!((ticket.action.as_str(), ticket.message.as_str()), ("approve", "Delete 3 files?"));
        assert_eq!(ticket.parameters, json!({"details": "a, b, c"}));
        assert_eq!(ticket.resume_mode, ResumeMode::ReplayToolCall);
        let schema = ticket.response_schema.as_ref().unwrap();
        assert_eq!(schema["properties"]["approved"]["type"], "boolean");
        assert_eq!(schema["required"], json!(["approved"]));
    }

    #[test]
    fn the_second_run_answers_with_the_decision() {
        let decided = |value: Value| ask(Context::for_test().with_resume(value)).unwrap().data();
        let yes = decided(json!({"approved": true}));
        assert_eq!((&yes["approved"], yes.get("comment")), (&json!(true), None));
        let no = decided(json!({"approved": false, "comment": "keep b"}));
        assert_eq!((&no["approved"], &no["comment"]), (&json!(false), &json!("keep b")));
    }

    #[test]
    fn a_decision_that_is_none_ends_the_call() {
        let error = ask(Context::for_test().with_resume(json!("yes"))).unwrap_err();
        assert!(matches!(error, ToolError::Internal(_)));
    }

    #[test]
    fn questions_are_bounded() {
        for question in [String::new(), "x".repeat(MAX_QUESTION_CHARS + 1)] {
            let result = request_approval(question, None, &Context::for_test()).unwrap();
            assert_eq!(result.data()["error"]["code"], "bad_question");
        }
    }
}
