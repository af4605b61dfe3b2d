//! The calls to the guests with which wit-bindgen tests itself, and the expected answers, which
//! are the same in all languages.

use serde_json::{Value, json};

/// Returns tools with arguments and the results that the guests' sources state.
pub(crate) fn cases() -> Vec<(&'static str, Value, Result<Value, Value>)> {
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
        // Calls do not see the state of earlier calls.
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
        // A function that returns a `result` has succeeded or failed.
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
