//! The Model Context Protocol at `/mcp`, with rmcp's own client and with requests written by hand.

use crate::fixture::{Key, PATIENCE, Setup, TestServer, answer};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorData, Implementation, ProtocolVersion,
};
use rmcp::service::{
    ClientLifecycleMode, RequestContext, RoleClient, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ServiceError};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate::FnTool;
use tollgate::config::{DecisionMakers, ServeConfig};
use tollgate::tools::{NativePlugin, Toolbox};
use tollgate_server::Scope::{Decide, DecideAny, Read, Use};
use tollgate_server::{Principal, Scope};

/// A client whose person says yes to every form.
#[derive(Clone, Default)]
struct YesPerson {
    asked: Arc<AtomicUsize>,
}

impl ClientHandler for YesPerson {
    fn get_info(&self) -> ClientConfig {
        config_with_forms()
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"answer": true})))
    }
}

type Client = RunningService<RoleClient, YesPerson>;

fn newest() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

/// Returns the configuration of a client that can show forms.
pub(crate) fn config_with_forms() -> ClientConfig {
    let capabilities: ClientCapabilities =
        serde_json::from_value(json!({"elicitation": {"form": {}}})).unwrap();
    ClientConfig::new(capabilities, Implementation::new("test", "1"))
}

pub(crate) async fn connect<P: ClientHandler>(
    server: &TestServer,
    key: &Key,
    person: P,
    way: ClientLifecycleMode,
) -> RunningService<RoleClient, P> {
    let config = StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp", server.url));
    let wire = StreamableHttpClientTransport::from_config(config.auth_header(&key.secret));
    serve_client_with_lifecycle(person, wire, way).await.unwrap()
}

async fn call(client: &Client, name: &str, arguments: Value) -> Result<Value, ServiceError> {
    let params = CallToolRequestParams::new(name.to_owned())
        .with_arguments(arguments.as_object().cloned().unwrap_or_default());
    Ok(serde_json::to_value(client.call_tool(params).await?).unwrap())
}

async fn names(client: &Client) -> Vec<String> {
    client.list_all_tools().await.unwrap().iter().map(|tool| tool.name.to_string()).collect()
}

/// Returns a request to `/mcp` with the usual headers.
fn to_mcp(server: &TestServer, method: Method, session: Option<&str>) -> RequestBuilder {
    let request = server
        .request(method, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    match session {
        Some(session) => {
            request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25")
        }
        None => request,
    }
}

fn initialize() -> String {
    initialize_with(&json!({}))
}

/// Returns the first message of a client that can show forms.
fn initialize_with_forms() -> String {
    initialize_with(&json!({"elicitation": {"form": {}}}))
}

fn initialize_with(capabilities: &Value) -> String {
    let client = json!({"name": "t", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

fn call_of(name: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}})
        .to_string()
}

/// Begins a session and returns its id.
async fn begin(server: &TestServer, key: &Key) -> String {
    let request = to_mcp(server, Method::POST, None).bearer_auth(&key.secret).body(initialize());
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let request = to_mcp(server, Method::POST, Some(&session)).bearer_auth(&key.secret).body(told);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::ACCEPTED);
    session
}

