//! Tests of the results of checks and of their largest cost.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::schema::{MAX_STEPS, Schema, describe};
use proptest::prelude::*;
use serde_json::json;

/// Returns the steps that a check took, and whether it was complete.
fn steps(schema: &Schema, value: &Value) -> (u64, bool) {
    let mut check = Check::new(&schema.compiled.nodes, value, u64::MAX);
    let complete = check.run(value) != Err(Stop::TooMuchWork);
    (check.steps_taken(), complete)
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        prop_oneof![Just(0.5), Just(2.0), Just(-1.5), Just(1e20), Just(0.3)].prop_map(Value::from),
        prop_oneof![Just(""), Just("a"), Just("ab"), Just("b1"), Just("\u{e4}")].prop_map(Value::from),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("ab"), Just("c")].prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn merged(parts: Vec<Value>) -> Value {
    let maps = parts.into_iter().filter_map(|part| match part {
        Value::Object(map) => Some(map),
        _ => None,
    });
    Value::Object(maps.flatten().collect())
}

fn simple() -> impl Strategy<Value = Value> {
    let kind = || prop::sample::select(Type::ALL.map(|(_, name)| name).to_vec());
    let pattern = || prop::sample::select(vec!["^a", "b$", "^[ab]+$", "\\d", "^.$", "\\w"]);
    prop_oneof![
        kind().prop_map(|kind| json!({"type": kind})),
        (kind(), kind())
            .prop_filter("the meta-schema wants different ones", |(one, other)| one != other)
            .prop_map(|(one, other)| json!({"type": [one, other]})),
        value().prop_map(|value| json!({"const": value})),
        prop::collection::vec(value(), 1..4).prop_map(|values| json!({"enum": values})),
        (-2..3_i64).prop_map(|n| json!({"minimum": n})),
        (-2..3_i64).prop_map(|n| json!({"exclusiveMaximum": n as f64 + 0.5})),
        (-2..3_i64).prop_map(|n| json!({"maximum": n, "exclusiveMinimum": n - 2})),
        prop_oneof![Just(json!(2)), Just(json!(0.1)), Just(json!(1.5))]
            .prop_map(|n| json!({"multipleOf": n})),
        (0..3_u64, 0..3_u64).prop_map(|(n, m)| json!({"minLength": n, "maxLength": n + m})),
        (0..3_u64, 0..3_u64).prop_map(|(n, m)| json!({"minItems": n, "maxItems": n + m})),
        (0..3_u64, 0..3_u64).prop_map(|(n, m)| json!({"minProperties": n, "maxProperties": n + m})),
        pattern().prop_map(|pattern| json!({"pattern": pattern})),
        Just(json!({"uniqueItems": true})),
        name().prop_map(|name| json!({"required": [name]})),
        (name(), name()).prop_map(|(name, needs)| json!({"dependentRequired": {name: [needs]}})),
        (name(), name()).prop_map(|(name, needs)| json!({"dependencies": {name: [needs]}})),
        Just(json!({"$ref": "#/$defs/d"})),
        Just(json!({"$ref": "#/$defs/e"})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let part = prop_oneof![4 => simple(), 1 => any::<bool>().prop_map(Value::from)];
    part.prop_recursive(4, 48, 4, |inner| {
        let one = || inner.clone();
        let some = || prop::collection::vec(inner.clone(), 1..4);
        let applied = prop_oneof![
            some().prop_map(|all| json!({"allOf": all})),
            some().prop_map(|all| json!({"anyOf": all})),
            some().prop_map(|all| json!({"oneOf": all})),
            one().prop_map(|one| json!({"not": one})),
            (one(), one(), one()).prop_map(|(i, t, e)| json!({"if": i, "then": t, "else": e})),
            (name(), one()).prop_map(|(name, one)| json!({"properties": {name: one}})),
            (name(), one(), one()).prop_map(
                |(name, one, rest)| json!({"properties": {name: one}, "additionalProperties": rest})
            ),
            (one(), one()).prop_map(|(one, other)| json!({"patternProperties": {"^a": one, "b": other}})),
            one().prop_map(|one| json!({"propertyNames": one})),
            one().prop_map(|one| json!({"items": one})),
            (some(), one()).prop_map(|(first, rest)| json!({"prefixItems": first, "items": rest})),
            some().prop_map(|first| json!({"prefixItems": first})),
            (one(), 0..3_u64)
                .prop_map(|(one, n)| json!({"contains": one, "minContains": n, "maxContains": n + 1})),
            one().prop_map(|one| json!({"contains": one})),
            (name(), one()).prop_map(|(name, one)| json!({"dependentSchemas": {name: one}})),
            one().prop_map(|one| json!({"unevaluatedProperties": one})),
            one().prop_map(|one| json!({"unevaluatedItems": one})),
        ];
        prop::collection::vec(prop_oneof![3 => applied, 1 => simple()], 1..4).prop_map(merged)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn z1_answers_are_those_of_the_validator_library(
        schema in schema(), d in simple(), e in schema(), values in prop::collection::vec(value(), 4)
    ) {
        let schema = match schema {
            Value::Object(mut map) => {
                let leads_on = |part: &Value| part.to_string().contains("$ref");
                // A definition that refers to other definitions might refer to itself forever.
                let (d, e) = (if leads_on(&d) { json!({}) } else { d }, if leads_on(&e) { json!({}) } else { e });
                map.insert("$defs".to_owned(), json!({"d": d, "e": e}));
                Value::Object(map)
            }
            other => other,
        };
        let library = jsonschema::draft202012::options()
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .build(&schema);
        let ours = Schema::compile(&schema);
        prop_assert_eq!(ours.is_ok(), library.is_ok(), "{} is taken by one alone: {:?}", schema, ours.err());
        let (Ok(library), Ok(ours)) = (library, ours) else { return Ok(()) };
        for value in values {
            let violations = ours.violations(&value);
            prop_assert_eq!(violations.is_empty(), library.is_valid(&value), "{} and {}: {:?}", schema, value, violations);
            let (steps, complete) = steps(&ours, &value);
            let most = ours.most_steps(parts(&value));
            prop_assert!(complete && steps <= most, "{} and {}: {} of {}", schema, value, steps, most);
        }
    }
}

/// A name, and a schema and a value that are built to be as expensive as possible.
type Bomb = (&'static str, Value, Value);

fn wide(count: usize) -> Value {
    json!(vec![json!({"a": 1}); count])
}

fn text(count: usize) -> String {
    "x".repeat(count)
}

fn members(count: usize) -> Value {
    named(count, |n| json!(n))
}

fn named(count: usize, value: impl Fn(usize) -> Value) -> Value {
    (0..count).map(|n| (format!("n{n}"), value(n))).collect()
}

fn list(count: usize, value: impl Fn(usize) -> Value) -> Value {
    (0..count).map(value).collect()
}

fn comparing() -> Vec<Bomb> {
    let option = |n: usize| json!({"n": n, "list": wide(90)});
    let same = json!(vec![option(19); 120]);
    let numbered = list(4_000, |n| json!({"n": n, "t": text(20)}));
    let long_names = json!({"items": {"required": [text(30_000), text(30_001)]}});
    let multiples = list(600, |_| json!({"multipleOf": 1e-300}));
    vec![
        ("an enum of large objects", json!({"items": {"enum": list(20, option)}}), same.clone()),
        ("a large const", json!({"items": {"const": option(19)}}), same),
        ("unique objects", json!({"uniqueItems": true}), numbered),
        ("equal objects", json!({"items": {"uniqueItems": true}}), json!(vec![wide(500); 300])),
        ("multiples of large numbers", json!({"items": {"allOf": multiples}}), json!(vec![1e300; 4_000])),
        ("long names that are required", long_names, wide(4_000)),
        (
            "lengths of long texts",
            json!({"allOf": list(1_900, |_| json!({"minLength": 1}))}),
            json!(text(250_000)),
        ),
        ("thousands of errors", json!({"items": {"type": "string"}}), wide(4_000)),
        (
            "errors with large values",
            json!({"items": {"items": {"not": {}}}}),
            json!(vec![vec![text(40_000)]; 6]),
        ),
    ]
}

fn branching() -> Vec<Bomb> {
    let any = |count: usize, branch: Value| json!({"anyOf": vec![branch; count]});
    let late: Value = (0..4_000).map(|n| json!(if n == 3_999 { 9 } else { 1 })).collect();
    let items = (0..25).fold(json!({}), |inner, _| json!({"items": inner}));
    let nested = (0..120).fold(json!([1, 2]), |inner, _| json!([inner]));
    let nots = (0..28).fold(json!({"items": {"const": 1}}), |inner, _| json!({"not": inner}));
    let chain =
        (0..9).fold(json!({"type": "array"}), |inner, _| json!({"anyOf": [inner, inner], "not": false}));
    let next = |n: usize| json!({"$ref": format!("#/$defs/n{}", n + 1)});
    let doubling = named(31, |n| if n == 30 { json!({}) } else { json!({"allOf": [next(n), next(n)]}) });
    let contains = json!({"contains": {"contains": {"contains": {"const": 7}}}, "minContains": 9});
    let unevaluated =
        (0..14).fold(json!({}), |inner, _| json!({"allOf": [inner], "unevaluatedItems": {"type": "object"}}));
    let named_one = vec![json!({"properties": {"n1": true}}); 900];
    let unseen = json!({"anyOf": named_one, "unevaluatedProperties": false});
    let dependent = named(900, |_| json!({"additionalProperties": {"type": "integer"}}));
    let one_of = json!({"oneOf": vec![json!({"contains": {"const": 7}}); 900]});
    let trues = json!({"items": {"allOf": vec![true; 10_000]}});
    let requiring = json!({"dependentRequired": named(900, |_| json!(["n1", "n2"]))});
    vec![
        ("branches on a large value", any(900, json!({"items": {"type": "null"}})), wide(4_000)),
        ("branches with errors", any(1_500, json!({"type": "string", "minLength": 1})), wide(4_000)),
        ("branches that fail late", any(600, json!({"items": {"maximum": 5}})), late),
        ("one of equal branches", one_of, wide(4_000)),
        ("containing", contains, json!(vec![vec![wide(60); 30]; 30])),
        ("dependent schemas", json!({"dependentSchemas": dependent}), members(1_000)),
        ("dependent names", requiring, members(4_000)),
        ("nested items", json!({"allOf": vec![items; 60]}), nested),
        ("nested not", nots, wide(4_000)),
        ("branches that double", chain, wide(10)),
        ("references that double", json!({"$ref": "#/$defs/n0", "$defs": doubling}), json!({})),
        ("a reference to itself", json!({"$ref": "#"}), json!({})),
        ("unevaluated after many branches", unseen, members(4_000)),
        ("unevaluated at each level", unevaluated, wide(4_000)),
        ("many schemas that say nothing", trues, wide(4_000)),
    ]
}

fn matching() -> Vec<Bomb> {
    let names: Value = (0..60).map(|n| (format!("[a-z]{{0,{}}}{n}$", n + 10), json!({}))).collect();
    let optional = list(60, |n| json!({"pattern": format!("(a?){{{n}}}b")}));
    let long = list(60, |n| json!({"pattern": format!("(x?){{200}}{n}")}));
    let letters = list(8, |n| json!({"pattern": format!(r"(\p{{L}}\p{{N}}?)*{n}")}));
    vec![
        ("patterns of names", json!({"patternProperties": names}), members(4_000)),
        ("names against patterns", json!({"propertyNames": {"anyOf": optional}}), members(4_000)),
        ("long texts against patterns", json!({"allOf": long}), json!(text(250_000))),
        ("classes against long texts", json!({"allOf": letters}), json!("\u{e4}".repeat(125_000))),
    ]
}

fn bombs() -> Vec<Bomb> {
    [comparing(), branching(), matching()].concat()
}

#[test]
fn z1_no_check_takes_more_steps_than_its_value_allows() {
    for (name, schema, value) in bombs() {
        let compiled = Schema::compile(&schema).unwrap_or_else(|why| panic!("{name}: {why}"));
        let mut left = u64::MAX;
        let violations = compiled.violations_within(&value, &mut left);
        let (taken, most) = (u64::MAX - left, compiled.most_steps(parts(&value)));
        assert!(taken <= most && most <= MAX_STEPS, "{name}: {taken} of {most}");
        assert!(violations.len() <= MAX_VIOLATIONS, "{name}");
        let text = describe(&violations);
        assert!(text.len() <= MAX_VIOLATIONS * 1_000, "{name}: {} bytes", text.len());
    }
}

#[test]
fn a_check_as_deep_as_it_may_go_has_room_on_a_small_stack() {
    let nested = (0..MAX_NESTING).fold(json!([]), |inner, _| json!([inner]));
    let schema = Schema::compile(&json!({"anyOf": [{"items": {"$ref": "#"}}]})).unwrap();
    let found = schema.violations(&nested);
    assert!(found[0].problem.contains("too much work"), "{found:?}");
    // The value is too deep to be dropped recursively in a larger test; it is small here.
    let fits = (0..300).fold(json!([]), |inner, _| json!([inner]));
    assert!(schema.violations(&fits).is_empty());
}

#[test]
fn z1_what_is_reported_is_small_however_deep_it_is() {
    let name = text(1_000);
    let deep = (0..100).fold(json!(1), |inner, _| json!({ name.as_str(): inner }));
    let schema = json!({"anyOf": [{"type": "integer", "maximum": 0}, {"type": "object"}],
        "additionalProperties": {"$ref": "#"}});
    let found = Schema::compile(&schema).unwrap().violations(&deep);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].pointer.len() <= 600 && found[0].problem.len() <= 600, "{found:?}");
}

#[test]
fn references_are_followed_as_deep_as_the_value_is() {
    let schema = json!({ "properties": {
        "left": { "$ref": "#" }, "right": { "$ref": "#" }, "rest": { "items": { "$ref": "#" } },
    }, "additionalProperties": false });
    let schema = Schema::compile(&schema).unwrap();
    let wide = json!({ "rest": vec![json!({ "left": {}, "right": {} }); 20_000] });
    assert!(schema.violations(&wide).is_empty());
    let nested = (0..120).fold(json!({}), |inner, _| json!({ "left": inner }));
    assert!(schema.violations(&nested).is_empty());
    let branch = json!({ "properties": { "a": { "$ref": "#" } } });
    let doubling = Schema::compile(&json!({ "allOf": [branch, branch] })).unwrap();
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
    assert!(doubling.violations(&nested(8)).is_empty());
    assert!(doubling.violations(&nested(40))[0].problem.contains("too much work"));
}
