//! Conversion of child run requests and outcomes from and to the contract's types.

use super::agents as wit;
use crate::charge::{PassedSize, text};
use crate::instance::GuestStore;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_agent::child::{
    ChildError, ChildOutcome, ChildRequest, ChildStatus, MAX_CHILD_KEYS, MAX_CHILD_MESSAGES,
    MAX_CHILD_MESSAGES_BYTES, Streaming,
};
use tollgate_agent::json::{self, JsonError, NodesLeft};
use tollgate_agent::message::{AssistantMessage, Message};
use tollgate_agent::text::clean;
use wasmtime::component::{ComponentType, Lift, WasmList, WasmStr};

/// The host's memory for a message, a seed or a key in addition to its texts, in bytes.
const EACH_BYTES: usize = 256;
/// The longest id of an agent that is read, in bytes. No agent has a longer one.
const MAX_AGENT_ID_BYTES: usize = 1_024;

/// A request for a child run. Its lists and texts still lie in the guest's memory.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct ChildRun {
    #[component(name = "agent-id")]
    agent_id: WasmStr,
    messages: WasmList<GuestMessage>,
    seed: WasmList<GuestEntry>,
    exports: WasmList<WasmStr>,
    text: wit::Streaming,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct GuestMessage {
    role: wit::Role,
    text: WasmStr,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct GuestEntry {
    key: WasmStr,
    value: WasmStr,
}

impl ChildRun {
    /// Charges and copies the id of the agent, which is all that a refusal needs.
    pub(crate) fn agent_id(&self, store: &mut GuestStore<'_>) -> wasmtime::Result<String> {
        text(store, &self.agent_id, MAX_AGENT_ID_BYTES)
    }

    /// Returns how many bytes of memory the host needs for the request, without copying any of it.
    /// Each element and each text is charged before the next is looked at.
    ///
    /// # Errors
    /// The call ends if the texts are too long for one crossing. The request is refused if it has
    /// too many elements, or seeds with too many values.
    pub(crate) fn measure(&self, store: &mut GuestStore<'_>) -> wasmtime::Result<Result<u64, ChildError>> {
        if let Err(refused) = self.check_counts() {
            return Ok(Err(refused));
        }
        let (mut size, mut parsed_bytes, mut nodes) = (PassedSize::new(EACH_BYTES), 0, NodesLeft::all());
        for at in 0..self.messages.len() {
            if let Some(message) = element(store, &self.messages, at)? {
                size.add(store, &message.text)?;
            }
        }
        if size.bytes() > (MAX_CHILD_MESSAGES_BYTES + self.messages.len() * EACH_BYTES) as u64 {
            return Ok(Err(ChildError::too_many_messages()));
        }
        for at in 0..self.seed.len() {
            let Some(entry) = element(store, &self.seed, at)? else { continue };
            size.add(store, &entry.key)?;
            size.add(store, &entry.value)?;
            let measure = json::measure(entry.value.to_str(&*store)?.as_bytes());
            if let Err(why) = nodes.take(&measure) {
                return Ok(Err(bad_seed(&entry.key.to_str(&*store)?, &why)));
            }
            parsed_bytes += measure.parsed_bytes;
        }
        for at in 0..self.exports.len() {
            if let Some(key) = element(store, &self.exports, at)? {
                size.add(store, &key)?;
            }
        }
        // The host holds a seed in the request and in the child's first change.
        Ok(Ok(size.bytes() + 2 * parsed_bytes))
    }

    fn check_counts(&self) -> Result<(), ChildError> {
        if self.messages.len() > MAX_CHILD_MESSAGES {
            return Err(ChildError::too_many_messages());
        }
        if self.seed.len() > MAX_CHILD_KEYS || self.exports.len() > MAX_CHILD_KEYS {
            return Err(ChildError::ExecutionFailed(format!(
                "a request seeds at most {MAX_CHILD_KEYS} keys and exports as many; it has {} and {}",
                self.seed.len(),
                self.exports.len()
            )));
        }
        Ok(())
    }

    /// Copies a request to this agent. It must have been [measured](Self::measure) and its memory
    /// reserved.
    ///
    /// # Errors
    /// Fails if a seed is not acceptable JSON.
    pub(crate) fn lift(
        &self,
        store: &mut GuestStore<'_>,
        agent_id: String,
    ) -> wasmtime::Result<Result<ChildRequest, ChildError>> {
        let mut request = ChildRequest {
            agent_id,
            messages: Vec::with_capacity(self.messages.len()),
            seed: Vec::with_capacity(self.seed.len()),
            exports: Vec::with_capacity(self.exports.len()),
            streaming: match self.text {
                wit::Streaming::Silent => Streaming::Silent,
                wit::Streaming::Passthrough => Streaming::Passthrough,
                wit::Streaming::PassthroughRawErrors => Streaming::PassthroughRawErrors,
            },
        };
        for at in 0..self.messages.len() {
            if let Some(given) = element(store, &self.messages, at)? {
                request.messages.push(message(given.role, given.text.to_str(&*store)?.into_owned()));
            }
        }
        for at in 0..self.seed.len() {
            let Some(entry) = element(store, &self.seed, at)? else { continue };
            let key = entry.key.to_str(&*store)?.into_owned();
            match json::parse_exact(&entry.value.to_str(&*store)?) {
                Ok(value) => request.seed.push((key, value)),
                Err(why) => return Ok(Err(bad_seed(&key, &why))),
            }
        }
        for at in 0..self.exports.len() {
            if let Some(key) = element(store, &self.exports, at)? {
                request.exports.push(key.to_str(&*store)?.into_owned());
            }
        }
        Ok(Ok(request))
    }
}

/// Returns an element of a list, whose texts stay in the guest's memory.
fn element<T: Lift>(
    store: &mut GuestStore<'_>,
    list: &WasmList<T>,
    at: usize,
) -> wasmtime::Result<Option<T>> {
    list.get(store, at).transpose()
}

fn bad_seed(key: &str, why: &JsonError) -> ChildError {
    ChildError::BadSeed(format!("the value of \"{}\" is not acceptable JSON: {why}", clean(key, 140)))
}

fn message(role: wit::Role, text: String) -> Message {
    match role {
        wit::Role::User => Message::User(text),
        wit::Role::Assistant => Message::Assistant(AssistantMessage { text, ..AssistantMessage::default() }),
    }
}

/// Returns how many bytes of text an outcome has once it is converted.
pub(crate) fn child_bytes(outcome: &ChildOutcome) -> usize {
    let of_state = |state: &Option<BTreeMap<String, Arc<Value>>>| -> usize {
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

fn entries(state: BTreeMap<String, Arc<Value>>) -> Vec<wit::Entry> {
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
