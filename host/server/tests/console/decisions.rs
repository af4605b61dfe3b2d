//! Decisions with forms: a suspended call is answered and its run ends.

use crate::server::{ALL, Script, Server, asking, attribute, principal};
use serde_json::{Value, json};
use std::time::Duration;
use tollgate::store::{AuditFilter, AuditKind};
use tollgate::{FnTool, Ticket, ToolContext, ToolResult};
use tollgate_agent::gate::permissions::{DefaultRule, Permissions};
use tollgate_server::{Principal, Scope};

fn entries(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn script(tool: &'static str) -> Script {
    Script { calls: vec![(tool, json!({"order": "N-1", "cents": 500}))], answer: "Done.".to_owned() }
}

/// A server with a tool that asks with this schema.
async fn asking_server(schema: Value) -> Server {
    let ticket = Ticket { response_schema: Some(schema), ..Ticket::confirm("Shall it go on?") };
    Server::with_script(script("ask"), |builder| builder.tool(asking("ask", ticket))).await
}

/// A server with a tool that the permission rules ask about.
async fn permitting_server() -> Server {
    let pay = FnTool::new("pay", "pay", "Pays.", |arguments: Value, _: ToolContext| async move {
        ToolResult::success(json!({"paid": arguments["cents"]}))
    });
    Server::with_script(script("pay"), |builder| builder.tool(pay).gate(Permissions::new(DefaultRule::Ask)))
        .await
}

/// Returns the question's id as the page sends it.
fn suspension(page: &str) -> String {
    attribute(page, "<input type=\"hidden\" name=\"s\"", "value").unwrap()
}

async fn result_of(server: &Server, run_id: &str) -> String {
    let events = server.host.store().events(run_id, 0).await.unwrap();
    serde_json::to_string(&events).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_call_is_answered_with_the_form_and_its_run_ends() {
    let schema = json!({"type": "object", "required": ["approved"], "properties": {
        "approved": {"type": "boolean"}, "comment": {"type": "string", "maxLength": 20},
    }});
    let server = asking_server(schema).await;
    let run_id = server.run("Please ask.", "ada/case").await;
    let page = server.get("/console/waiting").await.body;
    assert!(page.contains("Shall it go on?") && page.contains("N-1"), "{page}");
    let host_view = page.find("The call, as the host sees it").unwrap();
    assert!(host_view < page.find("Shall it go on?").unwrap(), "the host's view is above the tool's words");
    let s = suspension(&page);
    let decide = format!("/console/runs/{run_id}/decide");

    // An answer that does not fit is shown again at its field, with its entries.
    let long = "x".repeat(30);
    let wrong = entries(&[("s", &s), ("do", "answer"), ("f.0", "true"), ("f.1", &long)]);
    let answer = server.post(&decide, &wrong).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    assert!(answer.body.contains(&long) && answer.body.contains("aria-invalid=\"true\""), "{}", answer.body);
    server.becomes(&run_id, "waiting").await;

    let right = entries(&[("s", &s), ("do", "answer"), ("f.0", "true"), ("f.1", "fine")]);
    let answer = server.post(&decide, &right).await;
    assert_eq!((answer.status, answer.path.as_str()), (200, "/console/waiting"), "{}", answer.body);
    assert!(answer.body.contains("ada answered"), "{}", answer.body);
    server.becomes(&run_id, "completed").await;
    let record = result_of(&server, &run_id).await;
    assert!(record.contains(r#"{"approved":true,"comment":"fine"}"#), "{record}");

    // The same question again: it was answered.
    let late = server.post(&decide, &entries(&[("s", &s), ("do", "no")])).await;
    assert_eq!(late.status, 409);
    assert!(late.body.contains("ada answered"), "{}", late.body);
}

/// A browser that resends a form without its button must not turn a "No" into an answer without
/// entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_without_its_button_decides_nothing() {
    for schema in [json!({"const": true}), json!({"type": "object"})] {
        let server = asking_server(schema).await;
        let run_id = server.run("Please ask.", "ada/case").await;
        let s = suspension(&server.get("/console/waiting").await.body);
        let decide = format!("/console/runs/{run_id}/decide");
        let answer = server.post(&decide, &entries(&[("s", &s), ("reason", "no, never")])).await;
        assert_eq!(answer.status, 422, "{}", answer.body);
        server.becomes(&run_id, "waiting").await;
        server.post(&decide, &entries(&[("s", &s), ("do", "no")])).await;
        server.becomes(&run_id, "completed").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_with_a_reason_reaches_the_record() {
    let server = permitting_server().await;
    let run_id = server.run("Pay.", "ada/case").await;
    let s = suspension(&server.get("/console/waiting").await.body);
    let no = entries(&[("s", &s), ("do", "no"), ("reason", "not on a Friday")]);
    let answer = server.post(&format!("/console/runs/{run_id}/decide"), &no).await;
    assert!(
        answer.body.contains("ada said no") && answer.body.contains("not on a Friday"),
        "{}",
        answer.body
    );
    server.becomes(&run_id, "completed").await;
    assert!(result_of(&server, &run_id).await.contains("not on a Friday"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_names_the_person_or_the_key() {
    let server = permitting_server().await;
    for (has_key, who) in [(false, "person ada"), (true, "key ada")] {
        server.sign_in(Some(Principal { has_key, ..principal("ada", &ALL) }));
        let run_id = server.run("Pay.", "ada/case").await;
        let s = suspension(&server.get("/console/waiting").await.body);
        let no = entries(&[("s", &s), ("do", "no")]);
        let answer = server.post(&format!("/console/runs/{run_id}/decide"), &no).await;
        assert_eq!(answer.body.contains("The key ada said no"), has_key, "{}", answer.body);
        server.becomes(&run_id, "completed").await;
        let kind = Some(AuditKind::Decision);
        let filter = AuditFilter { kind, run_id_prefix: Some(run_id), ..AuditFilter::default() };
        let audit = server.host.store().audit(filter).await.unwrap();
        assert!(audit.len() == 1 && audit[0].who == who, "{audit:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permission_buttons_are_remembered_as_long_as_they_say() {
    let server = permitting_server().await;
    let first = server.run("Pay.", "ada/case").await;
    let page = server.get("/console/waiting").await.body;
    assert!(!page.contains("value=\"always\""), "nothing keeps permanent answers here");
    let thread = entries(&[("s", &suspension(&page)), ("permit", "thread"), ("for", "tool")]);
    let answer = server.post(&format!("/console/runs/{first}/decide"), &thread).await;
    assert!(
        answer.body.contains("ada said yes, for this thread, for every call of the tool"),
        "{}",
        answer.body
    );
    server.becomes(&first, "completed").await;
    let second = server.run("Pay again.", "ada/case").await;
    server.becomes(&second, "completed").await;
    let other = server.run("Pay elsewhere.", "ada/other").await;
    server.becomes(&other, "waiting").await;
    let forever =
        entries(&[("s", &suspension(&server.get("/console/waiting").await.body)), ("permit", "forever")]);
    let answer = server.post(&format!("/console/runs/{other}/decide"), &forever).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    server.becomes(&other, "waiting").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_decide_decides() {
    let server = permitting_server().await;
    let run_id = server.run("Pay.", "ada/case").await;
    let s = suspension(&server.get("/console/waiting").await.body);
    let yes = entries(&[("s", &s), ("permit", "once")]);
    let decide = format!("/console/runs/{run_id}/decide");
    for (name, scopes, status) in [
        ("bob", &[Scope::Use, Scope::Decide][..], 404),
        ("bob", &[Scope::Read, Scope::Operate][..], 403),
        ("ada", &[Scope::Use][..], 403),
        ("bob", &[Scope::DecideAny][..], 200),
    ] {
        server.sign_in(Some(principal(name, scopes)));
        let answer = server.post(&decide, &yes).await;
        assert_eq!(answer.status, status, "{name} {scopes:?}: {}", answer.body);
    }
    server.becomes(&run_id, "completed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_answered_elsewhere_turns_grey_in_an_open_page() {
    let server = permitting_server().await;
    let run_id = server.run("Pay.", "ada/case").await;
    let page = server.get("/console/waiting").await.body;
    let live = attribute(&page, "<section aria-label=\"Questions\"", "data-live").unwrap();
    let mut stream = server.open(&live).await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let decision = tollgate::Decision::resume(suspension(&page), true);
    // The stream is open once its first look at the store has ended.
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.host.decide(&run_id, decision).await.unwrap().wait().await.unwrap();
    let mut read = String::new();
    let found = tokio::time::timeout(Duration::from_secs(60), async {
        while let Some(chunk) = stream.chunk().await.unwrap() {
            read.push_str(&String::from_utf8_lossy(&chunk));
            if read.contains("answered") && read.contains("A person said yes") {
                return;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("no update: {read}"));
    assert!(read.contains("event: element"), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_shows_a_new_run_without_a_reload() {
    let server = permitting_server().await;
    let page = server.get("/console/runs").await.body;
    let live = attribute(&page, "<section class=\"card flush\" aria-label=\"Runs\"", "data-live").unwrap();
    let mut stream = server.open(&live).await;
    let run_id = server.run("A new one.", "ada/case").await;
    let mut read = String::new();
    let found = tokio::time::timeout(Duration::from_secs(60), async {
        while let Some(chunk) = stream.chunk().await.unwrap() {
            read.push_str(&String::from_utf8_lossy(&chunk));
            if read.contains(&format!("run-{run_id}")) && read.contains("A new one.") {
                return;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("no update: {read}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_tried_and_a_message_is_sent() {
    let server = permitting_server().await;
    let answer = server.post("/console/tools/pay", &entries(&[("json", r#"{"cents": 7}"#)])).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.path.starts_with("/console/runs/"), "{}", answer.path);
    assert_eq!(server.post("/console/tools/pay", &entries(&[("json", "{")])).await.status, 422);
    assert_eq!(server.post("/console/tools/none", &[]).await.status, 404);

    let send = entries(&[("agent", "clerk"), ("thread", "chat"), ("message", "Pay the bill.")]);
    let answer = server.post("/console/playground", &send).await;
    assert_eq!((answer.status, answer.path.as_str()), (200, "/console/playground"), "{}", answer.body);
    let runs = server.host.store().runs(tollgate::store::RunFilter::default()).await.unwrap();
    let run = runs.iter().find(|run| run.thread_id == "ada/chat").unwrap().run_id.clone();
    server.becomes(&run, "waiting").await;
    let page = server.get("/console/playground?agent=clerk&thread=chat").await.body;
    assert!(
        page.contains("permissions") && page.contains("name=\"permit\""),
        "the question is inline: {page}"
    );
    let s = attribute(&page, "<input type=\"hidden\" name=\"s\"", "value").unwrap();
    let yes = entries(&[("s", &s), ("permit", "once"), ("back", "playground")]);
    let answer = server.post(&format!("/console/runs/{run}/decide"), &yes).await;
    assert_eq!(answer.path, "/console/playground");
    server.becomes(&run, "completed").await;
    assert!(server.get("/console/playground?agent=clerk&thread=chat").await.body.contains("Done."));
    for wrong in [("agent", "none"), ("thread", "../bob/x"), ("message", " ")] {
        let mut send = send.clone();
        send.iter_mut()
            .filter(|(name, _)| name == wrong.0)
            .for_each(|entry| wrong.1.clone_into(&mut entry.1));
        assert_eq!(server.post("/console/playground", &send).await.status, 422, "{wrong:?}");
    }
    server.sign_in(Some(principal("ada", &ALL[3..])));
    assert_eq!(server.post("/console/playground", &send).await.status, 403);
}
