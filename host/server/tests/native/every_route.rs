//! Tenancy and four-eyes over every route that names a run, a thread, a question or a session.

use crate::fixture::{Key, Setup, TestServer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate::config::{Decides, ServeConfig};
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
            thread: "none".to_owned(),
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
        ];
        let mut filled = path.to_owned();
        for (start, name, id) in resources {
            if path.starts_with(start) {
                filled = filled.replace(name, id);
            }
        }
        for (name, id) in [
            ("{run}", &self.run),
            ("{thread}", &self.thread),
            ("{response}", &self.response),
            ("{suspension}", &self.suspension.replace('/', "%2F")),
        ] {
            filled = filled.replace(name, id);
        }
        (filled != path).then_some(filled)
    }

    fn body(&self, path: &str) -> Value {
        match path {
            _ if path.ends_with("/questions") => {
                json!({"answers": [{"suspension_id": self.suspension, "answer": "cancel"}]})
            }
            _ if path.ends_with("/questions/{suspension}") => json!({"answer": "cancel"}),
            _ => json!({}),
        }
    }

    /// Returns a text without the ids, so that two answers can be compared.
    fn without(&self, text: &str) -> String {
        let ids = [&self.response, &self.run, &self.session];
        ids.iter().fold(text.to_owned(), |text, id| text.replace(id.as_str(), "ID"))
    }
}

/// The routes that are not in the OpenAPI document.
const OTHERS: [(&str, &str); 11] = [
    ("GET", "/console/runs/{run}"),
    ("GET", "/console/runs/{run}?view=events"),
    ("GET", "/console/runs/{run}/events/1"),
    ("GET", "/console/waiting/{run}?s={suspension}"),
    ("GET", "/console/live?view=run&run={run}"),
    ("POST", "/console/runs/{run}/cancel"),
    ("POST", "/console/runs/{run}/decide"),
    ("GET", "/v1/responses/{response}"),
    ("GET", "/v1/responses/{response}/input_items"),
    ("GET", "/a2a/default/tasks/{run}"),
    ("POST", "/a2a/default/tasks/{run}:cancel"),
];

/// The resources of the document that do not belong to a principal.
const OF_ALL: [&str; 3] = ["/api/v1/agents/", "/api/v1/tools/", "/problems/"];

async fn send(server: &TestServer, key: &Key, method: &str, path: &str, ids: &Ids) -> (StatusCode, String) {
    let filled = ids.put_into(path).unwrap();
    let method: Method = method.to_uppercase().parse().unwrap();
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
    let text = if is_stream { String::new() } else { response.text().await.unwrap() };
    (status, ids.without(&text))
}

#[tokio::test(flavor = "multi_thread")]
async fn things_of_others_are_like_things_that_do_not_exist() {
    let server = TestServer::start().await;
    let (ada, eve) = (server.key("ada", &[Use, Decide]), server.key("eve", &[Use, Decide]));
    let start = json!({"agent": "default", "input": "call ask", "thread_id": "mine"});
    let (_, run) = server.post(&ada, "/api/v1/runs", start).await;
    server.request(Method::POST, "/sign-in").json(&json!({"code": ada.secret})).send().await.unwrap();
    let (_, sessions) = server.get(&ada, "/api/v1/sessions").await;
    let said = json!({"model": "default", "input": "Hello"});
    let (_, response) = server.post(&ada, "/v1/responses", said).await;
    let ids = Ids {
        run: run["run_id"].as_str().unwrap().to_owned(),
        thread: "mine".to_owned(),
        suspension: run["questions"][0]["suspension_id"].as_str().unwrap().to_owned(),
        session: sessions["items"][0]["id"].as_str().unwrap().to_owned(),
        response: response["id"].as_str().unwrap().to_owned(),
    };
    let (_, document) = server.get(&ada, "/openapi.json").await;
    let mut routes: Vec<(String, String)> =
        OTHERS.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
    for (path, item) in document["paths"].as_object().unwrap() {
        let is_named = path.contains('{') && !OF_ALL.iter().any(|start| path.starts_with(start));
        assert!(!is_named || ids.put_into(path).is_some(), "this table does not know {path}");
        if is_named {
            routes.extend(item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())));
        }
    }
    assert!(routes.len() > 20, "{routes:?}");
    let unknown = Ids::unknown();
    for (method, path) in &routes {
        let foreign = send(&server, &eve, method, path, &ids).await;
        let missing = send(&server, &eve, method, path, &unknown).await;
        assert_eq!(foreign.0, StatusCode::NOT_FOUND, "{method} {path}: {}", foreign.1);
        assert_eq!(foreign, missing, "{method} {path}");
    }
    // Nothing was changed, and all of it exists for its owner.
    let is_read = |(method, path): &&(String, String)| {
        method.eq_ignore_ascii_case("get") && (path.starts_with("/api") || path.starts_with("/console/runs"))
    };
    for (method, path) in routes.iter().filter(is_read) {
        let own = send(&server, &ada, method, path, &ids).await;
        assert!(own.0.is_success(), "{method} {path}: {} {}", own.0, own.1);
    }
    let (_, run) = server.get(&ada, &format!("/api/v1/runs/{}", ids.run)).await;
    assert_eq!(run["status"], "waiting");
}

/// With `decides = "others"` no protocol lets a principal answer its own question, whatever its
/// scopes are.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_decides_own_questions_on_any_route() {
    let config = ServeConfig { decides: Decides::Others, ..ServeConfig::default() };
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
    let (_, asked) = open(4).await;
    let mut body = input("r2");
    body["resume"] = json!([{"interruptId": asked, "status": "resolved", "payload": true}]);
    refuse("/ag-ui/default".to_owned(), body).await;
    open(4).await;
}
