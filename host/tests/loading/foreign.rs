//! Components of another project, which knows nothing of this one, compiled from its
//! own sources and called by what is read from their types: the guests with which
//! wit-bindgen tests itself, as its published crate has them. Each is built for many
//! languages and hosts; between them they use every type of WIT.

mod project;

use crate::versions::Place;
use project::Project;
use serde_json::{Value, json};
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;

/// Its guests: the folder, the file, and the world that it is of.
const GUESTS: [(&str, &str, &str); 10] = [
    ("flavorful", "test.rs", "test"),
    ("lists", "test.rs", "test"),
    ("many-arguments", "test.rs", "test"),
    ("numbers", "test.rs", "test"),
    ("options", "test.rs", "test"),
    ("records", "test.rs", "test"),
    ("resources", "resources.rs", "resources"),
    ("results", "leaf.rs", "leaf"),
    ("strings", "test.rs", "test"),
    ("variants", "test.rs", "test"),
];

/// What a tool answers: data, or the data of its own error.
async fn answer(host: &Host, tool: &str, arguments: &Value) -> Result<Value, Value> {
    let end = host.call(CallRequest::new(tool, arguments.to_string())).await.unwrap();
    match end.last_call.unwrap().end.clone() {
        CallEnd::Result(result) if result.is_error() => Err(Value::clone(&result.data)),
        CallEnd::Result(result) => Ok(Value::clone(&result.data)),
        CallEnd::Fault(fault) => panic!("{tool} {arguments}: {}: {}", fault.code, fault.message),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_of_wit_bindgen_are_tools() {
    let project = Project::build("wit-bindgen-cli", "0.63.0", "tests/runtime", &GUESTS);
    let place = Place::new();
    for (name, ..) in GUESTS {
        place.put(&format!("{name}.wasm"), &project.component(name));
    }
    let (host, loaded) = place.host().await;
    let [refused] = loaded.toolbox.refused() else { panic!("{:?}", loaded.toolbox.refused()) };
    assert!(refused.file.ends_with("resources.wasm"), "{refused:?}");
    assert!(refused.reason.contains("imports imports, which this host does not know"), "{refused:?}");
    assert!(loaded.components.iter().all(|component| component.left_out.is_empty()));

    for (tool, arguments, answered) in cases() {
        assert_eq!(answer(&host, tool, &arguments).await, answered, "{tool} {arguments}");
    }
}

/// Tools with arguments, and what the sources of the guests say that they return.
fn cases() -> Vec<(&'static str, Value, Result<Value, Value>)> {
    let mut cases = numbers();
    cases.extend(records());
    cases.extend(variants());
    cases.extend(lists());
    cases.extend(options_and_results());
    let sixteen = (1..=16).map(|n| (format!("a{n}"), json!(n))).collect();
    cases.push(("to-test-many-arguments", sixteen, Ok(Value::Null)));
    cases.push(("to-test-roundtrip", json!({"s": "🚀 \u{0} é"}), Ok(json!("🚀 \u{0} é"))));
    cases.push(("to-test-return-unicode", json!({}), Ok(json!("🚀🚀🚀 𠈄𓀀"))));
    cases
}

type Cases = Vec<(&'static str, Value, Result<Value, Value>)>;

fn same(tool: &'static str, value: Value) -> (&'static str, Value, Result<Value, Value>) {
    (tool, json!({"a": value}), Ok(value))
}

fn numbers() -> Cases {
    vec![
        same("numbers-roundtrip-u8", json!(255)),
        same("numbers-roundtrip-s8", json!(-128)),
        same("numbers-roundtrip-u16", json!(65_535)),
        same("numbers-roundtrip-s16", json!(-32_768)),
        same("numbers-roundtrip-u32", json!(u32::MAX)),
        same("numbers-roundtrip-s32", json!(i32::MIN)),
        same("numbers-roundtrip-u64", json!(u64::MAX)),
        same("numbers-roundtrip-s64", json!(i64::MIN)),
        same("numbers-roundtrip-f32", json!(0.1)),
        same("numbers-roundtrip-f32", json!("NaN")),
        same("numbers-roundtrip-f64", json!(0.1)),
        same("numbers-roundtrip-f64", json!("-Infinity")),
        same("numbers-roundtrip-char", json!("🚀")),
        // What one call leaves, the next does not find.
        ("numbers-set-scalar", json!({"a": 42}), Ok(Value::Null)),
        ("numbers-get-scalar", json!({}), Ok(json!(0))),
    ]
}

fn records() -> Cases {
    let all: Vec<String> = (0..32).map(|bit| format!("b{bit}")).collect();
    vec![
        ("to-test-multiple-results", json!({}), Ok(json!([4, 5]))),
        ("to-test-swap-tuple", json!({"a": [1, 2]}), Ok(json!([2, 1]))),
        same("to-test-roundtrip-flags2", json!(["c", "e"])),
        ("to-test-roundtrip-flags3", json!({"a": [], "b": ["b15"], "c": all}), Ok(json!([[], ["b15"], all]))),
        same("to-test-roundtrip-record1", json!({"a": 8, "b": ["a", "b"]})),
        same("to-test-tuple1", json!([1])),
    ]
}

fn variants() -> Cases {
    vec![
        ("to-test-roundtrip-option", json!({"a": 1.0}), Ok(json!(1))),
        ("to-test-roundtrip-option", json!({}), Ok(Value::Null)),
        // A function whose result is a `result` has succeeded or failed.
        ("to-test-roundtrip-result", json!({"a": {"ok": 2}}), Ok(json!(2.0))),
        ("to-test-roundtrip-result", json!({"a": {"err": 5.3}}), Err(json!(5))),
        same("to-test-roundtrip-enum", json!("b")),
        ("to-test-invert-bool", json!({"a": true}), Ok(json!(false))),
        same(
            "to-test-variant-casts",
            json!([{"b": i64::MIN}, {"b": 2.5}, {"a": -3}, {"b": 4.5}, {"a": i64::MAX}, {"b": 6.25}]),
        ),
        same("to-test-variant-zeros", json!([{"a": 1}, "b", {"a": 3.5}, "b"])),
        (
            "to-test-variant-enums",
            json!({"a": true, "b": {"err": null}, "c": "success"}),
            Ok(json!([true, {"err": null}, "success"])),
        ),
    ]
}

fn lists() -> Cases {
    let headers = json!([["content-type", [116, 101]], ["", []]]);
    vec![
        ("to-test-list-param4", json!({"a": [["foo", "bar"], ["baz"]]}), Ok(Value::Null)),
        ("to-test-list-param5", json!({"a": [[1, 2, 3], [4, 5, 6]]}), Ok(Value::Null)),
        ("to-test-list-param-large", json!({"a": vec!["string"; 1000]}), Ok(Value::Null)),
        ("to-test-list-result3", json!({}), Ok(json!(["hello,", "world!"]))),
        (
            "to-test-list-minmax64",
            json!({"a": [0, u64::MAX], "b": [i64::MIN, i64::MAX]}),
            Ok(json!([[0, u64::MAX], [i64::MIN, i64::MAX]])),
        ),
        (
            "to-test-list-minmax-float",
            json!({"a": [f64::from(f32::MIN), "Infinity"], "b": [f64::MIN, f64::MAX, -0.0]}),
            Ok(json!([[f64::from(f32::MIN), "Infinity"], [f64::MIN, f64::MAX, -0.0]])),
        ),
        same("to-test-wasi-http-headers-roundtrip", headers),
        (
            "to-test-list-of-variants",
            json!({"a": [true, false], "b": [{"ok": null}, {"err": null}], "c": ["success", "a"]}),
            Ok(json!([[false, true], [{"err": null}, {"ok": null}], ["a", "b"]])),
        ),
    ]
}

fn options_and_results() -> Cases {
    vec![
        ("to-test-option-none-param", json!({}), Ok(Value::Null)),
        ("to-test-option-some-param", json!({"a": "foo"}), Ok(Value::Null)),
        same("to-test-double-option-roundtrip", Value::Null),
        same("to-test-double-option-roundtrip", json!({"some": null})),
        same("to-test-double-option-roundtrip", json!({"some": 7})),
        ("to-test-errno-result", json!({}), Err(json!("b"))),
        ("test-string-error", json!({"a": 0}), Err(json!("zero"))),
        ("test-string-error", json!({"a": 1.5}), Ok(json!(1.5))),
        ("test-enum-error", json!({"a": 0}), Err(json!("a"))),
        ("test-record-error", json!({"a": 1}), Err(json!({"line": 77, "column": 2}))),
        ("test-variant-error", json!({"a": 0}), Err(json!({"e2": {"line": 420, "column": 0}}))),
        ("test-variant-error", json!({"a": 1}), Err(json!({"e1": "b"}))),
        ("test-empty-error", json!({"a": 0}), Err(Value::Null)),
        ("test-double-error", json!({"a": 0}), Ok(json!({"ok": null}))),
        ("test-double-error", json!({"a": 1}), Ok(json!({"err": "one"}))),
        ("test-double-error", json!({"a": 2}), Err(json!("two"))),
    ]
}
