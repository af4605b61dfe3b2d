//! The turns of an agent that runs elsewhere and is reached by a protocol.
//!
//! Such a run consists of two calls. The first sends the message and records the id of the remote
//! task; the second waits for the answer, and may be repeated after a crash. The conversation
//! determines which of them is next.

use crate::backend::Capabilities;
use crate::message::Message;
use crate::name::{FOLLOW_AGENT, MESSAGE_AGENT};
use serde::{Deserialize, Serialize};

/// The most remote tasks that one run leaves behind to be cancelled.
const MAX_OPEN: usize = 8;

/// The next step of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteStep {
    /// Send a message.
    Send(RemoteMessage),
    /// Wait until this task has ended or asks.
    Follow(RemoteTask),
    /// The answer.
    Done(String),
    /// The reason why there is no answer.
    Failed(String),
}

/// The message that is sent, whole: nothing else of the conversation leaves the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteMessage {
    /// The last message of the user.
    pub message: String,
    /// The messages before it, as text; `None` if the remote agent gets the last one only, or
    /// already knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<String>,
    /// The remote conversation that the message continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
}

/// A task of a remote agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteTask {
    /// The id of the task.
    pub task_id: String,
    /// The conversation that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
}

/// The result of either call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteAnswer {
    /// The answer; `None` while the task works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// The task; `None` if the remote agent answered without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
}

/// Returns the capabilities of a remote agent. It gets earlier messages only if `transcript` is
/// set, and neither takes state nor returns any.
#[must_use]
pub fn capabilities(transcript: bool) -> Capabilities {
    Capabilities {
        cancellation: true,
        continuation: true,
        decisions: true,
        persistence: true,
        waits: true,
        transcript,
        output: false,
        state: false,
    }
}

/// Derives the next step from the conversation so far.
#[must_use]
pub fn next(messages: &[Message], transcript: bool) -> RemoteStep {
    let asked = messages.iter().enumerate().rev().find_map(|(at, message)| match message {
        Message::User(text) => Some((at, text)),
        _ => None,
    });
    let Some((at, asked)) = asked else {
        return RemoteStep::Failed("it has no message to answer".to_owned());
    };
    let (earlier, since) = messages.split_at(at);
    let last = since.iter().rev().find_map(|message| match message {
        Message::Answer(answer) if is_remote(&answer.tool_name) => Some(answer),
        _ => None,
    });
    let Some(last) = last else {
        let context_id = answers(earlier).filter_map(|answer| answer.context_id).last();
        let earlier =
            (transcript && context_id.is_none()).then(|| transcript_text(earlier)).filter(|t| !t.is_empty());
        return RemoteStep::Send(RemoteMessage { message: asked.clone(), earlier, context_id });
    };
    if last.is_error {
        return RemoteStep::Failed(last.content.to_string());
    }
    match parsed(&last.content) {
        Some(RemoteAnswer { response: Some(response), .. }) => RemoteStep::Done(response),
        Some(RemoteAnswer { task_id: Some(task_id), context_id, .. }) => {
            RemoteStep::Follow(RemoteTask { task_id, context_id })
        }
        // A person or a hook replaced the answer.
        _ => RemoteStep::Done(last.content.to_string()),
    }
}

/// Returns the remote tasks whose answers the conversation does not have, newest last.
#[must_use]
pub fn open_tasks(messages: &[Message]) -> Vec<RemoteTask> {
    let mut open: Vec<RemoteTask> = Vec::new();
    for answer in answers(messages) {
        let Some(task_id) = answer.task_id else { continue };
        match answer.response {
            // Earlier runs have cancelled what they left behind.
            Some(_) => open.clear(),
            None => open.push(RemoteTask { task_id, context_id: answer.context_id }),
        }
    }
    open.split_off(open.len().saturating_sub(MAX_OPEN))
}

fn is_remote(tool_name: &str) -> bool {
    matches!(tool_name, MESSAGE_AGENT | FOLLOW_AGENT)
}

fn answers(messages: &[Message]) -> impl Iterator<Item = RemoteAnswer> {
    messages.iter().filter_map(|message| match message {
        Message::Answer(answer) if is_remote(&answer.tool_name) && !answer.is_error => {
            parsed(&answer.content)
        }
        _ => None,
    })
}

