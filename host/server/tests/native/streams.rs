//! Event streams: numbers without gaps or duplicates, whatever happens to the connection.

use crate::fixture::{Key, PATIENCE, Setup, TestServer, answer, reaches};
use futures::StreamExt as _;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate::store::{RunFilter, RunStore as _};
use tollgate_agent::run::{Event, RunStatus};
use tollgate_server::Scope::{Decide, Use};
use tollgate_server::access::KeyRequest;
use tollgate_server::{AccessDatabase, Principal};

/// An event of a stream.
#[derive(Debug, Clone)]
struct Sent {
    id: Option<u64>,
    name: String,
    data: Value,
}

/// Reads a stream until it ends, or until this many stored events have arrived.
async fn read(
    server: &TestServer,
    key: &Key,
    path: &str,
    last: Option<u64>,
    most: usize,
) -> Option<Vec<Sent>> {
    let request =
        server.request(Method::GET, path).bearer_auth(&key.secret).header("accept", "text/event-stream");
    let request = match last {
        Some(last) => request.header("last-event-id", last.to_string()),
        None => request,
    };
    let response = request.send().await.unwrap();
    if response.status() == StatusCode::NO_CONTENT {
        return None;
    }
    assert_eq!(response.status(), StatusCode::OK);
    let (mut body, mut text, mut sent) = (response.bytes_stream(), String::new(), Vec::new());
    while let Some(chunk) = tokio::time::timeout(PATIENCE, body.next()).await.unwrap() {
        let Ok(chunk) = chunk else { break };
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let (Some(name), Some(data)) = (field("event:"), field("data:")) {
                let id = field("id:").map(|id| id.parse().unwrap());
                sent.push(Sent { id, name: name.to_owned(), data: serde_json::from_str(data).unwrap() });
            }
            text = rest.to_owned();
            if sent.iter().filter(|one| one.id.is_some()).count() >= most {
                // Dropping the body closes the connection in the middle of the stream.
                return Some(sent);
            }
        }
    }
    Some(sent)
}

