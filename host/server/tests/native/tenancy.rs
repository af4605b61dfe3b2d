//! Tenancy and four-eyes: the things of another principal do not exist, and a table says who may
//! answer.

use crate::fixture::{Key, Setup, TestServer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate::config::{DecisionMakers, ServeConfig};
use tollgate_server::Scope::{self, Decide, DecideAny, Operate, Read, Use};

/// Returns the id of the first open question.
fn question(run: &Value) -> &str {
    run["questions"][0]["suspension_id"].as_str().unwrap()
}

/// Returns the path of its answer.
fn answer_path(run: &Value) -> &str {
    run["questions"][0]["answer_path"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_principals_things_are_404_on_every_route() {
    let server = TestServer::start().await;
    let (ada, eve) = (server.key("ada", &[Use, Decide]), server.key("eve", &[Use, Decide]));
    let start = json!({"agent": "default", "input": "call ask", "thread_id": "mine"});
    let (status, run) = server.post(&ada, "/api/v1/runs", start).await;
    assert_eq!(
        (status, &run["status"], &run["thread_id"]),
        (StatusCode::ACCEPTED, &json!("waiting"), &json!("mine"))
    );
    let (id, asked) = (run["run_id"].as_str().unwrap(), question(&run));
    for path in [
        format!("/api/v1/runs/{id}"),
        format!("/api/v1/runs/{id}/events"),
        "/api/v1/threads/mine".to_owned(),
        "/api/v1/threads/mine/messages".to_owned(),
        "/api/v1/threads/mine/state".to_owned(),
        "/api/v1/threads/ada%2Fmine".to_owned(),
        "/api/v1/threads/..%2Fada%2Fmine".to_owned(),
    ] {
        let (status, problem) = server.get(&eve, &path).await;
        assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("not_found")), "{path}");
    }
    for (path, body) in [
        (format!("/api/v1/runs/{id}/cancel"), json!({})),
        (format!("/api/v1/runs/{id}/recover"), json!({})),
        (answer_path(&run).to_owned(), json!({"answer": {"resume": true}})),
        (
            format!("/api/v1/runs/{id}/questions"),
            json!({"answers": [{"suspension_id": asked, "answer": "cancel"}]}),
        ),
    ] {
        let (status, problem) = server.post(&eve, &path, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("not_found")), "{path}");
    }
    for path in ["/api/v1/runs", "/api/v1/threads", "/api/v1/questions"] {
        assert_eq!(server.get(&eve, path).await.1["items"], json!([]), "{path}");
        assert_eq!(server.get(&ada, path).await.1["items"].as_array().unwrap().len(), 1, "{path}");
    }
    for path in [
        "/api/v1/runs?principal=ada",
        "/api/v1/runs?principal=*",
        "/api/v1/threads?principal=ada",
        "/api/v1/threads/mine?principal=ada",
    ] {
        let (status, problem) = server.get(&eve, path).await;
        assert_eq!((status, &problem["scope"]), (StatusCode::FORBIDDEN, &json!("read")), "{path}");
    }
    // A thread of the same name is another thread.
    let (_, own) = server
        .post(&eve, "/api/v1/runs", json!({"agent": "default", "input": "Hello", "thread_id": "mine"}))
        .await;
    assert_eq!((&own["status"], &own["text"]), (&json!("completed"), &json!("You said: Hello")));
    let (_, mine) = server.get(&ada, "/api/v1/threads/mine/messages").await;
    assert_eq!(mine["items"], json!([]), "the run of ada still waits");
    let reader = server.key("rita", &[Read]);
    let (_, all) = server.get(&reader, "/api/v1/runs?principal=*").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.get(&reader, &format!("/api/v1/runs/{id}")).await.1["principal"], "ada");
    // A principal that sees a run may not decide about it for that reason.
    let both = server.key("rita", &[Read, Decide]);
    let (status, problem) = server.post(&both, answer_path(&run), json!({"answer": "cancel"})).await;
    assert_eq!((status, &problem["scope"]), (StatusCode::FORBIDDEN, &json!("decide_any")));
}

