//! Refused requests get the error of their protocol, with the status and headers of HTTP.

use crate::client::{BACKSTOP, Client};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A route of each protocol that takes a body, and where its error has its words and its code.
const ROUTES: [(&str, &str, &str); 6] = [
    ("/v1/chat/completions", "/error/message", "/error/code"),
    ("/v1/responses", "/error/message", "/error/code"),
    ("/ag-ui/assistant", "/message", "/code"),
    ("/ai-sdk/assistant", "/detail", "/code"),
    ("/a2a/assistant/message:send", "/error/message", "/error/details/0/metadata/code"),
    ("/a2a/assistant", "/error/message", "/error/data/0/metadata/code"),
];

async fn checked(response: Response, (_, words, code): (&str, &str, &str)) -> (u16, String) {
    let status = response.status();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.contains("json"), "{kind}");
    let length =
        response.headers().get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
    let text = response.text().await.unwrap();
    assert!(length.is_none_or(|length: usize| length == text.len()));
    let body: Value = serde_json::from_str(&text).unwrap();
    assert!(body.pointer(words).and_then(Value::as_str).is_some_and(|words| !words.is_empty()), "{body}");
    let code = body.pointer(code).and_then(Value::as_str).unwrap_or_else(|| panic!("{body}"));
    (status.as_u16(), code.to_ascii_lowercase())
}

/// Announces a body that is too long, and returns the answer that comes before it is sent.
async fn announced(client: &Client, (path, _, code): (&str, &str, &str)) -> (u16, String) {
    let mut stream = TcpStream::connect(client.address()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nA2A-Version: 1.0\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        client.key(),
        (4 << 20) + 1
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    tokio::time::timeout(BACKSTOP, stream.read_to_end(&mut got)).await.unwrap().unwrap();
    let text = String::from_utf8(got).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {text}"));
    let code = body.pointer(code).and_then(Value::as_str).unwrap_or_else(|| panic!("{body}"));
    (status, code.to_ascii_lowercase())
}

#[tokio::test]
async fn refused_requests_get_their_protocols_error() {
    let client = Client::start().await;
    let stranger = client.with_key("tg_unknown");
    for route in ROUTES {
        let (path, ..) = route;
        let expect = |status: u16, code: &str| (status, code.to_owned());
        let post = |client: &Client| client.request(Method::POST, path).header("A2A-Version", "1.0");

        let response = post(&stranger).json(&json!({})).send().await.unwrap();
        assert!(response.headers().contains_key("www-authenticate"), "{path}");
        assert_eq!(checked(response, route).await, expect(401, "unauthenticated"), "{path}");

        let foreign = post(&client).header("Origin", "https://evil.example").json(&json!({}));
        assert_eq!(
            checked(foreign.send().await.unwrap(), route).await,
            expect(403, "wrong_origin"),
            "{path}"
        );

        let words = post(&client).header("Content-Type", "text/plain").body("hello");
        let refused = checked(words.send().await.unwrap(), route).await;
        assert_eq!(refused, expect(415, "unsupported_media_type"), "{path}");

        assert_eq!(announced(&client, route).await, expect(413, "too_large"), "{path}");

        let method = client.request(Method::PUT, path).send().await.unwrap();
        assert_eq!(checked(method, route).await, expect(405, "method_not_allowed"), "{path}");
    }
    for route in [
        ("/v1/nothing", "/error/message", "/error/code"),
        ("/ag-ui/a/b", "/message", "/code"),
        ("/a2a/a/b/c/d", "/error/message", "/error/details/0/metadata/code"),
        ("/api/v1/nothing", "/detail", "/code"),
    ] {
        let response = client.request(Method::GET, route.0).send().await.unwrap();
        assert_eq!(checked(response, route).await, (404, "not_found".to_owned()), "{}", route.0);
    }
}

#[tokio::test]
async fn a_request_with_a_key_starts_one_run_however_often_it_is_sent() {
    let client = Client::start().await;
    let send = async |path: &str, key: &str, body: &Value| {
        client.request(Method::POST, path).header("Idempotency-Key", key).json(body).send().await.unwrap()
    };
    let chat = json!({"model": "assistant", "messages": [{"role": "user", "content": "report"}]});
    let respond = json!({"model": "assistant", "input": "report"});
    for (path, body) in [("/v1/chat/completions", &chat), ("/v1/responses", &respond)] {
        let first: Value = send(path, "one", body).await.json().await.unwrap();
        let again = send(path, "one", body).await;
        assert_eq!(again.headers()["idempotency-replayed"], "true");
        let again: Value = again.json().await.unwrap();
        // Progress is not recorded, so it is not repeated.
        let content = |answer: &Value| answer.pointer("/choices/0/message/content").cloned();
        assert_eq!((&first["id"], content(&first)), (&again["id"], content(&again)), "{path}");
        assert_eq!(first["output"], again["output"], "{path}");
        let mut other = body.clone();
        other["user"] = json!("ada");
        let reused = send(path, "one", &other).await;
        assert_eq!(reused.status(), StatusCode::UNPROCESSABLE_ENTITY);
        let reused: Value = reused.json().await.unwrap();
        assert_eq!(reused["error"]["code"], "key_reused");
        let second: Value = send(path, "two", body).await.json().await.unwrap();
        assert_ne!(first["id"], second["id"]);

        // Two at once are one run, too.
        let (one, other) = tokio::join!(send(path, "three", body), send(path, "three", body));
        let (one, other): (Value, Value) = (one.json().await.unwrap(), other.json().await.unwrap());
        assert_eq!(one["id"], other["id"]);
    }
    // Also a response that continues another one, which is then the last no longer.
    let first: Value = client.post("/v1/responses", &respond).await.1;
    let next = json!({"model": "assistant", "input": "hello", "previous_response_id": first["id"]});
    let one: Value = send("/v1/responses", "next", &next).await.json().await.unwrap();
    let again: Value = send("/v1/responses", "next", &next).await.json().await.unwrap();
    assert_eq!((&one["id"], &one["status"]), (&again["id"], &json!("completed")));
    let (_, listed) = client.get("/api/v1/runs").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 8);
}

/// Each of them continues the last response, which it is no longer once another one was faster.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_with_a_key_that_continue_a_response_together_are_one_run() {
    let client = Client::start().await;
    let first = json!({"model": "assistant", "input": "hello"});
    let mut last: Value = client.post("/v1/responses", &first).await.1;
    for round in 0..3 {
        let next = json!({"model": "assistant", "input": "hello", "previous_response_id": last["id"]});
        let send = || {
            let request = client.request(Method::POST, "/v1/responses");
            request.header("Idempotency-Key", format!("round-{round}")).json(&next).send()
        };
        let mut ids = std::collections::BTreeSet::new();
        for answer in futures::future::join_all((0..8).map(|_| send())).await {
            let answer: Value = answer.unwrap().json().await.unwrap();
            assert_eq!(answer["status"], "completed", "{answer}");
            ids.insert(answer["id"].as_str().unwrap().to_owned());
            last = answer;
        }
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
}
