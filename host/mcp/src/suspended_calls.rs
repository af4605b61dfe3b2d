//! Calls that wait for a person, so that a repeated call continues instead of starting anew.

use super::sessions::{oldest_of_largest_owner, owner_of};
use super::task_runs::TaskRuns;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tollgate_agent::proposal::Arguments;
use tollgate_agent::run::event::SuspendedCall;
use uuid::Uuid;

/// The maximum number of remembered calls per server. The oldest of the owner with the most is
/// forgotten first, and still waits in the store.
const MAX_PENDING: usize = 1_024;
/// The maximum total size of their questions, in bytes; beyond it, the oldest is forgotten too.
const MAX_PENDING_BYTES: usize = 32 * 1024 * 1024;

/// The identity of a call when a client repeats it. Arguments are compared by value, because a
/// model that writes them again may change their order and spacing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallKey {
    thread_id: String,
    tool_name: String,
    /// Whether the name was that of an agent when it was called.
    is_agent: bool,
    arguments: [u8; 32],
}

impl CallKey {
    /// Identifies a call of this tool by the arguments that were sent.
    pub(super) fn new(thread_id: &str, tool_name: &str, sent: &str) -> Self {
        let mut hash = Sha256::new();
        match Arguments::read(sent) {
            Ok(arguments) => feed(arguments.value(), &mut hash),
            // No JSON begins with this byte: arguments that cannot be parsed equal only
            // themselves.
            Err(_) => {
                hash.update(b"?");
                hash.update(sent.as_bytes());
            }
        }
        Self {
            thread_id: thread_id.to_owned(),
            tool_name: tool_name.to_owned(),
            is_agent: false,
            arguments: hash.finalize().into(),
        }
    }

    /// Sets whether it is an agent that is called. A tool and an agent that have the same name one
    /// after the other do not continue each other's calls.
    pub(super) fn of_agent(self, is_agent: bool) -> Self {
        Self { is_agent, ..self }
    }
}

/// Hashes a value as JSON without spaces and with sorted keys.
fn feed(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            hash.update(b"{");
            for (key, value) in entries {
                hash.update(serde_json::to_vec(key).unwrap_or_default());
                hash.update(b":");
                feed(value, hash);
                hash.update(b",");
            }
            hash.update(b"}");
        }
        Value::Array(values) => {
            hash.update(b"[");
            for value in values {
                feed(value, hash);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        one => hash.update(one.to_string()),
    }
}

/// A call that waits.
#[derive(Debug, Clone)]
pub(super) struct WaitingCall {
    /// The call's unguessable handle for its client.
    pub(super) handle: String,
    pub(super) asked: CallKey,
    pub(super) run_id: Arc<str>,
    pub(super) question: Arc<SuspendedCall>,
    /// The serialized size of the question.
    bytes: usize,
}

/// All waiting calls of a server.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    /// Oldest first.
    calls: Mutex<VecDeque<WaitingCall>>,
    /// Calls that their clients know as tasks, and their state.
    pub(super) tasks: TaskRuns,
}

impl PendingCalls {
    /// Returns whether no call waits, which is the usual case.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Remembers a call that waits; the run keeps its handle.
    pub(super) fn add(
        &self,
        asked: &CallKey,
        run_id: &Arc<str>,
        question: &Arc<SuspendedCall>,
    ) -> WaitingCall {
        let bytes = serde_json::to_vec(&**question).map_or(0, |written| written.len());
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let known = calls.iter().position(|call| call.run_id == *run_id);
        let handle = known
            .and_then(|at| calls.remove(at))
            .map_or_else(|| Uuid::new_v4().simple().to_string(), |call| call.handle);
        let pending = WaitingCall {
            handle,
            asked: asked.clone(),
            run_id: Arc::clone(run_id),
            question: Arc::clone(question),
            bytes,
        };
        calls.push_back(pending.clone());
        let mut held: usize = calls.iter().map(|call| call.bytes).sum();
        while calls.len() > MAX_PENDING || (held > MAX_PENDING_BYTES && calls.len() > 1) {
            // The newest stays.
            let others = calls.iter().take(calls.len() - 1);
            let sizes = others.map(|call| (owner_of(&call.asked.thread_id), call.bytes));
            let oldest = oldest_of_largest_owner(sizes);
            held -= calls.remove(oldest).map_or(0, |oldest| oldest.bytes);
        }
        pending
    }

