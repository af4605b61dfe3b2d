//! Tests of agents that call agents through the host: children, transfers, agents as tools,
//! composed agents.

use crate::place::StoreAt;
use crate::with_each_store;
use crate::world::{decision, toolbox};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::run::{LiveContent, RunEnd, RunUpdate};
use tollgate::store::RunFilter;
use tollgate::tools::{MemoryBudget, NativePlugin, NativeTool, Report, ToolCall};
use tollgate::{Agent, CallRequest, Host, HostBuilder, HostError, RequestRefusal, RunRequest};
use tollgate_agent::child::{ChildError, ChildRequest, ChildStatus};
use tollgate_agent::descriptor::{ExecutionPolicy, ToolDescriptor};
use tollgate_agent::outcome::{Action, ActionGrants, Fault, ToolOutput, ToolResult};
use tollgate_agent::run::{CallEnd, Event, RunStatus};

/// Runs the agent that its arguments name, with the options that they contain.
struct Delegate;

#[async_trait]
impl NativeTool for Delegate {
    fn descriptor(&self) -> ToolDescriptor {
        let execution = ExecutionPolicy {
            idempotent: true,
            timeout_ms: Some(400),
            max_retries: Some(0),
            ..ExecutionPolicy::default()
        };
        ToolDescriptor::new("delegate", "delegate", "Runs another agent.").with_execution(execution)
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let args = call.arguments();
        let mut request = ChildRequest::new(args["agent"].as_str().unwrap_or("scout"), "Look.");
        for (key, value) in args["seed"].as_object().into_iter().flatten() {
            request = request.with_seed(key, value.clone());
        }
        for key in args["export"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            request = request.with_export(key);
        }
        request.streaming = serde_json::from_value(args["text"].clone()).unwrap_or_default();
        if args["other_on_resume"] == true && call.attempt().attempt > 1 {
            request = ChildRequest::new("scout", "Something else.");
        }
        if args["leave"] == true {
            let run = call.run_child(request);
            let _ = tokio::time::timeout(Duration::from_millis(100), run).await;
            return Ok(ToolResult::success("left").into());
        }
        Ok(match call.run_child(request).await {
            Ok(child) if matches!(child.status, ChildStatus::Suspended(_)) => {
                ToolResult::suspended("It asks.")
            }
            Ok(child) => ToolResult::success(json!({
                "status": child.status.words(),
                "response": child.response,
                "streamed": child.streamed,
                "state": child.state,
                "thread_state": child.thread_state,
                "steps": child.steps,
            })),
            Err(ChildError::Unsupported(lacking)) => ToolResult::error(lacking.join(",")),
            Err(error) => ToolResult::error(error.to_string()),
        }
        .into())
    }
}

/// Ends the loop that its run is part of.
struct Enough;

#[async_trait]
impl NativeTool for Enough {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new("enough", "enough", "Ends the loop.")
    }

    async fn execute(&self, _call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let result = ToolResult::success("enough");
        Ok(ToolOutput { result: result.into(), mutations: Vec::new(), actions: vec![Action::Escalate] })
    }
}

pub(crate) fn agent(id: &str, turns: Vec<ScriptedTurn>) -> Agent {
    Agent::new(id, Arc::new(ScriptedModel::new(turns))).with_tools(["*"])
}

pub(crate) fn builder(store: &StoreAt, agents: Vec<Agent>) -> HostBuilder {
    let mut toolbox = toolbox();
    let escalate = ActionGrants { escalate: true, ..ActionGrants::default() };
    let plugin = NativePlugin::new("team").with_tool(Delegate).with_tool(Enough).with_actions(escalate);
    plugin.install(&mut toolbox).unwrap();
    agents.into_iter().fold(Host::builder().toolbox(toolbox).store(store.open()), HostBuilder::agent)
}

/// Creates a host whose agent `default` makes this call and then ends, with these other agents.
pub(crate) fn calling(store: &StoreAt, call: (&str, Value), mut others: Vec<Agent>) -> Host {
    others.push(agent("default", vec![ScriptedTurn::calls([call]), ScriptedTurn::text("Done.")]));
    builder(store, others).build().unwrap()
}

pub(crate) async fn run(host: &Host) -> RunEnd {
    host.run(RunRequest::new("default", "Do it").on_thread("t")).await.unwrap().wait().await.unwrap()
}

