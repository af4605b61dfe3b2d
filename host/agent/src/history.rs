//! Shortening of a conversation before a model sees it.
//!
//! A long conversation is shortened at turn boundaries only: no answer is shown without
//! its call, no call without its answers, and the current question is always kept.

use crate::content::ContentPart;
use crate::message::Message;
use std::sync::Arc;

/// The length of a growing conversation. Most are never shortened, and then only new
/// messages are examined.
#[derive(Debug, Default)]
pub struct History {
    /// The number of messages that `bytes` includes.
    counted: usize,
    /// The size of the counted messages.
    bytes: usize,
}

impl History {
    /// Returns the conversation, shortened to about `max_bytes`. The oldest exchanges are
    /// dropped first, then the oldest turns since the current question. The question and
    /// the last turn stay, however large they are.
    pub fn shown(&mut self, messages: &Arc<Vec<Message>>, max_bytes: usize) -> Arc<Vec<Message>> {
        if messages.len() < self.counted {
            *self = Self::default();
        }
        self.bytes += messages[self.counted..].iter().map(bytes).sum::<usize>();
        self.counted = messages.len();
        if self.bytes <= max_bytes { Arc::clone(messages) } else { shorten(messages, max_bytes) }
    }
}

/// Returns the conversation without its oldest parts.
fn shorten(messages: &Arc<Vec<Message>>, max_bytes: usize) -> Arc<Vec<Message>> {
    let sizes: Vec<usize> = messages.iter().map(bytes).collect();
    let total: usize = sizes.iter().sum();
    if total <= max_bytes {
        return Arc::clone(messages);
    }
    let question = messages.iter().rposition(is_question).unwrap_or(0);
    let (mut from, mut left) = (0, total);
    // Whole exchanges: a conversation that is shown begins with a user's words.
    while from < question && (left > max_bytes || !is_question(&messages[from])) {
        left -= sizes[from];
        from += 1;
    }
    if left <= max_bytes {
        return Arc::new(messages[from..].to_vec());
    }
    // Only the current question and the turns since are left. Drop the oldest turns; the last one stays.
    let turns: Vec<usize> =
        (question + 1..messages.len()).filter(|at| matches!(messages[*at], Message::Assistant(_))).collect();
    let mut tail = turns.first().copied().unwrap_or(messages.len());
    for next in turns.into_iter().skip(1) {
        if left <= max_bytes {
            break;
        }
        left -= sizes[tail..next].iter().sum::<usize>();
        tail = next;
    }
    let mut kept = vec![messages[question].clone()];
    kept.extend_from_slice(&messages[tail..]);
    Arc::new(kept)
}

fn is_question(message: &Message) -> bool {
    matches!(message, Message::User(_))
}

/// Returns the size of a message's text, without the provider's framing. Images count with a
/// fraction of their bytes.
fn bytes(message: &Message) -> usize {
    match message {
        Message::User(text) | Message::Note(text) => text.len(),
        Message::Answer(answer) => {
            answer.content.len() + answer.images.iter().map(ContentPart::counted_bytes).sum::<usize>()
        }
        Message::Assistant(said) => {
            let calls: usize = said.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
            said.text.len() + said.reasoning.as_ref().map_or(0, String::len) + calls
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Answer, AssistantMessage, ModelCall};
    use proptest::prelude::*;

    fn turn(calls: usize, weight: usize, id: usize) -> Vec<Message> {
        let made =
            |n: usize| ModelCall { id: format!("c{id}-{n}"), name: "t".to_owned(), ..ModelCall::default() };
        let said = AssistantMessage {
            text: "x".repeat(weight),
            calls: Arc::new((0..calls).map(made).collect()),
            ..Default::default()
        };
        let answers = (0..calls).map(|n| {
            let content = Arc::from("y".repeat(weight));
            Message::Answer(Answer {
                call_id: crate::format_smolstr!("c{id}-{n}"),
                tool_name: "t".into(),
                content,
                is_error: false,
                images: Vec::new(),
            })
        });
        std::iter::once(Message::Assistant(said)).chain(answers).collect()
    }

    fn conversation() -> impl Strategy<Value = Vec<Message>> {
        let exchange = (1usize..40, proptest::collection::vec((0usize..4, 0usize..40), 0..5));
        proptest::collection::vec(exchange, 1..6).prop_map(|exchanges| {
            let mut messages = Vec::new();
            for (question, turns) in exchanges {
                messages.push(Message::User("q".repeat(question)));
                for (calls, weight) in turns {
                    let id = messages.len();
                    messages.extend(turn(calls, weight, id));
                }
            }
            messages
        })
    }

    proptest! {
        #[test]
        fn a7_no_cut_breaks_a_turn_or_drops_the_question(messages in conversation(), max in 0usize..600) {
            let messages = Arc::new(messages);
            let kept = shorten(&messages, max);
            let question = messages.iter().rev().find(|m| matches!(m, Message::User(_)));
            prop_assert!(matches!(kept.first(), Some(Message::User(_))));
            prop_assert_eq!(kept.iter().rev().find(|m| matches!(m, Message::User(_))), question);
            let mut open: Vec<&str> = Vec::new();
            for message in kept.iter() {
                match message {
                    Message::Answer(answer) => {
                        prop_assert!(!open.is_empty());
                        prop_assert_eq!(open.remove(0), answer.call_id.as_str());
                    }
                    Message::Assistant(said) => {
                        prop_assert!(open.is_empty());
                        open = said.calls.iter().map(|call| call.id.as_str()).collect();
                    }
                    _ => prop_assert!(open.is_empty()),
                }
            }
            prop_assert!(open.is_empty());
            prop_assert_eq!(kept.last(), messages.last());
        }

        #[test]
        fn a7_a_conversation_that_grows_is_shown_as_one_that_is_there(messages in conversation(), max in 0usize..600) {
            let mut history = History::default();
            for length in 1..=messages.len() {
                let so_far = Arc::new(messages[..length].to_vec());
                prop_assert_eq!(history.shown(&so_far, max), shorten(&so_far, max));
            }
        }

        #[test]
        fn a7_what_fits_is_kept_whole(messages in conversation()) {
            let total: usize = messages.iter().map(bytes).sum();
            let messages = Arc::new(messages);
            prop_assert_eq!(shorten(&messages, total), messages);
        }

        #[test]
        fn a7_it_is_shortened_as_far_as_turns_allow(messages in conversation(), max in 0usize..600) {
            let messages = Arc::new(messages);
            let kept = shorten(&messages, max);
            let size: usize = kept.iter().map(bytes).sum();
            let indispensable = kept.len() <= 1 || kept.iter().filter(|m| matches!(m, Message::Assistant(_))).count() <= 1;
            prop_assert!(size <= max || indispensable, "{} bytes kept of {}", size, max);
        }
    }
}
