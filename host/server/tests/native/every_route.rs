//! Tenancy and four-eyes over every route that names a run, a thread, a question or a session.

use crate::fixture::{Key, Setup, TestServer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate::config::{DecisionMakers, ServeConfig};
use tollgate_server::Part;
use tollgate_server::Scope::{Decide, DecideAny, Use};

/// The things of one principal, or ids that nothing has.
struct Ids {
    run: String,
    thread: String,
    suspension: String,
    session: String,
    response: String,
}

impl Ids {
    fn unknown() -> Self {
        Self {
            run: "01990000-0000-7000-8000-000000000000".to_owned(),
            thread: "lost-thread".to_owned(),
            suspension: "call-1-1/1".to_owned(),
            session: "none".to_owned(),
            response: "resp_01990000-0000-7000-8000-000000000000_1".to_owned(),
        }
    }

    /// Puts the ids into a path; `None` if it names none of these things.
    fn put_into(&self, path: &str) -> Option<String> {
        let resources = [
            ("/api/v1/runs/{id}", "{id}", &self.run),
            ("/api/v1/threads/{id}", "{id}", &self.thread),
            ("/api/v1/sessions/{id}", "{id}", &self.session),
            ("/v1/responses/{id}", "{id}", &self.response),
        ];
        let mut filled = path.to_owned();
        for (start, name, id) in resources {
            if path.starts_with(start) {
                filled = filled.replace(name, id);
            }
        }
        for (name, id) in [
            ("{run}", &self.run),
            ("{task}", &self.run),
            ("{thread}", &self.thread),
            ("{session}", &self.session),
            ("{chat}", &self.thread),
            ("{suspension}", &self.suspension.replace('/', "%2F")),
        ] {
            filled = filled.replace(name, id);
        }
        (filled != path || IN_BODIES.contains(&path)).then(|| filled.replace("{agent}", "default"))
    }

    fn body(&self, path: &str) -> Value {
        let message =
            json!({"messageId": "m", "role": "ROLE_USER", "taskId": self.run, "parts": [{"text": "yes"}]});
        let approved = json!({"type": "dynamic-tool", "state": "approval-responded",
            "approval": {"id": self.suspension, "approved": true}});
        match path {
            _ if path.ends_with("/questions") => {
                json!({"answers": [{"suspension_id": self.suspension, "answer": "cancel"}]})
            }
            _ if path.ends_with("/questions/{suspension}") => json!({"answer": "cancel"}),
            "/v1/responses" => {
                json!({"model": "default", "input": "Hello", "previous_response_id": self.response})
            }
            "/ai-sdk/{agent}" => {
                json!({"id": self.thread, "messages": [{"id": self.run, "role": "assistant", "parts": [approved]}]})
            }
            "/ag-ui/{agent}" => {
                json!({"threadId": self.thread, "runId": "r", "protocolVersion": "1.0", "tools": [], "context": [],
                    "state": {}, "forwardedProps": {}, "messages": [{"id": "m", "role": "user", "content": "Hello"}],
                    "resume": [{"interruptId": format!("{}/{}", self.run, self.suspension), "status": "resolved", "payload": true}]})
            }
            "/a2a/{agent}" => {
                json!({"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": self.run}})
            }
            _ if path.contains("/message:") => json!({"message": message}),
            _ => json!({}),
        }
    }

    /// Returns a text without the ids, so that two answers can be compared.
    fn without(&self, text: &str) -> String {
        let ids = [&self.response, &self.run, &self.session, &self.thread];
        ids.iter().fold(text.to_owned(), |text, id| text.replace(id.as_str(), "ID"))
    }
}

/// The routes that are not in the OpenAPI document.
const OTHERS: [(&str, &str); 9] = [
    ("GET", "/console/runs/{run}"),
    ("GET", "/console/runs/{run}?view=events"),
    ("GET", "/console/runs/{run}/events/1"),
    ("GET", "/console/waiting/{run}?s={suspension}"),
    ("GET", "/console/live?view=run&run={run}"),
    ("POST", "/console/runs/{run}/cancel"),
    ("POST", "/console/runs/{run}/decide"),
    ("GET", "/console/thread?id=ada%2F{thread}"),
    ("POST", "/console/access/sessions/{session}/end"),
];

/// The routes of the console that name nothing of another principal.
const CONSOLE_OF_ALL: [&str; 13] = [
    "/",
    "/waiting",
    "/runs",
    "/threads",
    "/tools",
    "/tools/{tool}",
    "/tools/{tool}/enable",
    "/agents",
    "/usage",
    "/audit",
    "/playground",
    "/access",
    "/codes/{code}",
];