    /// Takes out the call that is repeated, by its handle or by an identical call.
    pub(super) fn take(&self, asked: &CallKey, handle: Option<&str>) -> Option<WaitingCall> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let repeated =
            |call: &WaitingCall| call.asked == *asked && handle.is_none_or(|handle| handle == call.handle);
        let at = calls.iter().position(repeated)?;
        calls.remove(at)
    }

    /// Forgets the call of a run that has ended.
    pub(super) fn forget(&self, run_id: &str) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|call| &*call.run_id != run_id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use tollgate_agent::outcome::Ticket;

    fn asked(sent: &str) -> CallKey {
        CallKey::new("thread", "tool", sent)
    }

    fn question(bytes: usize) -> Arc<SuspendedCall> {
        let ticket = Ticket::confirm("x".repeat(bytes));
        let suspended = json!({
            "call_id": "c", "suspension_id": "s", "tool_name": "t", "ticket": ticket,
        });
        Arc::new(serde_json::from_value(suspended).unwrap())
    }

    #[test]
    fn w2_arguments_are_the_same_when_they_say_the_same() {
        let first = asked(r#"{"a": 1, "b": {"c": [1, 2], "d": "x"}}"#);
        assert_eq!(first, asked("{\"b\":{\"d\":\"\\u0078\",\"c\":[1,2]},\n \"a\":1}"));
        assert_eq!(asked("{}"), asked(""));
        for other in [
            r#"{"a": 2, "b": {"c": [1, 2], "d": "x"}}"#,
            r#"{"a": 1, "b": {"c": [2, 1], "d": "x"}}"#,
            r#"{"a": 1, "b": {"c": [1, 2], "d": "x"}, "e": null}"#,
            r#"{"a": "1", "b": {"c": [1, 2], "d": "x"}}"#,
        ] {
            assert_ne!(first, asked(other), "{other}");
        }
        assert_ne!(asked(r#"{"a":1,"a":2}"#), asked(r#"{"a":2,"a":1}"#), "what cannot be read is itself");
    }

    #[test]
    fn no_owner_pushes_out_the_calls_of_others() {
        let calls = PendingCalls::default();
        let of = |thread: &str| CallKey::new(thread, "tool", "{}");
        calls.add(&of("ada/1"), &"ada".into(), &question(10));
        for number in 0..MAX_PENDING {
            calls.add(&of(&format!("eve/{number}")), &format!("eve {number}").into(), &question(10));
        }
        assert_eq!(calls.calls.lock().unwrap().len(), MAX_PENDING);
        assert!(calls.take(&of("eve/0"), None).is_none());
        assert!(calls.take(&of("ada/1"), None).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_newest_stays() {
        let calls = PendingCalls::default();
        for number in 0..MAX_PENDING + 10 {
            calls.add(&asked(&format!("[{number}]")), &number.to_string().into(), &question(10));
        }
        assert_eq!(calls.calls.lock().unwrap().len(), MAX_PENDING);
        assert!(calls.take(&asked("[0]"), None).is_none(), "the oldest is forgotten");
        for number in 0..5 {
            calls.add(&asked(&number.to_string()), &format!("l{number}").into(), &question(10 * 1024 * 1024));
        }
        let held: usize = calls.calls.lock().unwrap().iter().map(|call| call.bytes).sum();
        assert!(held <= MAX_PENDING_BYTES, "{held}");
        assert!(calls.take(&asked("4"), None).is_some());
    }
}