fn parsed(content: &str) -> Option<RemoteAnswer> {
    serde_json::from_str(content).ok()
}

/// Returns the words of a conversation. Calls and their results are left out.
fn transcript_text(messages: &[Message]) -> String {
    let lines = messages.iter().filter_map(|message| match message {
        Message::User(text) => Some(format!("User: {text}")),
        Message::Assistant(said) if !said.text.is_empty() => Some(format!("Assistant: {}", said.text)),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Answer, AssistantMessage};
    use serde_json::{Value, json};

    fn user(text: &str) -> Message {
        Message::User(text.to_owned())
    }

    fn answer(tool: &str, content: Value) -> Message {
        Message::Answer(Answer {
            call_id: "c".into(),
            tool_name: tool.into(),
            content: content.to_string().into(),
            is_error: false,
            images: Vec::new(),
        })
    }

    fn sent(task: &str) -> Message {
        answer(MESSAGE_AGENT, json!({"task_id": task, "context_id": "x"}))
    }

    fn followed(task: &str) -> Message {
        answer(FOLLOW_AGENT, json!({"response": "Here.", "task_id": task, "context_id": "x"}))
    }

    #[test]
    fn a_message_is_sent_followed_and_answered() {
        let task = RemoteTask { task_id: "t".to_owned(), context_id: Some("x".to_owned()) };
        let mut messages = vec![user("Where?")];
        let message = RemoteMessage { message: "Where?".to_owned(), ..RemoteMessage::default() };
        assert_eq!(next(&messages, false), RemoteStep::Send(message));
        messages.push(sent("t"));
        assert_eq!(next(&messages, false), RemoteStep::Follow(task.clone()));
        assert_eq!(open_tasks(&messages), [task]);
        messages.push(followed("t"));
        assert_eq!(next(&messages, false), RemoteStep::Done("Here.".to_owned()));
        assert_eq!(open_tasks(&messages), []);
        let at_once = vec![user("Where?"), answer(MESSAGE_AGENT, json!({"response": "There."}))];
        assert_eq!(next(&at_once, false), RemoteStep::Done("There.".to_owned()));
    }

    #[test]
    fn a_later_message_continues_the_remote_conversation() {
        let messages = [user("Where?"), sent("t"), followed("t"), user("And then?")];
        let RemoteStep::Send(message) = next(&messages, true) else { unreachable!() };
        assert_eq!((message.context_id.as_deref(), message.earlier), (Some("x"), None));
    }

    #[test]
    fn earlier_messages_are_sent_only_if_that_is_configured() {
        let said = AssistantMessage { text: "Hello.".to_owned(), ..AssistantMessage::default() };
        let messages = [user("Hi."), Message::Assistant(said), sent_by_other(), user("Where?")];
        let RemoteStep::Send(message) = next(&messages, false) else { unreachable!() };
        assert_eq!(message.earlier, None);
        let RemoteStep::Send(message) = next(&messages, true) else { unreachable!() };
        assert_eq!(message.earlier.as_deref(), Some("User: Hi.\n\nAssistant: Hello."));
    }

    fn sent_by_other() -> Message {
        answer("echo", json!({"task_id": "not one", "context_id": "nor this"}))
    }

    #[test]
    fn a_failed_call_ends_the_run_and_leaves_its_task_open() {
        let failed = Message::Answer(Answer {
            call_id: "c".into(),
            tool_name: FOLLOW_AGENT.into(),
            content: "It refused.".into(),
            is_error: true,
            images: Vec::new(),
        });
        let messages = [user("Where?"), sent("t"), failed];
        assert_eq!(next(&messages, false), RemoteStep::Failed("It refused.".to_owned()));
        assert_eq!(open_tasks(&messages).len(), 1);
        let many: Vec<Message> = (0..20).map(|n| sent(&n.to_string())).collect();
        assert_eq!(open_tasks(&many).len(), MAX_OPEN);
        assert_eq!(next(&[], false), RemoteStep::Failed("it has no message to answer".to_owned()));
    }
}
