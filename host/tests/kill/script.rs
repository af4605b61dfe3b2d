//! The story: the model's requests, the tools' actions, and the questions to a person.
//!
//! Two turns of calls. Some run concurrently, one times out and is retried, two write the same key,
//! one is suspended by a gate and one by the tool itself, and one runs another agent, which asks a
//! person in turn.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tollgate::models::{DeltaSink, Model, ModelFault};
use tollgate::tools::{NativePlugin, NativeTool, ToolCall, Toolbox};
use tollgate::{Gate, ProposedCall, Verdict};
use tollgate_agent::child::{ChildRequest, ChildStatus};
use tollgate_agent::descriptor::{ExecutionPolicy, StateAccess, StateKey, ToolDescriptor};
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};
use tollgate_agent::outcome::{Fault, Mutation, Ticket, ToolOutput, ToolResult};
use tollgate_agent::state::{KeyScope, Reducer};

/// The answer at the end of the story.
pub(crate) const ANSWER: &str = "All of it is done.";
/// The answer of the other agent.
pub(crate) const HELPED: &str = "My part is done.";

/// Derives the next reply from the conversation, so that any process can continue.
pub(crate) enum Author {
    /// The agent that a person runs.
    Teller,
    /// The agent that runs below a call of the first.
    Helper,
    /// An agent that asks, and delegates to another meanwhile.
    Entruster,
    /// The agent that it delegates to.
    Napper,
}

#[async_trait]
impl Model for Author {
    fn name(&self) -> &str {
        "author"
    }

    async fn reply(&self, request: ModelRequest, _: &mut DeltaSink<'_>) -> Result<ModelReply, ModelFault> {
        let turns = request.messages.iter().filter(|message| matches!(message, Message::Assistant(_)));
        let (text, calls) = match self {
            Author::Teller => tells(turns.count()),
            Author::Helper => helps(turns.count()),
            Author::Entruster => entrusts(turns.count()),
            Author::Napper => naps(turns.count()),
        };
        let calls = calls.into_iter().map(|(name, arguments)| ModelCall {
            name: name.to_owned(),
            arguments: arguments.to_string(),
            ..ModelCall::default()
        });
        let message = AssistantMessage {
            text: text.to_owned(),
            calls: Arc::new(calls.collect()),
            ..Default::default()
        };
        Ok(ModelReply { message, ..ModelReply::default() })
    }
}

type Said = (&'static str, Vec<(&'static str, Value)>);

fn tells(turn: usize) -> Said {
    let first = || vec![appends("a1"), appends("a2"), ("late", json!({})), ("add", json!({}))];
    let second = || {
        vec![
            ("put", json!({"city": "Bern"})),
            ("put", json!({"city": "Rome"})),
            appends("b1"),
            ("delegate", json!({})),
            appends("guarded"),
            ("ask", json!({})),
        ]
    };
    match turn {
        0 => ("First.", first()),
        1 => ("Then.", second()),
        _ => (ANSWER, Vec::new()),
    }
}

fn helps(turn: usize) -> Said {
    match turn {
        0 => ("For my part.", vec![appends("c1"), ("ask", json!({}))]),
        _ => (HELPED, Vec::new()),
    }
}

fn entrusts(turn: usize) -> Said {
    match turn {
        0 => ("Both.", vec![("ask", json!({})), ("entrust", json!({}))]),
        _ => (ANSWER, Vec::new()),
    }
}

fn naps(turn: usize) -> Said {
    match turn {
        0 => ("A while.", vec![("nap", json!({}))]),
        _ => (HELPED, Vec::new()),
    }
}

fn appends(file: &str) -> (&'static str, Value) {
    ("appends", json!({"p": file}))
}

/// Asks a person about calls that name the file `guarded`.
pub(crate) struct Careful;

#[async_trait]
impl Gate for Careful {
    fn id(&self) -> &str {
        "careful"
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        match call.arguments.value()["p"].as_str() {
            Some("guarded") => Verdict::Suspend(Box::new(Ticket::confirm("Append to it?"))),
            _ => Verdict::Allow,
        }
    }
}

