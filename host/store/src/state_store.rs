//! The state and the conversation of threads.

use super::{CommitError, StoreError};
use async_trait::async_trait;
use tollgate_agent::run::Thread;
use tollgate_agent::state::{KeyUpdate, State, StateChange};

/// The state and the conversation of threads. [Commits](super::RunStore::commit) write them too.
#[async_trait]
pub trait StateStore: Send + Sync {
    /// Returns the current thread, which is empty if the id is unknown.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError>;

    /// Returns up to `limit` changes of a thread's state after a revision, oldest first. For keys
    /// that do not persist, they contain what the store kept.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError>;

    /// Commits a change of a thread's state outside of any run, such as imported values or ones
    /// that were set aside.
    ///
    /// # Errors
    /// Returns [`CommitError::Conflict`] as for [`commit`](super::RunStore::commit); nothing was
    /// stored then.
    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError>;
}

/// Sets keys of a thread to these values, as one change of its own. Returns the thread's new
/// revision.
///
/// # Errors
/// The store cannot be read or written.
pub async fn restore_state(
    store: &dyn StateStore,
    thread_id: &str,
    state: &State,
) -> Result<u64, StoreError> {
    loop {
        let revision = store.thread(thread_id).await?.state.revision() + 1;
        let updates = state.iter().map(|(key, value)| KeyUpdate::restored(key, value.clone()));
        match store.change(thread_id, StateChange { revision, updates: updates.collect() }).await {
            Ok(()) => return Ok(revision),
            // Another commit came first; its changes stay, except for these keys.
            Err(CommitError::Conflict(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