/// The resources of the document that do not belong to a principal.
const OF_ALL: [&str; 3] = ["/api/v1/agents/", "/api/v1/tools/", "/problems/"];

/// The routes of protocols whose bodies name things of a principal.
const IN_BODIES: [&str; 6] = [
    "/v1/responses",
    "/ai-sdk/{agent}",
    "/ag-ui/{agent}",
    "/a2a/{agent}",
    "/a2a/{agent}/message:send",
    "/a2a/{agent}/message:stream",
];

/// The routes of protocols that this table leaves out, and why.
const LEFT_OUT: [(&str, &str); 9] = [
    ("/.well-known/agent-card.json", "the card is public"),
    ("/v1/models", "agents belong to no principal"),
    ("/v1/models/{model}", "agents belong to no principal"),
    ("/v1/chat/completions", "it names a thread only by the principal's own name of it"),
    ("/v1/responses/compact", "it is always refused"),
    ("/a2a/{agent}/.well-known/agent-card.json", "agents belong to no principal"),
    ("/a2a/{agent}/extendedAgentCard", "it is always refused"),
    ("/a2a/{agent}/tasks", "it names no task"),
    ("/mcp", "a header names the session; mcp.rs has the test"),
];

/// The answers for things that do not exist, where they are not 404.
const ANSWERS: [(&str, u16); 6] = [
    // Nothing runs in a chat that does not exist.
    ("/ai-sdk/{agent}/{chat}/stream", 204),
    ("/ai-sdk/{agent}/{chat}/stop", 204),
    // These protocols have errors in successful answers.
    ("/ag-ui/{agent}", 200),
    ("/a2a/{agent}", 200),
    // They are always refused.
    ("/a2a/{agent}/tasks/{task}/pushNotificationConfigs", 400),
    ("/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{id}", 400),
];

async fn send(server: &TestServer, key: &Key, method: &str, path: &str, ids: &Ids) -> (StatusCode, String) {
    let mut filled = ids.put_into(path).unwrap();
    let method: Method = method.to_uppercase().parse().unwrap();
    if method == Method::POST && path == "/a2a/{agent}/tasks/{task}" {
        filled.push_str(":cancel");
    }
    let request =
        server.request(method.clone(), &filled).bearer_auth(&key.secret).header("a2a-version", "1.0");
    let request = match method {
        Method::POST if path.starts_with("/console") => {
            let form = format!("s={}&do=no", ids.suspension.replace('/', "%2F"));
            request.header("content-type", "application/x-www-form-urlencoded").body(form)
        }
        Method::POST => request.json(&ids.body(path)),
        _ => request,
    };
    let response = request.send().await.unwrap();
    let status = response.status();
    let is_stream = response
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    // The events of a refusal end.
    let is_endless = is_stream && path != "/ag-ui/{agent}";
    let text = if is_endless { String::new() } else { response.text().await.unwrap() };
    (status, ids.without(&text))
}

#[tokio::test(flavor = "multi_thread")]
async fn things_of_others_are_like_things_that_do_not_exist() {
    let server = TestServer::start().await;
    let (ada, eve) = (server.key("ada", &[Use, Decide]), server.key("eve", &[Use, Decide]));
    let start = json!({"agent": "default", "input": "call ask", "thread_id": "adas-thread"});
    let (_, run) = server.post(&ada, "/api/v1/runs", start).await;
    server.request(Method::POST, "/sign-in").json(&json!({"code": ada.secret})).send().await.unwrap();
    let (_, sessions) = server.get(&ada, "/api/v1/sessions").await;
    let said = json!({"model": "default", "input": "Hello"});
    let (_, response) = server.post(&ada, "/v1/responses", said).await;
    let ids = Ids {
        run: run["run_id"].as_str().unwrap().to_owned(),
        thread: "adas-thread".to_owned(),
        suspension: run["questions"][0]["suspension_id"].as_str().unwrap().to_owned(),
        session: sessions["items"][0]["id"].as_str().unwrap().to_owned(),
        response: response["id"].as_str().unwrap().to_owned(),
    };
    let (_, document) = server.get(&ada, "/openapi.json").await;
    let mut routes: Vec<(String, String)> =
        OTHERS.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
    for (path, item) in document["paths"].as_object().unwrap() {
        let is_native =
            !Part::ALL.iter().any(|part| item.to_string().contains(&format!("[\"{}\"]", part.as_str())));
        let is_named = match is_native {
            true => path.contains('{') && !OF_ALL.iter().any(|start| path.starts_with(start)),
            false => !LEFT_OUT.iter().any(|(left_out, _)| left_out == path),
        };
        assert!(!is_named || ids.put_into(path).is_some(), "this table does not know {path}");
        if is_named {
            routes.extend(item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())));
        }
    }
    assert!(routes.len() > 30, "{routes:?}");
    let unknown = Ids::unknown();
    for (method, path) in &routes {
        let foreign = send(&server, &eve, method, path, &ids).await;
        let missing = send(&server, &eve, method, path, &unknown).await;
        let expected = ANSWERS.iter().find(|(other, _)| other == path).map_or(404, |(_, status)| *status);
        assert_eq!(foreign.0, expected, "{method} {path}: {}", foreign.1);
        assert!(expected != 200 || foreign.1.to_lowercase().contains("error"), "{path}: {}", foreign.1);
        assert_eq!(foreign, missing, "{method} {path}");
    }
    // Nothing was changed, and all of it exists for its owner.
    let is_read = |(method, path): &&(String, String)| {
        let is_page = ["/console/runs", "/console/thread"].iter().any(|page| path.starts_with(page));
        method.eq_ignore_ascii_case("get") && (path.starts_with("/api") || is_page)
    };
    for (method, path) in routes.iter().filter(is_read) {
        let own = send(&server, &ada, method, path, &ids).await;
        assert!(own.0.is_success(), "{method} {path}: {} {}", own.0, own.1);
    }
    let (_, run) = server.get(&ada, &format!("/api/v1/runs/{}", ids.run)).await;
    assert_eq!(run["status"], "waiting");
}

