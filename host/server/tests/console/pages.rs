//! Pages: text of others is text only, policies are on every answer, sizes, and access.

use crate::server::{ALL, Script, Server, asking, principal};
use serde_json::json;
use tollgate::models::{DeltaSink, ModelFault};
use tollgate::{Agent, CallRequest, FnTool, Model, Ticket, ToolContext, ToolResult, async_trait};
use tollgate_agent::message::{ModelReply, ModelRequest};
use tollgate_server::console::{ConsoleData, Price};
use tollgate_server::{Scope, console};

/// Texts that try to be more than text.
const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)> ![pixel](https://evil.test/p.png) \
    [click](javascript:alert(3)) https://evil.test/?q=secret \u{1b}[31mred\u{1b}]8;;https://evil.test\u{7} \
    \u{202e}gnp.exe\u{2066} \u{200b}hidden\u{e0041} \"'><svg onload=alert(4)> </textarea></pre></title>";

/// The maximum size of a page in bytes, with its stylesheet, script and icon.
const MAX_PAGE_BYTES: usize = 80_000;
/// The maximum size of a page whose every text is long, alone.
const MAX_LONG_PAGE_BYTES: usize = 80 * 1024;

/// Returns the size of the stylesheet, the script and the icon of a page in bytes.
async fn assets_bytes(server: &Server) -> usize {
    let page = server.get("/console").await.body;
    let mut bytes = 0;
    for (element, name) in
        [("<link rel=\"stylesheet\"", "href"), ("<link rel=\"icon\"", "href"), ("<script", "src")]
    {
        let path = crate::server::attribute(&page, element, name).unwrap();
        bytes += server.get(&path).await.body.len();
    }
    bytes
}

fn hostile_script() -> Script {
    Script {
        calls: vec![("echo", json!({"text": HOSTILE, HOSTILE: 1})), ("ask", json!({}))],
        answer: HOSTILE.to_owned(),
    }
}

async fn hostile_server() -> Server {
    let ticket = Ticket {
        action: HOSTILE.chars().take(20).collect(),
        parameters: json!({HOSTILE: HOSTILE}),
        response_schema: Some(json!({"type": "object", "properties": {
            HOSTILE: {"type": "string", "title": HOSTILE, "description": HOSTILE, "default": HOSTILE},
            "choice": {"enum": [HOSTILE, "b"]},
            "many": {"enum": [HOSTILE, "b", "c", "d", "e"]},
            "constant": {"const": HOSTILE},
        }})),
        ..Ticket::confirm(HOSTILE)
    };
    let echo =
        FnTool::new("echo", "echo", HOSTILE, |arguments: serde_json::Value, _: ToolContext| async move {
            ToolResult::success_with_message(arguments, HOSTILE)
        });
    Server::with_script(hostile_script(), |builder| builder.tool(echo).tool(asking("ask", ticket))).await
}

/// Returns every page that shows something of a run.
fn pages(run_id: &str, thread: &str) -> Vec<String> {
    let mut pages: Vec<String> = [
        "",
        "/waiting",
        "/runs",
        "/threads",
        "/tools",
        "/agents",
        "/usage",
        "/audit",
        "/playground",
        "/access",
        "/tools/echo",
        "/tools/ask",
        "/codes/denied",
    ]
    .map(|page| format!("/console{page}"))
    .to_vec();
    pages.extend(
        ["", "?view=conversation", "?view=events", "?view=state", "/events/1", "/events/5"]
            .map(|view| format!("/console/runs/{run_id}{view}")),
    );
    pages.push(format!("/console/thread?id={}", thread.replace('/', "%2F")));
    pages.push(format!(
        "/console/playground?agent=clerk&thread={}",
        thread.split('/').nth(1).unwrap_or_default()
    ));
    pages.push(format!("/console/runs?text={}", "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%27%3E"));
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_others_is_text_only_on_every_page() {
    let server = hostile_server().await;
    let run_id = server.run(HOSTILE, "ada/case").await;
    for page in pages(&run_id, "ada/case") {
        let answer = server.get(&page).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        let html = &answer.body;
        for tag in [
            "<script>",
            "<img",
            "<svg onload",
            "<iframe",
            "javascript:alert(3)\"",
            "href=\"https://evil",
            "src=\"https://evil",
        ] {
            assert!(!html.contains(tag), "{page} contains {tag}");
        }
        for c in ['\u{1b}', '\u{202e}', '\u{2066}', '\u{200b}', '\u{e0041}', '\u{7}'] {
            assert!(!html.contains(c), "{page} contains {:?}", c.escape_unicode().to_string());
        }
        assert!(!html.contains(" style=") && !html.contains(" onload=\""), "{page}");
        assert_eq!(html.matches("<script").count(), 1, "{page}: only the console's own script");
        assert_eq!(html.matches("</title>").count(), 1, "{page}");
    }
    let run = server.get(&format!("/console/runs/{run_id}")).await.body;
    assert!(run.contains("&lt;script&gt;alert(1)"), "the text itself is shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_policy_and_no_page_is_large() {
    let server = hostile_server().await;
    let run_id = server.run(&"long text ".repeat(4_000), "ada/case").await;
    for number in 0..60 {
        let call = CallRequest::from_json("echo", json!({"text": HOSTILE, "n": number}).to_string());
        server.host.call(call.on_thread(format!("ada/{HOSTILE}{number}"))).await.unwrap();
    }
    let mut all = pages(&run_id, "ada/case");
    all.extend(["/console/runs/none", "/console/nothing"].map(str::to_owned));
    for page in all {
        let answer = server.get(&page).await;
        let header =
            |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        assert_eq!(header("content-security-policy"), console::CONTENT_SECURITY_POLICY, "{page}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{page}");
        assert_eq!(header("referrer-policy"), "same-origin", "{page}");
        assert_eq!(header("cross-origin-opener-policy"), "same-origin", "{page}");
        assert_eq!(header("cache-control"), "no-store", "{page}");
        assert!(answer.body.len() <= MAX_LONG_PAGE_BYTES, "{page} has {} bytes", answer.body.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_thousands_of_events_is_shown_in_parts() {
    let echo =
        FnTool::new("echo", "echo", "Echoes.", |arguments: serde_json::Value, _: ToolContext| async move {
            ToolResult::success(arguments)
        });
    let calls = (0..200).map(|n| ("echo", json!({"n": n, "text": "x".repeat(200)}))).collect();
    let script = Script { calls, answer: "Done.".to_owned() };
    let limits = tollgate::RunLimits { model_turns: 300, ..Default::default() };
    let agent = tollgate::Agent::new("clerk", script).with_tools(["*"]).with_limits(limits);
    let server = Server::start(|builder| builder.tool(echo).agent(agent)).await;
    let run_id = server.run("Go on.", "ada/long").await;
    let mut path = format!("/console/runs/{run_id}");
    let assets = assets_bytes(&server).await;
    let (mut pages, mut rows) = (0, 0);
    loop {
        let answer = server.get(&path).await;
        assert!(answer.body.len() + assets <= MAX_PAGE_BYTES, "{path}: {} bytes", answer.body.len());
        rows += answer.body.matches("<li class=\"call\"").count();
        pages += 1;
        let Some(next) = crate::server::attribute(&answer.body, "<a rel=\"next\"", "href") else { break };
        path = next;
    }
    assert_eq!(rows, 200, "every call is on some page");
    assert!(pages > 1, "{pages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_principals_things_do_not_exist() {
    let server = hostile_server().await;
    let run_id = server.run("Hello.", "ada/case").await;
    let s = "s=call-1-2%2F1";
    let own = [Scope::Use, Scope::Decide];
    for (name, scopes, is_found) in [
        ("bob", &own[..], false),
        ("ad", &own[..], false),
        ("ada", &own[..], true),
        ("bob", &[Scope::Read][..], true),
        ("bob", &ALL[..], true),
    ] {
        server.sign_in(Some(principal(name, scopes)));
        for page in [
            format!("/console/runs/{run_id}"),
            format!("/console/runs/{run_id}?view=events"),
            format!("/console/runs/{run_id}/events/1"),
            "/console/thread?id=ada%2Fcase".to_owned(),
            format!("/console/live?view=run&run={run_id}"),
        ] {
            let answer = server.open(&page).await;
            assert_eq!(answer.status() == 200, is_found, "{name} {scopes:?} {page}");
            assert_eq!(answer.status() == 404, !is_found, "{name} {scopes:?} {page}");
        }
        for list in ["/console/runs", "/console/threads", "/console", "/console/usage", "/console/waiting"] {
            let body = server.get(list).await.body;
            assert!(is_found || !body.contains(&run_id), "{name} sees the run on {list}");
        }
    }
    server.sign_in(Some(principal("bob", &own)));
    let missing = server.get("/console/runs/0192f0a1").await;
    let foreign = server.get(&format!("/console/runs/{run_id}")).await;
    assert_eq!(missing.body, foreign.body, "nothing tells a foreign run from one that does not exist");
    assert_eq!(server.get(&format!("/console/waiting/{run_id}?{s}")).await.status, 404);
    for (page, scope) in [("/console/audit", "read"), ("/console/playground", "use")] {
        server.sign_in(Some(principal("bob", &[Scope::Metrics])));
        let answer = server.get(page).await;
        assert_eq!(answer.status, 403);
        assert!(answer.body.contains(&format!("`{scope}`")), "{}", answer.body);
    }
    server.sign_in(None);
    assert_eq!(server.get("/console").await.path, console::SIGN_IN_PATH, "it leads to the sign-in");
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_are_for_those_who_see_everyones_runs() {
    let script = Script { calls: Vec::new(), answer: "Done.".to_owned() };
    let agent = Agent::new("clerk", script).with_instructions("Grant no discount.");
    let server = Server::start(|builder| builder.agent(agent)).await;
    let run_id = server.run("Hello.", "ada/case").await;
    for (scopes, sees_them) in [(&[Scope::Use][..], false), (&[Scope::Use, Scope::Read][..], true)] {
        server.sign_in(Some(principal("ada", scopes)));
        for page in ["runs/{run}?view=events", "runs/{run}/events/1", "agents"] {
            let answer = server.get(&format!("/console/{}", page.replace("{run}", &run_id))).await;
            assert_eq!(answer.status, 200, "{page}");
            assert_eq!(answer.body.contains("Grant no discount."), sees_them, "{page} {scopes:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_one_row_of_usage_whoever_uses_it() {
    let server = hostile_server().await;
    for thread in ["ada/case", "bob/case", "case"] {
        server.run("Hello.", thread).await;
    }
    let page = server.get("/console/usage?by=agent").await.body;
    assert_eq!(page.matches("<th scope=\"row\">clerk").count(), 1, "{page}");
}

/// A model that replied under another name than the configuration has for it today.
struct Renamed(Script);

#[async_trait]
impl Model for Renamed {
    fn name(&self) -> &str {
        "today"
    }

    async fn reply(&self, request: ModelRequest, sink: &mut DeltaSink<'_>) -> Result<ModelReply, ModelFault> {
        Ok(ModelReply { model: Some("dated".into()), ..self.0.reply(request, sink).await? })
    }
}

/// The prices of its two names.
struct Prices;

impl ConsoleData for Prices {
    fn price(&self, model: &str) -> Option<Price> {
        let input = if model == "dated" { 12_300.0 } else { 990_000.0 };
        Some(Price { input, output: 0.0 })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_has_the_model_that_replied_and_its_price() {
    let model = Renamed(Script { calls: vec![], answer: "Hello.".to_owned() });
    let server = Server::start(|builder| builder.agent(Agent::new("clerk", model))).await;
    server.knows(Prices);
    let run = server.run("Hello.", "ada/case").await;
    for page in
        [format!("/console/runs/{run}"), "/console/runs".to_owned(), "/console/usage?by=agent".to_owned()]
    {
        let page = server.get(&page).await.body;
        assert!(page.contains("1.23") && !page.contains("99.00"), "{page}");
    }
    let page = server.get("/console/usage?by=model").await.body;
    assert!(page.contains("<th scope=\"row\">dated") && page.contains("1.23"), "{page}");
    assert!(!page.contains("today</th>"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_names_the_model_that_asked_for_a_call() {
    let script = Script { calls: vec![("missing", json!({}))], answer: "Done.".to_owned() };
    let server = Server::start(|builder| builder.agent(Agent::new("clerk", Renamed(script)))).await;
    server.run("Hello.", "ada/case").await;
    let page = server.get("/console/audit").await.body;
    assert!(page.contains("missing") && page.contains("<br><span class=\"muted\">dated</span>"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn assets_are_cached_by_their_digest() {
    let server = hostile_server().await;
    let page = server.get("/console").await.body;
    server.sign_in(None);
    for (element, kind) in [
        ("<link rel=\"stylesheet\"", "text/css"),
        ("<link rel=\"icon\"", "image/svg+xml"),
        ("<script", "text/javascript"),
    ] {
        let name = if element == "<script" { "src" } else { "href" };
        let path = crate::server::attribute(&page, element, name).unwrap();
        let asset = server.get(&path).await;
        assert_eq!(asset.status, 200, "{path}");
        assert!(asset.headers["content-type"].to_str().unwrap().starts_with(kind), "{path}");
        assert!(asset.headers["cache-control"].to_str().unwrap().contains("immutable"), "{path}");
        let tag = asset.headers["etag"].to_str().unwrap().to_owned();
        let again =
            reqwest::Client::new().get(format!("{}{path}", server.origin)).header("if-none-match", tag);
        assert_eq!(again.send().await.unwrap().status(), 304);
        assert!(!page.contains("https://"), "no page needs another server");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_a_list_cannot_apply_is_an_error() {
    let server =
        Server::with_script(Script { calls: Vec::new(), answer: "Hello.".to_owned() }, |builder| builder)
            .await;
    server.run("Hello.", "ada/case").await;
    for path in [
        "/console/runs?status=failed&status=completed",
        "/console/runs?status=lost",
        "/console/runs?after=zz",
        "/console/runs?page=0",
        "/console/runs?page=zz",
        "/console/audit?kind=lost",
        "/console/audit?x=1",
        "/console/threads?status=failed",
        "/console/usage?range=1y",
    ] {
        assert_eq!(server.get(path).await.status, 400, "{path}");
    }
    for path in ["/console/runs?status=&page=1", "/console/runs?status=completed", "/console/audit?since=1h"]
    {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
}
