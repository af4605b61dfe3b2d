//! The OpenAPI document, the routes of the server, and their scopes.

use crate::fixture::{Setup, TestServer, answer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tollgate_server::Scope::{Decide, Operate, Read, Use};
use tollgate_server::{Part, Scope};

/// Operations that any credential may use.
const FOR_ALL: [&str; 6] = [
    "get /api/v1",
    "get /api/v1/me",
    "get /problems/{code}",
    "get /api/v1/sessions",
    "delete /api/v1/sessions/{id}",
    "get /openapi.json",
];

/// Operations that need no credential.
const PUBLIC: [&str; 3] = ["get /healthz", "get /readyz", "get /.well-known/agent-card.json"];

/// The operations of each part, whose bodies its protocol defines.
const OF_PARTS: [(Part, usize); 5] =
    [(Part::OpenAi, 8), (Part::AiSdk, 3), (Part::AgUi, 1), (Part::A2a, 13), (Part::Mcp, 3)];

/// Returns a path with ids that nothing has.
fn concrete(path: &str) -> String {
    let parts = path.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    parts.collect::<Vec<_>>().join("none")
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        let operations = item.as_object().unwrap().iter();
        operations.map(move |(method, operation)| (method.clone(), path.clone(), operation.clone()))
    });
    all.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_described_and_has_a_scope() {
    let server = TestServer::start().await;
    let key = server.key("ada", &Scope::ALL);
    let (_, document) = server.get(&key, "/openapi.json").await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let cookie = &document["components"]["securitySchemes"]["session"]["name"];
    assert_eq!(*cookie, json!(server.state.cookie_name()));
    let found = operations(&document);
    assert!(found.len() >= 25, "{}", found.len());
    for (method, path, operation) in &found {
        let name = format!("{method} {path}");
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name} has no summary");
        assert!(operation["operationId"].is_string(), "{name}");
        assert!(
            operation["responses"]["default"]["content"]["application/problem+json"].is_object(),
            "{name}"
        );
        let security = operation["security"].as_array().unwrap_or_else(|| panic!("{name} has no scope"));
        assert!(!security.is_empty(), "{name} has no scope");
        assert_eq!(*security == [json!({})], PUBLIC.contains(&name.as_str()), "{name}");
        for alternative in security.iter().filter(|_| !PUBLIC.contains(&name.as_str())) {
            let scopes = alternative["key"].as_array().unwrap();
            assert_eq!(scopes.is_empty(), FOR_ALL.contains(&name.as_str()), "{name}");
            for scope in scopes {
                scope.as_str().unwrap().parse::<Scope>().unwrap();
            }
        }
    }
    for (part, count) in OF_PARTS {
        let of_part: Vec<_> =
            found.iter().filter(|(.., operation)| operation["tags"] == json!([part.as_str()])).collect();
        assert_eq!(of_part.len(), count, "{part:?}");
        for (method, path, operation) in of_part {
            let address = operation["externalDocs"]["url"].as_str().unwrap();
            assert!(address.starts_with("https://"), "{path}: {address}");
            assert!(operation["description"].as_str().unwrap().contains(address), "{path}");
            let named: Vec<&Value> = operation["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .map(|parameter| &parameter["name"])
                .collect();
            assert_eq!(named.len(), path.matches('{').count(), "{path}");
            assert!(named.iter().all(|name| path.contains(&format!("{{{}}}", name.as_str().unwrap()))));
            assert!(method == "post" || operation["requestBody"].is_null(), "{path}");
        }
    }
    let ids: BTreeSet<_> = found.iter().map(|(.., operation)| operation["operationId"].to_string()).collect();
    assert_eq!(ids.len(), found.len(), "operation ids are unique");
}

