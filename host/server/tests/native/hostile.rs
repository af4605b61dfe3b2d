//! Requests that are too large, malformed, slow or many.

use crate::fixture::{Key, PATIENCE, Setup, TestServer, answer, reaches};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tollgate::store::{PruneOptions, StoreLimits, now_ms};
use tollgate::{CallRequest, SqliteStore};
use tollgate_server::Scope;

#[tokio::test(flavor = "multi_thread")]
async fn malformed_and_oversized_requests_get_problems() {
    let server = TestServer::start().await;
    let key = server.key("ada", &Scope::ALL);
    let path = "/api/v1/tools/echo/calls";
    let post = |body: Vec<u8>, kind: &'static str| {
        server.request(Method::POST, path).bearer_auth(&key.secret).header("content-type", kind).body(body)
    };
    let nested = format!("{{\"arguments\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes();
    for (body, kind, status, code) in [
        (b"{".to_vec(), "application/json", 400, "bad_request"),
        (b"\xff\xfe".to_vec(), "application/json", 400, "bad_request"),
        (b"[]".to_vec(), "application/json", 422, "unprocessable"),
        (b"{\"argumnets\": {}}".to_vec(), "application/json", 422, "unprocessable"),
        (b"arguments=1".to_vec(), "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b"{}".to_vec(), "text/plain", 415, "unsupported_media_type"),
    ] {
        let response = post(body, kind).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let (found, problem) = answer(response).await;
        assert_eq!((found.as_u16(), &problem["code"]), (status, &json!(code)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().len() < 1_000);
    }
    // The answer comes before the body is sent.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        key.secret,
        (4 << 20) + 1
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    let read = stream.read_to_end(&mut got);
    tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&got);
    assert!(text.starts_with("HTTP/1.1 413 ") && text.contains("\"code\":\"too_large\""), "{text}");
    // Arguments are read by the host, within its own limits on depth.
    let (status, run) = answer(post(nested, "application/json").send().await.unwrap()).await;
    assert_eq!(
        (status, &run["outcome"]["fault"]["code"]),
        (StatusCode::OK, &json!("invalid_arguments")),
        "{run}"
    );
    for (method, path, status) in [
        (Method::PATCH, "/api/v1/runs", 405),
        (Method::GET, "/api/v1/nowhere", 404),
        (Method::GET, "/api/v1/runs/%ff", 400),
        (Method::GET, "/api/v1/runs/..%2f..%2fetc", 404),
        (Method::GET, "/api/v1/threads/%00", 404),
    ] {
        let response = server.request(method.clone(), path).bearer_auth(&key.secret).send().await.unwrap();
        let (found, problem) = answer(response).await;
        assert_eq!(found.as_u16(), status, "{method} {path}: {problem}");
        assert!(problem["code"].is_string(), "{method} {path}: {problem}");
    }
    for thread in ["", "a\nb", &"x".repeat(201)] {
        let (status, _) = server.post(&key, path, json!({"thread_id": thread})).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{thread:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_requests_do_not_end_the_server() {
    let server = TestServer::start().await;
    for bytes in [
        &b"\x00\x01\x02\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut got = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut got)).await.unwrap();
        let text = String::from_utf8_lossy(&got);
        assert!(!text.contains(" 200 ") && !text.contains(" 500 "), "{text}");
    }
    let key = server.key("ada", &[Scope::Use]);
    assert_eq!(server.get(&key, "/api/v1/me").await.0, StatusCode::OK);
}

/// Connections that never finish a request do not keep others out: they make room for those with
/// a key.
#[tokio::test(flavor = "multi_thread")]
async fn slow_connections_make_room() {
    let mut setup = Setup::default();
    setup.config.limits.connections = 8;
    let server = TestServer::with(setup).await;
    let mut slow = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
        slow.push(stream);
    }
    let key = server.key("ada", &[Scope::Use]);
    assert_eq!(server.get(&key, "/api/v1/me").await.0, StatusCode::OK);
}

/// A body is measured before it is parsed, whichever part of the server would read it.
#[tokio::test(flavor = "multi_thread")]
async fn z3_bodies_of_too_many_values_are_not_parsed() {
    let server = TestServer::start().await;
    let key = server.key("ada", &Scope::ALL);
    let body = format!("{{\"id\": \"t\", \"arguments\": {{\"n\": [{}0]}}}}", "0,".repeat(600_000));
    for path in [
        "/api/v1/tools/echo/calls",
        "/api/v1/runs",
        "/v1/chat/completions",
        "/v1/responses",
        "/ai-sdk/echo",
        "/ag-ui/echo",
        "/a2a/echo/message:send",
    ] {
        let sent = server.request(Method::POST, path).bearer_auth(&key.secret);
        let sent = sent.header("content-type", "application/json").header("a2a-version", "1.0");
        // Each protocol has its own form of an error.
        let (status, error) = answer(sent.body(body.clone()).send().await.unwrap()).await;
        assert_eq!(status.as_u16(), 413, "{path}: {error}");
        let error = error.to_string();
        for part in ["too_large", "too many values", "500000"] {
            assert!(error.to_lowercase().contains(part), "{path}: {error}");
        }
    }
}

/// The JSON library reads the string of a key that it reserves as JSON of its own.
#[tokio::test(flavor = "multi_thread")]
async fn z3_values_within_the_string_of_a_reserved_key_are_counted() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Scope::Use]);
    for name in ["$serde_json::private::RawValue", r"\u0024serde_json::private::RawValue"] {
        let body = format!("{{\"answer\": {{\"resume\": {{\"{name}\": \"[{}0]\"}}}}}}", "0,".repeat(600_000));
        let sent = server.request(Method::POST, "/api/v1/runs/r/questions/q").bearer_auth(&key.secret);
        let sent = sent.header("content-type", "application/json").body(body);
        let (status, error) = answer(sent.send().await.unwrap()).await;
        assert_eq!((status.as_u16(), error["code"].as_str()), (413, Some("too_large")), "{error}");
    }
}

