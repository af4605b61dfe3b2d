//! K7: how results are created and inspected.

use std::collections::BTreeMap;
use tollgate_sdk::{ResumeMode, Status, Ticket, ToolDescriptor, ToolResult, Value, json};

#[test]
fn k7_success_carries_data_and_may_carry_a_message() {
    let plain = ToolResult::success(json!({"hits": 3}));
    assert!(plain.is_success() && !plain.is_pending() && !plain.is_error());
    assert_eq!((plain.data(), plain.message()), (json!({"hits": 3}), None));
    assert_eq!(plain.data_as::<BTreeMap<String, u8>>().unwrap()["hits"], 3);

    let worded = ToolResult::success_with_message([1, 2], "Two of them.");
    assert!(worded.is_success());
    assert_eq!((worded.data(), worded.message()), (json!([1, 2]), Some("Two of them.")));
}

#[test]
fn k7_an_error_is_the_tools_own_answer() {
    let plain = ToolResult::error("It did not work.");
    assert!(plain.is_error() && !plain.is_success() && !plain.is_pending());
    assert_eq!((plain.data(), plain.message()), (Value::Null, Some("It did not work.")));

    let coded = ToolResult::error_with_code("no_such_note", "There is no note 7.");
    assert!(coded.is_error());
    assert_eq!(coded.data(), json!({"error": {"code": "no_such_note", "message": "There is no note 7."}}));
    assert_eq!(coded.message(), Some("There is no note 7."));
}

#[test]
fn k7_a_suspension_waits_with_a_ticket_or_without() {
    let plain = ToolResult::suspended("Sure?");
    assert!(plain.is_pending() && !plain.is_success() && !plain.is_error());
    assert_eq!(plain.status(), &Status::Pending(None));
    assert_eq!((plain.message(), plain.ticket()), (Some("Sure?"), None));

    let ticket = ticket();
    let asked = ToolResult::suspended_with(ticket.clone());
    assert!(asked.is_pending());
    assert_eq!(asked.ticket(), Some(&ticket));
}

fn ticket() -> Ticket {
    Ticket::new("provide-file", "Which file?")
        .with_parameters(json!({"near": "src"}))
        .with_response::<Vec<String>>()
        .with_resume_mode(ResumeMode::PassDecisionToTool)
}

#[test]
fn k7_a_ticket_holds_the_question_and_the_schema_of_its_answer() {
    let ticket = ticket();
    assert_eq!(ticket.action, "provide-file");
    assert_eq!(ticket.message, "Which file?");
    assert_eq!(ticket.parameters, json!({"near": "src"}));
    assert_eq!(ticket.response_schema, Some(json!({"type": "array", "items": {"type": "string"}})));
    assert_eq!(ticket.resume_mode, ResumeMode::PassDecisionToTool);

    let plain = Ticket::new("approve", "Sure?");
    assert_eq!(plain.resume_mode, ResumeMode::ReplayToolCall);
    assert_eq!((plain.parameters, plain.response_schema), (Value::Null, None));
}

#[test]
fn k7_to_json_has_five_members() {
    assert_eq!(
        ToolResult::success_with_message(1, "One.").to_json("count"),
        json!({
            "tool_name": "count",
            "status": "success",
            "data": 1,
            "message": "One.",
            "suspension": null,
        })
    );
    let asked = ToolResult::suspended_with(ticket()).to_json("pick");
    assert_eq!(asked["status"], "pending");
    assert_eq!(asked["suspension"]["action"], "provide-file");
    assert_eq!(asked["suspension"]["parameters"], json!({"near": "src"}));
    assert_eq!(asked["suspension"]["resume_mode"], "pass-decision-to-tool");
    assert_eq!(ToolResult::error("no").to_json("x")["status"], "error");
}

#[test]
fn k7_what_cannot_be_written_as_json_is_an_error_and_no_panic() {
    let keys_are_lists = BTreeMap::from([(vec![1], 1)]);
    let result = ToolResult::success_with_message(&keys_are_lists, "Fine.");
    assert!(result.is_error());
    assert_eq!(result.data()["error"]["code"], "unserializable");
}

#[test]
fn k7_descriptors_are_built_word_by_word() {
    let plain = ToolDescriptor::new("echo", "say", "Says it again.");
    assert_eq!((plain.id.as_str(), plain.name.as_str()), ("echo", "say"));
    assert_eq!(plain.description, "Says it again.");
    assert_eq!(plain.parameters, json!({"type": "object"}));
    let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let full = plain.with_parameters(parameters.clone()).with_category("demo");
    assert_eq!(full.parameters, parameters);
    assert_eq!(full.category.as_deref(), Some("demo"));
}
