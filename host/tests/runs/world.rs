//! The setup of these tests: a few native tools, and a host that has them.

use crate::place::StoreAt;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::store::Store;
use tollgate::tools::{NativePlugin, NativeTool, ToolCall, Toolbox};
use tollgate::{Agent, Host, HostBuilder};
use tollgate_agent::descriptor::{ExecutionPolicy, StateAccess, StateKey, ToolDescriptor};
use tollgate_agent::outcome::{Fault, Mutation, ResumeMode, Ticket, ToolOutput, ToolResult};
use tollgate_agent::run::{Decision, DecisionAnswer};
use tollgate_agent::state::{KeyScope, Reducer};

type Body = fn(&ToolCall<'_>) -> ToolOutput;

struct Simple {
    descriptor: ToolDescriptor,
    pause: Duration,
    body: Body,
}

#[async_trait]
impl NativeTool for Simple {
    fn descriptor(&self) -> ToolDescriptor {
        self.descriptor.clone()
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        tokio::time::sleep(self.pause).await;
        Ok((self.body)(&call))
    }

    fn replays(&self) -> bool {
        self.pause.is_zero()
    }
}

/// Returns a tool with this name, which answers with its arguments.
pub(crate) fn named(name: &str) -> impl NativeTool + 'static {
    tool(name, true, |call| ToolResult::success(call.arguments().clone()).into())
}

pub(crate) fn echo() -> impl NativeTool + 'static {
    named("echo")
}

fn tool(name: &str, idempotent: bool, body: Body) -> Simple {
    let descriptor = ToolDescriptor::new(name.replace('_', "-"), name, "A tool of the tests.")
        .with_execution(ExecutionPolicy { idempotent, ..ExecutionPolicy::default() });
    Simple { descriptor, pause: Duration::ZERO, body }
}

fn key(name: &str, initial: Value, reducer: Reducer, scope: KeyScope, persistent: bool) -> StateAccess {
    let defines = Some(StateKey { initial: initial.into(), schema: None, reducer, scope, persistent });
    StateAccess { key: format!("basics.{name}"), read: true, write: true, defines }
}

fn writes(key: &str, update: Value) -> Vec<Mutation> {
    vec![Mutation { key: format!("basics.{key}"), update }]
}

/// Asks a person first, and then returns the answer.
fn asks(call: &ToolCall<'_>) -> ToolOutput {
    if let Some(resume) = call.attempt().resume {
        return ToolResult::success(json!({"decided": resume.value, "why": resume.reason})).into();
    }
    let schema = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
    let ticket = Ticket {
        action: "approve".to_owned(),
        message: "May I?".to_owned(),
        parameters: call.arguments().clone(),
        response_schema: Some(schema),
        resume_mode: ResumeMode::ReplayToolCall,
    };
    let mutations = writes("notes", json!("asked"));
    ToolOutput { result: ToolResult::suspended_with(ticket).into(), mutations, actions: Vec::new() }
}

/// Returns a toolbox with `echo`, `add`, `step`, `set_city`, `city`, `ask`, `ask_slowly`, `checked`
/// and `slow`.
pub(crate) fn toolbox() -> Toolbox {
    let slow = Simple {
        pause: Duration::from_secs(30),
        ..tool("slow", false, |_| ToolResult::success("late").into())
    };
    let mut checked = tool("checked", true, |_| ToolResult::success("checked").into());
    checked.descriptor.execution.validates = true;
    let plugin = NativePlugin::new("basics")
        .with_state(key("total", json!(0), Reducer::Add, KeyScope::Thread, true))
        .with_state(key("notes", json!([]), Reducer::Append, KeyScope::Thread, true))
        .with_state(key("city", json!(""), Reducer::Replace, KeyScope::Thread, true))
        .with_state(key("steps", json!(0), Reducer::Add, KeyScope::Run, true))
        .with_state(key("fleeting", json!(0), Reducer::Add, KeyScope::Thread, false))
        .with_tool(echo())
        .with_tool(tool("add", false, |call| ToolOutput {
            result: ToolResult::success(call.state("basics.total").cloned().unwrap_or_default()).into(),
            mutations: writes("total", call.arguments()["n"].clone()),
            actions: Vec::new(),
        }))
        .with_tool(tool("step", false, |call| {
            let mut mutations = writes("steps", json!(1));
            mutations.extend(writes("fleeting", json!(1)));
            let seen = json!([call.state("basics.steps"), call.state("basics.fleeting")]);
            ToolOutput { result: ToolResult::success(seen).into(), mutations, actions: Vec::new() }
        }))
        .with_tool(tool("set_city", true, |call| ToolOutput {
            result: ToolResult::success("set").into(),
            mutations: writes("city", call.arguments()["city"].clone()),
            actions: Vec::new(),
        }))
        .with_tool(tool("city", true, |call| {
            ToolResult::success(call.state("basics.city").cloned().unwrap_or_default()).into()
        }))
        .with_tool(tool("ask", false, asks))
        .with_tool(Simple { pause: Duration::from_millis(200), ..tool("ask_slowly", false, asks) })
        .with_tool(checked)
        .with_tool(slow);
    let mut toolbox = Toolbox::default();
    plugin.install(&mut toolbox).unwrap();
    toolbox
}

/// Returns a decision that resumes a call or suspension with this value.
pub(crate) fn decision(id: &str, target: &str, value: Value) -> Decision {
    let answer = DecisionAnswer::Resume(value);
    Decision {
        id: id.to_owned(),
        target: target.to_owned(),
        answer,
        reason: None,
        by: None,
        by_key: false,
        at_ms: 1,
    }
}

/// Creates a host with the agent `default`, which plays these turns.
pub(crate) fn host(store: &StoreAt, turns: Vec<ScriptedTurn>) -> Host {
    host_on(store.open(), turns)
}

/// Creates such a host with further parts.
pub(crate) fn host_with(
    store: &StoreAt,
    turns: Vec<ScriptedTurn>,
    more: impl FnOnce(HostBuilder) -> HostBuilder,
) -> Host {
    let agent = Agent::new("default", Arc::new(ScriptedModel::new(turns))).with_tools(["*"]);
    more(Host::builder().toolbox(toolbox()).agent(agent).store(store.open())).build().unwrap()
}

/// Creates such a host on this store.
pub(crate) fn host_on(store: Arc<dyn Store>, turns: Vec<ScriptedTurn>) -> Host {
    let agent = Agent::new("default", Arc::new(ScriptedModel::new(turns))).with_tools(["*"]);
    Host::builder().toolbox(toolbox()).agent(agent).store(store).build().unwrap()
}
