//! A host whose agent calls tools that leave traces in a directory: what each process did can be
//! compared afterwards with what the database says.
#![allow(dead_code, reason = "not every test uses everything")]

use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tollgate::models::{DeltaSink, Model, ModelFault};
use tollgate::store::Store;
use tollgate::tools::{NativePlugin, NativeTool, ToolCall, Toolbox};
use tollgate::{Agent, Host, RunEvent, async_trait};
use tollgate_agent::child::{ChildRequest, ChildStatus};
use tollgate_agent::descriptor::{ExecutionPolicy, StateAccess, StateKey, ToolDescriptor};
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};
use tollgate_agent::outcome::{Fault, Mutation, Ticket, ToolOutput, ToolResult};
use tollgate_agent::state::{KeyScope, Reducer};

/// The agent of the story, and its last words.
pub(crate) const AGENT: &str = "teller";
pub(crate) const ANSWER: &str = "All of it is done.";
/// The agent that runs below a call of the first, and its last words.
const HELPER: &str = "helper";
pub(crate) const HELPED: &str = "My part is done.";
/// The keys of each thread's state that `add` changes: the number of its calls, and their names in the
/// order of their commits.
pub(crate) const TOTAL: &str = "story.total";
pub(crate) const ORDER: &str = "story.order";
/// The file of effects that must happen at most once, and of events that were reported.
pub(crate) const EFFECTS: &str = "effects";
pub(crate) const REPORTED: &str = "reported";

/// Says what comes next by what was said so far, so any host can go on. A prompt that contains
/// `ask` asks a person in its second turn, and one that contains `delegate` runs the helper there. One
/// that contains `linger` asks in its first turn, beside a call that lasts until the run is cancelled.
enum Author {
    Teller,
    Helper,
}

#[async_trait]
impl Model for Author {
    fn name(&self) -> &str {
        "author"
    }

    async fn reply(&self, request: ModelRequest, _: &mut DeltaSink<'_>) -> Result<ModelReply, ModelFault> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        // Earlier runs of the thread are part of the conversation.
        let last = request.messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let of_run = &request.messages[last.unwrap_or_default()..];
        let says = |word| matches!(of_run.first(), Some(Message::User(text)) if text.contains(word));
        let turns = of_run.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let (text, calls) = match (self, turns) {
            (Self::Teller, 0) if says("linger") => ("", vec!["ask", "linger"]),
            (Self::Teller, 0) => ("", vec!["effect", "pause", "effect"]),
            (Self::Teller, 1) if says("ask") => ("", vec!["pause", "ask", "add"]),
            (Self::Teller, 1) if says("delegate") => ("", vec!["delegate", "add", "effect"]),
            (Self::Teller, 1) => ("", vec!["pause", "effect", "add"]),
            (Self::Teller, _) => (ANSWER, vec![]),
            (Self::Helper, 0) => ("", vec!["effect", "pause", "add"]),
            (Self::Helper, _) => (HELPED, vec![]),
        };
        let calls = calls.into_iter().map(|name| ModelCall {
            name: name.to_owned(),
            arguments: "{}".to_owned(),
            ..ModelCall::default()
        });
        let calls = Arc::new(calls.collect());
        let message = AssistantMessage { text: text.to_owned(), calls, ..Default::default() };
        Ok(ModelReply { message, ..ModelReply::default() })
    }
}

enum Kind {
    /// Leaves a line; may not run twice.
    Effect(PathBuf),
    /// Takes a while.
    Pause,
    /// Takes longer than any test.
    Linger,
    /// Asks a person, and leaves a line once it goes on; may not run twice.
    Ask(PathBuf),
    /// Changes the state of the thread; may not run twice.
    Add,
    /// Runs the other agent.
    Delegate,
}

