//! The conversations that this host read last. Messages are only ever added, so the next read of one
//! transfers only what is new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_agent::message::Message;

/// The maximum number of conversations, and the size of their text together, in bytes.
const MAX_NUMBER: usize = 64;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// A conversation as far as it was read.
#[derive(Clone, Default)]
pub(crate) struct KnownConversation {
    pub(crate) messages: Arc<Vec<Message>>,
    /// The text of the last message. A database that went back in time has another one there.
    pub(crate) last: Arc<str>,
    /// The size of the text of all messages.
    pub(crate) bytes: usize,
}

/// The conversations by thread.
#[derive(Default)]
pub(crate) struct Conversations(Mutex<HashMap<String, KnownConversation>>);

impl Conversations {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, KnownConversation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of a conversation, which is empty if it was not read.
    pub(crate) fn get(&self, thread_id: &str) -> KnownConversation {
        self.lock().get(thread_id).cloned().unwrap_or_default()
    }

    /// Keeps a conversation that was just read, unless it is large.
    pub(crate) fn keep(&self, thread_id: &str, known: KnownConversation) {
        let mut all = self.lock();
        all.remove(thread_id);
        if known.messages.is_empty() || known.bytes > MAX_BYTES / 4 {
            return;
        }
        let bytes: usize = all.values().map(|other| other.bytes).sum();
        if all.len() >= MAX_NUMBER || bytes + known.bytes > MAX_BYTES {
            // Those in use are read again; others would keep them out for good.
            all.clear();
        }
        all.insert(thread_id.to_owned(), known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_are_kept_up_to_a_number_and_a_size() {
        let known = |bytes| KnownConversation {
            messages: Arc::new(vec![Message::User("Go.".into())]),
            bytes,
            ..KnownConversation::default()
        };
        let all = Conversations::default();
        let count = |all: &Conversations| all.lock().len();
        all.keep("large", known(MAX_BYTES / 4 + 1));
        assert_eq!(count(&all), 0);
        for number in 0..MAX_NUMBER {
            all.keep(&number.to_string(), known(1));
        }
        assert_eq!(count(&all), MAX_NUMBER);
        all.keep("one more", known(1));
        assert_eq!(count(&all), 1);
        for number in 0..5 {
            all.keep(&number.to_string(), known(MAX_BYTES / 4));
        }
        assert!(count(&all) <= 4, "{}", count(&all));
        all.keep("4", KnownConversation::default());
        assert!(all.get("4").messages.is_empty());
    }
}
