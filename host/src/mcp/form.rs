//! A question to a person as a form that clients can show, and the person's entries
//! as the answer that was asked for.
//!
//! The protocol knows flat forms alone. An answer of another shape is asked for as
//! one field, or as text that is JSON.

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};
use tollgate_agent::run::event::Suspended;
use tollgate_agent::text::clean;

/// The longest message of a form, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// What a person entered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entered {
    /// The answer; whether it fits is for the run to say.
    Answer(Value),
    /// The person does not let the call go on.
    Declined,
    /// The person left the question open.
    Dismissed,
    /// The entry is not what the form asked for: why.
    Unreadable(String),
}

/// How the entries of a form make the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// All of them together.
    Whole,
    /// The one entry.
    Field,
    /// The one entry, which is JSON.
    Json,
    /// Nothing is entered: to accept is to say yes.
    Yes,
}

/// The form for a question, as the host stamped it.
pub(super) fn form(suspended: &Suspended) -> ElicitRequestParams {
    let (requested_schema, _) = schema(suspended.ticket.response_schema.as_ref());
    ElicitRequestParams::FormElicitationParams { meta: None, message: message(suspended), requested_schema }
}

/// What was entered into the form of this question.
pub(super) fn entered(suspended: &Suspended, result: ElicitResult) -> Entered {
    let (_, shape) = schema(suspended.ticket.response_schema.as_ref());
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return Entered::Declined,
        _ => return Entered::Dismissed,
    }
    let content = result.content.unwrap_or(Value::Null);
    let field = || content.get("answer").cloned();
    match shape {
        Shape::Whole => Entered::Answer(content),
        Shape::Yes => Entered::Answer(Value::Bool(true)),
        Shape::Field => field().map_or_else(nothing, Entered::Answer),
        Shape::Json => match field().as_ref().and_then(Value::as_str) {
            None => nothing(),
            Some(text) => match tollgate_agent::json::parse(text) {
                Ok(value) => Entered::Answer(value),
                Err(e) => Entered::Unreadable(format!("the answer is no JSON: {e}")),
            },
        },
    }
}

fn nothing() -> Entered {
    Entered::Unreadable("the form came back without an answer".to_owned())
}

fn message(suspended: &Suspended) -> String {
    let ticket = &suspended.ticket;
    let tool = &suspended.tool_name;
    let who = suspended
        .gate
        .as_ref()
        .map_or_else(|| format!("The tool {tool} asks"), |gate| format!("The gate {gate} asks about {tool}"));
    let mut message = format!("{who} ({}): {}", ticket.action, ticket.message);
    if !ticket.parameters.is_null() {
        let about = serde_json::to_string_pretty(&ticket.parameters).unwrap_or_default();
        message.push_str(&format!("\n\n{about}"));
    }
    clean(&message, MAX_MESSAGE_BYTES)
}

fn schema(wanted: Option<&Value>) -> (ElicitationSchema, Shape) {
    let Some(wanted) = wanted else {
        return (ElicitationSchema::new(std::collections::BTreeMap::new()), Shape::Yes);
    };
    let read = |schema: Value| serde_json::from_value::<ElicitationSchema>(schema).ok();
    if wanted.get("type").and_then(Value::as_str) == Some("object")
        && let Some(whole) = read(flat(wanted))
    {
        return (whole, Shape::Whole);
    }
    let one =
        |field: Value| json!({"type": "object", "properties": {"answer": field}, "required": ["answer"]});
    if let Some(field) = read(one(wanted.clone())) {
        return (field, Shape::Field);
    }
    let described = clean(&format!("JSON that fits {wanted}"), 2_000);
    let text = read(one(json!({"type": "string", "description": described})));
    let text = text.unwrap_or_else(|| ElicitationSchema::new(std::collections::BTreeMap::new()));
    (text, Shape::Json)
}

/// The schema in the words that forms have: of a field that may be null, the other
/// type; of what else a field says, what a form knows. The answer is held to the
/// schema itself.
fn flat(wanted: &Value) -> Value {
    const KNOWN: [&str; 10] = [
        "type",
        "title",
        "description",
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "format",
        "default",
    ];
    let mut flat = wanted.clone();
    for field in
        flat.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(|all| all.values_mut())
    {
        let Some(said) = field.as_object_mut() else { continue };
        let types = said.get("type").and_then(Value::as_array).cloned().unwrap_or_default();
        if let [only] = types.into_iter().filter(|kind| kind != "null").collect::<Vec<_>>().as_slice() {
            said.insert("type".to_owned(), only.clone());
        }
        let is_one_value = matches!(
            said.get("type").and_then(Value::as_str),
            Some("string" | "number" | "integer" | "boolean")
        );
        if is_one_value {
            said.retain(|word, value| KNOWN.contains(&word.as_str()) && !value.is_null());
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_agent::outcome::Ticket;

    fn asks(response_schema: Option<Value>) -> Suspended {
        let ticket = Ticket { response_schema, ..Ticket::confirm("Shall I?") };
        let suspended = json!({
            "call_id": "c", "suspension_id": "s", "tool_name": "t", "ticket": ticket,
        });
        serde_json::from_value(suspended).unwrap()
    }

    fn accepts(content: Value) -> ElicitResult {
        ElicitResult::new(ElicitationAction::Accept).with_content(content)
    }

    #[test]
    fn an_answer_is_asked_for_in_a_form_that_clients_can_show() {
        let flat = json!({"type": "object", "properties": {"approved": {"type": "boolean"}}});
        assert_eq!(schema(Some(&flat)).1, Shape::Whole);
        let optional = json!({"type": "object", "properties": {
            "approved": {"type": "boolean"}, "comment": {"type": ["string", "null"], "default": null},
        }, "required": ["approved"]});
        assert_eq!(schema(Some(&optional)).1, Shape::Whole);
        assert_eq!(schema(Some(&json!({"type": "string"}))).1, Shape::Field);
        let deep = json!({"type": "object", "properties": {"a": {"type": "object"}}});
        for other in [deep, json!({"type": "array"}), json!(true)] {
            assert_eq!(schema(Some(&other)).1, Shape::Json, "{other}");
        }
        assert_eq!(schema(None).1, Shape::Yes);
    }

    #[test]
    fn entries_become_the_answer() {
        let flat = json!({"type": "object", "properties": {"approved": {"type": "boolean"}}});
        let answer = json!({"approved": true});
        assert_eq!(entered(&asks(Some(flat)), accepts(answer.clone())), Entered::Answer(answer));
        let text = asks(Some(json!({"type": "string"})));
        assert_eq!(entered(&text, accepts(json!({"answer": "x"}))), Entered::Answer(json!("x")));
        let list = asks(Some(json!({"type": "array"})));
        assert_eq!(entered(&list, accepts(json!({"answer": "[1]"}))), Entered::Answer(json!([1])));
        assert!(matches!(entered(&list, accepts(json!({"answer": "["}))), Entered::Unreadable(_)));
        assert!(matches!(entered(&list, accepts(json!({}))), Entered::Unreadable(_)));
        assert_eq!(entered(&asks(None), accepts(json!({}))), Entered::Answer(json!(true)));
        let declined = ElicitResult::new(ElicitationAction::Decline);
        assert_eq!(entered(&asks(None), declined), Entered::Declined);
        assert_eq!(entered(&asks(None), ElicitResult::new(ElicitationAction::Cancel)), Entered::Dismissed);
    }
}