#[async_trait]
impl NativeTool for Kind {
    fn descriptor(&self) -> ToolDescriptor {
        let (name, idempotent) = match self {
            Self::Effect(_) => ("effect", false),
            Self::Pause => ("pause", true),
            Self::Linger => ("linger", true),
            Self::Ask(_) => ("ask", false),
            Self::Add => ("add", false),
            Self::Delegate => ("delegate", true),
        };
        // More than a story has faults: each of them may cost an attempt.
        let timeout_ms = matches!(self, Self::Linger | Self::Delegate).then_some(600_000);
        let policy =
            ExecutionPolicy { idempotent, max_retries: Some(10), timeout_ms, ..ExecutionPolicy::default() };
        ToolDescriptor::new(name, name, "A tool of the story.").with_execution(policy)
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        match self {
            Self::Pause => {
                tokio::time::sleep(Duration::from_millis(250)).await;
                Ok(ToolResult::success("rested").into())
            }
            Self::Linger => {
                tokio::time::sleep(Duration::from_secs(600)).await;
                Ok(ToolResult::success("rested").into())
            }
            Self::Add => {
                let attempt = call.attempt();
                let name = format!("{} of {}", attempt.permit.call_id(), attempt.identity.run_id);
                let mutation = |key: &str, update: Value| Mutation { key: key.to_owned(), update };
                let mutations = vec![mutation(TOTAL, json!(1)), mutation(ORDER, json!(name))];
                Ok(ToolOutput { result: ToolResult::success("added").into(), mutations, actions: Vec::new() })
            }
            Self::Delegate => {
                let child = call.run_child(ChildRequest::new(HELPER, "Help.")).await;
                Ok(match child {
                    Ok(child) if matches!(child.status, ChildStatus::Completed) => {
                        ToolResult::success(json!(child.response))
                    }
                    Ok(child) => {
                        ToolResult::error(format!("the helper did not complete: {:?}", child.status))
                    }
                    Err(error) => ToolResult::error(error.to_string()),
                }
                .into())
            }
            Self::Ask(_) if call.attempt().resume.is_none() => {
                Ok(ToolResult::suspended_with(Ticket::confirm("May I?")).into())
            }
            Self::Effect(file) | Self::Ask(file) => {
                let attempt = call.attempt();
                write_line(file, &json!([attempt.identity.run_id, attempt.permit.call_id()]).to_string());
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(ToolResult::success("done").into())
            }
        }
    }
}

/// Appends a line as one write, and waits until it is on the disk.
fn write_line(file: &Path, line: &str) {
    let mut file = File::options().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
    file.sync_all().unwrap();
}

/// Returns the host of the story on a store. It writes every event that it reports to a file.
pub(crate) fn host(store: Arc<dyn Store>, directory: &Path) -> Host {
    let effects = directory.join(EFFECTS);
    let mut toolbox = Toolbox::default();
    let key = |key: &str, initial: Value, reducer: Reducer| {
        let scope = KeyScope::Thread;
        let defines =
            Some(StateKey { initial: initial.into(), schema: None, reducer, scope, persistent: true });
        StateAccess { key: key.to_owned(), read: true, write: true, defines }
    };
    let plugin = NativePlugin::new("story").with_state(key(TOTAL, json!(0), Reducer::Add)).with_state(key(
        ORDER,
        json!([]),
        Reducer::Append,
    ));
    [Kind::Effect(effects.clone()), Kind::Pause, Kind::Linger, Kind::Ask(effects), Kind::Add, Kind::Delegate]
        .into_iter()
        .fold(plugin, NativePlugin::with_tool)
        .install(&mut toolbox)
        .unwrap();
    let reported = directory.join(REPORTED);
    let report = move |event: &RunEvent| {
        if event.number.is_some() {
            write_line(&reported, &event.payload.to_string());
        }
    };
    let agent = |id: &str, author| Agent::new(id, Arc::new(author)).with_tools(["*"]);
    let host = Host::builder().toolbox(toolbox).store(store).visible_keys(["*"]).subscribe("*", report);
    host.agent(agent(AGENT, Author::Teller)).agent(agent(HELPER, Author::Helper)).build().unwrap()
}
