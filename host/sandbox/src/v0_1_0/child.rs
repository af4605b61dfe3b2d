//! Conversion of child run requests and outcomes from and to the contract's types.

use super::agents as wit;
use serde_json::Value;
use std::collections::BTreeMap;
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest, ChildStatus, Streaming};
use tollgate_agent::json::{self, JsonError, NodesLeft};
use tollgate_agent::message::{AssistantMessage, Message};
use tollgate_agent::text::clean;

/// Returns how many bytes of memory the seeds of a request take once they are parsed.
///
/// # Errors
/// Fails if they have too many values.
pub(crate) fn measure_seeds(given: &wit::ChildRun) -> Result<u64, ChildError> {
    let (mut nodes, mut bytes) = (NodesLeft::all(), 0);
    for entry in &given.seed {
        let measure = json::measure(entry.value.as_bytes());
        nodes.take(&measure).map_err(|why| bad_seed(&entry.key, &why))?;
        bytes += measure.parsed_bytes;
    }
    Ok(bytes)
}

fn bad_seed(key: &str, why: &JsonError) -> ChildError {
    ChildError::BadSeed(format!("the value of \"{}\" is not acceptable JSON: {why}", clean(key, 140)))
}

/// Reads a request, and returns how many bytes of text it has. Its seeds must have been
/// [measured](measure_seeds) and their memory reserved.
///
/// # Errors
/// Fails if a seed is not acceptable JSON.
pub(crate) fn lift_child(given: wit::ChildRun) -> Result<(ChildRequest, usize), ChildError> {
    let texts: usize = given.messages.iter().map(|message| message.text.len()).sum();
    let seeds: usize = given.seed.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
    let exports: usize = given.exports.iter().map(String::len).sum();
    let bytes = given.agent_id.len() + texts + seeds + exports;
    let seed = given.seed.into_iter().map(|entry| match json::parse_exact(&entry.value) {
        Ok(value) => Ok((entry.key, value)),
        Err(why) => Err(bad_seed(&entry.key, &why)),
    });
    let request = ChildRequest {
        agent_id: given.agent_id,
        messages: given.messages.into_iter().map(message).collect(),
        seed: seed.collect::<Result<_, _>>()?,
        exports: given.exports,
        streaming: match given.text {
            wit::Streaming::Silent => Streaming::Silent,
            wit::Streaming::Passthrough => Streaming::Passthrough,
            wit::Streaming::PassthroughRawErrors => Streaming::PassthroughRawErrors,
        },
    };
    Ok((request, bytes))
}

fn message(given: wit::Message) -> Message {
    match given.role {
        wit::Role::User => Message::User(given.text),
        wit::Role::Assistant => {
            Message::Assistant(AssistantMessage { text: given.text, ..AssistantMessage::default() })
        }
    }
}

/// Returns how many bytes of text an outcome has once it is converted.
pub(crate) fn child_bytes(outcome: &ChildOutcome) -> usize {
    let of_state = |state: &Option<BTreeMap<String, Value>>| -> usize {
        state.iter().flatten().map(|(key, value)| key.len() + json::written_bytes(value)).sum()
    };
    let texts =
        outcome.run_id.len() + outcome.streamed.len() + outcome.response.as_ref().map_or(0, String::len);
    texts
        + outcome.output.as_ref().map_or(0, json::written_bytes)
        + of_state(&outcome.state)
        + of_state(&outcome.thread_state)
}

/// Converts an outcome.
pub(crate) fn lower_child(outcome: ChildOutcome) -> wit::ChildOutcome {
    wit::ChildOutcome {
        run_id: outcome.run_id,
        status: status(outcome.status),
        response: outcome.response,
        streamed: outcome.streamed,
        output: outcome.output.map(|output| output.to_string()),
        steps: outcome.steps,
        state: outcome.state.map(entries),
        thread_state: outcome.thread_state.map(entries),
    }
}

fn entries(state: BTreeMap<String, Value>) -> Vec<wit::Entry> {
    state.into_iter().map(|(key, value)| wit::Entry { key, value: value.to_string() }).collect()
}

fn status(status: ChildStatus) -> wit::ChildStatus {
    match status {
        ChildStatus::Completed => wit::ChildStatus::Completed,
        ChildStatus::WaitingInput(what) => wit::ChildStatus::WaitingInput(what),
        ChildStatus::WaitingAuth(what) => wit::ChildStatus::WaitingAuth(what),
        ChildStatus::Suspended(what) => wit::ChildStatus::Suspended(what),
        ChildStatus::Failed(why) => wit::ChildStatus::Failed(why),
        ChildStatus::Cancelled => wit::ChildStatus::Cancelled,
        ChildStatus::Timeout => wit::ChildStatus::Timeout,
    }
}

/// Converts the reason why there is no child.
pub(crate) fn lower_child_error(error: ChildError) -> wit::ChildError {
    match error {
        ChildError::AgentNotFound(agent) => wit::ChildError::AgentNotFound(agent),
        ChildError::NotGranted(what) => wit::ChildError::NotGranted(what),
        ChildError::BadSeed(what) => wit::ChildError::BadSeed(what),
        ChildError::Unsupported(what) => wit::ChildError::Unsupported(what),
        ChildError::TooDeep(depth) => wit::ChildError::TooDeep(depth),
        ChildError::ExecutionFailed(why) => wit::ChildError::ExecutionFailed(why),
    }
}
