//! Remote servers that lie, flood, hang or send a delegate elsewhere.

use crate::client::BACKSTOP;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tollgate::a2a::RemoteAgent;
use tollgate::models::ApiKey;
use tollgate::{Agent, Host, RunRequest, RunStatus};

/// The answers of a server: to a request for its card, and to each method.
type Answers = fn(&str, &str) -> Vec<u8>;

/// A server that answers as it likes.
struct Liar {
    base: String,
    requests: Arc<AtomicUsize>,
}

impl Liar {
    async fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let (counted, address) = (Arc::clone(&requests), base.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let address = address.clone();
                tokio::spawn(async move { lie(stream, &address, answers).await });
            }
        });
        Self { base, requests }
    }

    /// Runs an agent of this server and returns why it failed.
    async fn failure(&self) -> String {
        let agent = RemoteAgent::new(&self.base).unwrap().with_token(ApiKey::new("tok-0123456789").unwrap());
        let host = Host::builder().agent(Agent::remote("far", agent)).build().unwrap();
        let handle = host.run(RunRequest::new("far", "Hello?")).await.unwrap();
        let end = tokio::time::timeout(BACKSTOP, handle.wait()).await.unwrap().unwrap();
        match end.status {
            Some(RunStatus::Failed { error }) => error,
            other => panic!("it did not fail: {other:?}, {}", end.text),
        }
    }
}

/// Reads one request and answers it. The connection closes after each.
async fn lie(mut stream: TcpStream, base: &str, answers: Answers) {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    let method = loop {
        let count = stream.read(&mut chunk).await.unwrap_or_default();
        request.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&request);
        if text.starts_with("GET ") && text.contains("\r\n\r\n") {
            break "card".to_owned();
        }
        if let Some((_, rest)) = text.split_once("\"method\":\"")
            && let Some((method, _)) = rest.split_once('"')
        {
            break method.to_owned();
        }
        if count == 0 {
            return;
        }
    };
    let _ = stream.write_all(&answers(&method, base)).await;
    let _ = stream.shutdown().await;
}

fn http(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

fn json(body: &str) -> Vec<u8> {
    http("200 OK", "application/json", body)
}

fn card(base: &str) -> Vec<u8> {
    json(&format!(
        r#"{{"supportedInterfaces":[{{"url":"{base}/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}}],"capabilities":{{"streaming":true}}}}"#
    ))
}

fn result(body: &str) -> Vec<u8> {
    json(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{body}}}"#))
}

const WORKING: &str = r#"{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}"#;

/// Answers as a good server up to the stream.
fn begun(method: &str, base: &str) -> Option<Vec<u8>> {
    match method {
        "card" => Some(card(base)),
        "SendMessage" => Some(result(&format!(r#"{{"task":{WORKING}}}"#))),
        "GetTask" | "CancelTask" => Some(result(WORKING)),
        _ => None,
    }
}

fn stream(body: &str) -> Vec<u8> {
    http("200 OK", "text/event-stream", body)
}

#[tokio::test]
async fn a_card_leads_nowhere_else() {
    let elsewhere = Liar::start(|_, base| card(base)).await;
    // A redirect, and a card that names another port, are not followed, and the token is not sent.
    let redirect: Answers = |_, _| {
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/card\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
    };
    let error = Liar::start(redirect).await.failure().await;
    assert!(error.contains("302"), "{error}");
    let other: Answers = |_, _| card("http://127.0.0.1:9");
    let error = Liar::start(other).await.failure().await;
    assert!(error.contains("not on the configured host"), "{error}");
    assert_eq!(elsewhere.requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn cards_and_answers_are_bounded_and_checked() {
    let huge: Answers = |_, _| json(&format!("\"{}\"", "x".repeat(300 * 1024)));
    assert!(Liar::start(huge).await.failure().await.contains("larger than"));
    let words: Answers = |_, _| http("500 Oops", "text/html", "<b>tok-0123456789</b>\u{1b}[31m");
    let error = Liar::start(words).await.failure().await;
    assert!(
        error.contains("HTTP 500") && !error.contains("0123456789") && !error.contains('\u{1b}'),
        "{error}"
    );
    let old: Answers =
        |_, _| json(r#"{"url":"http://x","protocolVersion":"0.3.0","preferredTransport":"JSONRPC"}"#);
    assert!(Liar::start(old).await.failure().await.contains("no interface for A2A 1.0"));
    let unnamed: Answers = |method, base| match method {
        "card" => card(base),
        _ => result(r#"{"task":{"id":""}}"#),
    };
    assert!(Liar::start(unnamed).await.failure().await.contains("the id of its task"));
    let neither: Answers = |method, base| match method {
        "card" => card(base),
        _ => result(r#"{"nothing":1}"#),
    };
    assert!(Liar::start(neither).await.failure().await.contains("neither a task nor a message"));
    let large: Answers = |method, base| match method {
        "card" => card(base),
        _ => result(&format!("\"{}\"", "x".repeat(5 * 1024 * 1024))),
    };
    assert!(Liar::start(large).await.failure().await.contains("larger than"));
    let refusing: Answers = |method, base| match method {
        "card" => card(base),
        _ => json(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"No room\n\u001b[1m."}}"#),
    };
    let error = Liar::start(refusing).await.failure().await;
    assert!(error.contains("it refused: No room") && error.contains("-32603"), "{error}");
}

#[tokio::test]
async fn streams_are_bounded_and_checked() {
    let endless: Answers = |method, base| {
        begun(method, base).unwrap_or_else(|| stream(&format!("data: {}", "x".repeat(2 * 1024 * 1024))))
    };
    assert!(Liar::start(endless).await.failure().await.contains("larger than"));
    let garbage: Answers = |method, base| begun(method, base).unwrap_or_else(|| stream("data: {\n\n"));
    assert!(Liar::start(garbage).await.failure().await.contains("not JSON"));
    let refused: Answers = |method, base| {
        begun(method, base).unwrap_or_else(|| {
            stream("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"Gone.\"}}\n\n")
        })
    };
    assert!(Liar::start(refused).await.failure().await.contains("Gone."));
    // A server that is gone after it took the message.
    let gone: Answers = |method, base| match method {
        "card" | "SendMessage" => begun(method, base).unwrap_or_default(),
        _ => Vec::new(),
    };
    assert!(Liar::start(gone).await.failure().await.contains("could not be reached"));
}
