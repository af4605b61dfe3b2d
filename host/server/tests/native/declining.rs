//! Questions that a person answers with "no" while the principal has no place for another call.

use crate::fixture::{PATIENCE, Setup, TestServer, reaches};
use crate::mcp::{config_with_forms, connect};
use reqwest::Method;
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData,
};
use rmcp::service::{ClientLifecycleMode, RequestContext, RoleClient};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::sync::Notify;
use tollgate_server::Scope;

/// A client whose person says no when the test goes on.
#[derive(Clone, Default)]
struct NoPerson {
    asked: Arc<Notify>,
    going_on: Arc<Notify>,
}

impl ClientHandler for NoPerson {
    fn get_info(&self) -> ClientConfig {
        config_with_forms()
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.asked.notify_one();
        self.going_on.notified().await;
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_in_a_client_of_mcp_waits_for_no_other_call() {
    let sleeping = Arc::new(AtomicUsize::new(0));
    let setup = Setup { calls: Some(1), sleeping: Arc::clone(&sleeping), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Scope::Use, Scope::Decide]);
    let person = NoPerson::default();
    let client = connect(&server, &key, person.clone(), ClientLifecycleMode::Initialize).await;
    let takes_the_place = async {
        person.asked.notified().await;
        let other = server.request(Method::POST, "/api/v1/tools/sleep/calls").bearer_auth(&key.secret);
        tokio::spawn(other.json(&json!({})).send());
        reaches(&sleeping, 1).await;
        person.going_on.notify_one();
    };
    let asked = async { tokio::join!(client.call_tool(CallToolRequestParams::new("ask")), takes_the_place) };
    let (answer, ()) = tokio::time::timeout(PATIENCE / 2, asked).await.expect("a no does not wait");
    let answer = serde_json::to_value(answer.unwrap()).unwrap();
    assert_eq!(answer["isError"], true, "{answer}");
}
