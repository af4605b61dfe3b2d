//! Many clients follow long runs, and their connections are cut while the runs work. Each client
//! returns with the number of its last event.

use crate::fixture::{Key, PATIENCE, Setup, TestServer, answer};
use futures::StreamExt as _;
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate_server::Scope::Use;

/// The work of one test.
struct Load {
    runs: usize,
    /// The calls of one run. Each has at least four events.
    calls: usize,
    /// The clients of one run.
    clients: usize,
    /// The cuts of one client.
    cuts: usize,
}

/// The numbers that one connection delivered.
struct Leg {
    numbers: Vec<u64>,
    /// Whether the stream ended in order, with the event `end`.
    ended: bool,
}

/// Follows a run after an event, and cuts the connection after this many events.
async fn follow(server: &TestServer, key: &Key, path: &str, last: u64, most: usize) -> Leg {
    // A long run may take longer than the usual limit of a request; each piece of it may not.
    let request = server.request(Method::GET, path).bearer_auth(&key.secret).timeout(10 * PATIENCE);
    let request = request.header("accept", "text/event-stream").header("last-event-id", last.to_string());
    let response = request.send().await.unwrap();
    let mut leg = Leg { numbers: Vec::new(), ended: response.status() == StatusCode::NO_CONTENT };
    if leg.ended {
        return leg;
    }
    assert_eq!(response.status(), StatusCode::OK, "{}", response.text().await.unwrap());
    let (mut body, mut line, mut id) = (response.bytes_stream(), Vec::new(), None::<u64>);
    while let Some(chunk) = tokio::time::timeout(PATIENCE, body.next()).await.unwrap() {
        for byte in chunk.unwrap() {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            match line.as_slice() {
                // An event is complete at its empty line.
                b"" => leg.numbers.extend(id.take()),
                b"event: end" => leg.ended = true,
                text => {
                    let text = text.strip_prefix(b"id: ").and_then(|text| std::str::from_utf8(text).ok());
                    id = text.map(|text| text.parse().unwrap()).or(id);
                }
            }
            line.clear();
            if leg.numbers.len() >= most {
                // Dropping the body closes the connection in the middle of the stream.
                return leg;
            }
        }
    }
    leg
}

/// Follows a run with cuts after different numbers of events, and returns all numbers.
async fn follow_with_cuts(
    server: &TestServer,
    key: &Key,
    path: &str,
    load: &Load,
    (client, made): (usize, &AtomicUsize),
) -> Vec<u64> {
    let (mut numbers, longest) = (Vec::new(), load.calls * 4 / load.cuts);
    for cut in 0..load.cuts {
        // Between one event and the longest leg, so that all cuts are within the run.
        let most = 1 + (client * 31 + cut * 7919) % longest;
        let leg = follow(server, key, path, numbers.last().copied().unwrap_or_default(), most).await;
        assert!(!leg.ended && leg.numbers.len() == most, "the run ended before its cuts");
        numbers.extend(leg.numbers);
        made.fetch_add(1, Ordering::Relaxed);
    }
    let last = numbers.last().copied().unwrap_or_default();
    let leg = follow(server, key, path, last, usize::MAX).await;
    assert!(leg.ended, "the stream ended without the event `end`");
    numbers.extend(leg.numbers);
    numbers
}

async fn cut_connections(load: Load) {
    let mut setup = Setup::default();
    setup.config.limits.connections = 1_024;
    setup.config.limits.streams_per_key = 1_024;
    let server = TestServer::with(setup).await;
    let key = server.key("ada", &[Use]);
    let (made, during) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one_run = async |run: usize| {
        let body = json!({"agent": "busy", "input": load.calls.to_string(), "detached": true});
        let request = server.request(Method::POST, "/api/v1/runs").bearer_auth(&key.secret);
        let request = request.header("prefer", "respond-async").json(&body);
        let (status, started) = answer(request.send().await.unwrap()).await;
        // On a busy machine, the run may have ended when it is answered.
        assert!([StatusCode::ACCEPTED, StatusCode::OK].contains(&status), "{started}");
        let path = format!("/api/v1/runs/{}", started["run_id"].as_str().unwrap());
        let events = format!("{path}/events?children=false");
        let cuts = AtomicUsize::new(0);
        let clients = (0..load.clients).map(|client| {
            follow_with_cuts(&server, &key, &events, &load, (run * load.clients + client, &cuts))
        });
        let until_end = async {
            follow(&server, &key, &events, 0, usize::MAX).await;
            during.fetch_add(cuts.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        let (followed, ()) = tokio::join!(futures::future::join_all(clients), until_end);
        made.fetch_add(cuts.load(Ordering::Relaxed), Ordering::Relaxed);
        let (_, ended) = server.get(&key, &path).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        let events = ended["events"].as_u64().unwrap();
        assert!(events as usize >= load.calls * 4, "{events}");
        for numbers in followed {
            assert!(numbers.iter().copied().eq(1..=events), "{events} events, not {numbers:?}");
        }
        events
    };
    let events: u64 = futures::future::join_all((0..load.runs).map(one_run)).await.iter().sum();
    let (made, during) = (made.into_inner(), during.into_inner());
    assert_eq!(made, load.runs * load.clients * load.cuts);
    println!(
        "{made} disconnects, {during} of them before an uncut client had its run's end; {events} events of \
         {} runs, each delivered to {} clients",
        load.runs, load.clients
    );
    assert!(during > 0, "all runs ended before the first cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_disconnects_lose_and_repeat_nothing() {
    cut_connections(Load { runs: 20, calls: 25, clients: 5, cuts: 10 }).await;
}

/// `scripts/soak streams` runs it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes a minute"]
async fn a_thousand_disconnects_during_a_hundred_thousand_events() {
    cut_connections(Load { runs: 100, calls: 250, clients: 2, cuts: 5 }).await;
}
