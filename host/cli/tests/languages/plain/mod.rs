//! Tests components that do not implement the contract, in languages besides Rust. One small world,
//! written for no particular host, is implemented in each language with the bindings of its own
//! toolchain. All have the same tools and give the same answers.

#[path = "../../loading/foreign/cases.rs"]
mod cases;
mod foreign;
mod making;
#[path = "../../loading/foreign/sources.rs"]
mod sources;

use crate::built::serve;
use crate::projects::tollgate;
use making::{World, c, go, javascript, javascript_with, python};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;
use wit_component::StringEncoding;

/// Returns the path of the world or one of its implementations.
fn desk(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/languages/plain").join(file)
}

/// Returns the component of each language, and the functions that its toolchain adds.
fn desks() -> [(&'static str, Vec<u8>, &'static [&'static str]); 4] {
    let world = World { wit: desk("desk.wit"), name: "parcel-desk", encoding: StringEncoding::UTF8 };
    [
        ("c", c(&world, &desk("desk.c")), &[]),
        ("go", go(&world, &[desk("desk.go"), desk("next.go")]), &[]),
        ("javascript", javascript(&world, &desk("desk.js")), &["init"]),
        ("python", python(&world, &desk("desk.py")), &["exports#init"]),
    ]
}

/// Creates a directory with these components in `tools`.
fn place(components: &[(&str, &[u8])]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let tools = place.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for (name, bytes) in components {
        fs::write(tools.join(name).with_extension("wasm"), bytes).unwrap();
    }
    place
}

/// Returns the tools' names with their parameters' schemas, and the functions that are listed as
/// not being tools.
fn listed(place: &tempfile::TempDir) -> (Vec<Value>, Vec<String>) {
    let listed: Value = serde_json::from_str(&tollgate(place.path(), &["tools", "--json"])).unwrap();
    let of = |what: &str| listed[what].as_array().unwrap().iter();
    for left_out in of("left_out") {
        assert!(left_out["reason"].as_str().unwrap().contains("toolchain"), "{left_out}");
    }
    let tools = of("tools").map(|tool| json!([tool["name"], tool["parameters"]])).collect();
    let left_out = of("left_out").map(|left_out| left_out["function"].as_str().unwrap().to_owned());
    (tools, left_out.collect())
}

/// Returns a tool's answer: data, or the data of its own error.
async fn answer(host: &Host, tool: &str, arguments: &Value) -> Result<Value, Value> {
    let end = host.call(CallRequest::from_json(tool, arguments.to_string())).await.unwrap();
    match end.last_call.unwrap().end.clone() {
        CallEnd::Result(result) if result.is_error() => Err(Value::clone(&result.data)),
        CallEnd::Result(result) => Ok(Value::clone(&result.data)),
        CallEnd::Fault(fault) => panic!("{tool} {arguments}: {}: {}", fault.code, fault.message),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn components_of_any_language_are_the_same_tools() {
    let mut tools_of_the_first = None;
    for (language, bytes, added) in desks() {
        let place = place(&[("desk", &bytes)]);
        let (tools, left_out) = listed(&place);
        assert_eq!(left_out, added, "{language}");
        let names: Vec<&str> = tools.iter().map(|tool| tool[0].as_str().unwrap()).collect();
        assert_eq!(names, TOOLS, "{language}");
        assert_eq!(&tools, tools_of_the_first.get_or_insert_with(|| tools.clone()), "{language}");

        let host = serve(place.path(), "").await;
        for (tool, arguments, answered) in cases() {
            assert_eq!(answer(&host, tool, &arguments).await, answered, "{language}: {tool} {arguments}");
        }
    }
}

/// A component that its toolchain builds with asynchronous functions, as it does unless told otherwise.
#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn an_asynchronous_component_is_refused_with_its_toolchains_setting() {
    let world = World { wit: desk("desk.wit"), name: "parcel-desk", encoding: StringEncoding::UTF8 };
    let place = place(&[("desk", &javascript_with(&world, &desk("desk.js"), &[]))]);
    let listed: Value = serde_json::from_str(&tollgate(place.path(), &["tools", "--json"])).unwrap();
    let why = listed["refused"][0]["reason"].as_str().unwrap();
    assert!(why.contains("WASI 0.3") && why.contains("componentize-qjs --sync"), "{why}");
    assert_eq!(listed["tools"], json!([]));
}

const TOOLS: [&str; 8] = [
    "desk-heaviest",
    "desk-init",
    "desk-price",
    "desk-restamp",
    "desk-sort",
    "desk-spell",
    "desk-total",
    "next",
];

fn parcel(label: &str, grams: u64) -> Value {
    json!({"label": label, "grams": grams, "mark": "€", "size": "large", "care": ["fragile", "upright"]})
}

/// Returns the arguments for the same parcel without its optional parts.
fn light() -> Value {
    json!({"label": "Grüße 😀 \u{0}", "grams": 7, "mark": null, "size": "small", "care": []})
}

/// Returns tools with arguments and the answers that every language must give.
fn cases() -> Vec<(&'static str, Value, Result<Value, Value>)> {
    let (a, b, light) = (parcel("a", 500), parcel("b", 500), light());
    let lot = json!([light, a, b]);
    let mut unsaid = light.clone();
    unsaid.as_object_mut().unwrap().remove("mark");
    let great = 9_007_199_254_740_991_i64;
    vec![
        ("desk-total", json!({"parcels": lot}), Ok(json!(1_007))),
        ("desk-total", json!({"parcels": []}), Err(json!("empty"))),
        ("desk-total", json!({"parcels": [parcel("c", 1_000_001)]}), Err(json!({"too-heavy": 1_000_001}))),
        ("desk-heaviest", json!({"parcels": lot}), Ok(a.clone())),
        ("desk-heaviest", json!({"parcels": [unsaid]}), Ok(light.clone())),
        ("desk-heaviest", json!({"parcels": []}), Ok(Value::Null)),
        ("desk-sort", json!({"parcels": [b, light, a], "heavy-first": true}), Ok(json!([b, a, light]))),
        ("desk-sort", json!({"parcels": [b, light, a], "heavy-first": false}), Ok(json!([light, b, a]))),
        ("desk-restamp", json!({"stamp": "plain"}), Ok(json!({"dated": [1840, 5]}))),
        ("desk-restamp", json!({"stamp": {"dated": [65_535, 255]}}), Ok(json!({"worded": "65535/255"}))),
        ("desk-restamp", json!({"stamp": {"worded": "é😀"}}), Ok(json!({"worded": "é😀é😀"}))),
        ("desk-spell", json!({"text": "aé€😀\u{0}"}), Ok(json!(["a", "é", "€", "😀", "\u{0}"]))),
        ("desk-spell", json!({"text": ""}), Ok(json!([]))),
        ("desk-price", json!({"grams": u32::MAX, "rate": 0.5}), Ok(json!(2_147_483_647.5))),
        ("desk-price", json!({"grams": 3, "rate": "Infinity"}), Ok(json!("Infinity"))),
        (
            "desk-init",
            json!({"label": "new", "size": "large"}),
            Ok(json!({"label": "new", "grams": 0, "mark": null, "size": "large", "care": ["upright"]})),
        ),
        ("next", json!({"number": great - 1}), Ok(json!(great))),
        ("next", json!({"number": -great}), Ok(json!(1 - great))),
    ]
}