/// A stream of AG-UI keeps the messages of its request, to repeat them.
#[tokio::test(flavor = "multi_thread")]
async fn z3_a_parsed_body_is_reserved_as_long_as_its_stream() {
    let going_on = Arc::new(Notify::new());
    let setup = Setup { going_on: Arc::clone(&going_on), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Scope::Use]);
    let message = json!({"id": "m", "role": "user", "content": "pause", "more": vec![0; 50_000]});
    let input = json!({"threadId": "t", "runId": "r", "protocolVersion": "1.0", "tools": [], "context": [],
        "state": {}, "forwardedProps": {}, "messages": [message]});
    let budget = server.state.host.memory_budget().clone();
    let quiet = budget.reserved_bytes();
    let request = server.request(Method::POST, "/ag-ui/default").bearer_auth(&key.secret);
    let stream = request.json(&input).send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    assert!(budget.reserved_bytes() > quiet + (2 << 20), "{} bytes", budget.reserved_bytes());
    going_on.notify_one();
    assert!(stream.text().await.unwrap().contains("RUN_FINISHED"));
    let freed = async {
        while budget.reserved_bytes() > quiet {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("the memory is free again");
}

/// A call that waits has no place, so one principal could let any number of them continue at once.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_continue_after_an_answer_take_places() {
    let sleeping = Arc::new(AtomicUsize::new(0));
    let setup = Setup { calls: Some(1), sleeping: Arc::clone(&sleeping), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Scope::Use, Scope::Decide]);
    let (status, waiting) = server.post(&key, "/api/v1/tools/ask/calls", json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{waiting}");
    let other = server.request(Method::POST, "/api/v1/tools/sleep/calls").bearer_auth(&key.secret);
    tokio::spawn(other.json(&json!({})).send());
    reaches(&sleeping, 1).await;
    let path = waiting["questions"][0]["answer_path"].as_str().unwrap();
    let (status, problem) = server.post(&key, path, json!({"answer": {"resume": true}})).await;
    assert_eq!((status.as_u16(), &problem["code"]), (429, &json!("too_many_requests")), "{problem}");
    let (status, declined) = server.post(&key, path, json!({"answer": "cancel"})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "a no ends the call: {declined}");
}