/// Sends every operation with a key that has none, and then each one, of its scopes.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_enforces_its_scopes() {
    let server = TestServer::start().await;
    let (_, document) = server.get(&server.key("ada", &[]), "/openapi.json").await;
    for (method, path, operation) in operations(&document) {
        let method: Method = method.to_uppercase().parse().unwrap();
        let concrete = concrete(&path);
        if PUBLIC.contains(&format!("{} {path}", method.as_str().to_lowercase()).as_str()) {
            let (status, answer) = answer(server.request(method, &concrete).send().await.unwrap()).await;
            assert_eq!(status, StatusCode::OK, "{path}: {answer}");
            continue;
        }
        let alternatives: Vec<BTreeSet<Scope>> = operation["security"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                one["key"].as_array().unwrap().iter().map(|s| s.as_str().unwrap().parse().unwrap()).collect()
            })
            .collect();
        for scopes in std::iter::once(Vec::new()).chain(Scope::ALL.map(|scope| vec![scope])) {
            let key = server.key("probe", &scopes);
            let request = server.request(method.clone(), &concrete).bearer_auth(&key.secret);
            let request = if method == Method::POST { request.json(&json!({})) } else { request };
            let (status, problem) = answer(request.send().await.unwrap()).await;
            let has: BTreeSet<Scope> = scopes.iter().copied().collect();
            let admitted = alternatives.iter().any(|needed| needed.is_subset(&has));
            // Each protocol has a form of its own, with the same words.
            let lacks = problem.to_string().contains("this key lacks the scope `");
            let refused = status == StatusCode::FORBIDDEN && lacks;
            assert_eq!(refused, !admitted, "{method} {path} with {scopes:?}: {status} {problem}");
            assert!(!status.is_server_error(), "{method} {path}: {problem}");
        }
    }
}

