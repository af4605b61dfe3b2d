//! Tasks of A2A, by both bindings.

use crate::client::{Client, Events};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

fn message(text: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// A client that sends the version with each request.
#[derive(Clone)]
struct Agent(Client);

impl Agent {
    async fn start() -> Self {
        Self(Client::start().await)
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Response {
        let request = self.0.request(method, &format!("/a2a/assistant{path}")).header("A2A-Version", "1.0");
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        request.send().await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let response = self.call(Method::GET, path, None).await;
        (response.status(), response.json().await.unwrap())
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let response = self.call(Method::POST, path, Some(body)).await;
        (response.status(), response.json().await.unwrap())
    }

    async fn stream(&self, path: &str, body: &Value) -> Events {
        Events::of(self.call(Method::POST, path, Some(body)).await)
    }

    async fn rpc(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post("", &body).await.1
    }
}

fn reason(error: &Value) -> &Value {
    &error["error"]["details"][0]["reason"]
}

fn states(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["statusUpdate"]["status"]["state"].as_str()).collect()
}

#[tokio::test]
async fn cards_name_interfaces_and_skills_but_no_tools() {
    let agent = Agent::start().await;
    let response = agent.0.request(Method::GET, "/.well-known/agent-card.json").send().await.unwrap();
    let etag = response.headers()["etag"].clone();
    let card: Value = response.json().await.unwrap();
    assert_eq!(card["supportedInterfaces"].as_array().unwrap().len(), 2);
    assert_eq!(card["skills"].as_array().unwrap().len(), 2);
    assert!(!card.to_string().contains("slow_report"));
    let known = agent.0.request(Method::GET, "/.well-known/agent-card.json").header("If-None-Match", etag);
    assert_eq!(known.send().await.unwrap().status(), StatusCode::NOT_MODIFIED);
    let (_, own) = agent.get("/.well-known/agent-card.json").await;
    assert_eq!((&own["name"], own["skills"].as_array().unwrap().len()), (&json!("assistant"), 1));
}

#[tokio::test]
async fn a_message_becomes_a_task_by_both_bindings() {
    let agent = Agent::start().await;
    let (status, sent) = agent.post("/message:send", &message("report")).await;
    let task = &sent["task"];
    assert_eq!((status, &task["status"]["state"]), (StatusCode::OK, &json!("TASK_STATE_COMPLETED")));
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "One moment.\n\nIt is done.");
    let id = task["id"].as_str().unwrap();
    assert_eq!(&agent.get(&format!("/tasks/{id}")).await.1, task);
    let got = agent.rpc("GetTask", &json!({"id": id, "historyLength": 1})).await;
    assert_eq!(got["result"]["history"].as_array().unwrap().len(), 1);
    let listed = agent.rpc("ListTasks", &json!({"contextId": task["contextId"]})).await;
    assert_eq!((&listed["result"]["totalSize"], &listed["result"]["nextPageToken"]), (&json!(1), &json!("")));

    let eve = Agent(agent.0.with_key("eve"));
    assert_eq!(reason(&eve.get(&format!("/tasks/{id}")).await.1), "TASK_NOT_FOUND");
    assert_eq!(eve.rpc("GetTask", &json!({"id": id})).await["error"]["code"], -32001);
    assert_eq!(eve.get("/tasks").await.1["totalSize"], 0);
}

#[tokio::test]
async fn a_stream_begins_with_the_task_and_ends_with_its_state() {
    let agent = Agent::start().await;
    let events = agent.stream("/message:stream", &message("report")).await.rest().await;
    assert!(events[0]["task"]["id"].is_string());
    assert_eq!(states(&events).last(), Some(&"TASK_STATE_COMPLETED"));
    assert!(json!(events).to_string().contains("part 2"), "progress is a status");
    let body =
        json!({"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": message("hello")});
    let events = agent.stream("", &body).await.rest().await;
    assert!(events.iter().all(|event| event["id"] == 7 && event["result"].is_object()));
    let (_, error) = agent
        .post(
            &format!("/tasks/{}:subscribe", events[0]["result"]["task"]["id"].as_str().unwrap()),
            &json!({}),
        )
        .await;
    assert_eq!(reason(&error), "UNSUPPORTED_OPERATION", "an ended task has no updates");
}

