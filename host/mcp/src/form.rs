//! Questions to a person as forms that clients can show, and the conversion of the entries to an
//! answer.
//!
//! The protocol has only flat forms. An answer of another shape is requested as a single field,
//! or as text in JSON.

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};
use tollgate_agent::gate::permissions::asks_to_permit;
use tollgate_agent::question::{action, asks, sections};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::text::clean;

/// The maximum size of a form's message, in bytes. A longer question is not asked by a form.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// The maximum size of a schema that a form includes in its text, in bytes.
const MAX_DESCRIBED_BYTES: usize = 2_000;

/// A person's entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FormEntry {
    /// The answer; the run checks whether it is valid.
    Answer(Value),
    /// The person rejects the call.
    Declined,
    /// The person left the question open.
    Dismissed,
    /// The entry is not in the form's format. Holds the reason.
    Unreadable(String),
}

/// The way in which a form's entries become the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// All entries together are the answer.
    Whole,
    /// The single entry is the answer.
    Field,
    /// The single entry is the answer as JSON.
    Json,
    /// There are no entries: accepting the form means yes.
    Yes,
}

/// Returns the form for a question, with everything the person must see; `None` if it does not
/// fit into a form. With `may_remember`, an answer to the permission rules may be remembered;
/// otherwise it is yes or no.
pub(super) fn form(suspended: &SuspendedCall, may_remember: bool) -> Option<ElicitRequestParams> {
    // Arguments that are too long are not parsed, because their value takes many times their memory.
    if suspended.asking_arguments().is_some_and(|arguments| arguments.text().len() > MAX_MESSAGE_BYTES) {
        return None;
    }
    let message = message(suspended);
    if message.len() > MAX_MESSAGE_BYTES {
        return None;
    }
    let (requested_schema, _) = schema(wanted(suspended, may_remember))?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Returns a person's entries in the form of this question.
pub(super) fn entered(suspended: &SuspendedCall, may_remember: bool, result: ElicitResult) -> FormEntry {
    let Some((_, shape)) = schema(wanted(suspended, may_remember)) else {
        return FormEntry::Unreadable("the question does not fit into a form".to_owned());
    };
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return FormEntry::Declined,
        _ => return FormEntry::Dismissed,
    }
    let content = result.content.unwrap_or(Value::Null);
    let field = || content.get("answer").cloned();
    match shape {
        Shape::Whole => FormEntry::Answer(content),
        Shape::Yes if asks_to_permit(suspended) && !is_plain_yes(&content) => FormEntry::Unreadable(
            "only yes or no to this call is accepted; [permissions] of tollgate.toml can allow more"
                .to_owned(),
        ),
        Shape::Yes => FormEntry::Answer(Value::Bool(true)),
        Shape::Field => field().map_or_else(nothing, FormEntry::Answer),
        Shape::Json => match field().as_ref().and_then(Value::as_str) {
            None => nothing(),
            Some(text) => match tollgate_agent::json::parse_exact(text) {
                Ok(value) => FormEntry::Answer(value),
                Err(e) => FormEntry::Unreadable(format!("the answer is not valid JSON: {e}")),
            },
        },
    }
}

/// Returns the schema of the client's answer; `None` if it can only be yes.
fn wanted(suspended: &SuspendedCall, may_remember: bool) -> Option<&Value> {
    let schema = suspended.ticket.response_schema.as_ref();
    schema.filter(|_| may_remember || !asks_to_permit(suspended))
}

/// Returns whether an accepted form without fields means only yes.
fn is_plain_yes(content: &Value) -> bool {
    let says_yes = |answer: &Value| *answer == json!(true) || *answer == json!("true");
    match content {
        Value::Null => true,
        Value::Object(fields) => fields.iter().all(|(name, answer)| name == "answer" && says_yes(answer)),
        _ => false,
    }
}

fn nothing() -> FormEntry {
    FormEntry::Unreadable("the form came back without an answer".to_owned())
}

/// Returns the question as text. The host's own lines are plain; all others are marked.
pub(super) fn message(suspended: &SuspendedCall) -> String {
    let mut message = format!("Tollgate: {} ({}):", asks(suspended), action(suspended));
    for section in sections(suspended, usize::MAX) {
        match section.label {
            "message" => message.push_str(&format!("\n{}", section.text)),
            // The form itself is the schema of the answer.
            "answer" => {}
            label => message.push_str(&format!("\n{label}:\n{}", section.text)),
        }
    }
    message
}

/// Returns the form's schema and how its entries become the answer; `None` if the schema of the
/// answer is too long to include in a form.
fn schema(wanted: Option<&Value>) -> Option<(ElicitationSchema, Shape)> {
    let Some(wanted) = wanted else {
        return Some((ElicitationSchema::new(std::collections::BTreeMap::new()), Shape::Yes));
    };
    let read = |schema: Value| serde_json::from_value::<ElicitationSchema>(schema).ok();
    if wanted.get("type").and_then(Value::as_str) == Some("object")
        && let Some(whole) = read(flat(wanted))
    {
        return Some((whole, Shape::Whole));
    }
    let one =
        |field: Value| json!({"type": "object", "properties": {"answer": field}, "required": ["answer"]});
    let mut field = wanted.clone();
    field.as_object_mut().into_iter().for_each(on_one_line);
    if let Some(field) = read(one(field)) {
        return Some((field, Shape::Field));
    }
    let described = format!("JSON that fits {wanted}");
    if described.len() > MAX_DESCRIBED_BYTES {
        return None;
    }
    let described = clean(&described, MAX_DESCRIBED_BYTES);
    let text = read(one(json!({"type": "string", "description": described})));
    let text = text.unwrap_or_else(|| ElicitationSchema::new(std::collections::BTreeMap::new()));
    Some((text, Shape::Json))
}

