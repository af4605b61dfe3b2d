//! Facts of the server: sessions, keys, powers, rules beyond scopes; and the end of a run.

use crate::server::{ALL, Script, Server, attribute, principal};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tollgate::config::{DecisionMakers, ServeConfig};
use tollgate::{Agent, FnTool, HostBuilder, ToolContext, ToolResult, async_trait};
use tollgate_agent::gate::permissions::{DefaultRule, Permissions, RuleSpec};
use tollgate_server::console::{ComponentFacts, ConsoleData, KeyRow, SessionRow};
use tollgate_server::{Principal, Problem, Scope};

/// The facts of a server with one session, one key, and one rule.
#[derive(Default, Clone)]
struct Facts {
    ended: Arc<Mutex<Vec<String>>>,
    rules: Arc<Mutex<Vec<RuleSpec>>>,
}

#[async_trait]
impl ConsoleData for Facts {
    async fn sessions(&self, viewer: &Principal) -> Result<Vec<SessionRow>, Problem> {
        let session = SessionRow {
            id: "a/b?c".to_owned(),
            principal: viewer.name.clone(),
            started_at_ms: 1,
            used_at_ms: 1,
            ends_at_ms: 2,
            browser: Some("<b>Browser</b>".to_owned()),
            is_current: false,
        };
        Ok(vec![session])
    }

    async fn end_session(&self, _viewer: &Principal, id: &str) -> Result<(), Problem> {
        self.ended.lock().unwrap().push(id.to_owned());
        Ok(())
    }

    async fn keys(&self) -> Result<Vec<KeyRow>, Problem> {
        let key = KeyRow {
            id: "k1".to_owned(),
            name: "nightly-key".to_owned(),
            scopes: vec![Scope::Use],
            created_at_ms: 1,
            used_at_ms: None,
            expires_at_ms: None,
            is_revoked: false,
        };
        Ok(vec![key])
    }

    fn component(&self, id: &str) -> Option<ComponentFacts> {
        (id == "pay").then(|| ComponentFacts {
            asks: Some(vec!["use a secret".to_owned()]),
            missing: vec![("use a secret".to_owned(), "--secret bank".to_owned())],
            origin: Some("oci://ghcr.io/acme/pay".to_owned()),
            signer: Some("https://github.com/acme/tools".to_owned()),
            licence: Some("Apache-2.0 <b>".to_owned()),
            lock: Some("recorded; each load is checked against it".to_owned()),
            ..ComponentFacts::default()
        })
    }

    fn keeps_rules(&self) -> bool {
        true
    }

    fn keep_rule(&self, rule: &RuleSpec) -> Result<(), Problem> {
        self.rules.lock().unwrap().push(rule.clone());
        Ok(())
    }
}

async fn paying_server(otherwise: DefaultRule, ms: u64) -> Server {
    paying_server_with(otherwise, ms, ServeConfig::default()).await
}

async fn paying_server_with(otherwise: DefaultRule, ms: u64, config: ServeConfig) -> Server {
    let pay =
        FnTool::new("pay", "pay", "Pays.", move |arguments: serde_json::Value, _: ToolContext| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            ToolResult::success(arguments)
        });
    let script = Script { calls: vec![("pay", json!({"cents": 5}))], answer: "Paid.".to_owned() };
    let agent = Agent::new("clerk", script).with_tools(["*"]);
    let parts = |builder: HostBuilder| builder.tool(pay).gate(Permissions::new(otherwise)).agent(agent);
    Server::configured(parts, config).await
}

