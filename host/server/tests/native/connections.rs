//! Clients that hold connections, or do not read their answers.

use crate::fixture::{Key, PATIENCE, Setup, TestServer, answer};
use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate_agent::json::Measure;
use tollgate_server::Scope::Use;

async fn limited(connections: usize) -> TestServer {
    let mut setup = Setup::default();
    setup.config.limits.connections = connections;
    TestServer::with(setup).await
}

/// Sends a request on a connection of its own, which it closes after the answer, and returns the
/// status.
async fn one_shot(server: &TestServer, key: &Key, head: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server.address).await?;
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        key.secret,
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let (mut got, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        got.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&got);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            return Ok(head[9..12].to_owned());
        }
    }
}

/// Begins a request whose body never ends.
async fn slow_body(server: &TestServer, key: &Key) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        key.secret
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Bodies that never end fill all places, and as many clients wait for one. Another principal is
/// served before the server gives up on any of those bodies.
#[tokio::test(flavor = "multi_thread")]
async fn h4_slow_bodies_of_one_key_do_not_lock_others_out() {
    let server = limited(8).await;
    let (ada, bob) = (server.key("ada", &[Use]), server.key("bob", &[Use]));
    let slow = join_all((0..16).map(|_| slow_body(&server, &bob))).await;
    for _ in 0..4 {
        let me = tokio::time::timeout(PATIENCE, one_shot(&server, &ada, "GET /api/v1/me", "")).await;
        assert_eq!(me.unwrap().unwrap(), "200");
    }
    for stream in slow {
        let mut got = [0; 12];
        let given_up = stream.try_read(&mut got).is_ok_and(|_| got == *b"HTTP/1.1 408");
        assert!(!given_up, "ada was served only after a body timed out");
    }
}

/// One principal's calls hold at most half of the connections. Further ones are refused, and
/// another principal is served meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn h4_one_principal_gets_half_of_the_connections() {
    let server = limited(8).await;
    let (ada, bob) = (server.key("ada", &[Use]), server.key("bob", &[Use]));
    let path = "/api/v1/tools/sleep/calls";
    let mut calls: Vec<_> = (0..7)
        .map(|_| {
            let call = server.request(Method::POST, path).bearer_auth(&bob.secret).json(&json!({}));
            tokio::spawn(call.send())
        })
        .collect();
    let refused = async {
        while calls.iter().filter(|call| call.is_finished()).count() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE / 2, refused).await.expect("the calls beyond half of the places wait");
    assert_eq!(one_shot(&server, &ada, "GET /api/v1/me", "").await.unwrap(), "200");
    let (ended, running): (Vec<_>, Vec<_>) = calls.drain(..).partition(tokio::task::JoinHandle::is_finished);
    assert_eq!((ended.len(), running.len()), (3, 4));
    for call in ended {
        assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    }
    running.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Clients that need fewer places than there are, with a connection for each request: none is cut,
/// and each call that ran is answered.
#[tokio::test(flavor = "multi_thread")]
async fn h5_no_connection_is_cut_while_places_are_free() {
    let server = limited(32).await;
    let keys = [server.key("ada", &[Use]), server.key("bob", &[Use])];
    let client = async |number: usize| {
        let mut failed = 0;
        for _ in 0..40 {
            let key = &keys[number % 2];
            let answer = one_shot(&server, key, "POST /api/v1/tools/count/calls", "{}").await;
            failed += usize::from(answer.as_deref().ok() != Some("200"));
        }
        failed
    };
    let failed: usize = join_all((0..24).map(client)).await.into_iter().sum();
    let counted = server.counted.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!((failed, counted), (0, 24 * 40));
}

/// Makes a run with this many results of 200 KiB, and returns its id.
async fn large_run(server: &TestServer, key: &Key, calls: usize) -> String {
    let names = vec!["large"; calls].join(" ");
    let run = server.run(key, &format!("call {names}")).await;
    assert_eq!(run["status"], "completed", "{run}");
    run["run_id"].as_str().unwrap().to_owned()
}