/// The kinds of native tools.
enum Kind {
    /// Takes too long on its first attempt.
    Late,
    /// Adds one to the thread's number; may not run twice.
    Add,
    /// Sets the thread's city.
    Put,
    /// Asks a person, and leaves a byte once it continues; may not run twice.
    Ask { ran: PathBuf },
    /// Runs the other agent.
    Delegate,
    /// Runs an agent that takes a while; may not run twice.
    Entrust,
    /// Takes a while; may not run twice.
    Nap,
}

#[async_trait]
impl NativeTool for Kind {
    fn descriptor(&self) -> ToolDescriptor {
        let (name, idempotent, timeout_ms) = match self {
            Kind::Late => ("late", true, Some(60)),
            Kind::Add => ("add", false, None),
            Kind::Put => ("put", true, None),
            Kind::Ask { .. } => ("ask", false, None),
            Kind::Delegate => ("delegate", true, None),
            Kind::Entrust => ("entrust", false, None),
            Kind::Nap => ("nap", false, None),
        };
        let policy = ExecutionPolicy { idempotent, timeout_ms, ..ExecutionPolicy::default() };
        ToolDescriptor::new(name, name, "A tool of the story.").with_execution(policy)
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        match self {
            Kind::Late if call.attempt().attempt == 1 => std::future::pending().await,
            Kind::Late => Ok(ToolResult::success("at last").into()),
            Kind::Add => Ok(writes("total", json!(1))),
            Kind::Put => {
                // Long enough that both calls of a turn are in progress.
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(writes("city", call.arguments()["city"].clone()))
            }
            Kind::Ask { .. } if call.attempt().resume.is_none() => {
                Ok(ToolResult::suspended_with(Ticket::confirm("May I?")).into())
            }
            Kind::Ask { ran } => {
                use std::io::Write;
                let run = call.attempt().identity.run_id.as_str();
                let file = std::fs::File::options().create(true).append(true).open(ran.join(run));
                file.and_then(|mut file| file.write_all(b"x")).unwrap();
                Ok(ToolResult::success("asked").into())
            }
            Kind::Nap => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(ToolResult::success("rested").into())
            }
            Kind::Entrust => {
                let child = call.run_child(ChildRequest::new("napper", "Rest.")).await;
                Ok(ToolResult::success(json!(child.is_ok())).into())
            }
            Kind::Delegate => {
                let child = call.run_child(ChildRequest::new("helper", "Help.")).await;
                Ok(match child {
                    Ok(child) if matches!(child.status, ChildStatus::Suspended(_)) => {
                        ToolResult::suspended("The helper asks.")
                    }
                    Ok(child) => ToolResult::success(json!({"said": child.response})),
                    Err(error) => ToolResult::error(error.to_string()),
                }
                .into())
            }
        }
    }
}

fn writes(key: &str, update: Value) -> ToolOutput {
    let mutations = vec![Mutation { key: format!("story.{key}"), update }];
    ToolOutput { result: ToolResult::success("written").into(), mutations, actions: Vec::new() }
}

/// Adds the native tools to the loaded ones.
pub(crate) fn install(toolbox: &mut Toolbox, ran: PathBuf) {
    let key = |name: &str, initial: Value, reducer: Reducer| {
        let scope = KeyScope::Thread;
        let defines =
            Some(StateKey { initial: initial.into(), schema: None, reducer, scope, persistent: true });
        StateAccess { key: format!("story.{name}"), read: true, write: true, defines }
    };
    let plugin = NativePlugin::new("story").with_state(key("total", json!(0), Reducer::Add)).with_state(key(
        "city",
        json!(""),
        Reducer::Replace,
    ));
    [Kind::Late, Kind::Add, Kind::Put, Kind::Ask { ran }, Kind::Delegate, Kind::Entrust, Kind::Nap]
        .into_iter()
        .fold(plugin, NativePlugin::with_tool)
        .install(toolbox)
        .unwrap();
}