pub(crate) fn data(end: &RunEnd) -> Value {
    match &end.last_call.as_ref().unwrap().end {
        CallEnd::Result(result) if result.is_success() => Value::clone(&result.data),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn message(end: &RunEnd) -> String {
    match &end.last_call.as_ref().unwrap().end {
        CallEnd::Result(result) => result.message.clone().unwrap_or_default(),
        CallEnd::Fault(fault) => format!("{} {}", fault.code, fault.message),
    }
}

async fn statuses(host: &Host) -> Vec<(String, String)> {
    let runs = host.store().runs(RunFilter::default()).await.unwrap();
    runs.into_iter().map(|run| (run.kind, run.status)).collect()
}

with_each_store! {
    async fn d1_d2_d3_a_child_is_seeded_and_hands_keys_back(store: StoreAt) {
        let scout = agent("scout", vec![
            ScriptedTurn::calls([("add", json!({"n": 2})), ("step", json!({}))]),
            ScriptedTurn::text("Found it."),
        ]);
        let args = json!({
            "seed": {"basics.total": 5},
            "export": ["basics.total", "basics.steps", "basics.city"],
        });
        let host = calling(&store, ("delegate", args), vec![scout]);
        let end = run(&host).await;
        assert_eq!(end.status, Some(RunStatus::Completed));
        let handed_back = data(&end);
        assert_eq!(handed_back["response"], "Found it.");
        assert_eq!(handed_back["thread_state"], json!({"basics.total": 7, "basics.city": ""}));
        assert_eq!(handed_back["state"], json!({"basics.steps": 1}));
        assert_eq!(end.usage.children.steps, 2);
        let thread = host.store().thread("t").await.unwrap();
        assert_eq!(thread.state.get("basics.total"), None, "d3: nothing but the tool's mutations reaches the parent");
        let mut all = statuses(&host).await;
        all.sort();
        assert_eq!(all, [("child", "completed"), ("prompt", "completed")].map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    async fn d4_a_child_that_fails_is_an_outcome(store: StoreAt) {
        let host = calling(&store, ("delegate", json!({})), vec![agent("scout", Vec::new())]);
        let end = run(&host).await;
        assert!(data(&end)["status"].as_str().unwrap().starts_with("failed: "), "{:?}", data(&end));
        assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "Done."));
    }

    async fn d8_a_suspended_child_is_decided_through_its_parent_by_another_process(store: StoreAt) {
        let asks = || vec![agent("scout", vec![ScriptedTurn::calls([("ask", json!({"what": "send"}))])])];
        let waiting = {
            let host = calling(&store, ("delegate", json!({})), asks());
            run(&host).await
        };
        assert_eq!((waiting.status, waiting.waiting.len()), (None, 1));
        let asked = &waiting.waiting[0];
        let child = asked.child.as_ref().unwrap();
        assert_eq!((asked.ticket.message.as_str(), child.tool_name.as_str()), ("May I?", "ask"));

        let scout = agent("scout", vec![ScriptedTurn::text("Sent.")]);
        let front = agent("default", vec![ScriptedTurn::text("All is sent.")]);
        let next = builder(&store, vec![scout, front]).build().unwrap();
        let direct = next.decide(&child.run_id, decision("d0", &child.call_id, json!({"ok": true}))).await;
        assert!(matches!(direct, Err(HostError::Refused(RequestRefusal::BelongsToCall { .. }))), "only through the parent: {direct:?}");
        let handle = next.decide(&waiting.run_id, decision("d1", &asked.call_id, json!({"ok": true}))).await.unwrap();
        let end = handle.wait().await.unwrap();
        assert_eq!((end.status.clone(), end.text.as_str()), (Some(RunStatus::Completed), "All is sent."));
        assert_eq!(data(&end)["response"], "Sent.");
        assert_eq!(statuses(&next).await.len(), 2, "no child ran twice");
        let record = next.store().events(&child.run_id, 0).await.unwrap();
        let ended = record.iter().filter(|event| matches!(event.event, Event::CallFinished(_))).count();
        assert_eq!(ended, 1, "its call ran to one end");
    }

    async fn d9_a_transfer_is_the_threads_for_good(store: StoreAt) {
        let front = agent("default", vec![ScriptedTurn::calls([("transfer_to_agent", json!({"agent": "billing"}))])])
            .with_delegates(["billing"]);
        let billing = agent("billing", vec![ScriptedTurn::text("Billing here.")]);
        let host = builder(&store, vec![front, billing]).build().unwrap();
        let end = run(&host).await;
        assert_eq!((end.status.clone(), end.text.as_str()), (Some(RunStatus::Completed), "Billing here."));

        let front = agent("default", vec![ScriptedTurn::text("It should not be me.")]).with_delegates(["billing"]);
        let billing = agent("billing", vec![ScriptedTurn::text("Still billing.")]);
        let host = builder(&store, vec![front, billing]).build().unwrap();
        assert_eq!(run(&host).await.text, "Still billing.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_the_childs_text_is_the_calls_output_unless_it_is_silent() {
    for (text, expected) in [("silent", ""), ("passthrough", "Here it is.")] {
        let store = StoreAt::memory();
        let scout = agent("scout", vec![ScriptedTurn::text("Here it is.")]);
        let host = calling(&store, ("delegate", json!({"text": text})), vec![scout]);
        let mut handle = host.run(RunRequest::new("default", "Do it")).await.unwrap();
        let (mut output, mut of_child, mut said) = (String::new(), 0, String::new());
        while let Some(told) = handle.events.next().await {
            match &told {
                RunUpdate::Live(told) => {
                    if let LiveContent::CallReport { call_id, report: Report::Output(text), .. } = &told.piece
                    {
                        assert_eq!(call_id, "call-1-1");
                        output.push_str(text);
                    }
                }
                RunUpdate::Child(told) => {
                    of_child += usize::from(matches!(*told.child, RunUpdate::Stored(_)));
                    said.push_str(&serde_json::to_string(&told.child).unwrap());
                }
                RunUpdate::Stored(_) => {}
            }
        }
        assert_eq!(output, expected);
        assert!(of_child >= 4, "e2: the child's events come under their parent's call");
        assert_eq!(said.contains("Here it is."), text != "silent");
        assert_eq!(
            data(&handle.wait().await.unwrap())["response"],
            "Here it is.",
            "the caller has the whole"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d13_the_caller_reads_all_that_the_child_said() {
    let turns = vec![
        ScriptedTurn::calls([("echo", json!({}))]).with_text("Let me look. "),
        ScriptedTurn::text("Here it is."),
    ];
    let host = calling(&StoreAt::memory(), ("delegate", json!({})), vec![agent("scout", turns)]);
    let data = data(&run(&host).await);
    assert_eq!(
        (&data["response"], &data["streamed"]),
        (&json!("Here it is."), &json!("Let me look. Here it is."))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_the_answer_of_a_child_is_parsed_only_if_there_is_memory_for_it() {
    let budget = MemoryBudget::new(16 << 20);
    let ended = async |objects: usize| {
        let answer = format!("[{}0]", r#"{"":0},"#.repeat(objects));
        let scout = agent("scout", vec![ScriptedTurn::text(answer)]).with_output(json!({"type": "array"}));
        let turns = vec![ScriptedTurn::calls([("delegate", json!({}))]), ScriptedTurn::text("Done.")];
        let host = builder(&StoreAt::memory(), vec![scout, agent("default", turns)]);
        run(&host.memory_budget(budget.clone()).build().unwrap()).await
    };
    assert_eq!(data(&ended(5_000).await)["status"], Value::Null);
    let words = message(&ended(40_000).await);
    assert!(words.contains("memory_budget_bytes = 16777216"), "{words}");
    assert_eq!(budget.reserved_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn d14_errors_are_wrapped_as_output_unless_raw_ones_are_asked_for() {
    for (text, wrapped) in [("passthrough", true), ("passthrough-raw-errors", false)] {
        let host = calling(
            &StoreAt::memory(),
            ("delegate", json!({"text": text})),
            vec![agent("scout", Vec::new())],
        );
        let mut handle = host.run(RunRequest::new("default", "Do it")).await.unwrap();
        let mut seen = Vec::new();
        while let Some(told) = handle.events.next().await {
            if let RunUpdate::Live(told) = told
                && let LiveContent::CallReport { report, .. } = told.piece
            {
                seen.push(report);
            }
        }
        let is_wrapped = |report: &Report| matches!(report, Report::Output(text) if text.contains("failed"));
        // d14: an error as it came is an event of its own, and neither output nor a log line.
        let is_raw = |report: &Report| matches!(report, Report::ChildError { agent_id, message } if agent_id == "scout" && message.starts_with("failed"));
        assert_eq!((seen.iter().any(is_wrapped), seen.iter().any(is_raw)), (wrapped, !wrapped), "{seen:?}");
        assert!(!seen.iter().any(|report| matches!(report, Report::Log { .. })), "{seen:?}");
        handle.wait().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t2_the_wait_for_a_child_does_not_count_against_the_tools_time() {
    let slow = ScriptedModel::new(vec![ScriptedTurn::text("one two three four five six seven")]);
    let scout = Agent::new("scout", Arc::new(slow.with_pace(Duration::from_millis(120))));
    let host = calling(&StoreAt::memory(), ("delegate", json!({})), vec![scout]);
    assert_eq!(data(&run(&host).await)["status"], Value::Null, "840 ms of child in 400 ms of tool");
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_cancelling_the_parent_cancels_the_child() {
    let store = StoreAt::memory();
    let scout = agent("scout", vec![ScriptedTurn::calls([("slow", json!({}))])]);
    let host = calling(&store, ("delegate", json!({})), vec![scout]);
    let mut handle = host.run(RunRequest::new("default", "Do it")).await.unwrap();
    while let Some(told) = handle.events.next().await {
        let RunUpdate::Child(told) = told else { continue };
        let RunUpdate::Stored(numbered) = *told.child else { continue };
        if matches!(numbered.event, Event::CallStarted { .. }) {
            break;
        }
    }
    handle.cancel();
    let end = handle.wait().await.unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })));
    let all = statuses(&host).await;
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|(_, status)| status == "cancelled"), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_a_child_that_nobody_waits_for_is_ended() {
    let scout = agent("scout", vec![ScriptedTurn::calls([("slow", json!({}))])]);
    let host = calling(&StoreAt::memory(), ("delegate", json!({"leave": true})), vec![scout]);
    let end = run(&host).await;
    assert_eq!((data(&end), end.text.as_str()), (json!("left"), "Done."));
    let all = statuses(&host).await;
    assert!(all.contains(&("child".to_owned(), "cancelled".to_owned())), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_a_new_message_ends_a_waiting_child() {
    let store = StoreAt::memory();
    let scout = agent("scout", vec![ScriptedTurn::calls([("ask", json!({}))])]);
    let host = calling(&store, ("delegate", json!({})), vec![scout]);
    assert_eq!(run(&host).await.status, None);
    let end = run(&host).await;
    assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "Done."));
    let all = statuses(&host).await;
    assert!(all.contains(&("child".to_owned(), "cancelled".to_owned())), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_another_request_in_the_same_place_fails_the_call() {
    let store = StoreAt::memory();
    let scout = agent("scout", vec![ScriptedTurn::calls([("ask", json!({}))])]);
    let host = calling(&store, ("delegate", json!({"other_on_resume": true})), vec![scout]);
    let waiting = run(&host).await;
    let asked = &waiting.waiting[0];
    let decided = host.decide(&waiting.run_id, decision("d1", &asked.call_id, json!({"ok": true}))).await;
    let end = decided.unwrap().wait().await.unwrap();
    assert!(message(&end).contains("different child"), "{}", message(&end));
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_a_direct_call_may_run_a_child_too() {
    let scout = agent("scout", vec![ScriptedTurn::text("Seen.")]);
    let host = calling(&StoreAt::memory(), ("delegate", json!({})), vec![scout]);
    assert_eq!(
        data(&host.call(CallRequest::from_json("delegate", "{}")).await.unwrap())["response"],
        "Seen."
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_key_that_the_child_does_not_register_fails_it_before_it_starts() {
    let scout =
        agent("scout", vec![ScriptedTurn::text("Seen.")]).with_tools(["echo"]).with_instructions("No keys.");
    let call = ("delegate", json!({"seed": {"other.key": 1}}));
    let host = calling(&StoreAt::memory(), call, vec![scout]);
    assert!(message(&run(&host).await).contains("other.key"));
    assert_eq!(statuses(&host).await.len(), 1, "nothing was started");
}
