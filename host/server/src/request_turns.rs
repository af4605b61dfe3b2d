//! Requests with the same idempotency key, one after another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;

/// The order of requests with the same key in this process: one after another.
#[derive(Debug, Default)]
pub(crate) struct RequestTurns(Mutex<HashMap<[u8; 32], Weak<tokio::sync::Mutex<()>>>>);

impl RequestTurns {
    /// Waits until no other request with the same key is in progress.
    pub(crate) async fn turn(&self, digest: [u8; 32]) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let lock = locks.get(&digest).and_then(Weak::upgrade).unwrap_or_default();
            locks.insert(digest, Arc::downgrade(&lock));
            lock
        };
        lock.lock_owned().await
    }
}