/// Pages of a large record end by their bytes, and together they are the whole record.
#[tokio::test(flavor = "multi_thread")]
async fn h2_pages_of_events_and_messages_end_by_their_bytes() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    let run_id = large_run(&server, &key, 12).await;
    let (mut after, mut numbers, mut pages) = (0, Vec::new(), 0);
    loop {
        let path = format!("/api/v1/runs/{run_id}/events?limit=200&after={after}");
        let sent = server.request(Method::GET, &path).bearer_auth(&key.secret).send().await.unwrap();
        let text = sent.text().await.unwrap();
        let page: Value = serde_json::from_str(&text).unwrap();
        let items = page["items"].as_array().unwrap();
        // A page of several events has at most 1 MiB of them, and a little around each.
        assert!(items.len() == 1 || text.len() < (1 << 20) + 64 * 1024, "{} bytes", text.len());
        numbers.extend(items.iter().map(|item| item["number"].as_u64().unwrap()));
        pages += 1;
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    let events = server.get(&key, &format!("/api/v1/runs/{run_id}")).await.1["events"].as_u64().unwrap();
    assert!(numbers.iter().copied().eq(1..=events), "{events} events, not {numbers:?}");
    assert!(pages > 2, "{pages} pages");
    // A stream of the same record is complete, too.
    let sent = server.request(Method::GET, &format!("/api/v1/runs/{run_id}/events"));
    let sent = sent.bearer_auth(&key.secret).header("accept", "text/event-stream").send().await.unwrap();
    let stream = sent.text().await.unwrap();
    let ids =
        stream.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse::<u64>().unwrap());
    assert!(ids.eq(1..=events));
    assert!(stream.lines().any(|line| line == "event: end"));
    let (_, run) = server.get(&key, &format!("/api/v1/runs/{run_id}")).await;
    let thread = run["thread_id"].as_str().unwrap();
    let (mut path, mut positions) = (format!("/api/v1/threads/{thread}/messages?limit=200"), Vec::new());
    let mut pages = 0;
    loop {
        let page = server.get(&key, &path).await.1;
        let items = page["items"].as_array().unwrap();
        assert!(items.len() == 1 || page.to_string().len() < (1 << 20) + 64 * 1024);
        positions.extend(items.iter().map(|item| item["position"].as_u64().unwrap()));
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/threads/{thread}/messages?limit=200&after={next}");
    }
    // The prompt, the call, its answers, and the reply.
    assert!(positions.iter().copied().eq(1..=15), "{positions:?}");
    assert!(pages > 2, "{pages} pages");
}

/// Questions about calls with large arguments are spread over several pages.
#[tokio::test(flavor = "multi_thread")]
async fn z3_a_page_of_questions_ends_by_its_bytes() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    for _ in 0..6 {
        let arguments = json!({"text": "x".repeat(400 << 10)});
        let (_, run) =
            server.post(&key, "/api/v1/tools/ask/calls", json!({"arguments": arguments.clone()})).await;
        assert_eq!((&run["status"], &run["questions"][0]["arguments"]), (&json!("waiting"), &arguments));
    }
    let (mut path, mut asked, mut pages) = ("/api/v1/questions?limit=200".to_owned(), 0, 0);
    loop {
        let page = server.get(&key, &path).await.1;
        asked += page["items"].as_array().unwrap().len();
        pages += 1;
        // The run that exceeds 1 MiB is the last of its page.
        assert!(page.to_string().len() < (3 << 19) + 64 * 1024, "{} bytes", page.to_string().len());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/questions?limit=200&after={next}");
    }
    assert_eq!(asked, 6);
    assert!(pages > 1, "{pages} pages");
}

