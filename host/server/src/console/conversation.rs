//! Conversations: messages of people, models and tools, as text only.

use super::text;
use maud::{Markup, PreEscaped, html};
use tollgate_agent::message::Message;

/// The maximum number of bytes of messages on one page.
const MAX_PAGE_BYTES: usize = 45 * 1024;
/// The maximum number of bytes of one message.
const MAX_MESSAGE_BYTES: usize = 12 * 1024;
/// The maximum number of bytes of a tool's answer.
const MAX_ANSWER_BYTES: usize = 2 * 1024;

/// Renders messages from this one on. Returns the first one that does not fit on the page.
pub(super) fn messages(all: &[Message], from: usize) -> (Markup, Option<usize>) {
    let (mut html, mut next) = (String::new(), None);
    for (index, message) in all.iter().enumerate().skip(from) {
        let one = message_item(message).into_string();
        if html.len() + one.len() > MAX_PAGE_BYTES && !html.is_empty() {
            next = Some(index);
            break;
        }
        html.push_str(&one);
    }
    (html! { ol.conversation { (PreEscaped(html)) } }, next)
}

/// Renders the last messages that fit on a page. Returns the number of earlier ones.
pub(super) fn last_messages(all: &[Message], max_bytes: usize) -> (Vec<String>, usize) {
    let (mut items, mut bytes) = (Vec::new(), 0);
    for message in all.iter().rev() {
        let one = message_item(message).into_string();
        bytes += one.len();
        if bytes > max_bytes && !items.is_empty() {
            break;
        }
        items.push(one);
    }
    items.reverse();
    let earlier = all.len() - items.len();
    (items, earlier)
}

fn message_item(message: &Message) -> Markup {
    html! {
        @match message {
            Message::User(text) => li.said.user { span.kind { "User" } p.text { (text::lines(text, MAX_MESSAGE_BYTES)) } },
            Message::Note(text) => li.said.host { span.kind { "Note of the host" } p.text { (text::lines(text, MAX_ANSWER_BYTES)) } },
            Message::Assistant(message) => li.said.model {
                span.kind { "Model" }
                @if let Some(reasoning) = &message.reasoning {
                    details { summary { "Reasoning" } p.text.muted { (text::lines(reasoning, MAX_ANSWER_BYTES)) } }
                }
                @if !message.text.trim().is_empty() { p.text { (text::lines(message.text.trim(), MAX_MESSAGE_BYTES)) } }
                @if !message.calls.is_empty() { ul.calls { @for call in message.calls.iter() {
                    li { span.tool { (text::line(&call.name, 64)) } " " code { (text::line(&call.arguments, 300)) } }
                } } }
            },
            Message::Answer(answer) => li.said.answer.bad[answer.is_error] {
                span.kind { span.tool { (text::line(&answer.tool_name, 64)) } @if answer.is_error { " failed" } @else { " answered" } }
                pre { (text::lines(&answer.content, MAX_ANSWER_BYTES)) }
            },
        }
    }
}