/// Returns the message of an answer, which is JSON or a stream of events.
async fn message(response: Response) -> Value {
    let text = response.text().await.unwrap();
    let lines = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find(|value| value.is_object()).unwrap_or_else(|| panic!("{text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_client_uses_tools_and_agents_as_its_principal() {
    let server = TestServer::start().await;
    let (ada, eve) = (server.key("ada", &[Use]), server.key("eve", &[Use]));
    for way in [ClientLifecycleMode::Initialize, newest()] {
        let client = connect(&server, &ada, YesPerson::default(), way).await;
        let listed = names(&client).await;
        for name in ["ask", "count", "echo", "default", "other"] {
            assert!(listed.iter().any(|listed| listed == name), "{name}: {listed:?}");
        }
        let result = call(&client, "echo", json!({"text": "hello"})).await.unwrap();
        assert_eq!(result["structuredContent"], json!({"text": "hello"}), "{result}");
        let result = call(&client, "default", json!({"request": "Hello"})).await.unwrap();
        assert!(result.to_string().contains("You said: Hello"), "{result}");
        assert!(call(&client, "nothing", json!({})).await.is_err());
        client.cancel().await.unwrap();
    }
    // The runs and their threads belong to the principal, under the ids that it sees.
    let (_, runs) = server.get(&ada, "/api/v1/runs").await;
    let runs = runs["items"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 4, "{runs:?}");
    for run in &runs {
        assert!(!run["thread_id"].as_str().unwrap().contains("ada/"), "{run}");
        let path = format!("/api/v1/runs/{}", run["run_id"].as_str().unwrap());
        assert_eq!(server.get(&ada, &path).await.0, StatusCode::OK);
        assert_eq!(server.get(&eve, &path).await.0, StatusCode::NOT_FOUND);
    }
    assert_eq!(server.get(&eve, "/api/v1/runs").await.1["items"], json!([]));
    let reader = server.key("rita", &[Read]);
    let (_, usage) = server.get(&reader, "/api/v1/usage?by=principal").await;
    assert_eq!(usage["items"][0]["subject"], "ada", "{usage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_may_not_are_refused_with_a_problem() {
    let server = TestServer::start().await;
    let (ada, none) = (server.key("ada", &[Use]), server.key("ada", &[Decide, Read, Scope::Operate]));
    let post = || to_mcp(&server, Method::POST, None).body(initialize());
    let with_key = || post().bearer_auth(&ada.secret);
    let cookie = format!("tollgate-{}={}", server.address.port(), ada.secret);
    let no_json = server.request(Method::POST, "/mcp").bearer_auth(&ada.secret).body(initialize());
    let no_json = no_json.header("accept", "application/json, text/event-stream");
    for (what, request, status, code) in [
        ("no key", post(), 401, "unauthenticated"),
        ("a wrong key", post().bearer_auth("tg_0123456789_wrong"), 401, "unauthenticated"),
        ("a cookie", post().header("cookie", cookie), 401, "unauthenticated"),
        ("no scope", post().bearer_auth(&none.secret), 403, "missing_scope"),
        ("another host", with_key().header("host", "evil.example"), 421, "wrong_host"),
        ("another origin", with_key().header("origin", "https://evil.example"), 403, "wrong_origin"),
        ("no JSON", no_json, 415, "unsupported_media_type"),
        ("a method", to_mcp(&server, Method::PUT, None).bearer_auth(&ada.secret), 405, "method_not_allowed"),
        (
            "no session",
            to_mcp(&server, Method::POST, Some("none")).bearer_auth(&ada.secret).body(call_of("echo")),
            404,
            "not_found",
        ),
        ("a path", server.request(Method::POST, "/mcp/x").bearer_auth(&ada.secret), 404, "not_found"),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{what}");
        let headers = response.headers().clone();
        assert_eq!(headers["content-type"], "application/problem+json", "{what}");
        assert_eq!(headers.contains_key("www-authenticate"), status == 401, "{what}");
        let problem: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)), "{what}");
        assert_eq!(problem["scope"] == "use", code == "missing_scope", "{problem}");
    }
    // A body that is too long is refused before it is sent.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
        ada.secret,
        (4 << 20) + 1
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut refused = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut refused)).await.unwrap().unwrap();
    assert!(refused.starts_with("HTTP/1.1 413 ") && refused.contains(r#""code":"too_large""#), "{refused}");
    assert!(refused.contains("content-type: application/problem+json"), "{refused}");
    // Errors of the protocol itself keep its form.
    let response = with_key().body("{").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(message(response).await["error"]["code"], -32700);
    assert_eq!(with_key().send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_belongs_to_the_principal_that_began_it() {
    let server = TestServer::start().await;
    let (ada, eve) = (server.key("ada", &[Use]), server.key("eve", &[Use]));
    let session = begin(&server, &ada).await;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let mut answers = Vec::new();
        for id in [session.as_str(), "01990000-0000-7000-8000-000000000000"] {
            let request = to_mcp(&server, method.clone(), Some(id)).bearer_auth(&eve.secret);
            let request = if method == Method::POST { request.body(call_of("echo")) } else { request };
            let response = request.send().await.unwrap();
            answers.push((response.status(), response.text().await.unwrap()));
        }
        assert_eq!(answers[0].0, StatusCode::NOT_FOUND, "{method}: {}", answers[0].1);
        assert_eq!(answers[0], answers[1], "{method}: like a session that does not exist");
    }
    // Another key of the same principal continues it, and its owner can end it.
    let second = server.key("ada", &[Use]);
    let request = to_mcp(&server, Method::POST, Some(&session)).bearer_auth(&second.secret);
    let response = request.body(call_of("echo")).send().await.unwrap();
    assert_eq!(message(response).await["result"]["isError"], json!(false));
    let end = || to_mcp(&server, Method::DELETE, Some(&session)).bearer_auth(&ada.secret);
    assert!(end().send().await.unwrap().status().is_success());
    assert_eq!(end().send().await.unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!(server.get(&eve, "/api/v1/runs").await.1["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_some_tools_sees_and_calls_only_these() {
    let server = TestServer::start().await;
    let principal =
        Principal { tools: vec!["e*".into()], agents: vec!["oth*".into()], ..Principal::new("ada", [Use]) };
    let key = server.key_of(principal);
    let client = connect(&server, &key, YesPerson::default(), newest()).await;
    assert_eq!(names(&client).await, ["echo", "other"]);
    for hidden in ["count", "default", "coun"] {
        let refused = call(&client, hidden, json!({})).await.unwrap_err().to_string();
        assert!(refused.contains("Unknown tool") && !refused.contains("nearest"), "{refused}");
    }
    assert_eq!(server.counted.load(Ordering::SeqCst), 0);
    assert!(call(&client, "echo", json!({})).await.is_ok());
    client.cancel().await.unwrap();
}

/// Loads a tool that answers "the tool", as if a file were added to the tools directory.
fn load_tool(server: &TestServer, name: &str) {
    let tool = FnTool::new("late", name, "Was loaded later.", |_: Value, _| async { "the tool" });
    let load = |toolbox: &mut Toolbox| NativePlugin::new("late").with_tool(tool).install(toolbox);
    server.state.host.update_toolbox(load).unwrap();
}

fn unload_tool(server: &TestServer) {
    let unload = |toolbox: &mut Toolbox| {
        toolbox.remove("late");
        Ok::<_, Infallible>(())
    };
    server.state.host.update_toolbox(unload).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_loaded_later_takes_the_name_of_an_agent() {
    let server = TestServer::start().await;
    let ada = server.key("ada", &[Use]);
    let limited = server.key_of(Principal {
        tools: vec!["echo".into()],
        agents: vec!["other".into()],
        ..Principal::new("ada", [Use])
    });
    let request = json!({"request": "Hello"});
    for way in [ClientLifecycleMode::Initialize, newest()] {
        let client = connect(&server, &ada, YesPerson::default(), way.clone()).await;
        let second = connect(&server, &limited, YesPerson::default(), way).await;
        let others = async |client: &Client| -> Vec<Option<String>> {
            let tools = client.list_all_tools().await.unwrap();
            let others = tools.into_iter().filter(|tool| tool.name == "other");
            others.map(|tool| tool.description.map(String::from)).collect()
        };
        for _ in 0..2 {
            assert_eq!(others(&client).await, [Some("Asks the agent other.".to_owned())]);
            assert_eq!(names(&second).await, ["echo", "other"]);
            let answer = call(&client, "other", request.clone()).await.unwrap().to_string();
            assert!(answer.contains("You said: Hello"), "{answer}");
            load_tool(&server, "other");
            assert_eq!(others(&client).await, [Some("Was loaded later.".to_owned())]);
            let answer = call(&client, "other", request.clone()).await.unwrap().to_string();
            assert!(answer.contains("the tool"), "{answer}");
            // A key for the agent is not one for the tool.
            assert_eq!(names(&second).await, ["echo"]);
            assert!(call(&second, "other", request.clone()).await.is_err());
            unload_tool(&server);
        }
        // The same applies to a name that only looks like that of the agent.
        load_tool(&server, "0ther");
        let listed = names(&client).await;
        assert!(listed.contains(&"0ther".to_owned()) && !listed.contains(&"other".to_owned()), "{listed:?}");
        assert!(call(&client, "other", request.clone()).await.is_err());
        unload_tool(&server);
        // A waiting call of the agent is not continued by a call of the tool.
        let asks = json!({"request": "call ask"});
        let waits = call(&client, "other", asks.clone()).await.unwrap();
        assert_eq!(waits["structuredContent"]["status"], "approval_required", "{waits}");
        load_tool(&server, "other");
        let answer = call(&client, "other", asks.clone()).await.unwrap();
        assert!(answer["isError"] == false && answer.to_string().contains("the tool"), "{answer}");
        unload_tool(&server);
        let again = call(&client, "other", asks).await.unwrap();
        assert_eq!(again["structuredContent"]["run_id"], waits["structuredContent"]["run_id"], "{again}");
        client.cancel().await.unwrap();
        second.cancel().await.unwrap();
    }
}

/// Calls `ask` until it needs a decision, lets `bob` decide, and repeats it.
async fn decided_elsewhere(server: &TestServer, ada: &Key, bob: &Key, way: ClientLifecycleMode) {
    let has_session = matches!(way, ClientLifecycleMode::Initialize);
    let person = YesPerson::default();
    let client = connect(server, ada, person.clone(), way).await;
    let waits = call(&client, "ask", json!({})).await.unwrap();
    assert_eq!(waits["structuredContent"]["status"], "approval_required", "{waits}");
    let text = waits.to_string();
    assert_eq!(waits["structuredContent"]["decide_url"], format!("{}/console/waiting", server.url));
    assert!(!text.contains("--resume") && !text.contains("terminal"), "no command of the host: {text}");
    assert_eq!(person.asked.load(Ordering::SeqCst), 0, "the client is not asked");
    // The call cannot be answered with a form that was never shown, either.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    let id = waits["structuredContent"]["suspension_id"].as_str().unwrap();
    let input = json!({id: {"action": "accept", "content": {"answer": true}}});
    let params = json!({"name": "ask", "arguments": {}, "_meta": meta, "inputResponses": input});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = to_mcp(server, Method::POST, None).bearer_auth(&ada.secret);
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
    let answer = message(request.header("mcp-name", "ask").json(&body).send().await.unwrap()).await;
    if has_session {
        // Without the session, it is another call, which waits as well.
        let other = &answer["result"]["structuredContent"];
        assert_eq!(other["status"], "approval_required", "{answer}");
        assert_ne!(other["run_id"], waits["structuredContent"]["run_id"], "{answer}");
    } else {
        let words = "this key may not answer questions of its own calls; another person decides";
        assert_eq!(answer["error"], json!({"code": -32600, "message": words}), "{answer}");
    }
    let run = waits["structuredContent"]["run_id"].as_str().unwrap();
    let (_, shown) = server.get(ada, &format!("/api/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "waiting", "{shown}");
    let path = shown["questions"][0]["answer_path"].as_str().unwrap();
    let (status, problem) = server.post(ada, path, json!({"answer": {"resume": true}})).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{problem}");
    let (status, _) = server.post(bob, path, json!({"answer": {"resume": true}})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let result = loop {
        let result = call(&client, "ask", json!({})).await.unwrap();
        if result["structuredContent"]["status"] != "under_way" {
            break result;
        }
    };
    assert!(result.to_string().contains("asked"), "{result}");
    client.cancel().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_in_the_client_only_if_the_key_may_decide() {
    let server = TestServer::start().await;
    let (ada, bob) = (server.key("ada", &[Use]), server.key("bob", &[DecideAny]));
    decided_elsewhere(&server, &ada, &bob, ClientLifecycleMode::Initialize).await;
    decided_elsewhere(&server, &ada, &bob, newest()).await;
    let may = server.key("ada", &[Use, Decide]);
    let person = YesPerson::default();
    let client = connect(&server, &may, person.clone(), ClientLifecycleMode::Initialize).await;
    let result = call(&client, "ask", json!({})).await.unwrap();
    assert!(result.to_string().contains("asked"), "{result}");
    assert_eq!(person.asked.load(Ordering::SeqCst), 1);
    client.cancel().await.unwrap();
    let reader = server.key("rita", &[Read]);
    let (_, audit) = server.get(&reader, "/api/v1/audit?kind=decision").await;
    let who: Vec<&Value> = audit["items"].as_array().unwrap().iter().map(|record| &record["who"]).collect();
    assert_eq!(who, ["key ada", "key bob", "key bob"], "{audit}");
}

/// A session belongs to a principal, so that each of its keys can send the answer to a question that
/// the client of another key was asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_session_is_answered_only_with_a_key_that_may_decide() {
    let server = TestServer::start().await;
    let (may, may_not) = (server.key("ada", &[Use, Decide]), server.key("ada", &[Use]));
    let begin = to_mcp(&server, Method::POST, None).bearer_auth(&may.secret).body(initialize_with_forms());
    let response = begin.send().await.unwrap();
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let post = |key: &Key, body: String| {
        to_mcp(&server, Method::POST, Some(&session)).bearer_auth(&key.secret).body(body).send()
    };
    let post_as = |kind: &'static str, body: String| {
        let request = server.request(Method::POST, "/mcp").bearer_auth(&may_not.secret);
        let request =
            request.header("accept", "application/json, text/event-stream").header("content-type", kind);
        request.header("mcp-session-id", session.clone()).body(body).send()
    };
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(post(&may, ready).await.unwrap().status(), StatusCode::ACCEPTED);
    let mut answers = post(&may, call_of("ask")).await.unwrap();
    let mut stream = String::new();
    let question = loop {
        let chunk = tokio::time::timeout(PATIENCE, answers.chunk()).await.unwrap().unwrap();
        stream.push_str(&String::from_utf8_lossy(&chunk.expect("the question comes first")));
        let lines = stream.lines().filter_map(|line| line.strip_prefix("data:"));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(question) = messages.find(|message| message["method"] == "elicitation/create") {
            break question;
        }
    };
    let answer = |action: &str| {
        let result = json!({"action": action, "content": {"answer": true}});
        json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()
    };
    for action in ["accept", "decline", "cancel"] {
        let refused = post(&may_not, answer(action)).await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{action}");
        assert_eq!(refused.headers()["content-type"], "application/problem+json");
        let problem: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
        assert_eq!((&problem["code"], &problem["scope"]), (&json!("missing_scope"), &json!("decide")));
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("{}/console/waiting", server.url)), "{detail}");
    }
    // Media types are case-insensitive and may have parameters.
    for kind in ["Application/JSON", "APPLICATION/JSON ; charset=utf-8"] {
        let refused = post_as(kind, answer("accept")).await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{kind}");
    }
    let (_, runs) = server.get(&may, "/api/v1/runs").await;
    assert_eq!(runs["items"][0]["status"], "waiting", "{runs}");
    // Any key of the principal may do everything else in the session, and one with the scope answers.
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert!(message(post(&may_not, list).await.unwrap()).await["result"]["tools"].is_array());
    let second = server.key("ada", &[Use, Decide]);
    assert_eq!(post(&second, answer("accept")).await.unwrap().status(), StatusCode::ACCEPTED);
    let rest = answers.text().await.unwrap();
    assert!(rest.contains("asked") && rest.contains("\"isError\":false"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers_own_questions_where_others_decide() {
    let config = ServeConfig { decides: DecisionMakers::Others, ..ServeConfig::default() };
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let (ada, bob) = (server.key("ada", &[Use, Decide, DecideAny]), server.key("bob", &[DecideAny]));
    decided_elsewhere(&server, &ada, &bob, ClientLifecycleMode::Initialize).await;
    decided_elsewhere(&server, &ada, &bob, newest()).await;
}

/// Requests of a session with the id of a call in progress are refused with an error, and none of
/// them waits for an answer that never comes.
#[tokio::test(flavor = "multi_thread")]
async fn l7_a_request_with_the_id_of_one_in_progress_is_refused() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    let session = begin(&server, &key).await;
    let send =
        |body: String| to_mcp(&server, Method::POST, Some(&session)).bearer_auth(&key.secret).body(body);
    let mut answers: FuturesUnordered<_> = (0..6).map(|_| send(call_of("sleep")).send()).collect();
    let (mut refused, mut accepted) = (0, Vec::new());
    while refused < 5 {
        let answer =
            tokio::time::timeout(PATIENCE / 2, answers.next()).await.expect("five are answered at once");
        let response = answer.expect("five of six are refused").unwrap();
        if response.status() == StatusCode::OK {
            accepted.push(response);
            continue;
        }
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let error: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(error["error"]["code"], -32600, "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("use a new id"), "{error}");
        refused += 1;
    }
    // Another session may use the same id, and so may this one after an answer.
    let other = begin(&server, &key).await;
    for _ in 0..3 {
        let call = to_mcp(&server, Method::POST, Some(&other)).bearer_auth(&key.secret).body(call_of("echo"));
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.text().await.unwrap().contains("\"result\""));
    }
    drop((accepted, answers));
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_messages_of_one_principal_take_at_most_a_quarter_of_the_memory() {
    let server = TestServer::with(Setup { memory_budget_bytes: Some(32 << 20), ..Setup::default() }).await;
    let (ada, bob) = (server.key("ada", &[Use]), server.key("bob", &[Use]));
    // Its parsed form takes 6 MiB for as long as the call sleeps.
    let params = json!({"name": "sleep", "arguments": {}, "_meta": {"many": vec![0; 15_000]}});
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let send = async |key: &Key| {
        let session = begin(&server, key).await;
        let request = to_mcp(&server, Method::POST, Some(&session)).bearer_auth(&key.secret);
        request.body(large.clone()).send().await.unwrap()
    };
    let first = send(&ada).await;
    assert_eq!(first.status(), StatusCode::OK);
    assert!(server.state.host.memory_budget().reserved_bytes() > 4 << 20);
    let (status, problem) = answer(send(&ada).await).await;
    assert_eq!((status, &problem["code"]), (StatusCode::TOO_MANY_REQUESTS, &json!("too_many_requests")));
    let other = send(&bob).await;
    assert_eq!(other.status(), StatusCode::OK);
    drop((first, other));
}

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_of_a_principal_are_bounded_and_end_with_the_server() {
    let mut setup = Setup::default();
    setup.config.limits.streams_per_key = 1;
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Use]);
    let (first, second) = (begin(&server, &key).await, begin(&server, &key).await);
    let stream = |session: &str| {
        let request = server.request(Method::GET, "/mcp").bearer_auth(&key.secret);
        request.header("accept", "text/event-stream").header("mcp-session-id", session.to_owned()).send()
    };
    let open = stream(&first).await.unwrap();
    assert_eq!(open.status(), StatusCode::OK);
    assert_eq!(stream(&second).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    // A call that works is cancelled and recorded, and the server ends.
    let sleeping = to_mcp(&server, Method::POST, Some(&second)).bearer_auth(&key.secret);
    let sleeping = tokio::spawn(sleeping.body(call_of("sleep")).send());
    let busy = async {
        while server.get(&key, "/api/v1/runs").await.1["items"] == json!([]) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, busy).await.expect("the call does not begin");
    let data = server.stop().await;
    drop((open, sleeping.await.unwrap()));
    let server = TestServer::on(data.path(), Setup::default()).await;
    let (_, runs) = server.get(&key, "/api/v1/runs").await;
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "{runs}");
    assert_eq!(
        (&runs["items"][0]["agent"], &runs["items"][0]["status"]),
        (&json!("direct"), &json!("cancelled"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_session_ends_with_its_key() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    let session = begin(&server, &key).await;
    let mut stream =
        to_mcp(&server, Method::GET, Some(&session)).bearer_auth(&key.secret).send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    assert!(server.state.access.revoke_key(&key.id).unwrap());
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_a_client_of_mcp_is_told_not_to_repeat_a_call_whose_record_is_lost() {
    // The first write records that the call begins, and the second one its end.
    for (fails_from, words, counted) in [(1, "nothing was run", 0), (2, "do not repeat the call", 1)] {
        let server = TestServer::with(Setup { fails_from, ..Setup::default() }).await;
        let key = server.key("ada", &[Use]);
        let client = connect(&server, &key, YesPerson::default(), newest()).await;
        let failed = call(&client, "count", json!({})).await.unwrap_err().to_string();
        assert!(failed.contains(words) && !failed.contains("disk"), "{failed}");
        assert_eq!(server.counted.load(Ordering::SeqCst), counted, "{failed}");
    }
}
