#![allow(clippy::unwrap_used)]
use super::*;
use serde_json::json;
use tollgate_agent::schema::Schema;

/// Each schema of the subset with answers that fit it.
fn subset() -> Vec<(Value, Vec<Value>)> {
    vec![
        (json!({"type": "string"}), vec![json!("a\nb"), json!("")]),
        (json!({"type": "string", "enum": ["a", "b"]}), vec![json!("b")]),
        (json!({"type": "number"}), vec![json!(2.5), json!(-3), json!(0.1)]),
        (json!({"type": "integer", "minimum": 1}), vec![json!(9_007_199_254_740_993_u64)]),
        (json!({"type": "boolean"}), vec![json!(true), json!(false)]),
        (json!({"enum": [1, "1", null, {"a": 1}]}), vec![json!(1), json!("1"), json!(null), json!({"a": 1})]),
        (json!({"const": {"go": true}}), vec![json!({"go": true})]),
        (json!({"type": "array", "items": {"enum": ["x", "y", "z"]}}), vec![json!([]), json!(["x", "z"])]),
        (
            json!({"type": "object", "required": ["approved"], "properties": {
                "approved": {"type": "boolean"},
                "comment": {"type": ["string", "null"]},
                "amount": {"type": "number"},
                "days": {"type": "integer"},
                "kind": {"enum": ["full", "partial"]},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
                "version": {"const": 2},
                "a/b~c": {"type": "string"},
                "address": {"type": "object", "required": ["city"], "properties": {
                    "city": {"type": "string"}, "zip": {"type": "integer"},
                }},
            }}),
            vec![
                json!({"approved": true}),
                json!({"approved": false, "comment": "no\nreally", "amount": 1.25, "days": -2, "kind": "partial",
                    "tags": ["b"], "version": 2, "a/b~c": "x", "address": {"city": "Ulm", "zip": 89_073}}),
            ],
        ),
        (json!({"type": "array", "items": {"type": "string"}}), vec![json!(["a"])]),
        (json!({"type": "object"}), vec![json!({"any": [1, 2]})]),
        (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), vec![json!("x"), json!(5)]),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {
                "b": {"type": "object", "properties": {"c": {"type": "string"}}},
            }}}}),
            vec![json!({"a": {"b": {"c": "deep"}}})],
        ),
    ]
}

#[test]
fn every_form_of_the_subset_returns_the_answer_that_was_entered() {
    for (schema, answers) in subset() {
        let form = Form::of_schema(&schema);
        let compiled = Schema::compile(&schema).unwrap();
        for answer in answers {
            let entered = form.value(&form.entries_of(&answer));
            assert_eq!(entered.as_ref(), Ok(&answer), "{schema}");
            assert!(compiled.violations(&answer).is_empty(), "{schema} {answer}");
        }
    }
}

#[test]
fn schemas_have_the_fields_that_fit_them() {
    let form = |schema: Value| Form::of_schema(&schema);
    assert_eq!(form(json!({})), Form::Anything);
    assert_eq!(form(json!(true)), Form::Anything);
    assert_eq!(form(json!({"type": "array"})), Form::Json);
    let Form::Object(properties) = form(json!({"type": "object", "properties": {
        "deep": {"type": "object", "properties": {"deeper": {"type": "object", "properties": {"x": {}}}}},
    }})) else {
        panic!("not an object")
    };
    let Field::Group(inner) = &properties[0].field else { panic!("not a group") };
    assert_eq!(inner[0].field, Field::Json, "the second level is the last one with fields");
    let many: Map<String, Value> = (0..50).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    assert_eq!(form(json!({"type": "object", "properties": many})), Form::Json);
}

#[test]
fn entries_that_do_not_fit_are_errors_at_their_field() {
    let schema = json!({"type": "object", "required": ["n", "b", "c"], "properties": {
        "n": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"enum": ["x"]}, "j": {"type": "array"},
    }});
    let Form::Object(properties) = Form::of_schema(&schema) else { panic!("not an object") };
    let names: Vec<_> = properties.iter().map(|property| property.name.clone()).collect();
    let key = |name: &str| entry_key(ROOT, names.iter().position(|known| known == name).unwrap());
    let entries =
        Entries(vec![(key("n"), "2.5".to_owned()), (key("c"), "7".to_owned()), (key("j"), "[".to_owned())]);
    let mut pointers: Vec<String> = Form::Object(properties)
        .value(&entries)
        .unwrap_err()
        .into_iter()
        .map(|error| error.pointer)
        .collect();
    pointers.sort();
    assert_eq!(pointers, ["/b", "/c", "/j", "/n"]);
}

#[test]
fn the_permission_rules_take_four_answers_for_arguments_or_the_tool() {
    let permit = |permit: &str, about: &str| {
        let entries =
            [("permit", permit), ("for", about)].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Form::Permission.value(&Entries(entries.to_vec()))
    };
    assert_eq!(permit("once", "tool"), Ok(json!(true)));
    assert_eq!(permit("thread", ""), Ok(json!({"remember": "thread", "for": "arguments"})));
    assert_eq!(permit("always", "tool"), Ok(json!({"remember": "always", "for": "tool"})));
    assert!(permit("forever", "").is_err());
}