/// Each run that waits stays in the store and in the lists of open runs until it is answered.
#[tokio::test(flavor = "multi_thread")]
async fn runs_of_one_principal_that_wait_are_bounded() {
    let server = TestServer::start().await;
    let (ada, bob) = (server.key("ada", &[Scope::Use]), server.key("bob", &[Scope::Use]));
    let waiting = futures::future::join_all((0..1_000).map(|number| {
        let mut request = CallRequest::from_json("ask", "{}").on_new_thread(format!("ada/{number}"));
        request.principal = Some("ada".into());
        server.state.host.call(request)
    }));
    let waiting: Vec<_> = waiting.await.into_iter().map(Result::unwrap).collect();
    assert!(waiting.iter().all(|end| !end.waiting.is_empty()));
    let call = "/api/v1/tools/ask/calls";
    for (path, body) in [(call, json!({})), ("/api/v1/runs", json!({"agent": "default", "input": "Hi"}))] {
        let (status, problem) = server.post(&ada, path, body).await;
        assert_eq!((status.as_u16(), &problem["code"]), (429, &json!("too_many_requests")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("wait for a person"), "{problem}");
    }
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for tool in ["ask", "default"] {
        let params = json!({"name": tool, "arguments": {"request": "Hi"}, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let sent = server.request(Method::POST, "/mcp").bearer_auth(&ada.secret).json(&body);
        let sent = sent.header("accept", "application/json, text/event-stream").header("mcp-name", tool);
        let sent = sent.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
        let refused = sent.send().await.unwrap().text().await.unwrap();
        assert!(refused.contains("-32600") && refused.contains("wait for a person"), "{refused}");
    }
    assert_eq!(server.post(&bob, call, json!({})).await.0, StatusCode::ACCEPTED);
    let cancel = format!("/api/v1/runs/{}/cancel", waiting[0].run_id);
    assert_eq!(server.post(&ada, &cancel, json!({})).await.0, StatusCode::ACCEPTED);
    let again = async {
        while server.post(&ada, call, json!({})).await.0 != StatusCode::ACCEPTED {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("there is room for another");
}

/// The records of a component count for all principals together.
#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_one_principal_leave_room_for_those_of_others() {
    let limits = StoreLimits { principal_record_bytes: 1 << 20, ..StoreLimits::default() };
    let server = TestServer::with(Setup { limits, ..Setup::default() }).await;
    let (ada, bob) = (server.key("ada", &[Scope::Use]), server.key("bob", &[Scope::Use]));
    let path = "/api/v1/tools/echo/calls";
    let body = json!({"arguments": {"text": "x".repeat(100 << 10)}});
    let call = async |key: &Key| server.post(key, path, body.clone()).await;
    let fill = async {
        loop {
            match call(&ada).await {
                (StatusCode::OK, _) => {}
                refused => return refused,
            }
        }
    };
    let (status, problem) = tokio::time::timeout(PATIENCE, fill).await.expect("the quota is reached");
    assert_eq!((status.as_u16(), &problem["code"]), (503, &json!("overloaded")), "{problem}");
    let says = |problem: &Value| {
        let detail = problem["detail"].as_str().unwrap();
        let words = ["the principal ada", "principal_record_bytes = 1048576", "operator", "`tollgate prune`"];
        assert!(words.iter().all(|word| detail.contains(word)), "{detail}");
    };
    says(&problem);
    let (status, problem) =
        server.post(&ada, "/api/v1/runs", json!({"agent": "default", "input": "Hi"})).await;
    assert_eq!((status.as_u16(), &problem["code"]), (507, &json!("store_full")), "{problem}");
    says(&problem);
    assert_eq!(call(&bob).await.0, StatusCode::OK);
    server.state.store().flush().await.unwrap();
    let data = server.data.as_ref().unwrap().path().to_owned();
    let all = PruneOptions { before_ms: now_ms() + 1_000, dry_run: false, give_back: false };
    tokio::task::spawn_blocking(move || SqliteStore::prune(&data, all)).await.unwrap().unwrap();
    let again = async {
        while call(&ada).await.0 != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("the server reads the sizes again");
}

/// A thousand connections at once, of which the server serves as many as it is configured for. All
/// others are refused or wait, and afterwards every request is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_are_bounded() {
    let mut setup = Setup::default();
    setup.config.limits.connections = 64;
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Scope::Use]);
    let head =
        format!("GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n", key.secret);
    let mut open = Vec::new();
    for number in 0..1_000 {
        let Ok(mut stream) = TcpStream::connect(server.address).await else { continue };
        // Every second one never ends its request.
        let end = if number % 2 == 0 { "\r\n" } else { "" };
        let _ = stream.write_all(format!("{head}{end}").as_bytes()).await;
        open.push(stream);
    }
    assert!(open.len() >= 64, "{}", open.len());
    let asked = async {
        loop {
            let request = server.request(Method::GET, "/api/v1/me").bearer_auth(&key.secret).send().await;
            if request.is_ok_and(|response| response.status() == StatusCode::OK) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    drop(open);
    assert_eq!(server.get(&key, "/api/v1/me").await.0, StatusCode::OK);
}

/// Returns the resident memory of this process in MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Clients that ask for streams and large answers and never read them: the server keeps a bounded
/// amount for each, and others are served.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_read_take_bounded_memory() {
    let server = TestServer::start().await;
    let (key, other) = (server.key("ada", &[Scope::Use]), server.key("bob", &[Scope::Use]));
    let names = ["echo"; 200].join(" ");
    let run = server.run(&key, &format!("call {names}")).await;
    let run_id = run["run_id"].as_str().unwrap();
    let before = resident_mib();
    let mut silent = Vec::new();
    for accept in ["text/event-stream", "application/json"] {
        for _ in 0..16 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let ask = format!(
                "GET /api/v1/runs/{run_id}/events?limit=200 HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\
                 Authorization: Bearer {}\r\n\r\n",
                key.secret
            );
            // Many requests on one connection, none of which is read.
            for _ in 0..50 {
                stream.write_all(ask.as_bytes()).await.unwrap();
            }
            silent.push(stream);
        }
    }
    for _ in 0..20 {
        assert_eq!(server.post(&other, "/api/v1/tools/echo/calls", json!({})).await.0, StatusCode::OK);
    }
    let grown = resident_mib().saturating_sub(before);
    assert!(grown < 300, "{grown} MiB");
}

/// Guessing keys and codes is refused each time, and does not keep others out.
#[tokio::test(flavor = "multi_thread")]
async fn guessing_does_not_succeed_or_block_others() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Scope::Use]);
    let guess = |number: usize| {
        let (server, id) = (&server, &key.id);
        async move {
            let guess = format!("tg_{id}_{number:043}");
            let (path, method) = if number.is_multiple_of(2) {
                ("/api/v1/me", Method::GET)
            } else {
                ("/sign-in", Method::POST)
            };
            let request = server.request(method, path).bearer_auth(&guess);
            let response = request.json(&json!({"code": guess})).send().await.unwrap();
            assert!(response.headers().get("set-cookie").is_none());
            response.status()
        }
    };
    let guesses = futures::future::join_all((0..60).map(guess));
    let (statuses, me) = tokio::join!(guesses, server.get(&key, "/api/v1/me"));
    assert_eq!(me.0, StatusCode::OK);
    let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
    assert!(statuses.iter().all(|status| refused.contains(status)), "{statuses:?}");
}
