//! Requests that are sent again.

use crate::fixture::{PATIENCE, Setup, TestServer, answer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate_server::Scope::{Decide, Use};

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_starts_one_run_across_a_restart_and_two_processes() {
    let counted = Arc::new(AtomicUsize::new(0));
    let setup = || Setup { counted: Arc::clone(&counted), ..Setup::default() };
    let server = TestServer::with(setup()).await;
    let key = server.key("ada", &[Use]);
    let secret = key.secret.clone();
    let send = |server: &TestServer, path: &str, body: serde_json::Value| {
        let request = server.request(Method::POST, path).bearer_auth(&secret).json(&body);
        request.header("idempotency-key", "k1").send()
    };
    let (call, run) = ("/api/v1/tools/count/calls", "/api/v1/runs");
    let prompt = json!({"agent": "default", "input": "call count"});
    let first = answer(send(&server, call, json!({})).await.unwrap()).await;
    assert_eq!((first.0, &first.1["outcome"]["result"]["data"]), (StatusCode::OK, &json!(1)));
    let begun = answer(send(&server, run, prompt.clone()).await.unwrap()).await;
    assert_eq!(counted.load(Ordering::SeqCst), 2);
    let again = send(&server, call, json!({})).await.unwrap();
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(answer(again).await.1["run_id"], first.1["run_id"]);
    let other = answer(send(&server, call, json!({"arguments": {"n": 1}})).await.unwrap()).await;
    assert_eq!((other.0, &other.1["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("key_reused")));
    // The key of another principal is another key.
    let bob = server.key("bob", &[Use]);
    let request = server.request(Method::POST, call).bearer_auth(&bob.secret).json(&json!({}));
    let bobs = answer(request.header("idempotency-key", "k1").send().await.unwrap()).await;
    assert_ne!(bobs.1["run_id"], first.1["run_id"]);
    let data = server.stop().await;
    let (one, two) = (TestServer::on(data.path(), setup()).await, TestServer::on(data.path(), setup()).await);
    for server in [&one, &two] {
        let again = answer(send(server, run, prompt.clone()).await.unwrap()).await;
        assert_eq!(again.1["run_id"], begun.1["run_id"]);
        assert_eq!(
            answer(send(server, call, json!({})).await.unwrap()).await.1["outcome"],
            first.1["outcome"]
        );
    }
    assert_eq!(counted.load(Ordering::SeqCst), 3, "nothing ran again");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_requests_one_runs() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use]);
    for (path, body) in [
        ("/api/v1/tools/count/calls", json!({})),
        ("/api/v1/runs", json!({"agent": "default", "input": "call count", "thread_id": "t"})),
    ] {
        server.counted.store(0, Ordering::SeqCst);
        let send = || {
            let request = server.request(Method::POST, path).bearer_auth(&key.secret).json(&body);
            request.header("idempotency-key", "race").send()
        };
        let answers = futures::future::join_all((0..8).map(|_| send())).await;
        let mut ids = Vec::new();
        for one in answers {
            let (status, run) = answer(one.unwrap()).await;
            assert_eq!(status, StatusCode::OK, "{run}");
            ids.push(run["run_id"].clone());
        }
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(server.counted.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_requests_that_race_in_two_processes_one_runs() {
    let one = TestServer::start().await;
    let two = TestServer::on(one.state.access.directory(), Setup::default()).await;
    let key = one.key("ada", &[Use]);
    let bodies = [
        ("/v1/responses", json!({"model": "default", "input": "Hello"})),
        (
            "/v1/chat/completions",
            json!({"model": "default", "messages": [{"role": "user", "content": "Hello"}]}),
        ),
        ("/api/v1/runs", json!({"agent": "default", "input": "Hello"})),
    ];
    let mut sent = 0;
    for round in 0..12 {
        for (path, body) in &bodies {
            let send = |server: &TestServer| {
                let request = server.request(Method::POST, path).bearer_auth(&key.secret).json(body);
                request.header("idempotency-key", format!("key-{round}")).send()
            };
            let answers = futures::future::join_all((0..4).map(|n| send([&one, &two][n % 2]))).await;
            let mut ids = Vec::new();
            for answered in answers {
                let (status, run) = answer(answered.unwrap()).await;
                assert!(status.is_success(), "{path}: {status}: {run}");
                ids.push(run["run_id"].as_str().or(run["id"].as_str()).unwrap().to_owned());
            }
            ids.dedup();
            assert_eq!(ids.len(), 1, "{path}: {ids:?}");
            sent += 1;
        }
    }
    let (_, listed) = one.get(&key, "/api/v1/runs?limit=100").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_may_be_sent_again_and_a_decision_counts_once() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Use, Decide]);
    let send = |path: String, body: serde_json::Value| {
        let request = server.request(Method::POST, &path).bearer_auth(&key.secret).json(&body);
        request.header("idempotency-key", "k").send()
    };
    let wrong = json!({"agent": "nobody", "input": "Hello"});
    for _ in 0..2 {
        let (status, _) = answer(send("/api/v1/runs".to_owned(), wrong.clone()).await.unwrap()).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "the key is free again");
    }
    let run = server.run(&key, "call ask").await;
    let path = run["questions"][0]["answer_path"].as_str().unwrap().to_owned();
    // An answer that decides nothing leaves the key free.
    let unfit = answer(send(path.clone(), json!({"answer": {"resume": "?"}})).await.unwrap()).await;
    assert_eq!(unfit.0, StatusCode::UNPROCESSABLE_ENTITY, "{}", unfit.1);
    for is_repeated in [false, true] {
        let sent = send(path.clone(), json!({"answer": {"resume": true}})).await.unwrap();
        assert_eq!(sent.headers().contains_key("idempotency-replayed"), is_repeated);
        let (status, answer) = answer(sent).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    }
    let (status, other) = answer(send(path, json!({"answer": "cancel"})).await.unwrap()).await;
    assert_eq!((status, &other["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("key_reused")));
}

/// Whether a request was answered before is asked once, although a response that continues another
/// one has to find that one first.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_reserves_its_key_once() {
    let server = TestServer::start().await;
    let ada = server.key("ada", &[Use]);
    let database = server.state.access.directory().join("tollgate.access.db");
    let database = rusqlite::Connection::open(database).unwrap();
    let watch = "CREATE TABLE watched (what TEXT);
        CREATE TRIGGER reserved AFTER INSERT ON request_keys BEGIN INSERT INTO watched VALUES ('reserved'); END;
        CREATE TRIGGER released AFTER DELETE ON request_keys BEGIN INSERT INTO watched VALUES ('released'); END;";
    database.execute_batch(watch).unwrap();
    let send = async |key: &str, previous: &Value| {
        let body = json!({"model": "default", "input": "Hello", "previous_response_id": previous});
        let request = server.request(Method::POST, "/v1/responses").bearer_auth(&ada.secret);
        answer(request.header("idempotency-key", key).json(&body).send().await.unwrap()).await
    };
    let watched = || {
        let mut rows = database.prepare("SELECT what FROM watched ORDER BY rowid").unwrap();
        let rows = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    let (_, first) = send("first", &Value::Null).await;
    assert_eq!((&first["status"], watched()), (&json!("completed"), vec!["reserved".to_owned()]));
    let (_, next) = send("next", &first["id"]).await;
    assert_eq!((&next["status"], watched().len()), (&json!("completed"), 2), "{next}");
    // The first response is the last one no longer, but the request is the same.
    assert_eq!(send("next", &first["id"]).await.1["id"], next["id"]);
    assert_eq!(watched().len(), 2);
    // A request that starts nothing leaves its key free.
    let (status, refused) = send("free", &first["id"]).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!("previous_response_not_last"))
    );
    assert_eq!(watched()[2..], ["reserved", "released"]);
    assert_eq!(send("free", &next["id"]).await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_decisions_that_race_in_two_processes_one_counts_and_the_others_are_conflicts() {
    let one = TestServer::start().await;
    let counted = Arc::clone(&one.counted);
    let two = TestServer::on(one.state.access.directory(), Setup { counted, ..Setup::default() }).await;
    let key = one.key("ada", &[Use, Decide]);
    for round in 0..15 {
        let run = one.run(&key, "call ask").await;
        let path = run["questions"][0]["answer_path"].as_str().unwrap();
        let decide = async |server: &TestServer| {
            let body = json!({"answer": {"resume": true}});
            let request = server.request(Method::POST, path).bearer_auth(&key.secret).json(&body);
            answer(request.send().await.unwrap()).await
        };
        let decided = futures::future::join_all((0..6).map(|n| decide([&one, &two][n % 2]))).await;
        let count = |wanted: StatusCode| decided.iter().filter(|(status, _)| *status == wanted).count();
        assert_eq!(
            (count(StatusCode::ACCEPTED), count(StatusCode::CONFLICT)),
            (1, 5),
            "round {round}: {decided:?}"
        );
        // The process that decided keeps the run until it ends.
        let id = run["run_id"].as_str().unwrap();
        let ended = async {
            while one.get(&key, &format!("/api/v1/runs/{id}")).await.1["status"] != "completed" {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
    }
}
