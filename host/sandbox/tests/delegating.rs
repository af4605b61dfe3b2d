//! Requests of guests to other agents, and the result if none may be run.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use futures::future::BoxFuture;
use harness::{Bench, anything, returned, sandbox};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest};
use tollgate_agent::egress::Egress;
use tollgate_agent::message::{AssistantMessage, Message};
use tollgate_artifacts::{Expectation, Guest, hostile};
use tollgate_sandbox::{ChildRunner, Grants, HttpGrant, Secret};

const SECRET: &str = "correct horse battery";

/// Returns a tool that asks `helper` with two messages and a seed, all of which hold the secret.
fn delegates() -> Guest {
    let source = r#";; Runs another agent.
;; world: include tollgate:tool/agent-tool-component@0.1.0;

(import "tollgate:tool/agents@0.1.0" "run-child"
  (func $run (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "helper")
(data (memory $memory) (i32.const 1040) "\"say: correct horse battery\"")
(data (memory $memory) (i32.const 1100) "a.brief")
(func $says (param $at i32) (param $role i32)
  (i32.store8 $memory (local.get $at) (local.get $role))
  (i32.store $memory offset=4 (local.get $at) (i32.const 1041))
  (i32.store $memory offset=8 (local.get $at) (i32.const 26)))
(func $execute (param $call i32) (result i32)
  (call $says (i32.const 1200) (i32.const 1))
  (call $says (i32.const 1212) (i32.const 0))
  (i32.store $memory (i32.const 1300) (i32.const 1100))
  (i32.store $memory (i32.const 1304) (i32.const 7))
  (i32.store $memory (i32.const 1308) (i32.const 1040))
  (i32.store $memory (i32.const 1312) (i32.const 28))
  (call $run (i32.const 1024) (i32.const 6) (i32.const 1200) (i32.const 2)
    (i32.const 1300) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 512))
  ;; There is no child for it.
  (if (i32.eqz (i32.load8_u $memory (i32.const 512))) (then (unreachable)))
  (global.get $returns))
"#;
    Guest { name: "delegates", attack: "", limit: "", expects: Expectation::Succeeds, source }
}

/// Records requests and runs nothing.
#[derive(Default)]
struct RequestRecorder(Mutex<Vec<ChildRequest>>);

impl ChildRunner for RequestRecorder {
    fn refuse(&self, _: &str) -> Option<ChildError> {
        None
    }

    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>> {
        self.0.lock().unwrap().push(request);
        Box::pin(async { Err(ChildError::ExecutionFailed("nobody is there".to_owned())) })
    }
}

#[tokio::test]
async fn a_secret_is_blanked_in_what_another_agent_is_told() {
    let asked: Arc<RequestRecorder> = Arc::default();
    let mut bench = Bench::load(&sandbox(), &delegates()).await.unwrap();
    bench.children = Arc::clone(&asked) as Arc<dyn ChildRunner>;
    let to = "https://api.example.com".parse().unwrap();
    let secret = Secret::new(to, "authorization", "Bearer ", SECRET).unwrap();
    let http = HttpGrant::new(Egress::new(Vec::new(), Vec::new())).with_secrets(vec![secret]);
    bench.grants = Grants::default().with_http(http);
    let attempt = bench.call(anything()).await;
    assert!(attempt.denied.is_empty(), "{:?}", attempt.denied);
    returned(attempt);

    let blanked = format!("say: {}", "*".repeat(SECRET.len()));
    let said = Message::Assistant(AssistantMessage { text: blanked.clone(), ..AssistantMessage::default() });
    let asked = asked.0.lock().unwrap();
    assert_eq!(asked[0].messages, [said, Message::User(blanked.clone())]);
    assert_eq!(asked[0].seed, [("a.brief".to_owned(), json!(blanked))]);
}

/// Refuses every agent, and must not be asked to run one.
struct Refusing;

impl ChildRunner for Refusing {
    fn refuse(&self, agent_id: &str) -> Option<ChildError> {
        Some(ChildError::not_granted(agent_id))
    }

    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>> {
        panic!("the clock stops for {request:?}");
    }
}

#[tokio::test]
async fn z3_a_request_that_is_refused_at_once_neither_stops_the_clock_nor_is_read() {
    let mut bench = Bench::load(&sandbox(), &hostile::CHILDREN_OF_MANY_MESSAGES).await.unwrap();
    bench.children = Arc::new(Refusing);
    let attempt = bench.call(anything()).await;
    assert_eq!(attempt.denied, ["delegates: helper"]);
    assert!(attempt.usage.fuel > 100 * 1_000);
    returned(attempt);
}

#[tokio::test]
async fn z3_messages_are_counted_before_they_are_read_and_nobody_is_asked() {
    let asked: Arc<RequestRecorder> = Arc::default();
    let mut bench = Bench::load(&sandbox(), &hostile::CHILDREN_OF_MANY_MESSAGES).await.unwrap();
    bench.children = Arc::clone(&asked) as Arc<dyn ChildRunner>;
    let attempt = bench.call(anything()).await;
    assert!(attempt.denied.is_empty(), "{:?}", attempt.denied);
    returned(attempt);
    assert!(asked.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_agent_that_was_not_granted_is_noted() {
    let bench = Bench::load(&sandbox(), &delegates()).await.unwrap();
    let attempt = bench.call(anything()).await;
    assert_eq!(attempt.denied, ["delegates: helper"]);
    returned(attempt);
}