#[tokio::test]
async fn a_tools_question_is_answered_by_a_message_if_the_key_may() {
    let agent = Agent::start().await;
    let (_, sent) = agent.post("/message:send", &message("approve")).await;
    let task = &sent["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let question = &task["status"]["message"]["parts"][1]["data"]["questions"][0];
    let mut answer = message("ignored");
    answer["message"]["taskId"] = task["id"].clone();
    let plain = agent.post("/message:send", &answer).await;
    assert_eq!(reason(&plain.1), "INVALID_PARAMS", "the question needs more than a text");
    assert_eq!(plain.1["error"]["details"][0]["metadata"]["code"], "does_not_fit");
    let data = json!({"suspension_id": question["suspension_id"], "answer": {"approved": true}});
    answer["message"]["parts"] = json!([{"data": data}]);
    let mut wrong = answer.clone();
    wrong["message"]["contextId"] = json!("another");
    assert_eq!(agent.post("/message:send", &wrong).await.0, StatusCode::BAD_REQUEST);
    let (_, done) = agent.post("/message:send", &answer).await;
    assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(reason(&agent.post("/message:send", &answer).await.1), "UNSUPPORTED_OPERATION");

    let unable = Agent(agent.0.with_key("agent"));
    let (_, sent) = unable.post("/message:send", &message("approve")).await;
    answer["message"]["taskId"] = sent["task"]["id"].clone();
    assert_eq!(unable.post("/message:send", &answer).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_agent_does_not_approve_itself_and_a_person_elsewhere_does() {
    let agent = Agent::start().await;
    let mut stream = agent.stream("/message:stream", &message("guarded")).await;
    let events =
        stream.until(|event| event["statusUpdate"]["status"]["state"] == "TASK_STATE_AUTH_REQUIRED").await;
    let task = events[0]["task"]["id"].as_str().unwrap();
    let status = &events.last().unwrap()["statusUpdate"]["status"];
    let suspension = status["message"]["parts"][1]["data"]["questions"][0]["suspension_id"].as_str().unwrap();
    let mut answer = message("yes");
    answer["message"]["taskId"] = json!(task);
    assert_eq!(reason(&agent.post("/message:send", &answer).await.1), "UNSUPPORTED_OPERATION");
    answer["message"]["parts"] = json!([{"data": {"suspension_id": suspension, "answer": true}}]);
    assert_eq!(reason(&agent.post("/message:send", &answer).await.1), "UNSUPPORTED_OPERATION");
    let yes = json!({"resume": true});
    assert_eq!(agent.0.decide(task, suspension, &yes).await, StatusCode::FORBIDDEN, "an agent never does");
    let operator = agent.0.with_key("operator");
    assert_eq!(operator.decide(task, suspension, &yes).await, StatusCode::ACCEPTED);
    assert_eq!(states(&stream.rest().await).last(), Some(&"TASK_STATE_COMPLETED"));
}

#[tokio::test]
async fn a_task_is_followed_and_cancelled() {
    let agent = Agent::start().await;
    let mut body = message("slow");
    body["configuration"] = json!({"returnImmediately": true});
    let (_, sent) = agent.post("/message:send", &body).await;
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_WORKING");
    let id = sent["task"]["id"].as_str().unwrap();
    let subscribed = Events::of(agent.call(Method::GET, &format!("/tasks/{id}:subscribe"), None).await);
    let (status, cancelled) = agent.post(&format!("/tasks/{id}:cancel"), &json!({})).await;
    assert_eq!((status, &cancelled["status"]["state"]), (StatusCode::OK, &json!("TASK_STATE_CANCELED")));
    let events = subscribed.rest().await;
    assert!(events[0]["task"].is_object());
    assert_eq!(states(&events).last(), Some(&"TASK_STATE_CANCELED"));
    assert_eq!(
        reason(&agent.post(&format!("/tasks/{id}:cancel"), &json!({})).await.1),
        "TASK_NOT_CANCELABLE"
    );
}

#[tokio::test]
async fn lists_have_pages_with_the_newest_change_first() {
    let agent = Agent::start().await;
    for prompt in ["hello", "fail", "report"] {
        agent.post("/message:send", &message(prompt)).await;
    }
    let (_, first) = agent.get("/tasks?pageSize=2").await;
    assert_eq!((first["tasks"].as_array().unwrap().len(), &first["totalSize"]), (2, &json!(3)));
    let token = first["nextPageToken"].as_str().unwrap();
    let (_, second) = agent.get(&format!("/tasks?pageSize=2&pageToken={token}")).await;
    assert_eq!((second["tasks"].as_array().unwrap().len(), &second["nextPageToken"]), (1, &json!("")));
    let (_, failed) = agent.get("/tasks?status=TASK_STATE_FAILED").await;
    assert_eq!(failed["totalSize"], 1);
    let (_, none) = agent.get("/tasks?status=TASK_STATE_WORKING").await;
    assert_eq!(none["totalSize"], 0);
    let context = failed["tasks"][0]["contextId"].as_str().unwrap();
    let (_, own) =
        agent.get(&format!("/tasks?contextId={context}&includeArtifacts=true&historyLength=5")).await;
    assert_eq!(own["tasks"][0]["history"][0]["parts"][0]["text"], "fail");
    let (_, later) = agent.get("/tasks?statusTimestampAfter=2100-01-01T00:00:00Z").await;
    assert_eq!(later["totalSize"], 0);
    let (status, error) = agent.get("/tasks?status=done").await;
    assert_eq!((status, reason(&error)), (StatusCode::BAD_REQUEST, &json!("INVALID_PARAMS")));
    // Tasks of other principals and agents are not listed, and do not count against the limit.
    assert_eq!(Agent(agent.0.with_key("eve")).get("/tasks").await.1["totalSize"], 0);
}

#[tokio::test]
async fn errors_have_the_protocols_format() {
    let agent = Agent::start().await;
    let old = agent.0.request(Method::GET, "/a2a/assistant/tasks").send().await.unwrap();
    assert_eq!(reason(&old.json().await.unwrap()), "VERSION_NOT_SUPPORTED");
    // A client of A2A 0.3 sends no version, and calls methods by other names.
    let message = json!({"role": "user", "messageId": "m", "kind": "message", "parts": [{"kind": "text", "text": "hello"}]});
    let old = json!({"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}});
    let (_, error) = agent.0.post("/a2a/assistant", &old).await;
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!("1"), &json!(-32009)), "{error}");
    let words = error["error"]["message"].as_str().unwrap();
    assert!(words.contains("version 0.3 is not supported") && words.contains("A2A-Version: 1.0"), "{words}");
    for (method, params, code) in [
        ("GetTask", json!({"id": "guessed"}), -32001),
        ("SendMessage", json!({}), -32602),
        ("GetTaskPushNotificationConfig", json!({}), -32003),
        ("GetExtendedAgentCard", json!({}), -32007),
        ("tasks/get", json!({}), -32601),
    ] {
        let error = agent.rpc(method, &params).await;
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(code), &json!(1)), "{method}");
        assert_eq!(error["error"]["data"][0]["domain"], "a2a-protocol.org");
    }
    let (status, error) = agent.post("/message:send", &json!({"message": 1})).await;
    assert_eq!((status, reason(&error)), (StatusCode::BAD_REQUEST, &json!("INVALID_PARAMS")));
    let (status, _) = agent.get("/tasks/guessed").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

/// Each event of a stream repeats the id of its request, and the events of a run can be many.
#[tokio::test]
async fn z3_a_large_id_of_a_request_is_not_repeated_by_each_event() {
    let agent = Agent::start().await;
    let send = |id: Value| {
        let params = message("hello");
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "SendStreamingMessage", "params": params});
        let agent = agent.clone();
        async move { agent.call(Method::POST, "", Some(&body)).await }
    };
    for id in [json!("x".repeat(1_025)), json!(vec![0; 1_000]), json!({"a": 1}), Value::Null, json!(true)] {
        let refused: Value = send(id.clone()).await.json().await.unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)), "{id}");
    }
    let id = json!("x".repeat(1_024));
    let events = Events::of(send(id.clone()).await).rest().await;
    assert!(!events.is_empty() && events.iter().all(|event| event["id"] == id));
}

