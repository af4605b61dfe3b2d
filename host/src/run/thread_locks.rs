//! One lock for each thread, and what it guards.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The locks of the threads that are in use, with the data that each guards while it is in use.
#[derive(Debug, Default)]
pub(crate) struct ThreadLocks<T = ()>(Mutex<HashMap<Arc<str>, Weak<tokio::sync::Mutex<T>>>>);

impl<T: Default> ThreadLocks<T> {
    /// Returns the lock of a thread, and drops unused ones before more memory is needed for them.
    pub(crate) fn of(&self, thread_id: &Arc<str>) -> Arc<tokio::sync::Mutex<T>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.len() == locks.capacity() {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = locks.get(thread_id).and_then(Weak::upgrade).unwrap_or_default();
        locks.insert(Arc::clone(thread_id), Arc::downgrade(&lock));
        lock
    }

    /// Returns whether the lock of a thread is held now.
    pub(crate) fn is_held(&self, thread_id: &str) -> bool {
        let locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.get(thread_id).and_then(Weak::upgrade).is_some_and(|lock| lock.try_lock().is_err())
    }
}
