//! Agents of another server as delegates, by both bindings: the other server is a real one, in
//! this process.

use crate::client::{BACKSTOP, Client};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tollgate::a2a::RemoteAgent;
use tollgate::models::ApiKey;
use tollgate::run::RunEnd;
use tollgate::{
    Agent, CallRequest, ChildRequest, Decision, Event, FnTool, Gate, Host, HostBuilder, HostError,
    MemoryStore, ProposedCall, RunHandle, RunRequest, RunStatus, ScriptedModel, ScriptedTurn, Store,
    ToolContext, ToolResult, Verdict, async_trait,
};
use tollgate_agent::child::{ChildError, ChildStatus};
use tollgate_agent::message::Message;

by_both_bindings![
    a_remote_agent_answers_and_its_task_is_kept_beside_the_run,
    an_agent_asks_a_remote_one_as_a_tool,
    what_the_backend_lacks_is_refused_and_nothing_is_sent,
    a_remote_question_is_answered_here,
    an_answer_here_does_not_authorize_anything_there,
    cancellation_passes_on_while_it_works_and_while_it_waits,
    a_failure_there_is_one_here_with_its_reason_and_task,
    gates_judge_what_is_sent,
    a_host_that_restarts_finds_the_task_again,
];

/// Returns the agent `assistant` of a server.
fn assistant(remote: &Client) -> RemoteAgent {
    let agent = RemoteAgent::new(&format!("{}/a2a/assistant", remote.base())).unwrap();
    agent.with_token(ApiKey::new(remote.key()).unwrap())
}

fn builder(remote: &Client) -> HostBuilder {
    Host::builder().agent(Agent::remote("far", assistant(remote)))
}

async fn start(host: &Host, thread: &str, prompt: &str) -> RunHandle {
    host.run(RunRequest::new("far", prompt).on_thread(thread)).await.unwrap()
}

async fn ended(handle: RunHandle) -> RunEnd {
    tokio::time::timeout(BACKSTOP, handle.wait()).await.unwrap().unwrap()
}

async fn run(host: &Host, prompt: &str) -> RunEnd {
    ended(start(host, "t", prompt).await).await
}

/// Answers the one question of a run.
async fn decide(host: &Host, end: &RunEnd, answer: Value) -> RunEnd {
    let asked = &end.waiting[0];
    let decision = Decision::resume(asked.suspension_id.clone(), answer);
    ended(host.decide(&end.run_id, decision).await.unwrap()).await
}

/// Returns the ids of the remote tasks that the record of a run has beside its own.
async fn tasks(host: &Host, run_id: &str) -> Vec<String> {
    let mut tasks = Vec::new();
    for stored in host.store().events(run_id, 0).await.unwrap() {
        let Event::CallFinished(finished) = &stored.event else { continue };
        let content = serde_json::to_value(&finished.end).unwrap();
        tasks.extend(find(&content, "task_id").map(str::to_owned));
    }
    tasks.dedup();
    tasks
}

fn find<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    match value {
        Value::Object(members) => match members.get(key).and_then(Value::as_str) {
            Some(found) => Some(found),
            None => members.values().find_map(|member| find(member, key)),
        },
        Value::Array(items) => items.iter().find_map(|item| find(item, key)),
        _ => None,
    }
}