/// A page of tasks with large answers ends by their bytes, and the next one goes on after it.
#[tokio::test(flavor = "multi_thread")]
async fn h2_a_page_of_tasks_ends_by_its_bytes_and_reads_one_record_at_a_time() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    let mut made = std::collections::BTreeSet::new();
    for _ in 0..6 {
        let run = server.run(&key, &"x".repeat(400 << 10)).await;
        made.insert(run["run_id"].as_str().unwrap().to_owned());
    }
    let (mut token, mut listed, mut pages) = (String::new(), std::collections::BTreeSet::new(), 0);
    loop {
        let path = format!("/a2a/default/tasks?includeArtifacts=true&pageSize=100{token}");
        let request = server.request(Method::GET, &path).bearer_auth(&key.secret);
        let (status, page) = answer(request.header("a2a-version", "1.0").send().await.unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        // The task that exceeds 1 MiB is the last of its page.
        assert!(page.to_string().len() < (3 << 19) + 64 * 1024, "{} bytes", page.to_string().len());
        let tasks = page["tasks"].as_array().unwrap();
        listed.extend(tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
        pages += 1;
        match page["nextPageToken"].as_str().unwrap() {
            "" => break,
            next => token = format!("&pageToken={next}"),
        }
    }
    assert_eq!(listed, made);
    assert!(pages > 1, "{pages} pages");
}

/// Parsed values take many times as much memory as their text.
#[tokio::test(flavor = "multi_thread")]
async fn h2_the_tasks_of_a_page_take_memory_of_the_host() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    for _ in 0..2 {
        server.run(&key, &"x".repeat(50 << 10)).await;
    }
    let list = async || {
        let path = "/a2a/default/tasks?includeArtifacts=true&pageSize=100";
        let request = server.request(Method::GET, path).bearer_auth(&key.secret);
        answer(request.header("a2a-version", "1.0").send().await.unwrap()).await
    };
    let budget = server.state.host.memory_budget().clone();
    let quiet = budget.reserved_bytes();
    // An answer is reserved until it is written.
    let all_but = async |left: u64| {
        budget.reserve_unqueued(budget.total_bytes() - quiet - left, Duration::from_secs(60)).await.unwrap()
    };
    let others = all_but(32 << 10).await;
    let (status, error) = list().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{error}");
    assert!(error.to_string().contains("no memory to list the tasks"), "{error}");
    drop(others);
    let (_, page) = list().await;
    assert_eq!(page["tasks"].as_array().map(Vec::len), Some(2));
    // With room for one task, the page ends after it.
    let left = Measure::of(&page["tasks"][0]).parsed_bytes * 3 / 2;
    let others = all_but(left).await;
    let (status, page) = list().await;
    let count = page["tasks"].as_array().map(Vec::len);
    assert_eq!((status, count, &page["nextPageToken"]), (StatusCode::OK, Some(1), &json!("1")), "{page}");
    drop(others);
}

/// Answers that no client reads are reserved from the memory of the host, up to a quarter of it for
/// one principal, and the memory is free again when the clients have left.
#[tokio::test(flavor = "multi_thread")]
async fn h2_unread_answers_are_within_the_memory_of_the_host() {
    let server = TestServer::start().await;
    let (ada, bob) = (server.key("ada", &[Use]), server.key("bob", &[Use]));
    let run_id = large_run(&server, &ada, 8).await;
    let budget = server.state.host.memory_budget().clone();
    let quiet = budget.reserved_bytes();
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let ask = format!(
            "GET /api/v1/runs/{run_id}/events?limit=200&after=2 HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {}\r\n\r\n",
            ada.secret
        );
        // Of many requests on one connection, only the first is answered.
        for _ in 0..20 {
            stream.write_all(ask.as_bytes()).await.unwrap();
        }
        unread.push(stream);
    }
    let reserved = async {
        while budget.reserved_bytes() < quiet + (2 << 20) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reserved).await.expect("unread answers are reserved");
    assert!(budget.reserved_bytes() <= quiet + budget.total_bytes() / 4);
    assert_eq!(one_shot(&server, &bob, "GET /api/v1/me", "").await.unwrap(), "200");
    drop(unread);
    let freed = async {
        while budget.reserved_bytes() > quiet {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("the memory is free again");
}