fn numbers(sent: &[Sent]) -> Vec<u64> {
    sent.iter().filter_map(|one| one.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_resumed_without_gap_or_duplicate() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use, Decide]);
    let run = server.run(&key, "call ask").await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/runs/{id}/events");
    let answer_path = run["questions"][0]["answer_path"].as_str().unwrap();
    // Clients that disconnect after each event, before, during and after the decision.
    let follow = |most: usize| {
        let (server, key, path) = (&server, &key, &path);
        async move {
            let (mut seen, mut last) = (Vec::new(), None);
            while let Some(sent) = read(server, key, path, last, most).await {
                seen.extend(numbers(&sent));
                last = seen.last().copied();
                if sent.iter().any(|one| one.name == "end") {
                    break;
                }
            }
            seen
        }
    };
    let decide = async {
        tokio::task::yield_now().await;
        let body = json!({"answer": {"resume": true}});
        server.post(&key, answer_path, body).await
    };
    let (one, two, all, decided) = tokio::join!(follow(1), follow(2), follow(usize::MAX), decide);
    assert_eq!(decided.0, StatusCode::ACCEPTED);
    let (_, run) = server.get(&key, &format!("/api/v1/runs/{id}")).await;
    let expected: Vec<u64> = (1..=run["events"].as_u64().unwrap()).collect();
    assert_eq!(run["status"], "completed");
    assert_eq!((&one, &two, &all), (&expected, &expected, &expected));
    let last = *expected.last().unwrap();
    assert!(read(&server, &key, &path, Some(last), 1).await.is_none(), "204 stops a browser");
    let mut paged = Vec::new();
    let mut after = 0;
    loop {
        let (_, page) = server.get(&key, &format!("{path}?limit=2&after={after}")).await;
        paged.extend(page["items"].as_array().unwrap().iter().map(|event| event["number"].as_u64().unwrap()));
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(paged, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_reason() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    let request = server.request(Method::POST, "/api/v1/runs").bearer_auth(&key.secret);
    let request = request
        .header("accept", "text/event-stream")
        .json(&json!({"agent": "default", "input": "Hello there"}));
    let text = request.send().await.unwrap().text().await.unwrap();
    assert!(text.starts_with("retry: 1000\n\n"), "{text}");
    assert!(text.contains("event: model_replied\n") && text.contains("event: run_finished\n"), "{text}");
    assert!(text.trim_end().ends_with('}') && text.contains("\"why\":\"finished\""), "{text}");
    let run = server.run(&key, "call ask").await;
    let path = format!("/api/v1/runs/{}/events?until=waiting", run["run_id"].as_str().unwrap());
    let sent = read(&server, &key, &path, None, usize::MAX).await.unwrap();
    assert_eq!(sent.last().unwrap().data["why"], "waiting");
    // A stream that waits ends in order when the server does.
    let path = format!("/api/v1/runs/{}/events", run["run_id"].as_str().unwrap());
    let request =
        server.request(Method::GET, &path).bearer_auth(&key.secret).header("accept", "text/event-stream");
    let mut response = request.send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    server.state.stop.cancel();
    let rest = tokio::time::timeout(PATIENCE, response.text()).await.unwrap().unwrap();
    assert!(rest.contains("\"why\":\"shutdown\""), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_another_process_is_followed_and_decided() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use, Decide]);
    let run = server.run(&key, "call ask").await;
    let id = run["run_id"].as_str().unwrap();
    let other = TestServer::on(server.state.access.directory(), Setup::default()).await;
    let path = format!("/api/v1/runs/{id}/events");
    let answer_path = run["questions"][0]["answer_path"].as_str().unwrap();
    let decide = async {
        let body = json!({"answer": {"resume": true}});
        let request = other.request(Method::POST, answer_path).bearer_auth(&key.secret).json(&body);
        answer(request.send().await.unwrap()).await
    };
    let (sent, decided) = tokio::join!(read(&server, &key, &path, None, usize::MAX), decide);
    assert_eq!(decided.0, StatusCode::ACCEPTED, "{}", decided.1);
    let sent = sent.unwrap();
    let events = server.get(&key, &format!("/api/v1/runs/{id}")).await.1["events"].as_u64().unwrap();
    assert_eq!(numbers(&sent), (1..=events).collect::<Vec<_>>());
    assert_eq!(sent.last().unwrap().data["why"], "finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_joins_in_the_middle_of_a_reply_sees_the_whole_reply() {
    let setup = Setup::default();
    let going_on = Arc::clone(&setup.going_on);
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Use]);
    let start = server.request(Method::POST, "/api/v1/runs").bearer_auth(&key.secret);
    let body = json!({"agent": "default", "input": "pause and go on"});
    let mut first =
        start.header("accept", "text/event-stream").json(&body).send().await.unwrap().bytes_stream();
    let mut seen = String::new();
    let began = async {
        while !seen.contains("said: \"") {
            seen.push_str(std::str::from_utf8(&first.next().await.unwrap().unwrap()).unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, began).await.unwrap();
    let (_, runs) = server.get(&key, "/api/v1/runs").await;
    let path = format!("/api/v1/runs/{}/events", runs["items"][0]["run_id"].as_str().unwrap());
    let request = server.request(Method::GET, &path).bearer_auth(&key.secret);
    let mut joined = request.header("accept", "text/event-stream").send().await.unwrap();
    let mut text = String::new();
    let joins = async {
        while !text.contains("event: text_so_far") {
            text.push_str(std::str::from_utf8(&joined.chunk().await.unwrap().unwrap()).unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, joins).await.unwrap();
    going_on.notify_one();
    text.push_str(&tokio::time::timeout(PATIENCE, joined.text()).await.unwrap().unwrap());
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let data: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let pieces =
        data.iter().filter(|event| event["number"].is_null()).filter_map(|event| event["text"].as_str());
    assert_eq!(pieces.collect::<String>(), "You said: pause and go on", "{text}");
}

/// A client that does not read is not waited for, and returns to a complete record.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_costs_others_nothing_and_loses_nothing() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    let body =
        json!({"agent": "default", "input": format!("call {}", "large ".repeat(12)), "detached": true});
    let request = server.request(Method::POST, "/api/v1/runs").bearer_auth(&key.secret);
    let (_, run) = answer(request.header("prefer", "respond-async").json(&body).send().await.unwrap()).await;
    let path = format!("/api/v1/runs/{}/events", run["run_id"].as_str().unwrap());
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let ask = format!(
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer {}\r\n\r\n",
        key.secret
    );
    slow.write_all(ask.as_bytes()).await.unwrap();
    let others = futures::future::join_all((0..3).map(|_| read(&server, &key, &path, None, usize::MAX)));
    let others = tokio::time::timeout(PATIENCE, others).await.unwrap();
    let events = server.get(&key, &path.replace("/events", "")).await.1["events"].as_u64().unwrap();
    let expected: Vec<u64> = (1..=events).collect();
    for sent in others {
        assert_eq!(numbers(&sent.unwrap()), expected);
    }
    let mut late = Vec::new();
    tokio::time::timeout(PATIENCE, slow.read_to_end(&mut late)).await.unwrap().unwrap();
    let late = String::from_utf8(late).unwrap();
    assert!(late.len() > 12 * (200 << 10), "{} bytes", late.len());
    let ids = late.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse::<u64>().unwrap());
    assert_eq!(ids.collect::<Vec<_>>(), expected);
    assert!(late.contains("event: end"));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_a_principal_are_bounded() {
    let mut setup = Setup::default();
    setup.config.limits.streams_per_key = 2;
    let server = TestServer::with(setup).await;
    let (ada, bob) = (server.key("ada", &[Use]), server.key("bob", &[Use]));
    let open = async |key: &Key| {
        let run = server.run(key, "call ask").await;
        let path = format!("/api/v1/runs/{}/events", run["run_id"].as_str().unwrap());
        let request = server.request(Method::GET, &path).bearer_auth(&key.secret);
        request.header("accept", "text/event-stream").send().await.unwrap()
    };
    let held = [open(&ada).await, open(&ada).await];
    let refused = open(&ada).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(open(&bob).await.status(), StatusCode::OK, "there is room for others");
    drop(held);
    // The server sees the end of a connection a little later.
    let freed = async {
        while open(&ada).await.status() != StatusCode::OK {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.unwrap();
}

/// Opens a stream and reads its first bytes. Returns the rest of it.
async fn opened(request: RequestBuilder) -> impl Future<Output = String> {
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    // Otherwise its request might be refused instead.
    let first = tokio::time::timeout(PATIENCE, response.chunk()).await.unwrap().unwrap();
    assert!(first.is_some());
    async move { tokio::time::timeout(PATIENCE, response.text()).await.unwrap().unwrap_or_default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_their_key() {
    let server = TestServer::start().await;
    let other = AccessDatabase::open(server.state.access.directory()).unwrap();
    let owner = server.key("ada", &[Use]);
    let run = server.run(&owner, "call ask").await;
    let events = format!("/api/v1/runs/{}/events", run["run_id"].as_str().unwrap());
    let principal = Principal::new("ada", [Use]);
    // The tool of the chat sleeps for longer than a test waits for an answer.
    let chat =
        json!({"model": "default", "stream": true, "messages": [{"role": "user", "content": "call sleep"}]});
    for expires in [false, true] {
        let soon = tollgate::store::now_ms() + 8_000;
        let request = KeyRequest { principal: principal.clone(), expires_at_ms: expires.then_some(soon) };
        let (id, secret) = server.state.access.add_key(&request).unwrap();
        let events = server.request(Method::GET, &events).bearer_auth(&secret);
        let chat = server.request(Method::POST, "/v1/chat/completions").bearer_auth(&secret).json(&chat);
        let events = opened(events.header("accept", "text/event-stream")).await;
        let chat = opened(chat).await;
        if !expires {
            assert!(other.revoke_key(&id).unwrap(), "another process revokes it");
        }
        let (events, chat) = tokio::join!(events, chat);
        assert!(events.contains("\"why\":\"unauthorized\""), "{events}");
        assert!(chat.contains("\"unauthorized\"") && !chat.contains("slept"), "{chat}");
    }
    // A stream of another key of the principal continues.
    let request = server.request(Method::GET, &events).bearer_auth(&owner.secret);
    let open = opened(request.header("accept", "text/event-stream")).await;
    assert!(tokio::time::timeout(Duration::from_secs(3), open).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_a_server_that_shuts_down_cancels_what_works_records_it_and_answers_its_clients() {
    let setup = Setup::default();
    let sleeping = Arc::clone(&setup.sleeping);
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Use]);
    let post = |path: &str, prefer: &str, body: Value| {
        let request = server.request(Method::POST, path).bearer_auth(&key.secret).header("prefer", prefer);
        let sent = request.json(&body).send();
        tokio::spawn(async move { answer(sent.await.unwrap()).await })
    };
    let run = json!({"agent": "default", "input": "call sleep"});
    let detached = json!({"agent": "default", "input": "call sleep", "detached": true});
    let waits = post("/api/v1/runs", "wait=60", run.clone());
    let (_, streamed) = post("/api/v1/runs", "respond-async", run).await.unwrap();
    let (_, detached) = post("/api/v1/runs", "respond-async", detached).await.unwrap();
    let calls = post("/api/v1/tools/sleep/calls", "wait=60", json!({"arguments": {}}));
    let ids = [&streamed, &detached].map(|run| run["run_id"].as_str().unwrap().to_owned());
    let events = server.request(Method::GET, &format!("/api/v1/runs/{}/events", ids[0]));
    let events = events.bearer_auth(&key.secret).header("accept", "text/event-stream").send().await.unwrap();
    reaches(&sleeping, 4).await;
    let data = server.stop().await;
    for answered in [waits, calls] {
        let (status, run) = answered.await.unwrap();
        assert_eq!((status, &run["status"]), (StatusCode::OK, &json!("cancelled")), "{run}");
    }
    assert!(events.text().await.unwrap().contains("event: end"));
    let store = tollgate::SqliteStore::open(data.path()).unwrap();
    let runs = store.runs(RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 4, "{runs:?}");
    for run in runs {
        assert_eq!(run.status, "cancelled", "{run:?}");
        let record = store.events(&run.run_id, 0).await.unwrap();
        let Event::RunFinished { status, .. } = &record.last().unwrap().event else { panic!("{record:?}") };
        let reason = RunStatus::Cancelled { reason: "the server shut down".to_owned() };
        assert_eq!(*status, reason, "{}", run.title);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_a_server_that_hands_its_runs_over_cancels_its_direct_calls() {
    let setup = Setup { hands_over: true, ..Setup::default() };
    let sleeping = Arc::clone(&setup.sleeping);
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Use]);
    let post = |path: &str, body: Value| {
        let request = server.request(Method::POST, path).bearer_auth(&key.secret);
        let sent = request.header("prefer", "respond-async").json(&body).send();
        tokio::spawn(async move { answer(sent.await.unwrap()).await })
    };
    let run = json!({"agent": "default", "input": "call sleep", "detached": true});
    let (_, run) = post("/api/v1/runs", run).await.unwrap();
    post("/api/v1/tools/sleep/calls", json!({"arguments": {}})).await.unwrap();
    reaches(&sleeping, 2).await;
    let data = server.stop().await;
    let store = tollgate::SqliteStore::open(data.path()).unwrap();
    let runs = store.runs(RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 2, "{runs:?}");
    for found in runs {
        let expected = if run["run_id"] == *found.run_id { "running" } else { "cancelled" };
        assert_eq!(found.status, expected, "{found:?}");
    }
}

/// A client of chat completions repeats a message that failed, unless the error forbids it.
#[tokio::test(flavor = "multi_thread")]
async fn a9_a_chat_client_learns_at_once_that_the_record_of_a_call_is_lost() {
    let body = json!({"model": "default", "messages": [{"role": "user", "content": "call count"}]});
    // The first writes that fail are those before the tool runs.
    for fails_from in 2.. {
        let server = TestServer::with(Setup { fails_from, ..Setup::default() }).await;
        let key = server.key("ada", &[Use]);
        let request = server.request(Method::POST, "/v1/chat/completions").bearer_auth(&key.secret);
        let response = request.json(&body).send().await.unwrap();
        let (status, is_final) = (response.status(), response.headers().get("x-should-retry").cloned());
        let error = answer(response).await.1["error"].take();
        if server.counted.load(Ordering::SeqCst) == 0 {
            assert!(!error.is_null(), "a message whose run was not stored is refused");
            continue;
        }
        assert_eq!((status, &error["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("record_lost")));
        assert_eq!(is_final.unwrap(), "false");
        assert!(error["message"].as_str().unwrap().contains("do not repeat"), "{error}");
        return;
    }
}
