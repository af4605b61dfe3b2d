//! Tests of tools of the embedding program: closures, and names that are taken.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tollgate::{
    Agent, CallRequest, Fault, FnTool, Host, HostError, IntoOutput, Json, NativeTool, RunEnd, ScriptedModel,
    ToolCall, ToolContext, ToolDescriptor, ToolOutput, ToolResult, async_trait,
};
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::ExecutionPolicy;
use tollgate_agent::outcome::Ticket;
use tollgate_agent::proposal::Arguments;
use tollgate_agent::run::CallEnd;

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    b: Option<i64>,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

async fn add(args: Add, _call: ToolContext) -> Json<Sum> {
    Json(Sum { sum: args.a + args.b.unwrap_or(1) })
}

fn host(tool: impl NativeTool + 'static) -> Host {
    Host::builder().tool(tool).build().unwrap()
}

async fn called(host: &Host, tool: &str, arguments: &str) -> RunEnd {
    host.call(CallRequest::from_json(tool, arguments)).await.unwrap()
}

#[tokio::test]
async fn k7_a_closure_is_a_tool_with_typed_arguments() {
    let host = host(FnTool::new("add", "add", "Adds.", add).with_category("math"));
    let toolbox = host.toolbox();
    let described = &toolbox.catalog().tool("add").unwrap().descriptor;
    assert_eq!(described.parameters["properties"]["a"]["description"], "The first number.");
    assert_eq!(
        (&described.parameters["required"], described.category.as_deref()),
        (&json!(["a"]), Some("math"))
    );
    for (arguments, sum) in [(r#"{"a": 2, "b": 3}"#, 5), (r#"{"a": 2}"#, 3), (r#"{"a": 2, "b": null}"#, 3)] {
        assert_eq!(called(&host, "add", arguments).await.result().unwrap().data, json!({"sum": sum}));
    }
}

#[tokio::test]
async fn l2_a_closure_is_not_asked_about_arguments_that_do_not_fit() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let host = host(FnTool::new("add", "add", "Adds.", move |_: Add, _| {
        counted.fetch_add(1, Relaxed);
        async { "asked" }
    }));
    let end = called(&host, "add", r#"{"a": "two"}"#).await;
    assert_eq!(end.last_call.unwrap().end.code(), Some(Code::InvalidArguments));
    assert_eq!(asked.load(Relaxed), 0);
}

#[tokio::test]
async fn k6_what_a_closure_returns_becomes_its_result() {
    async fn data<R: IntoOutput + Clone + Send + Sync + 'static>(returned: R) -> Result<Value, String> {
        let host = host(FnTool::new("gives", "gives", "Gives.", move |_: Value, _| {
            let returned = returned.clone();
            async move { returned }
        }));
        let end = called(&host, "gives", "{}").await;
        let result = end.result().unwrap();
        match result.is_success() {
            true => Ok(Value::clone(&result.data)),
            false => Err(result.message.clone().unwrap_or_default()),
        }
    }
    assert_eq!(data("text").await, Ok(json!("text")));
    assert_eq!(data(String::from("text")).await, Ok(json!("text")));
    assert_eq!(data(json!([1])).await, Ok(json!([1])));
    assert_eq!(data(Json([1, 2])).await, Ok(json!([1, 2])));
    assert_eq!(data(ToolResult::success(7)).await, Ok(json!(7)));
    assert_eq!(data(Ok::<_, String>("fine")).await, Ok(json!("fine")));
    assert_eq!(data(Err::<Value, _>("it is not there")).await, Err("it is not there".to_owned()));
}

#[tokio::test]
async fn g6_a_closure_that_panics_fails_its_call_alone() {
    let host = host(FnTool::new("bad", "bad", "Panics.", |_: Value, _| async {
        if true {
            panic!("on purpose");
        }
        "never"
    }));
    let end = called(&host, "bad", "{}").await;
    let CallEnd::Fault(fault) = end.last_call.unwrap().end.clone() else { panic!("it answered") };
    assert_eq!(fault.code, Code::HostFailed);
    assert!(fault.message.contains("'bad'"), "{}", fault.message);
}