#[test]
fn the_table_knows_each_route_of_the_console() {
    let is_route = |known: &str, route: &str| {
        let known = known.strip_prefix("/console").unwrap_or(known);
        let known: Vec<&str> = known.split('?').next().unwrap_or_default().split('/').collect();
        let route: Vec<&str> = route.split('/').collect();
        let same = |(known, part): (&&str, &&str)| part.starts_with('{') || known == part;
        known.len() == route.len() && known.iter().zip(&route).all(same)
    };
    let router = include_str!("../../src/console/mod.rs").split(".route(\"").skip(1);
    let routes: Vec<&str> = router.filter_map(|rest| rest.split('"').next()).collect();
    assert!(routes.len() > 20, "{routes:?}");
    for route in routes.into_iter().filter(|route| !route.starts_with("/console/assets/")) {
        let is_tried = OTHERS.iter().any(|(_, known)| is_route(known, route));
        assert!(is_tried != CONSOLE_OF_ALL.contains(&route), "these tables do not know {route}");
    }
}

/// The routes of the document that change something and answer no question, and why. Of the others,
/// the test below knows each.
const DECIDE_NOTHING: [(&str, &str); 14] = [
    ("/api/v1/runs", "a message supersedes a question; the call that asks is not made"),
    ("/api/v1/runs/{id}/cancel", "cancelling a run makes no call"),
    ("/api/v1/runs/{id}/recover", "a recovered run asks again"),
    ("/api/v1/sessions/{id}", "it ends a session"),
    ("/api/v1/tools/{name}/calls", "a call starts a run"),
    ("/api/v1/tools/{name}/enable", "it needs the scope `operate`"),
    ("/v1/chat/completions", "a message supersedes a question; the call that asks is not made"),
    ("/v1/responses/compact", "it is always refused"),
    ("/v1/responses/{id}/cancel", "cancelling a run makes no call"),
    ("/ai-sdk/{agent}/{chat}/stop", "cancelling a run makes no call"),
    ("/a2a/{agent}/tasks/{task}", "cancelling a run makes no call"),
    ("/a2a/{agent}/tasks/{task}/pushNotificationConfigs", "it is always refused"),
    ("/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{id}", "it is always refused"),
    ("/mcp", "clients are not asked; mcp.rs has the test"),
];

/// The routes of the document that answer questions.
const DECIDE: [&str; 8] = [
    "/api/v1/runs/{id}/questions",
    "/api/v1/runs/{id}/questions/{suspension}",
    "/v1/responses",
    "/ai-sdk/{agent}",
    "/ag-ui/{agent}",
    "/a2a/{agent}",
    "/a2a/{agent}/message:send",
    "/a2a/{agent}/message:stream",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_know_each_route_that_changes_something() {
    let server = TestServer::start().await;
    let (_, document) = server.get(&server.key("ada", &[]), "/openapi.json").await;
    let changing = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, item)| item.as_object().unwrap().keys().any(|method| method != "get"));
    for (path, _) in changing {
        let decides = DECIDE.contains(&path.as_str());
        let does_not = DECIDE_NOTHING.iter().any(|(other, _)| other == path);
        assert!(decides != does_not, "these tables do not know {path}");
    }
}

