#![allow(clippy::unwrap_used)]
use super::*;
use tollgate_agent::outcome::Ticket;

fn asked(schema: Value) -> SuspendedCall {
    let ticket = Ticket { response_schema: Some(schema), ..Ticket::confirm("Sure?") };
    let suspended = json!({"call_id": "c", "suspension_id": "s", "tool_name": "t", "ticket": ticket});
    serde_json::from_value(suspended).unwrap()
}

/// Types lines until the form has an answer.
fn typed(schema: Value, lines: &[&str]) -> (Step, Vec<String>) {
    let mut form = Form::new(&asked(schema), 80);
    let mut shown = Vec::new();
    for line in lines {
        shown.push(anstream::adapter::strip_str(&form.prompt()).to_string());
        match form.enter(line) {
            Step::Again(words) => shown.extend(words),
            done => return (done, shown),
        }
    }
    (Step::Open, shown)
}

fn answer(value: Value) -> Step {
    Step::Done(DecisionAnswer::Resume(value))
}

fn permission_question() -> SuspendedCall {
    SuspendedCall { gate: Some("permissions".into()), ..asked(json!({"const": true})) }
}

#[test]
fn w3_a_permission_question_takes_one_letter() {
    for (line, expected) in [
        ("o", answer(json!(true))),
        ("T", answer(json!({"remember": "thread"}))),
        ("always", answer(json!({"remember": "always"}))),
        ("n", Step::Done(DecisionAnswer::Cancel)),
        ("{\"remember\": \"run\"}", answer(json!({"remember": "run"}))),
        ("", Step::Open),
    ] {
        assert_eq!(Form::new(&permission_question(), 80).enter(line), expected, "{line}");
    }
    let mut form = Form::new(&permission_question(), 80);
    assert!(matches!(form.enter("perhaps"), Step::Again(Some(_))));
    let prompt = anstream::adapter::strip_str(&form.prompt()).to_string();
    assert!(prompt.starts_with("[o]nce  [t]hread  [a]lways  [n]o"), "{prompt}");
}

#[test]
fn w3_a_boolean_takes_yes_or_no_and_an_enumeration_a_number() {
    assert_eq!(typed(json!({"type": "boolean"}), &["maybe", "n"]).0, answer(json!(false)));
    let colours = json!({"enum": ["red", "green", 3]});
    let (step, shown) = typed(colours.clone(), &["4", "2"]);
    assert_eq!(step, answer(json!("green")));
    assert!(shown[0].contains("   1  \"red\"\n   2  \"green\"\n   3  3\n"), "{}", shown[0]);
    assert_eq!(typed(colours, &["red"]).0, answer(json!("red")));
}

#[test]
fn w3_an_object_takes_a_field_at_a_time_and_shows_its_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "note": {"type": "string", "description": "What to say\ncall 9"},
            "sure": {"type": "boolean"},
            "times": {"type": "integer"},
        },
        "required": ["sure", "note"],
    });
    let (step, shown) = typed(schema.clone(), &["?", "fine", "y", ""]);
    assert_eq!(step, answer(json!({"note": "fine", "sure": true})));
    assert!(shown[1].contains("\"required\""), "{}", shown[1]);
    assert!(shown[0].contains("| \"note\": What to say call 9\n"), "{}", shown[0]);
    assert!(shown.last().unwrap().contains("optional"), "{shown:?}");
    assert_eq!(
        typed(schema.clone(), &["\"cancel\"", "n", "2"]).0,
        answer(json!({"note": "cancel", "sure": false, "times": 2}))
    );
    assert_eq!(
        typed(schema.clone(), &["{\"sure\": true, \"note\": \"x\"}"]).0,
        answer(json!({"sure": true, "note": "x"}))
    );
    assert_eq!(typed(schema.clone(), &["x", "cancel"]).0, Step::Done(DecisionAnswer::Cancel));
    assert_eq!(typed(schema, &[""]).0, Step::Open);
}

#[test]
fn w3_a_value_that_may_be_null_is_typed_like_the_value() {
    let schema = json!({
        "type": "object",
        "properties": {
            "sure": {"type": "boolean"},
            "comment": {"type": ["string", "null"]},
            "times": {"anyOf": [{"type": "integer", "description": "How often"}, {"type": "null"}]},
            "colour": {"type": ["null", "string"], "enum": ["red", "green", null]},
            "by": {"type": ["string", "null"]},
        },
        "required": ["sure", "by"],
    });
    let (step, shown) = typed(schema.clone(), &["y", "", "fine", "2", "2"]);
    assert_eq!(
        step,
        answer(json!({"sure": true, "by": null, "comment": "fine", "times": 2, "colour": "green"}))
    );
    assert!(shown.iter().all(|words| !words.contains("JSON")), "{shown:?}");
    assert!(shown.iter().any(|words| words.contains("\"times\": How often")), "{shown:?}");
    assert_eq!(typed(schema, &["n", "Ada", "", "", ""]).0, answer(json!({"sure": false, "by": "Ada"})));
    assert_eq!(typed(json!({"type": ["boolean", "null"]}), &["y"]).0, answer(json!(true)));
}

#[test]
fn w3_any_other_schema_takes_json() {
    let (step, shown) = typed(json!({"type": "array"}), &["one", "[1]"]);
    assert_eq!(step, answer(json!([1])));
    assert!(shown[1].starts_with("not valid JSON"), "{shown:?}");
}
