//! The inbox is complete: every question that a person may answer, whatever else waits or runs.

use crate::server::{Script, Server, asking, attribute, principal};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;
use tollgate::{Agent, FnTool, RunRequest, ScriptedModel, ScriptedTurn, Ticket, ToolContext, ToolResult};
use tollgate_server::Scope;

/// More than one page of runs.
const MANY: usize = 201;

#[tokio::test(flavor = "multi_thread")]
async fn an_old_question_is_listed_behind_any_number_of_newer_ones() {
    let script = Script { calls: vec![("ask", json!({}))], answer: "Done.".to_owned() };
    let server =
        Server::with_script(script, |builder| builder.tool(asking("ask", Ticket::confirm("Shall it?"))))
            .await;
    let oldest = server.run("Eve asks.", "eve/case").await;
    let runs = futures::stream::iter(0..MANY).map(|number| {
        let server = &server;
        async move { server.run("Ada asks.", &format!("ada/{number}")).await }
    });
    assert_eq!(runs.buffer_unordered(16).count().await, MANY);

    server.sign_in(Some(principal("eve", &[Scope::Use, Scope::Decide])));
    let page = server.get("/console/waiting").await.body;
    assert!(page.contains("1 question ·") && page.contains(&oldest), "{page}");
    assert!(!page.contains("Ada asks."), "{page}");

    server.sign_in(Some(principal("lin", &[Scope::DecideAny])));
    let page = server.get("/console/waiting").await.body;
    assert!(page.contains(&format!("{} questions · oldest first", MANY + 1)), "{page}");
    let first = page.find("<article").unwrap();
    assert!(page[first..].find("Eve asks.") < page[first..].find("Ada asks."), "the oldest comes first");

    server.sign_in(Some(principal("eve", &[Scope::Read])));
    assert!(server.get("/console/waiting").await.body.contains("No question waits for you."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_run_that_is_at_work_is_listed_and_answered() {
    let (release, released) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits = Arc::clone(&release);
    let slow = FnTool::new("slow", "slow", "Works.", move |_: Value, _: ToolContext| {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            ToolResult::success(json!("worked"))
        }
    });
    let turns =
        vec![ScriptedTurn::calls([("ask", json!({})), ("slow", json!({}))]), ScriptedTurn::text("Done.")];
    let agent = Agent::new("clerk", ScriptedModel::new(turns)).with_tools(["*"]);
    let server = Server::start(|builder| {
        builder.tool(slow).tool(asking("ask", Ticket::confirm("Shall it go on?"))).agent(agent)
    })
    .await;
    let mut request = RunRequest::new("clerk", "Ask and work.").on_thread("ada/case").detached();
    request.principal = Some("ada".into());
    let mut run = server.host.run(request).await.unwrap();
    let run_id = run.run_id.to_string();
    let over = Arc::clone(&released);
    tokio::spawn(async move {
        while run.events.next().await.is_some() {}
        over.notify_one();
    });
    let mut page = String::new();
    for _ in 0..1_200 {
        page = server.get("/console/waiting").await.body;
        if page.contains("Shall it go on?") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    server.becomes(&run_id, "running").await;
    for place in [
        "/console/waiting".to_owned(),
        format!("/console/runs/{run_id}"),
        "/console/playground?agent=clerk&thread=case".to_owned(),
    ] {
        let page = server.get(&place).await.body;
        assert!(page.contains("Shall it go on?") && page.contains("value=\"no\""), "{place}: {page}");
    }
    let s = attribute(&page, "<input type=\"hidden\" name=\"s\"", "value").unwrap();
    let yes = [("s".to_owned(), s), ("do".to_owned(), "answer".to_owned())];
    let answer = server.post(&format!("/console/runs/{run_id}/decide"), &yes).await;
    assert!(answer.status == 200 && answer.body.contains("ada said yes"), "{}", answer.body);
    server.becomes(&run_id, "running").await;
    assert!(!answer.body.contains("value=\"no\""), "the question is closed: {}", answer.body);
    release.notify_one();
    released.notified().await;
    server.becomes(&run_id, "completed").await;
}