fn entry(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_ended_and_keys_are_for_operators() {
    let server = paying_server(DefaultRule::Allow, 0).await;
    let facts = Facts::default();
    server.knows(facts.clone());
    let page = server.get("/console/access").await.body;
    assert!(page.contains("nightly-key") && page.contains("&lt;b&gt;Browser"), "{page}");
    let end = attribute(&page, "<form method=\"post\" action=\"/console/access", "action").unwrap();
    let answer = server.post(&end, &[]).await;
    assert_eq!(answer.path, "/console/access");
    assert_eq!(*facts.ended.lock().unwrap(), ["a/b?c"]);
    server.sign_in(Some(principal("ada", &[Scope::Use, Scope::Read])));
    assert!(!server.get("/console/access").await.body.contains("nightly-key"));
    let page = server.get("/console/tools/pay").await.body;
    for part in [
        "tollgate grant pay --secret bank",
        "oci://ghcr.io/acme/pay",
        "https://github.com/acme/tools",
        "Apache-2.0 &lt;b&gt;",
        "recorded; each load is checked against it",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_eyes_holds_for_forms_and_for_lists() {
    let config = ServeConfig { decides: DecisionMakers::Others, ..ServeConfig::default() };
    let server = paying_server_with(DefaultRule::Ask, 0, config).await;
    let run_id = server.run("Pay.", "ada/case").await;
    server.sign_in(Some(principal("bob", &ALL)));
    let s =
        attribute(&server.get("/console/waiting").await.body, "<input type=\"hidden\" name=\"s\"", "value")
            .unwrap();
    server.sign_in(Some(principal("ada", &ALL)));
    assert!(server.get("/console/waiting").await.body.contains("No question waits for you."));
    let page = server.get(&format!("/console/runs/{run_id}")).await.body;
    assert!(
        page.contains("You may read this question, but not answer it.") && !page.contains("name=\"permit\""),
        "{page}"
    );
    let yes = [entry("s", &s), entry("permit", "once")];
    assert_eq!(server.post(&format!("/console/runs/{run_id}/decide"), &yes).await.status, 403);
    server.becomes(&run_id, "waiting").await;
    server.sign_in(Some(principal("bob", &ALL)));
    assert_eq!(server.post(&format!("/console/runs/{run_id}/decide"), &yes).await.status, 200);
    server.becomes(&run_id, "completed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn always_is_kept_where_rules_are_kept() {
    let server = paying_server(DefaultRule::Ask, 0).await;
    let facts = Facts::default();
    server.knows(facts.clone());
    let run_id = server.run("Pay.", "ada/case").await;
    let page = server.get("/console/waiting").await.body;
    let s = attribute(&page, "<input type=\"hidden\" name=\"s\"", "value").unwrap();
    let always = [entry("s", &s), entry("permit", "always"), entry("for", "arguments")];
    assert_eq!(server.post(&format!("/console/runs/{run_id}/decide"), &always).await.status, 200);
    server.becomes(&run_id, "completed").await;
    let rules = facts.rules.lock().unwrap();
    assert_eq!(
        (rules.len(), rules[0].tool.as_str(), rules[0].arguments.as_deref()),
        (1, "pay", Some("{\"cents\":5}"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_the_console_is_cancelled_by_its_owner_or_an_operator() {
    let server = paying_server(DefaultRule::Allow, 60_000).await;
    let send = [entry("agent", "clerk"), entry("thread", "slow"), entry("message", "Pay slowly.")];
    assert_eq!(server.post("/console/playground", &send).await.status, 200);
    let runs = server.host.store().runs(tollgate::store::RunFilter::default()).await.unwrap();
    let run_id = runs[0].run_id.clone();
    let cancel = format!("/console/runs/{run_id}/cancel");
    for (name, scopes, status) in [
        ("bob", &[Scope::Use][..], 404),
        ("bob", &[Scope::Use, Scope::Read][..], 403),
        ("ada", &[Scope::Read][..], 403),
    ] {
        server.sign_in(Some(principal(name, scopes)));
        assert_eq!(server.post(&cancel, &[]).await.status, status, "{name} {scopes:?}");
    }
    server.sign_in(Some(principal("ada", &[Scope::Use])));
    let answer = server.post(&cancel, &[entry("reason", "too slow")]).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    server.becomes(&run_id, "cancelled").await;
}