/// `tollgate serve --without PART`: the routes of the part do not exist.
#[tokio::test(flavor = "multi_thread")]
async fn parts_that_are_left_out_do_not_exist() {
    let whole = TestServer::start().await;
    let (_, whole) = whole.get(&whole.key("ada", &[]), "/openapi.json").await;
    let of = |document: &Value, part: Part| -> Vec<(String, String, Value)> {
        let all = operations(document).into_iter();
        all.filter(|(.., operation)| operation["tags"] == json!([part.as_str()])).collect()
    };
    for left_out in Part::ALL {
        let server = TestServer::with(Setup { without: vec![left_out], ..Setup::default() }).await;
        let key = server.key("ada", &Scope::ALL);
        let (status, document) = server.get(&key, "/openapi.json").await;
        assert_eq!(status, StatusCode::OK);
        for (part, count) in OF_PARTS {
            assert_eq!(of(&document, part).len(), if part == left_out { 0 } else { count }, "{part:?}");
        }
        let missing = of(&whole, left_out).into_iter().map(|(method, path, _)| (method, concrete(&path)));
        let pages = ["/console", "/console/waiting"].map(|path| ("get".to_owned(), path.to_owned()));
        let missing = missing.chain(pages.into_iter().filter(|_| left_out == Part::Console));
        for (method, path) in missing {
            let method: Method = method.to_uppercase().parse().unwrap();
            let request = server.request(method.clone(), &path).bearer_auth(&key.secret);
            let request = if method == Method::POST { request.json(&json!({})) } else { request };
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{method} {path}");
            assert_eq!(response.headers()["content-type"], "application/problem+json", "{method} {path}");
            let (_, problem) = answer(response).await;
            assert_eq!(problem["code"], "not_found", "{method} {path}: {problem}");
        }
        // The other parts are still there.
        for (part, path) in [
            (Part::Console, "/console"),
            (Part::OpenAi, "/v1/models"),
            (Part::AiSdk, "/ai-sdk/default/none/stream"),
            (Part::A2a, "/.well-known/agent-card.json"),
        ] {
            let response = server.request(Method::GET, path).bearer_auth(&key.secret).send().await.unwrap();
            assert_eq!(response.status().is_success(), part != left_out, "{path} without {left_out:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_pages_that_neither_repeat_nor_skip() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use, Read]);
    for n in 0..7 {
        let body = json!({"arguments": {"n": n}, "thread_id": format!("t{n}")});
        assert_eq!(server.post(&key, "/api/v1/tools/echo/calls", body).await.0, StatusCode::OK);
    }
    for path in ["/api/v1/runs", "/api/v1/audit?kind=call", "/api/v1/threads"] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let sign = if path.contains('?') { '&' } else { '?' };
            let response = server.request(Method::GET, &format!("{path}{sign}limit=3{after}"));
            let response = response.bearer_auth(&key.secret).send().await.unwrap();
            let link = response.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
            let (status, page) = answer(response).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            let ids = page["items"].as_array().unwrap();
            seen.extend(
                ids.iter().map(|item| item.get("run_id").or(item.get("thread_id")).unwrap().to_string()),
            );
            let Some(next) = page["next"].as_str() else { break };
            assert!(link.unwrap().contains(next));
            after = format!("&after={next}");
            // Later entries do not move the pages.
            if path != "/api/v1/audit?kind=call" {
                continue;
            }
        }
        let unique: BTreeSet<_> = seen.iter().collect();
        assert_eq!((seen.len(), unique.len()), (7, 7), "{path}: {seen:?}");
    }
    for wrong in [
        "/api/v1/runs?after=zz",
        "/api/v1/runs?limit=0",
        "/api/v1/runs?limit=201",
        "/api/v1/runs?size=3",
        "/api/v1/audit?kind=x",
        "/api/v1/runs?status=bogus",
        "/api/v1/runs?kind=bogus",
        "/api/v1/questions?status=bogus",
    ] {
        let (status, problem) = server.get(&key, wrong).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_request")), "{wrong}");
    }
    let (_, usage) = server.get(&key, "/api/v1/usage?by=tool").await;
    assert_eq!(
        (&usage["items"][0]["subject"], &usage["items"][0]["runs"]),
        (&json!("echo"), &json!(7)),
        "{usage}"
    );
    // The calls of agents are calls of a tool, too.
    let run = server.run(&key, "call echo echo").await;
    let (_, usage) = server.get(&key, "/api/v1/usage?by=tool").await;
    let row = &usage["items"][0];
    assert_eq!((&row["runs"], &row["calls"], &usage["truncated"]), (&json!(7), &json!(9), &json!(false)));
    let (_, listed) = server.get(&key, "/api/v1/runs?limit=1").await;
    assert_eq!(
        (&listed["items"][0]["run_id"], &listed["items"][0]["usage"]),
        (&run["run_id"], &run["usage"])
    );
    let (_, of_thread) = server.get(&key, "/api/v1/threads/t3/runs").await;
    let items = of_thread["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["thread_id"]), (1, &json!("t3")));
    let lines = server.request(Method::GET, "/api/v1/audit?kind=call&limit=3").bearer_auth(&key.secret);
    let lines = lines.header("accept", "application/x-ndjson").send().await.unwrap();
    assert_eq!(lines.headers()["content-type"], "application/x-ndjson");
    assert!(lines.headers().contains_key("link"));
    let lines = lines.text().await.unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() == 3 && lines.iter().all(|record| record["kind"] == "call"), "{lines:?}");
    let (_, usage) = server.get(&key, "/api/v1/usage?by=principal&bucket=hour").await;
    assert_eq!(usage["items"][0]["subject"], "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_parameter_is_applied_or_named() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use, Operate]);
    let (_, call) = server.post(&key, "/api/v1/tools/echo/calls", json!({"arguments": {}})).await;
    let events = format!("/api/v1/runs/{}/events", call["run_id"].as_str().unwrap());
    let get = async |query: &str, accept: &str| {
        let request = server.request(Method::GET, &format!("{events}?{query}"));
        request.bearer_auth(&key.secret).header("accept", accept).send().await.unwrap()
    };
    let header = |response: &reqwest::Response, name: &str| {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let page = get("limit=2&until=end&children=false", "application/json").await;
    assert_eq!(header(&page, "tollgate-ignored").as_deref(), Some("until, children"));
    let link = format!("<{events}?limit=2&until=end&children=false&after=2>; rel=\"next\"");
    assert_eq!(header(&page, "link"), Some(link));
    let page = get("after=2&limit=200", "application/json").await;
    assert_eq!((header(&page, "tollgate-ignored"), header(&page, "link")), (None, None));
    let stream = get("limit=2&until=waiting", "text/event-stream").await;
    assert_eq!(header(&stream, "tollgate-ignored").as_deref(), Some("limit"));

    for (query, count) in [("tool=echo", 1), ("tool=echo&kind=call", 1), ("tool=echo&kind=prompt", 0)] {
        let (_, runs) = server.get(&key, &format!("/api/v1/runs?{query}")).await;
        assert_eq!(runs["items"].as_array().unwrap().len(), count, "{query}: {runs}");
    }
    let (status, problem) = server.post(&key, "/api/v1/tools/ecoh/enable", json!({})).await;
    assert_eq!((status, &problem["nearest"][0]), (StatusCode::NOT_FOUND, &json!("echo")), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_thread_may_begin_with_a_history() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use, Decide]);
    let history = json!([{"role": "user", "text": "One"}, {"role": "assistant", "text": "Two"}]);
    let body = json!({"agent": "default", "input": "Three", "thread_id": "t", "history": history});
    let (status, run) = server.post(&key, "/api/v1/runs", body.clone()).await;
    assert_eq!(status, StatusCode::OK, "{run}");
    let (_, messages) = server.get(&key, "/api/v1/threads/t/messages").await;
    let messages: Vec<&Value> =
        messages["items"].as_array().unwrap().iter().map(|one| &one["message"]).collect();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert_eq!((&messages[0]["user"], &messages[1]["assistant"]["text"]), (&json!("One"), &json!("Two")));
    let (status, problem) = server.post(&key, "/api/v1/runs", body).await;
    assert_eq!((status, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("unprocessable")));
    assert!(!problem.to_string().contains("ada/"), "clients know their own ids of threads: {problem}");
    // Questions are listed by the status of their runs.
    server.run(&key, "call ask").await;
    for (status, count) in [("waiting", 1), ("running", 0)] {
        let (_, questions) = server.get(&key, &format!("/api/v1/questions?status={status}")).await;
        assert_eq!(questions["items"].as_array().unwrap().len(), count, "{status}");
    }
    let (_, root) = server.get(&key, "/api/v1").await;
    assert_eq!(root["protocols"], json!(Part::ALL.map(Part::as_str)));
    let (_, tool) = server.get(&key, "/api/v1/tools/echo").await;
    let default = tollgate::RunLimits::default().timeout_ms;
    let limits = json!({"timeout_ms": default, "sources": {"timeout_ms": "default"}});
    assert_eq!(tool["limits"], limits);
    // Also for a key that sees everything.
    for key in [&key, &server.key("eve", &[Use, Read])] {
        for (path, nearest) in [("tools/ecoh", "echo"), ("agents/defualt", "default")] {
            let (status, problem) = server.get(key, &format!("/api/v1/{path}")).await;
            assert_eq!(
                (status, &problem["nearest"][0]),
                (StatusCode::NOT_FOUND, &json!(nearest)),
                "{problem}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_continued_and_a_run_cancelled() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    for text in ["One", "Two"] {
        let (status, run) = server
            .post(&key, "/api/v1/runs", json!({"agent": "default", "input": text, "thread_id": "t"}))
            .await;
        assert_eq!((status, &run["text"]), (StatusCode::OK, &json!(format!("You said: {text}"))));
    }
    let (_, messages) = server.get(&key, "/api/v1/threads/t/messages").await;
    assert_eq!(messages["items"].as_array().unwrap().len(), 4);
    let request = server.request(Method::POST, "/api/v1/runs").bearer_auth(&key.secret);
    let request = request.header("prefer", "respond-async");
    let (status, run) = answer(
        request
            .json(&json!({"agent": "default", "input": "call sleep", "thread_id": "t"}))
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!((status, &run["status"]), (StatusCode::ACCEPTED, &json!("running")));
    let id = run["run_id"].as_str().unwrap();
    let (status, busy) =
        server.post(&key, "/api/v1/runs", json!({"agent": "default", "input": "?", "thread_id": "t"})).await;
    assert_eq!((status, &busy["code"]), (StatusCode::CONFLICT, &json!("thread_busy")));
    assert_eq!(busy["run_id"], run["run_id"]);
    let (status, _) =
        server.post(&key, &format!("/api/v1/runs/{id}/cancel"), json!({"reason": "enough"})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let stream = server.request(Method::GET, &format!("/api/v1/runs/{id}/events")).bearer_auth(&key.secret);
    let text = stream.header("accept", "text/event-stream").send().await.unwrap().text().await.unwrap();
    assert!(text.contains("event: end"), "{text}");
    let (_, run) = server.get(&key, &format!("/api/v1/runs/{id}")).await;
    assert_eq!(
        (&run["status"], &run["reason"]),
        (&json!("cancelled"), &json!("it was cancelled by ada: enough"))
    );
    let (status, problem) = server.post(&key, &format!("/api/v1/runs/{id}/cancel"), json!({})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("already_ended")));
}