/// With `decides = "others"` no protocol lets a principal answer its own question, whatever its
/// scopes are.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_decides_own_questions_on_any_route() {
    let config = ServeConfig { decides: DecisionMakers::Others, ..ServeConfig::default() };
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let ada = server.key("ada", &[Use, Decide, DecideAny]);
    let begin = async |path: &str, body: Value| {
        let request =
            server.request(Method::POST, path).bearer_auth(&ada.secret).header("a2a-version", "1.0");
        let response = request.json(&body).send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response.text().await.unwrap()
    };
    let open = async |at: usize| {
        let (_, found) = server.get(&ada, "/api/v1/questions").await;
        let items = found["items"].as_array().unwrap().clone();
        assert_eq!(items.len(), at, "{found}");
        let newest = items.iter().max_by_key(|item| item["run_id"].as_str().unwrap().to_owned()).unwrap();
        (newest["run_id"].as_str().unwrap().to_owned(), newest["suspension_id"].as_str().unwrap().to_owned())
    };
    let refuse = async |path: String, body: Value| {
        let request =
            server.request(Method::POST, &path).bearer_auth(&ada.secret).header("a2a-version", "1.0");
        let response = request.json(&body).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_client_error() || text.contains("RUN_ERROR"), "{path}: {status} {text}");
        assert!(text.contains("others") || text.contains("own_question"), "{path}: {status} {text}");
    };

    server.run(&ada, "call ask").await;
    let (run, asked) = open(1).await;
    let answer_path = format!("/api/v1/runs/{run}/questions/{}", asked.replace('/', "%2F"));
    refuse(answer_path, json!({"answer": {"resume": true}})).await;
    let answers = json!({"answers": [{"suspension_id": asked, "answer": "cancel"}]});
    refuse(format!("/api/v1/runs/{run}/questions"), answers).await;
    let form = format!("s={}&do=answer&value=true", asked.replace('/', "%2F"));
    let console =
        server.request(Method::POST, &format!("/console/runs/{run}/decide")).bearer_auth(&ada.secret);
    let console = console.header("content-type", "application/x-www-form-urlencoded").body(form);
    assert_eq!(console.send().await.unwrap().status(), StatusCode::FORBIDDEN);

    let text = begin("/v1/responses", json!({"model": "default", "input": "call ask"})).await;
    let response: Value = serde_json::from_str(&text).unwrap();
    let (_, asked) = open(2).await;
    let output = response["output"].as_array().unwrap();
    let approval = output.iter().find(|item| item["type"] == "mcp_approval_request").unwrap();
    assert!(approval["id"].as_str().unwrap().contains(asked.as_str()), "{approval}");
    let approve =
        json!([{"type": "mcp_approval_response", "approval_request_id": approval["id"], "approve": true}]);
    let body = json!({"model": "default", "previous_response_id": response["id"], "input": approve});
    refuse("/v1/responses".to_owned(), body).await;

    let chat = json!({"id": "chat", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "call ask"}]}]});
    begin("/ai-sdk/default", chat).await;
    let (run, asked) = open(3).await;
    let part = json!({"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": asked, "approved": true}});
    let body = json!({"id": "chat", "messages": [{"id": run, "role": "assistant", "parts": [part]}]});
    refuse("/ai-sdk/default".to_owned(), body).await;

    let input = |run: &str| {
        json!({"threadId": "t", "runId": run, "protocolVersion": "1.0", "tools": [], "context": [], "state": {},
            "forwardedProps": {}, "messages": [{"id": "m1", "role": "user", "content": "call ask"}]})
    };
    begin("/ag-ui/default", input("r1")).await;
    let (run, asked) = open(4).await;
    let mut body = input("r2");
    body["resume"] =
        json!([{"interruptId": format!("{run}/{asked}"), "status": "resolved", "payload": true}]);
    refuse("/ag-ui/default".to_owned(), body).await;
    open(4).await;
    refused_by_a2a(&server, &ada, &run, &asked).await;
    open(4).await;
}

/// A client of A2A answers questions of tools only, and this one is of a gate.
async fn refused_by_a2a(server: &TestServer, key: &Key, run: &str, asked: &str) {
    let answer = json!({"data": {"suspension_id": asked, "answer": true}});
    let message = json!({"messageId": "m", "role": "ROLE_USER", "taskId": run, "parts": [answer]});
    let params = json!({"message": message});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    for (path, body) in [
        ("/a2a/default", &call),
        ("/a2a/default/message:send", &params),
        ("/a2a/default/message:stream", &params),
    ] {
        let request =
            server.request(Method::POST, path).bearer_auth(&key.secret).header("a2a-version", "1.0");
        let text = request.json(body).send().await.unwrap().text().await.unwrap();
        assert!(text.contains("UNSUPPORTED_OPERATION") || text.contains("OWN_QUESTION"), "{path}: {text}");
    }
}