#[tokio::test]
async fn a_childs_gate_is_answered_by_a_person_too() {
    let agent = Agent::start().await;
    let (_, sent) = agent.post("/message:send", &message("consult")).await;
    let (task, status) = (sent["task"]["id"].as_str().unwrap(), &sent["task"]["status"]);
    assert_eq!(status["state"], "TASK_STATE_AUTH_REQUIRED");
    let asked = &status["message"]["parts"][1]["data"]["questions"][0];
    assert_eq!((&asked["tool"], &asked["gate"]), (&json!("echo"), &json!("guard")));
    assert_eq!(
        (&asked["arguments"], &asked["parameters"]),
        (&json!({"text": "guarded"}), &asked["arguments"])
    );
    let suspension = asked["suspension_id"].as_str().unwrap();
    let mut answer = message("yes");
    answer["message"]["taskId"] = json!(task);
    answer["message"]["parts"] = json!([{"data": {"suspension_id": suspension, "answer": true}}]);
    assert_eq!(reason(&agent.post("/message:send", &answer).await.1), "UNSUPPORTED_OPERATION");
    let yes = json!({"resume": true});
    assert_eq!(agent.0.decide(task, suspension, &yes).await, StatusCode::FORBIDDEN);
    assert_eq!(agent.0.approve_in_console(task, suspension).await, StatusCode::FORBIDDEN);
    let open = agent.0.get("/api/v1/questions").await.1;
    assert_eq!(open["items"][0]["may_decide"], false);
    assert_eq!(agent.0.with_key("operator").approve_in_console(task, suspension).await, StatusCode::OK);
}

#[tokio::test]
async fn a_message_with_a_key_starts_one_task() {
    let agent = Agent::start().await;
    let send = async |path: &str, body: &Value| {
        let request = agent.0.request(Method::POST, &format!("/a2a/assistant{path}"));
        let request = request.header("A2A-Version", "1.0").header("Idempotency-Key", "k").json(body);
        let response = request.send().await.unwrap();
        let is_replay = response.headers().contains_key("idempotency-replayed");
        (is_replay, response.json::<Value>().await.unwrap())
    };
    let body = message("report");
    let (_, first) = send("/message:send", &body).await;
    let (is_replay, again) = send("/message:send", &body).await;
    assert!(is_replay);
    assert_eq!(again["task"]["id"], first["task"]["id"]);
    // The other binding has the same tasks, and ids of requests of its own.
    let rpc = json!({"jsonrpc": "2.0", "id": 9, "method": "SendMessage", "params": body});
    let (is_replay, by_rpc) = send("", &rpc).await;
    assert!(is_replay);
    assert_eq!(by_rpc["result"]["task"]["id"], first["task"]["id"]);
    let (_, refused) = send("/message:send", &message("hello")).await;
    assert_eq!(refused["error"]["details"][0]["metadata"]["code"], "key_reused", "{refused}");
}
