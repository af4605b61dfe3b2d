//! Conversations that clients keep themselves, as the history of a new thread.

use tollgate_agent::message::{AssistantMessage, Message};

/// The author of a client's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Instructions of the client: a system or developer message.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool that the client ran.
    Tool,
}

/// One message of a client's conversation, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientMessage {
    pub(crate) role: Role,
    pub(crate) text: String,
}

/// Splits a conversation into its history and its prompt, which is the last message and must be
/// the user's; `None` if it is not.
pub(crate) fn split(mut messages: Vec<ClientMessage>) -> Option<(Vec<Message>, String)> {
    let prompt = messages.pop().filter(|last| last.role == Role::User)?;
    Some((history(messages), prompt.text))
}

/// Returns a client's messages as the history of a thread.
///
/// A client's instructions never become the system prompt: the model reads them as a note that
/// names their origin. The calls and answers of tools become text, because they are not calls of
/// this host.
pub(crate) fn history(messages: Vec<ClientMessage>) -> Vec<Message> {
    let history = messages.into_iter().filter(|message| !message.text.trim().is_empty());
    let history = history.map(|ClientMessage { role, text }| match role {
        Role::System => Message::Note(client_instructions(&text)),
        Role::User => Message::User(text),
        Role::Assistant => Message::Assistant(AssistantMessage { text, ..AssistantMessage::default() }),
        Role::Tool => Message::Note(format!("The client reports the answer of a tool that it ran:\n{text}")),
    });
    history.collect()
}

/// Returns the note as which the model reads a client's instructions.
pub(crate) fn client_instructions(text: &str) -> String {
    format!("The client, not the operator, gives these instructions:\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, text: &str) -> ClientMessage {
        ClientMessage { role, text: text.to_owned() }
    }

    #[test]
    fn the_last_user_message_is_the_prompt_and_instructions_are_notes() {
        let messages = vec![
            message(Role::System, "Be brief."),
            message(Role::User, "Hello"),
            message(Role::Assistant, "Hi"),
            message(Role::Assistant, ""),
            message(Role::Tool, "42"),
            message(Role::User, "Why?"),
        ];
        let (history, prompt) = split(messages.clone()).expect("it ends with the user");
        assert_eq!(prompt, "Why?");
        assert_eq!(history.len(), 4, "{history:?}");
        assert!(matches!(&history[0], Message::Note(text) if text.contains("not the operator")));
        assert!(matches!(&history[3], Message::Note(text) if text.ends_with("42")));
        let unasked: Vec<ClientMessage> = messages.into_iter().take(3).collect();
        assert_eq!(split(unasked), None);
        assert_eq!(split(Vec::new()), None);
    }
}
