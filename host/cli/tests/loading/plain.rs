//! Tests of a component that does not implement the contract: added, replaced, loaded from the
//! cache, and identified by its file name.

use crate::versions::Place;
use serde_json::json;
use std::sync::Arc;
use tollgate::tools::directory::DirectoryState;
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;
use tollgate_artifacts::{Expectation, Guest, good};

/// Returns the answer of `whole-divide`.
async fn divided(host: &Host, dividend: u32, divisor: u32) -> String {
    let arguments = json!({"dividend": dividend, "divisor": divisor}).to_string();
    match host
        .call(CallRequest::from_json("whole-divide", arguments))
        .await
        .unwrap()
        .last_call
        .unwrap()
        .end
        .clone()
    {
        CallEnd::Result(result) => result.data.to_string(),
        CallEnd::Fault(fault) => fault.code.to_string(),
    }
}

#[tokio::test]
async fn its_file_names_it_even_where_the_cache_knows_its_bytes() {
    let place = Place::new();
    for id in ["one", "two"] {
        place.put(&format!("{id}.wasm"), &good::PLAIN_DIVIDE.bytes());
        let (host, loaded) = place.host().await;
        assert_eq!(loaded.toolbox.refused(), &[]);
        assert_eq!(loaded.components[0].id, id);
        assert_eq!(loaded.components[0].version, "2.0.0");
        assert_eq!(loaded.components[0].left_out[0].function, "arithmetic:plain/whole@2.0.0#open");
        assert_eq!(divided(&host, 6, 3).await, "2");
        std::fs::remove_file(place.path(&format!("{id}.wasm"))).unwrap();
    }
}

#[tokio::test]
async fn r1_of_two_that_bring_the_same_tool_the_later_is_refused() {
    let place = Place::new();
    for name in ["a.wasm", "b.wasm"] {
        place.put(name, &good::PLAIN_DIVIDE.bytes());
    }
    let loaded = place.load().await;
    let [refused] = loaded.toolbox.refused() else { panic!("{:?}", loaded.toolbox.refused()) };
    assert!(refused.reason.contains("whole-divide") && refused.reason.contains("a.wasm"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_replaced_and_removed_while_it_is_called() {
    let place = Place::new();
    place.put("plain.wasm", &good::PLAIN_DIVIDE.bytes());
    let (host, loaded) = place.host().await;
    let mut live =
        DirectoryState::new(host.clone(), place.sandbox.clone(), Arc::clone(&place.config), &loaded);
    assert_eq!(divided(&host, 7, 2).await, "\"uneven\"");
    let source = good::PLAIN_DIVIDE.source.replace("(i32.const 1)) (return", "(i32.const 0)) (return");
    let source = Box::leak(source.into_boxed_str());
    let other = Guest { name: "plain", attack: "", limit: "", expects: Expectation::Succeeds, source };
    place.put("plain.wasm", &other.bytes());
    assert_eq!(live.refresh().await.len(), 1);
    assert_eq!(divided(&host, 7, 2).await, "\"by-zero\"");
    std::fs::remove_file(place.path("plain.wasm")).unwrap();
    assert_eq!(live.refresh().await.len(), 1);
    assert_eq!(divided(&host, 7, 2).await, "not_found");
}