/// Reduces a schema to the keywords that forms support. A nullable field becomes its other type,
/// and unsupported keywords are dropped. The answer is checked against the full schema.
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
        on_one_line(said);
    }
    flat
}

/// Puts a field's own texts on one line each, so that they cannot be mistaken for anything but
/// labels.
fn on_one_line(field: &mut serde_json::Map<String, Value>) {
    for word in ["title", "description"] {
        if let Some(Value::String(text)) = field.get_mut(word) {
            *text = clean(text, MAX_DESCRIBED_BYTES).split_whitespace().collect::<Vec<_>>().join(" ");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_agent::outcome::Ticket;

    fn asks(response_schema: Option<Value>) -> SuspendedCall {
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
        assert_eq!(schema(Some(&flat)).unwrap().1, Shape::Whole);
        let optional = json!({"type": "object", "properties": {
            "approved": {"type": "boolean"}, "comment": {"type": ["string", "null"], "default": null},
        }, "required": ["approved"]});
        assert_eq!(schema(Some(&optional)).unwrap().1, Shape::Whole);
        assert_eq!(schema(Some(&json!({"type": "string"}))).unwrap().1, Shape::Field);
        let deep = json!({"type": "object", "properties": {"a": {"type": "object"}}});
        for other in [deep, json!({"type": "array"}), json!(true)] {
            assert_eq!(schema(Some(&other)).unwrap().1, Shape::Json, "{other}");
        }
        assert_eq!(schema(None).unwrap().1, Shape::Yes);
    }

    #[test]
    fn entries_become_the_answer() {
        let flat = json!({"type": "object", "properties": {"approved": {"type": "boolean"}}});
        let answer = json!({"approved": true});
        assert_eq!(entered(&asks(Some(flat)), false, accepts(answer.clone())), FormEntry::Answer(answer));
        let text = asks(Some(json!({"type": "string"})));
        assert_eq!(entered(&text, false, accepts(json!({"answer": "x"}))), FormEntry::Answer(json!("x")));
        let list = asks(Some(json!({"type": "array"})));
        assert_eq!(entered(&list, false, accepts(json!({"answer": "[1]"}))), FormEntry::Answer(json!([1])));
        assert!(matches!(entered(&list, false, accepts(json!({"answer": "["}))), FormEntry::Unreadable(_)));
        assert!(matches!(entered(&list, false, accepts(json!({}))), FormEntry::Unreadable(_)));
        assert_eq!(entered(&asks(None), false, accepts(json!({}))), FormEntry::Answer(json!(true)));
        let declined = ElicitResult::new(ElicitationAction::Decline);
        assert_eq!(entered(&asks(None), false, declined), FormEntry::Declined);
        assert_eq!(
            entered(&asks(None), false, ElicitResult::new(ElicitationAction::Cancel)),
            FormEntry::Dismissed
        );
    }

    fn permits() -> SuspendedCall {
        let schema = json!({"anyOf": [
            {"const": true},
            {
                "type": "object",
                "properties": {
                    "remember": {"enum": ["run", "thread", "always"]},
                    "for": {"enum": ["arguments", "tool"], "default": "arguments"},
                },
                "required": ["remember"],
                "additionalProperties": false,
            },
        ]});
        let asked = SuspendedCall { gate: Some("permissions".into()), ..asks(Some(schema)) };
        assert!(
            asks_to_permit(&SuspendedCall { gate: None, ..asked.clone() }),
            "a child's question is known too"
        );
        asked
    }

    #[test]
    fn z12_a_client_says_yes_or_no_to_the_permission_rules_and_nothing_more() {
        for yes in [json!({}), json!({"answer": "true"}), json!({"answer": true})] {
            assert_eq!(entered(&permits(), false, accepts(yes)), FormEntry::Answer(json!(true)));
        }
        let always = json!({"remember": "always", "for": "tool"});
        for more in [
            always.clone(),
            json!({"answer": always.to_string()}),
            json!({"answer": always}),
            json!({"answer": "true", "remember": "thread"}),
            json!([true]),
        ] {
            let entered = entered(&permits(), false, accepts(more.clone()));
            assert!(matches!(entered, FormEntry::Unreadable(_)), "{more}: {entered:?}");
        }
        let allowed = entered(&permits(), true, accepts(json!({"answer": always.to_string()})));
        assert_eq!(allowed, FormEntry::Answer(always));
    }

    #[test]
    fn z22_a_question_that_does_not_fit_whole_is_no_form() {
        let with = |arguments: Value| SuspendedCall {
            arguments: Some(tollgate_agent::proposal::Arguments::from_value(arguments)),
            ..permits()
        };
        let shown = message(&with(json!({"path": "/etc/passwd"})));
        assert!(shown.contains("| ") && shown.contains("/etc/passwd"), "{shown}");
        assert!(form(&with(json!({"path": "x".repeat(10_000)})), false).is_some());
        assert!(form(&with(json!({"path": "x".repeat(MAX_MESSAGE_BYTES)})), false).is_none());
        let long = json!({"anyOf": [{"const": "x".repeat(MAX_DESCRIBED_BYTES)}]});
        assert!(form(&asks(Some(long)), false).is_none());
        let spoof = json!({"type": "object", "properties": {"approved": {
            "type": "boolean", "title": "OK\nthe gate host asks (permit):\n\nfine",
        }}});
        let form = serde_json::to_string(&form(&asks(Some(spoof)), false).unwrap()).unwrap();
        assert!(form.contains("OK the gate host asks"), "{form}");
    }
}
