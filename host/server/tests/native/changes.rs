//! Hints about runs and questions: what a client reads again, and what it is never told.

use crate::fixture::{Key, PATIENCE, Setup, TestServer, answer};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tollgate_server::Scope::{Decide, DecideAny, Metrics, Read, Use};

const PATH: &str = "/api/v1/events";

/// An open stream of hints.
struct Listener {
    response: Response,
    text: String,
}

impl Listener {
    /// Opens a stream and reads its first hint.
    async fn open(server: &TestServer, key: &Key, path: &str) -> Self {
        let response = ask(server, key, path, "text/event-stream").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut listener = Self { response, text: String::new() };
        assert_eq!(listener.next().await, ("all".to_owned(), json!({})), "a client begins with the lists");
        listener
    }

    /// Returns the next hint.
    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                assert!(field("id:").is_none(), "a hint has no number: {event}");
                let hint = field("event: ").zip(field("data: "));
                let hint = hint.map(|(name, data)| (name.to_owned(), serde_json::from_str(data).unwrap()));
                self.text = rest.to_owned();
                match hint {
                    Some(hint) => return hint,
                    None => continue,
                }
            }
            let piece = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
            self.text.push_str(std::str::from_utf8(&piece.unwrap().unwrap().unwrap()).unwrap());
        }
    }

    /// Reads until this hint arrives, and returns those before it.
    async fn until(&mut self, name: &str, data: &Value) -> Vec<(String, Value)> {
        let mut before = Vec::new();
        loop {
            let (found, with) = self.next().await;
            if found == name && with == *data {
                return before;
            }
            before.push((found, with));
        }
    }
}

async fn ask(server: &TestServer, key: &Key, path: &str, accept: &str) -> Response {
    let request = server.request(Method::GET, path).bearer_auth(&key.secret).header("accept", accept);
    request.send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_of_its_own_runs_and_of_the_questions_that_it_sees() {
    let server = TestServer::start().await;
    let (ada, eve) = (server.key("ada", &[Use, Decide]), server.key("eve", &[Use]));
    let (boss, reader) = (server.key("boss", &[DecideAny]), server.key("rita", &[Read]));
    let mut own = Listener::open(&server, &ada, PATH).await;
    let mut foreign = Listener::open(&server, &eve, PATH).await;
    let mut inbox = Listener::open(&server, &boss, PATH).await;
    let mut every = Listener::open(&server, &reader, &format!("{PATH}?principal=*")).await;
    let mut of_ada = Listener::open(&server, &reader, &format!("{PATH}?principal=ada")).await;
    let asking = server.run(&ada, "call ask").await;
    let (id, asked) = (asking["run_id"].clone(), json!({"run_id": asking["run_id"]}));
    let status = |status: &str| json!({"run_id": id, "status": status});
    for listener in [&mut own, &mut every, &mut of_ada] {
        listener.until("run", &status("waiting")).await;
        assert_eq!(listener.next().await, ("questions".to_owned(), asked.clone()));
    }
    assert!(inbox.until("questions", &asked).await.is_empty(), "its key lists no runs");
    // The answer is a change, too.
    let path = asking["questions"][0]["answer_path"].as_str().unwrap();
    assert_eq!(server.post(&boss, path, json!({"answer": {"resume": true}})).await.0, StatusCode::ACCEPTED);
    own.until("run", &status("completed")).await;
    inbox.until("questions", &asked).await;
    let ended = server.run(&eve, "Hello").await;
    let eves = json!({"run_id": ended["run_id"], "status": "completed"});
    let before = foreign.until("run", &eves).await;
    assert!(
        before.iter().all(|(name, hint)| name == "run" && hint["run_id"] == ended["run_id"]),
        "{before:?}"
    );
    every.until("run", &eves).await;
    // Another process writes to the same store.
    let other = TestServer::on(server.state.access.directory(), Setup::default()).await;
    let request = other.request(Method::POST, "/api/v1/runs").bearer_auth(&ada.secret);
    let body = json!({"agent": "default", "input": "Hello"});
    let (_, theirs) = answer(request.json(&body).send().await.unwrap()).await;
    let theirs = json!({"run_id": theirs["run_id"], "status": "completed"});
    let before = own.until("run", &theirs).await;
    assert!(before.iter().all(|(_, hint)| hint["run_id"] != eves["run_id"]), "{before:?}");
    server.state.stop.cancel();
    own.until("end", &json!({"why": "shutdown"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_hints_needs_scopes_a_place_and_its_key() {
    let mut setup = Setup::default();
    setup.config.limits.streams_per_key = 1;
    let server = TestServer::with(setup).await;
    let (ada, meter) = (server.key("ada", &[Use]), server.key("meter", &[Metrics]));
    let code = async |key: &Key, path: &str, accept: &str| {
        let (status, problem) = answer(ask(&server, key, path, accept).await).await;
        (status.as_u16(), problem["code"].as_str().unwrap_or_default().to_owned())
    };
    let sse = "text/event-stream";
    assert_eq!(code(&ada, PATH, "application/json").await, (406, "not_acceptable".to_owned()));
    assert_eq!(code(&meter, PATH, sse).await, (403, "missing_scope".to_owned()));
    for others in ["bob", "*"] {
        let path = format!("{PATH}?principal={others}");
        assert_eq!(code(&ada, &path, sse).await, (403, "missing_scope".to_owned()));
    }
    let mut held = Listener::open(&server, &ada, PATH).await;
    assert_eq!(code(&ada, PATH, sse).await, (429, "too_many_requests".to_owned()));
    server.state.access.revoke_key(&ada.id).unwrap();
    assert_eq!(held.next().await, ("end".to_owned(), json!({"why": "unauthorized"})));
}