/// Waits until the remote run has this status.
async fn remote_status(remote: &Client, task: &str, status: &str) {
    let waited = async {
        loop {
            let (_, run) = remote.get(&format!("/api/v1/runs/{task}")).await;
            if run["status"] == status {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(BACKSTOP, waited).await.unwrap_or_else(|_| panic!("the run {task} is not {status}"));
}

async fn a_remote_agent_answers_and_its_task_is_kept_beside_the_run(binding: &'static str) {
    let remote = Client::offering(binding).await;
    let host = builder(&remote).build().unwrap();
    let end = run(&host, "report").await;
    assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "One moment.\n\nIt is done."));
    let tasks = tasks(&host, &end.run_id).await;
    assert_eq!(tasks.len(), 1);
    remote_status(&remote, &tasks[0], "completed").await;

    // The thread continues the remote conversation, which the remote server keeps.
    assert_eq!(run(&host, "history").await.text, "There are 5 messages.");
    let other = ended(start(&host, "another", "history").await).await;
    assert_eq!(other.text, "There are 1 messages.");
}

async fn an_agent_asks_a_remote_one_as_a_tool(binding: &'static str) {
    let remote = Client::offering(binding).await;
    let boss = ScriptedModel::new(vec![
        ScriptedTurn::calls([("ask_far", json!({"request": "hello"}))]),
        ScriptedTurn::text("It said {{ask_far}}."),
    ]);
    let far = Agent::remote("far", assistant(&remote)).offered_as("ask_far");
    let host = Host::builder().agent(far).agent(Agent::new("boss", boss).with_tools(["ask_far"]));
    let host = host.build().unwrap();
    let end = ended(host.run(RunRequest::new("boss", "Ask.")).await.unwrap()).await;
    assert!(end.text.contains("Hello there, my friend."), "{}", end.text);
    assert_eq!(end.usage.children.runs, 1);
}

async fn ask(host: &Host, arguments: Value) -> String {
    let end = host.call(CallRequest::from_json("ask", arguments.to_string())).await.unwrap();
    serde_json::to_string(&end.last_call.unwrap().end).unwrap()
}

async fn what_the_backend_lacks_is_refused_and_nothing_is_sent(binding: &'static str) {
    let remote = Client::offering(binding).await;
    async fn ask_far(arguments: Value, call: ToolContext) -> ToolResult {
        let mut request = ChildRequest::new("far", "hello");
        if arguments["seed"] == true {
            request = request.with_seed("a.b", 1);
        }
        if arguments["earlier"] == true {
            request.messages = vec![Message::User("Hi.".to_owned()), Message::User("hello".to_owned())];
        }
        match call.run_child(request).await {
            Ok(child) if child.status == ChildStatus::Completed => {
                ToolResult::success(json!({"response": child.response, "state": child.state}))
            }
            Ok(child) => ToolResult::error(format!("{:?}", child.status)),
            Err(ChildError::Unsupported(lacking)) => {
                ToolResult::error(format!("lacks {}", lacking.join("+")))
            }
            Err(why) => ToolResult::error(why.to_string()),
        }
    }
    let tool = || FnTool::new("ask", "ask", "Asks.", ask_far);
    let host = builder(&remote).tool(tool()).build().unwrap();
    assert!(ask(&host, json!({"seed": true, "earlier": true})).await.contains("lacks transcript+state"));
    let (_, listed) = remote.get("/api/v1/runs").await;
    assert_eq!(listed["items"], json!([]));
    let answer = ask(&host, json!({})).await;
    assert!(answer.contains("Hello there") && answer.contains(r#""state":null"#), "{answer}");

    // With its transcript, the message contains all that is sent.
    let whole = Agent::remote("far", assistant(&remote).with_transcript());
    let host = Host::builder().agent(whole).tool(tool()).build().unwrap();
    assert!(ask(&host, json!({"earlier": true})).await.contains("You said: The conversation so far"));

    // A conversation is not handed to an agent that cannot receive it.
    let clerk = Agent::new("clerk", ScriptedModel::new(Vec::new())).with_delegates(["far"]);
    let refused = builder(&remote).agent(clerk).build();
    assert!(matches!(refused, Err(HostError::Setup(why)) if why.to_string().contains("transcript")));
}

async fn a_remote_question_is_answered_here(binding: &'static str) {
    let remote = Client::offering(binding).await;
    let host = builder(&remote).build().unwrap();
    let end = run(&host, "approve").await;
    let ticket = &end.waiting[0].ticket;
    assert_eq!(
        (end.status.as_ref(), ticket.message.as_str()),
        (None, "The remote agent 'far' asks: Publish it?")
    );
    assert_eq!(ticket.response_schema.as_ref().unwrap()["required"], json!(["approved"]));
    let unfit = Decision::resume(end.waiting[0].suspension_id.clone(), json!("yes"));
    assert!(matches!(host.decide(&end.run_id, unfit).await, Err(HostError::DoesNotFit { .. })));
    let task = ticket.parameters["task_id"].as_str().unwrap().to_owned();
    let done = decide(&host, &end, json!({"approved": true})).await;
    assert_eq!((done.status, done.text.as_str()), (Some(RunStatus::Completed), "One moment.\n\nIt is done."));
    remote_status(&remote, &task, "completed").await;
}

async fn an_answer_here_does_not_authorize_anything_there(binding: &'static str) {
    let remote = Client::offering(binding).await;
    let host = builder(&remote).build().unwrap();
    let end = run(&host, "guarded").await;
    let ticket = &end.waiting[0].ticket;
    assert_eq!(ticket.action, "remote-authorization");
    assert!(ticket.message.contains("May it echo this?") && ticket.message.contains("/console/waiting"));
    let task = ticket.parameters["task_id"].as_str().unwrap().to_owned();
    let again = decide(&host, &end, json!(true)).await;
    assert_eq!(again.status, None, "the remote server still waits");

    let (_, questions) = remote.get("/api/v1/questions").await;
    let suspension = find(&questions, "suspension_id").unwrap();
    let person = remote.with_key("operator");
    assert_eq!(person.decide(&task, suspension, &json!({"resume": true})).await, StatusCode::ACCEPTED);
    let done = decide(&host, &again, json!(true)).await;
    assert_eq!(done.status, Some(RunStatus::Completed), "{}", done.text);
}

async fn cancellation_passes_on_while_it_works_and_while_it_waits(binding: &'static str) {
    let remote = Client::offering(binding).await;
    let host = builder(&remote).build().unwrap();
    let handle = start(&host, "slow", "slow").await;
    let run_id = Arc::clone(&handle.run_id);
    let task = async {
        loop {
            if let Some(task) = tasks(&host, &run_id).await.pop() {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let task = tokio::time::timeout(BACKSTOP, task).await.unwrap();
    handle.cancel();
    assert!(matches!(ended(handle).await.status, Some(RunStatus::Cancelled { .. })));
    remote_status(&remote, &task, "cancelled").await;

    let end = run(&host, "approve").await;
    let task = end.waiting[0].ticket.parameters["task_id"].as_str().unwrap().to_owned();
    host.cancel(&end.run_id, None).await.unwrap();
    remote_status(&remote, &task, "cancelled").await;
}

async fn a_failure_there_is_one_here_with_its_reason_and_task(binding: &'static str) {
    let remote = Client::offering(binding).await;
    let host = builder(&remote).build().unwrap();
    let Some(RunStatus::Failed { error }) = run(&host, "fail").await.status else {
        panic!("it did not fail")
    };
    assert!(error.contains("The quota is used up.") && error.contains("(remote task "), "{error}");
    let stranger = RemoteAgent::new(&format!("{}/a2a/assistant", remote.base())).unwrap();
    let stranger = stranger.with_token(ApiKey::new("tg_wrong_0123456789").unwrap());
    let host = Host::builder().agent(Agent::remote("far", stranger)).build().unwrap();
    let Some(RunStatus::Failed { error }) = run(&host, "hello").await.status else {
        panic!("it did not fail")
    };
    assert!(error.contains("401") && !error.contains("0123456789"), "{error}");
}

/// Denies messages with this text.
struct NoSecrets;

#[async_trait]
impl Gate for NoSecrets {
    fn id(&self) -> &str {
        "no-secrets"
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        let arguments = call.arguments.value();
        match arguments["message"].as_str().is_some_and(|text| text.contains("secret")) {
            true => Verdict::Deny(format!("nothing secret goes to {}", arguments["url"])),
            false => Verdict::Allow,
        }
    }
}

async fn gates_judge_what_is_sent(binding: &'static str) {
    let remote = Client::offering(binding).await;
    let host = builder(&remote).gate(NoSecrets).build().unwrap();
    let end = run(&host, "a secret").await;
    assert!(
        matches!(end.status, Some(RunStatus::Failed { error }) if error.contains("nothing secret goes to"))
    );
    let (_, listed) = remote.get("/api/v1/runs").await;
    assert_eq!(listed["items"], json!([]));
    assert_eq!(run(&host, "hello").await.text, "Hello there, my friend.");
}

async fn a_host_that_restarts_finds_the_task_again(binding: &'static str) {
    let remote = Client::offering(binding).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = builder(&remote).store(Arc::clone(&store)).build().unwrap();
    let end = run(&first, "approve").await;
    drop(first);
    let second = builder(&remote).store(store).build().unwrap();
    let done = decide(&second, &end, json!({"approved": true})).await;
    assert_eq!(done.status, Some(RunStatus::Completed), "{}", done.text);
}
