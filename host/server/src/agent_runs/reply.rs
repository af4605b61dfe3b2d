//! The model's reply while it is written, for clients that must not see a piece twice.
//!
//! Pieces of a reply are transient: a slow reader loses some, and a client that joins late misses
//! the first ones. The stored reply has the whole text. [`ReplyText`] forwards pieces only as long
//! as it has all of them, and derives what is missing from the stored reply.

use tollgate::LiveContent;
use tollgate::run::LiveUpdate;
use tollgate_agent::message::ModelReply;

/// A piece to send to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// More of the reply's text.
    Text(&'a str),
    /// More of the model's reasoning.
    Reasoning(&'a str),
    /// The model's attempt failed. Everything that was sent of this reply is void.
    Restarted,
}

/// The part of a stored reply that a client lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The text continues what was sent; empty if everything was sent.
    Append(String),
    /// The text differs from what was sent, because a hook changed the reply or the client lost
    /// pieces of it. This is the whole text.
    Replace(String),
}

impl Rest {
    fn of(whole: &str, sent: &str) -> Self {
        match whole.strip_prefix(sent) {
            Some(rest) => Rest::Append(rest.to_owned()),
            None => Rest::Replace(whole.to_owned()),
        }
    }
}

/// The length from which the text of a reply in progress may be cut, in bytes.
const MAYBE_CUT_BYTES: usize = 48 * 1024;

/// The text and reasoning of one reply, as far as they were sent.
#[derive(Debug, Default)]
pub(crate) struct ReplyText {
    /// The index of the next transient event; `None` if it is not known, because the client joins
    /// the run.
    next: Option<u64>,
    /// Whether pieces of the text are missing. None are forwarded until the reply is stored.
    has_gap: bool,
    /// Whether pieces of the reasoning are missing.
    has_reasoning_gap: bool,
    text: String,
    reasoning: String,
}

impl ReplyText {
    /// Takes note that the stream was interrupted and continues with stored events.
    pub(crate) fn rejoin(&mut self) {
        self.next = None;
    }

    /// Returns the piece to send for a transient event; `None` if there is none.
    pub(crate) fn live<'a>(&mut self, update: &'a LiveUpdate) -> Option<Piece<'a>> {
        let is_next = update.index == self.next.unwrap_or(1);
        let joins = self.next.replace(update.index + 1).is_none();
        if let LiveContent::TextSoFar { text } = &update.piece {
            let rest = text.strip_prefix(self.text.as_str());
            (self.has_gap, self.has_reasoning_gap) = (rest.is_none() || text.len() >= MAYBE_CUT_BYTES, true);
            let rest = rest.filter(|rest| !rest.is_empty())?;
            self.text.push_str(rest);
            return Some(Piece::Text(rest));
        }
        if !is_next {
            self.has_reasoning_gap = true;
            // A client that joins in the middle of a text receives its beginning first.
            self.has_gap |= !joins || !self.text.is_empty();
        }
        match &update.piece {
            LiveContent::ReplyRestarted { .. } => {
                let had_any = !self.text.is_empty() || !self.reasoning.is_empty();
                self.clear();
                had_any.then_some(Piece::Restarted)
            }
            LiveContent::TextDelta { text } if !self.has_gap => {
                self.text.push_str(text);
                Some(Piece::Text(text))
            }
            LiveContent::ReasoningDelta { text } if !self.has_reasoning_gap => {
                self.reasoning.push_str(text);
                Some(Piece::Reasoning(text))
            }
            _ => None,
        }
    }

    /// Returns the parts of the stored reply that were not sent: of its reasoning, and of its text.
    pub(crate) fn unsent_parts(&mut self, reply: &ModelReply) -> (Rest, Rest) {
        let message = &reply.message;
        let reasoning = Rest::of(message.reasoning.as_deref().unwrap_or_default(), &self.reasoning);
        let text = Rest::of(&message.text, &self.text);
        self.clear();
        (reasoning, text)
    }

    /// Returns the number of bytes of the text that were sent.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    fn clear(&mut self) {
        self.text.clear();
        self.reasoning.clear();
        (self.has_gap, self.has_reasoning_gap) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tollgate_agent::message::AssistantMessage;

    fn text(index: u64, text: &str) -> LiveUpdate {
        let piece = LiveContent::TextDelta { text: text.to_owned() };
        LiveUpdate { run_id: Arc::from("r"), after: 3, index, piece }
    }

    fn reply(text: &str) -> ModelReply {
        let message = AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() };
        ModelReply { message, ..ModelReply::default() }
    }

    #[test]
    fn pieces_are_forwarded_until_one_is_missing() {
        let mut sent = ReplyText::default();
        assert_eq!(sent.live(&text(1, "One ")), Some(Piece::Text("One ")));
        assert_eq!(sent.live(&text(3, "three")), None, "the second is missing");
        assert_eq!(sent.unsent_parts(&reply("One two three")).1, Rest::Append("two three".to_owned()));
        assert_eq!(sent.live(&text(4, "Four")), Some(Piece::Text("Four")), "the next reply has no gap");
    }

    #[test]
    fn a_client_that_joins_in_the_middle_of_a_reply_gets_it_whole_and_once() {
        let mut sent = ReplyText::default();
        let so_far = LiveContent::TextSoFar { text: "One two ".to_owned() };
        let so_far = LiveUpdate { piece: so_far, ..text(6, "") };
        assert_eq!(sent.live(&so_far), Some(Piece::Text("One two ")));
        assert_eq!(sent.live(&text(7, "three")), Some(Piece::Text("three")));
        assert_eq!(sent.unsent_parts(&reply("One two three")).1, Rest::Append(String::new()));
        assert_eq!(sent.live(&text(8, "Four")), Some(Piece::Text("Four")));
    }

    #[test]
    fn a_run_that_continues_is_heard_from_its_first_piece() {
        let mut sent = ReplyText::default();
        sent.live(&text(1, "One"));
        sent.unsent_parts(&reply("One"));
        sent.rejoin();
        assert_eq!(sent.live(&text(1, "Two")), Some(Piece::Text("Two")));
    }

    #[test]
    fn a_changed_reply_replaces_what_was_sent() {
        let mut sent = ReplyText::default();
        sent.live(&text(1, "My password is"));
        assert_eq!(sent.unsent_parts(&reply("[withheld]")).1, Rest::Replace("[withheld]".to_owned()));
    }
}