/// A record that needs memory does not show that the run of another principal exists.
#[tokio::test(flavor = "multi_thread")]
async fn another_principals_run_is_404_also_without_memory_for_its_record() {
    let server = TestServer::start().await;
    let (ada, eve) = (server.key("ada", &[Use]), server.key("eve", &[Use]));
    // Two results of 200 KiB.
    let run = server.run(&ada, "call large large").await;
    let path = format!("/a2a/default/tasks/{}", run["run_id"].as_str().unwrap());
    let get = async |key: &Key| {
        let request = server.request(Method::GET, &path).bearer_auth(&key.secret);
        request.header("a2a-version", "1.0").send().await.unwrap().status()
    };
    let budget = server.state.host.memory_budget().clone();
    let held = budget.try_reserve(budget.total_bytes() - budget.reserved_bytes()).unwrap();
    assert_eq!(get(&ada).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&eve).await, StatusCode::NOT_FOUND);
    drop(held);
    assert_eq!(get(&ada).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_decide_is_a_table() {
    let scopes: [&[Scope]; 4] = [&[Use], &[Use, Decide], &[Use, DecideAny], &[Use, Read, Operate]];
    // For each policy: own runs, and another principal's.
    for (decides, own, others) in [
        (DecisionMakers::Anyone, [403, 202, 202, 403], [403, 404, 202, 403]),
        (DecisionMakers::Others, [403, 403, 403, 403], [403, 404, 202, 403]),
    ] {
        let config = ServeConfig { decides, ..ServeConfig::default() };
        let server = TestServer::with(Setup { config, ..Setup::default() }).await;
        let asker = server.key("ada", &[Use]);
        for (at, scopes) in scopes.iter().enumerate() {
            for (name, expected) in [("ada", own[at]), ("bob", others[at])] {
                let key = server.key(name, scopes);
                for several in [false, true] {
                    let run = server.run(&asker, "call ask").await;
                    let (id, asked) = (run["run_id"].as_str().unwrap(), question(&run));
                    let path = format!("/api/v1/runs/{id}/questions");
                    let (status, answer) = if several {
                        let answers =
                            json!({"answers": [{"suspension_id": asked, "answer": {"resume": true}}]});
                        server.post(&key, &path, answers).await
                    } else {
                        let answer = json!({"answer": {"resume": true}, "reason": "it is fine"});
                        server.post(&key, answer_path(&run), answer).await
                    };
                    assert_eq!(status, expected, "{decides:?} {name} {scopes:?} {several}: {answer}");
                    let own_question = decides == DecisionMakers::Others
                        && name == "ada"
                        && scopes.iter().any(|scope| [Decide, DecideAny].contains(scope));
                    assert_eq!(answer["code"] == "own_question", own_question, "{answer}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asked_and_who_decided_is_recorded() {
    let server = TestServer::start().await;
    let (ada, bob) = (server.key("ada", &[Use]), server.key("bob", &[DecideAny, Read]));
    let run = server.run(&ada, "call ask").await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let (_, inbox) = server.get(&bob, "/api/v1/questions").await;
    let open = &inbox["items"][0];
    assert_eq!(
        (&open["principal"], &open["may_decide"], &open["tool"]),
        (&json!("ada"), &json!(true), &json!("ask"))
    );
    let path = answer_path(&run).to_owned();
    let (status, problem) = server.post(&bob, &path, json!({"answer": {"resume": "perhaps"}})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("does_not_fit")));
    assert!(problem["errors"][0]["detail"].is_string(), "{problem}");
    let (status, _) = server.post(&bob, &path, json!({"answer": {"resume": true}, "reason": "fine"})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let (status, problem) = server.post(&bob, &path, json!({"answer": "cancel"})).await;
    assert_eq!(
        (status, &problem["code"], &problem["by"]),
        (StatusCode::CONFLICT, &json!("already_decided"), &json!("bob"))
    );
    let (status, problem) = server.post(&bob, &format!("{path}x"), json!({"answer": "cancel"})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("not_found")));
    let text =
        server.request(reqwest::Method::GET, &format!("/api/v1/runs/{id}/events")).bearer_auth(&ada.secret);
    let text = text.header("accept", "text/event-stream").send().await.unwrap().text().await.unwrap();
    assert!(text.contains("\"principal\":\"ada\"") && text.contains("\"by\":\"bob\""), "{text}");
    assert!(text.contains("\"model\":\"echo-1\""), "the record names the model: {text}");
    assert!(!text.contains("Be kind."), "instructions are the operator's: {text}");
    assert!(!text.contains("ada/"), "clients see their own thread ids: {text}");
    let (_, audit) = server.get(&bob, &format!("/api/v1/audit?run={id}")).await;
    let who: Vec<&str> =
        audit["items"].as_array().unwrap().iter().map(|record| record["who"].as_str().unwrap()).collect();
    assert_eq!(who, ["agent default for ada", "key bob"]);
    assert!(audit["items"].as_array().unwrap().iter().all(|record| record["model"] == "echo-1"), "{audit}");
    let (_, usage) = server.get(&bob, "/api/v1/usage?by=model").await;
    let row = &usage["items"][0];
    assert_eq!((&row["subject"], &row["turns"], &row["calls"]), (&json!("echo-1"), &json!(2), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_questions_are_answered_together_or_one_by_one() {
    let server = TestServer::start().await;
    let ada = server.key("ada", &[Use, Decide]);
    let run = server.run(&ada, "call ask ask_too").await;
    assert_eq!(run["questions"].as_array().unwrap().len(), 2, "{run}");
    let id = run["run_id"].as_str().unwrap();
    let named = |at: usize| run["questions"][at]["suspension_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/runs/{id}/questions");
    let answers = |answer: Value| json!({"answers": [{"suspension_id": named(0), "answer": {"resume": true}}, {"suspension_id": named(1), "answer": answer}]});
    let (status, problem) = server.post(&ada, &path, answers(json!({"resume": 7}))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert_eq!(
        server.get(&ada, "/api/v1/questions").await.1["items"].as_array().unwrap().len(),
        2,
        "none is taken"
    );
    let (status, _) = server.post(&ada, &path, answers(json!("cancel"))).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    // Two people who click at the same time both succeed.
    let run = server.run(&ada, "call ask ask_too").await;
    let post = |at: usize| {
        let path = run["questions"][at]["answer_path"].as_str().unwrap().to_owned();
        let (server, ada) = (&server, &ada);
        async move { server.post(ada, &path, json!({"answer": {"resume": true}})).await }
    };
    let (first, second) = tokio::join!(post(0), post(1));
    assert_eq!((first.0, second.0), (StatusCode::ACCEPTED, StatusCode::ACCEPTED), "{first:?} {second:?}");
}
