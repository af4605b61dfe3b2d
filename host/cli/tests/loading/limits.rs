//! Tests of limits of single tools, and of all tools together.

use crate::versions::{Place, with_patterns};
use std::path::Path;
use std::sync::Arc;
use tollgate::config::Config;
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;
use tollgate_artifacts::{good, hostile};
use tollgate_sandbox::{Sandbox, SandboxConfig};

async fn ended(host: Host, tool: &'static str) -> String {
    match host.call(CallRequest::from_json(tool, "{}")).await.unwrap().last_call.unwrap().end.clone() {
        CallEnd::Result(_) => "success".to_owned(),
        CallEnd::Fault(fault) => {
            let detail = fault.detail.unwrap_or_default();
            assert!(detail.contains("concurrent_calls = 1;"), "{detail}");
            assert!(
                detail.contains("can raise it in tollgate.toml, under [tools.waits.limits]."),
                "{detail}"
            );
            assert!(
                detail.ends_with("which an operator can raise in tollgate.toml, under [limits]"),
                "{detail}"
            );
            fault.code.to_string()
        }
    }
}

async fn together(host: &Host, tools: &[&'static str]) -> Vec<String> {
    let calls: Vec<_> = tools.iter().map(|tool| tokio::spawn(ended(host.clone(), tool))).collect();
    let mut ends = Vec::new();
    for call in calls {
        ends.push(call.await.unwrap());
    }
    ends.sort();
    ends
}

fn with(place: Place, limits: &str) -> Place {
    let path = place.folder.path().join("tollgate.toml");
    Place { config: Arc::new(Config::parse(Path::new(&path), limits).unwrap()), ..place }
}

/// No call may wait, so the second of two is rejected at once.
#[tokio::test(flavor = "multi_thread")]
async fn one_tools_calls_at_once_are_bounded_for_it_alone() {
    let text = "[limits]\nwaiting_calls = 0\n[tools.waits.limits]\nconcurrent_calls = 1\n";
    let place = with(Place::new(), text);
    place.put("waits.wasm", &good::WAITS.bytes());
    place.put("echo.wasm", &good::ECHO.bytes());
    let (host, loaded) = place.host().await;
    assert_eq!(loaded.component_of("waits").unwrap().limits["waits"].concurrent_calls, Some(1));
    assert_eq!(together(&host, &["waits", "waits", "echo"]).await, ["overloaded", "success", "success"]);
    assert_eq!(together(&host, &["waits"]).await, ["success"], "its place came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_a_tools_own_bound_wait_for_their_turn() {
    let place = with(Place::new(), "[tools.waits.limits]\nconcurrent_calls = 1\n");
    place.put("waits.wasm", &good::WAITS.bytes());
    let (host, _) = place.host().await;
    assert_eq!(together(&host, &["waits"; 4]).await, ["success"; 4]);
}

/// The value that it returns takes 10 million steps to check, which is longer than the call may take.
#[tokio::test(flavor = "multi_thread")]
async fn z1_checking_a_result_counts_towards_the_time_of_its_call() {
    let place = with(Place::new(), "[tools.schema-that-fails-late.limits]\ntimeout_ms = 100\n");
    place.put("late.wasm", &hostile::SCHEMA_THAT_FAILS_LATE.bytes());
    place.put("echo.wasm", &good::ECHO.bytes());
    let (host, _) = place.host().await;
    let call = async |tool: &str| {
        let ended = host.call(CallRequest::from_json(tool, "{}")).await.unwrap().last_call.unwrap();
        match &ended.end {
            CallEnd::Result(_) => "success".to_owned(),
            CallEnd::Fault(fault) => fault.code.to_string(),
        }
    };
    let (late, beside) = tokio::join!(call("schema-that-fails-late"), call("echo"));
    assert_eq!((late.as_str(), beside.as_str()), ("timed_out", "success"));
    assert_eq!(call("echo").await, "success");
}

/// Three kilobytes of schema compile to seven megabytes, which stay as long as the component is served.
#[tokio::test(flavor = "multi_thread")]
async fn z2_the_compiled_patterns_of_all_components_are_part_of_the_memory_budget() {
    let place = Place::new();
    place.put("one.wasm", &with_patterns("one", 64));
    let loaded = place.load().await;
    assert_eq!(loaded.components.len(), 1);
    let budget = place.sandbox.memory_budget();
    assert!(budget.code_bytes() > 6 << 20, "{}", budget.code_bytes());
    drop(loaded);
    assert_eq!(budget.code_bytes(), 0);

    // Half of the budget has room for the patterns of one component.
    place.put("two.wasm", &with_patterns("two", 64));
    let narrow = SandboxConfig { memory_budget_bytes: 24 << 20, ..place.sandbox.config().clone() };
    let place = Place { sandbox: Sandbox::new(narrow).unwrap(), ..place };
    let loaded = place.load().await;
    let refused: Vec<&str> = loaded.toolbox.refused().iter().map(|refused| refused.reason.as_str()).collect();
    assert_eq!((loaded.components.len(), refused.len()), (1, 1), "{refused:?}");
    assert!(refused[0].contains("its set of compiled patterns takes"), "{refused:?}");
}