#[tokio::test]
async fn z22_a_question_that_is_too_long_to_be_read_whole_is_malformed_output() {
    let asks = |message: usize, parameters: usize| {
        let ticket =
            Ticket { parameters: json!("p".repeat(parameters)), ..Ticket::confirm("m".repeat(message)) };
        let plain = ToolResult::suspended("m".repeat(message));
        [plain, ToolResult::suspended_with(ticket)].map(|result| {
            let tool = move |_: Value, _| {
                let result = result.clone();
                async move { result }
            };
            host(FnTool::new("asks", "asks", "Asks.", tool))
        })
    };
    for host in asks(4 * 1024, 60 * 1024) {
        assert_eq!(called(&host, "asks", r#"{"a": 1}"#).await.waiting.len(), 1);
    }
    for host in asks(4 * 1024 + 1, 1).into_iter().chain(asks(1, 64 * 1024).into_iter().skip(1)) {
        let end = called(&host, "asks", "{}").await;
        let CallEnd::Fault(fault) = end.last_call.unwrap().end.clone() else { panic!("it waits") };
        assert_eq!(fault.code, Code::MalformedOutput, "{}", fault.message);
    }
}

/// Calls the tool, and cancels the call once the tool has begun.
async fn cancelled(tool: impl NativeTool + 'static, begun: &Notify) -> Option<Code> {
    let (host, request) = (host(tool), CallRequest::from_json("works", "{}"));
    let cancel = request.cancel.clone();
    let (end, ()) = tokio::join!(host.call(request), async {
        begun.notified().await;
        cancel.cancel();
    });
    end.unwrap().last_call.unwrap().end.code()
}

#[tokio::test]
async fn x1_during_the_grace_a_native_call_sees_that_it_is_cancelled_and_ends_by_itself() {
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
    let tool = FnTool::new("works", "works", "Works.", move |_: Value, call| {
        let (begins, ends) = (Arc::clone(&begins), Arc::clone(&ends));
        async move {
            begins.notify_one();
            while !ToolContext::is_cancelled(&call) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            ends.fetch_add(1, Relaxed);
            "half of it"
        }
    });
    let code = cancelled(tool, &begun).await;
    assert_eq!(
        (code, ended.load(Relaxed)),
        (Some(Code::Cancelled), 1),
        "x3: what it returned late is dropped"
    );
}

/// Cancels its own attempt.
struct Quits;

#[async_trait]
impl NativeTool for Quits {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new("quits", "quits", "Quits.")
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        call.attempt().cancel.cancel();
        Ok(ToolResult::success("done").into())
    }
}

#[tokio::test]
async fn x1_a_native_tool_cancels_its_own_attempt_and_not_whoever_calls() {
    let (host, request) = (host(Quits), CallRequest::from_json("quits", "{}"));
    let cancel = request.cancel.clone();
    assert_eq!(host.call(request).await.unwrap().result().unwrap().data, "done");
    assert!(!cancel.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn x1_after_the_grace_a_native_call_that_goes_on_is_dropped() {
    struct Dropped(Arc<AtomicU32>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let (begins, drops) = (Arc::clone(&begun), Arc::clone(&dropped));
    let tool = FnTool::new("works", "works", "Works.", move |_: Value, _| {
        let (begins, guard) = (Arc::clone(&begins), Dropped(Arc::clone(&drops)));
        async move {
            let _guard = guard;
            begins.notify_one();
            std::future::pending::<&str>().await
        }
    });
    let began = tokio::time::Instant::now();
    assert_eq!(cancelled(tool, &begun).await, Some(Code::Cancelled));
    assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
    assert_eq!(dropped.load(Relaxed), 1);
}

/// Requires an even number, and counts how often it runs.
struct Even {
    ran: Arc<AtomicU32>,
}

#[async_trait]
impl NativeTool for Even {
    fn descriptor(&self) -> ToolDescriptor {
        let execution = ExecutionPolicy { validates: true, ..ExecutionPolicy::default() };
        ToolDescriptor::new("halve", "halve", "Halves.").with_execution(execution)
    }

    fn validate_args(&self, arguments: &Arguments) -> Result<(), String> {
        match arguments.value()["n"].as_i64() {
            Some(n) if n % 2 == 0 => Ok(()),
            Some(n) => Err(format!("{n} is odd.")),
            None => panic!("on purpose"),
        }
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        self.ran.fetch_add(1, Relaxed);
        Ok(ToolResult::success(call.arguments()["n"].as_i64().map(|n| n / 2)).into())
    }
}

#[tokio::test]
async fn l1_a_native_tools_own_check_refuses_before_it_runs() {
    let ran = Arc::new(AtomicU32::new(0));
    let host = host(Even { ran: Arc::clone(&ran) });
    for (arguments, code, words) in
        [(r#"{"n": 3}"#, Code::InvalidArguments, "3 is odd."), ("{}", Code::HostFailed, "'halve' panicked")]
    {
        let CallEnd::Fault(fault) = called(&host, "halve", arguments).await.last_call.unwrap().end.clone()
        else {
            panic!("it ran with {arguments}")
        };
        assert_eq!((fault.code, fault.message.contains(words)), (code, true), "{}", fault.message);
    }
    assert_eq!(ran.load(Relaxed), 0);
    assert_eq!(called(&host, "halve", r#"{"n": 4}"#).await.result().unwrap().data, json!(2));
}

#[test]
fn r1_a_tool_whose_name_is_taken_is_refused_with_the_names_of_both() {
    let tool = |id: &str, name: &str| FnTool::new(id, name, "Does it.", |_: Value, _| async { "done" });
    let scout = || Agent::new("scout", ScriptedModel::new(Vec::new()));
    for (builder, one, other) in [
        (Host::builder().tool(tool("first", "read")).tool(tool("second", "Read")), "\"first\"", "\"second\""),
        (Host::builder().tool(tool("same", "one")).tool(tool("same", "two")), "\"same\"", "both define"),
        (
            Host::builder().tool(tool("mine", "ask_scout")).agent(scout().offered_as("ask_scout")),
            "plugin mine",
            "agent scout",
        ),
        (Host::builder().tool(tool("mine", "search_history")), "search_history", "reserved"),
    ] {
        let Err(HostError::Setup(why)) = builder.build() else { panic!("{one} and {other} were both taken") };
        let why = why.to_string();
        assert!(why.contains(one) && why.contains(other), "{why}");
    }
}

/// A tool with a check of its own, whose descriptor does not say so.
struct Unflagged;

#[async_trait]
impl NativeTool for Unflagged {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new("even_numbers", "even", "Takes an even number.")
    }

    fn validate_args(&self, arguments: &Arguments) -> Result<(), String> {
        match arguments.value()["n"].as_i64() {
            Some(n) if n % 2 == 0 => Ok(()),
            _ => Err("The number is odd.".to_owned()),
        }
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        Ok(ToolResult::success(call.tool_name()).into())
    }
}

#[tokio::test]
async fn k9_a_check_that_is_overridden_is_called() {
    let host = host(Unflagged);
    assert_eq!(called(&host, "even", r#"{"n": 2}"#).await.result().unwrap().data, "even");
    let end = called(&host, "even", r#"{"n": 3}"#).await;
    let CallEnd::Fault(fault) = &end.last_call.as_ref().unwrap().end else { panic!("{end:?}") };
    assert_eq!((fault.code, fault.message.as_str()), (Code::InvalidArguments, "The number is odd."));
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_a_closure_finds_its_name_and_waits_for_its_cancellation() {
    let begun = Arc::new(Notify::new());
    let seen = Arc::clone(&begun);
    let waits = FnTool::new("waits", "wait_here", "Waits.", move |_: Value, call: ToolContext| {
        let begun = Arc::clone(&seen);
        async move {
            begun.notify_one();
            call.cancelled().await;
            call.report(tollgate::tools::Report::Output(format!("{} was cancelled", call.tool_name())));
            "stopped"
        }
    });
    let host = host(waits);
    let mut call = host.start_call(CallRequest::from_json("wait_here", "{}")).await.unwrap();
    begun.notified().await;
    call.cancel();
    let mut output = String::new();
    while let Some(told) = call.events.next().await {
        if let tollgate::RunUpdate::Live(told) = told
            && let tollgate::LiveContent::CallReport { report: tollgate::tools::Report::Output(text), .. } =
                told.piece
        {
            output.push_str(&text);
        }
    }
    assert_eq!(output, "wait_here was cancelled");
}

#[tokio::test]
async fn l12_a_direct_call_of_an_unknown_tool_has_failed() {
    let host = host(Unflagged);
    let end = called(&host, "evn", "{}").await;
    let CallEnd::Fault(fault) = &end.last_call.as_ref().unwrap().end else { panic!("{end:?}") };
    assert_eq!(fault.code, Code::NotFound);
    assert!(
        matches!(&end.status, Some(tollgate::RunStatus::Failed { error }) if error.starts_with("not_found: ")),
        "{:?}",
        end.status
    );
    let end = called(&host, "even", r#"{"n": 3}"#).await;
    assert_eq!(end.status, Some(tollgate::RunStatus::Completed), "a call that fails is no failed run");
}
