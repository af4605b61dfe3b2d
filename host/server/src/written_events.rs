//! Events as streams write them. All followers of a run get the same bytes, so each event is written
//! once for most of them.

use axum::body::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tollgate_agent::run::StoredEvent;

/// The maximum number of written events that are kept, and the maximum size of one in bytes.
const MAX_WRITTEN: usize = 64;
const MAX_WRITTEN_BYTES: usize = 16 * 1024;

/// The latest events as they were written.
#[derive(Debug, Default)]
pub(crate) struct WrittenEvents(Mutex<VecDeque<(Weak<StoredEvent>, Bytes)>>);

impl WrittenEvents {
    /// Returns an event as it is written.
    pub(crate) fn of(&self, event: &Arc<StoredEvent>, write: impl FnOnce() -> Bytes) -> Bytes {
        // The allocation of an event with a weak reference is not used for another one.
        let is_it = |(kept, _): &&(Weak<StoredEvent>, Bytes)| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(event));
        if let Some((_, bytes)) = self.lock().iter().find(is_it) {
            return bytes.clone();
        }
        let bytes = write();
        // An event with one reference has no other follower.
        if bytes.len() <= MAX_WRITTEN_BYTES && Arc::strong_count(event) > 1 {
            let mut written = self.lock();
            if written.len() >= MAX_WRITTEN {
                written.pop_back();
            }
            written.push_front((Arc::downgrade(event), bytes.clone()));
        }
        bytes
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Weak<StoredEvent>, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_agent::run::Event;

    #[test]
    fn an_event_with_several_followers_is_written_once() {
        let events = WrittenEvents::default();
        let event =
            |number| Arc::new(StoredEvent { run_id: "r".into(), number, at_ms: 0, event: Event::RunWaiting });
        let (one, other) = (event(1), event(1));
        let followers = [Arc::clone(&one), Arc::clone(&one)];
        let written: Vec<Bytes> = followers
            .iter()
            .enumerate()
            .map(|(at, event)| events.of(event, || Bytes::from(at.to_string())))
            .collect();
        assert_eq!(written, ["0", "0"]);
        assert_eq!(events.of(&other, || Bytes::from("other")), "other");
        let many: Vec<_> = (0..=MAX_WRITTEN as u64).map(event).collect();
        let again: Vec<_> = many.iter().map(Arc::clone).collect();
        again.iter().for_each(|event| drop(events.of(event, Bytes::new)));
        assert_eq!(events.lock().len(), MAX_WRITTEN, "only the latest are kept");
    }
}
