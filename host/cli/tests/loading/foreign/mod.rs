//! Tests of components of another project that does not know this one, compiled from its own
//! sources and called according to their types. They are the guests with which wit-bindgen tests
//! itself, from its published crate. They are built for many languages and hosts, and together they
//! use every type of WIT.

mod cases;
mod project;
mod sources;

use crate::versions::Place;
use cases::cases;
use project::Project;
use serde_json::Value;
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;

/// The guests: the folder, the file, and the world.
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
async fn guests_of_wit_bindgen_are_tools() {
    let project = Project::build("wit-bindgen-cli", "0.63.0", "tests/runtime", &GUESTS);
    let place = Place::new();
    for (name, ..) in GUESTS {
        place.put(&format!("{name}.wasm"), &project.component(name));
    }
    let (host, loaded) = place.host().await;
    let [refused] = loaded.toolbox.refused() else { panic!("{:?}", loaded.toolbox.refused()) };
    assert!(refused.file.ends_with("resources.wasm"), "{refused:?}");
    assert!(refused.reason.contains("imports imports, which this host does not provide"), "{refused:?}");
    assert!(loaded.components.iter().all(|component| component.left_out.is_empty()));

    for (tool, arguments, answered) in cases() {
        assert_eq!(answer(&host, tool, &arguments).await, answered, "{tool} {arguments}");
    }
}
