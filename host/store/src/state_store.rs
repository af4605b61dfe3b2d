//! The state and the conversation of threads.

use super::{CommitError, StoreError};
use async_trait::async_trait;
use std::collections::BTreeSet;
use tollgate_agent::run::Thread;
use tollgate_agent::state::key::owner_of;
use tollgate_agent::state::{KeyUpdate, State, StateChange};

/// A reader gets at most this much text of changes at once, in bytes, unless one change alone has more. The
/// text of a change is that of the event that contains it.
/// A store in memory may return more, because it shares its changes with the reader.
pub const MAX_CHANGES_BYTES: usize = 1024 * 1024;

/// The keys of a thread's state that a reader needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFilter {
    /// All keys.
    All,
    /// All keys of some owners, and others.
    Of {
        /// The owners.
        owner_ids: BTreeSet<String>,
        /// Other keys.
        keys: BTreeSet<String>,
    },
}

impl KeyFilter {
    /// Returns a filter for the keys that these changes set.
    pub fn changed_by<'a>(changes: impl IntoIterator<Item = &'a StateChange>) -> Self {
        let updates = changes.into_iter().flat_map(|change| change.updates.iter());
        let keys = updates.map(|update| update.key.to_string()).collect();
        Self::Of { owner_ids: BTreeSet::new(), keys }
    }

    /// Returns whether the key is needed.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of { owner_ids, keys } => owner_ids.contains(owner_of(key)) || keys.contains(key),
        }
    }
}

/// The state of a thread, unless it is too large.
#[derive(Debug, Clone, PartialEq)]
pub enum StateRead {
    /// The state, with at least the wanted keys.
    State(State),
    /// The text of the wanted keys has more bytes than the limit: this many.
    Larger(u64),
}

/// The text that reading a thread takes from the disk or the network, in bytes; 0 for what is in
/// memory already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadSize {
    /// The values of its keys.
    pub state_bytes: u64,
    /// Its conversation.
    pub message_bytes: u64,
}

/// A thread, unless it is too large.
#[derive(Debug, Clone)]
pub enum ThreadRead {
    /// The thread.
    Thread(Thread),
    /// Reading it takes more text than the limit: this much.
    Larger(ThreadSize),
}

/// The state and the conversation of threads. [Commits](super::RunStore::commit) write them too.
#[async_trait]
pub trait StateStore: Send + Sync {
    /// Returns the current thread, which is empty if the id is unknown.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError>;

    /// Returns how much text [`thread`](Self::thread) reads, so that its memory can be reserved.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn thread_size(&self, thread_id: &str) -> Result<ThreadSize, StoreError>;

    /// Returns the current thread, unless reading it takes more than `max_bytes` of text. A store that
    /// is reached over a network does this in one exchange.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn thread_within(&self, thread_id: &str, max_bytes: u64) -> Result<ThreadRead, StoreError>;

    /// Returns the state of a thread without its conversation: the wanted keys, and others if that
    /// takes no more memory. Reads nothing if the text of the wanted keys is longer than
    /// `max_bytes`.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn state(
        &self,
        thread_id: &str,
        wanted: &KeyFilter,
        max_bytes: u64,
    ) -> Result<StateRead, StoreError>;

    /// Returns up to `limit` changes of a thread's state after a revision, oldest first, and fewer if
    /// they are larger than [`MAX_CHANGES_BYTES`] together. For keys that do not persist, they contain
    /// what the store kept.
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

/// Returns the whole state of a thread, without its conversation.
///
/// # Errors
/// The store cannot be read.
pub async fn whole_state(store: &dyn StateStore, thread_id: &str) -> Result<State, StoreError> {
    match store.state(thread_id, &KeyFilter::All, u64::MAX).await? {
        StateRead::State(state) => Ok(state),
        StateRead::Larger(bytes) => {
            Err(StoreError::other(format!("the store reads no state of {bytes} bytes")))
        }
    }
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
        let revision = whole_state(store, thread_id).await?.revision() + 1;
        let updates = state.iter().map(|(key, value)| KeyUpdate::restored(key, value.clone()));
        match store.change(thread_id, StateChange { revision, updates: updates.collect() }).await {
            Ok(()) => return Ok(revision),
            // Another commit came first; its changes stay, except for these keys.
            Err(CommitError::Conflict(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Reads a thread within a limit in two steps, for a store that is not reached over a network.
///
/// # Errors
/// The store cannot be read.
pub async fn thread_within(
    store: &impl StateStore,
    thread_id: &str,
    max_bytes: u64,
) -> Result<ThreadRead, StoreError> {
    let size = store.thread_size(thread_id).await?;
    match size.state_bytes + size.message_bytes > max_bytes {
        true => Ok(ThreadRead::Larger(size)),
        false => store.thread(thread_id).await.map(ThreadRead::Thread),
    }
}

/// Returns whether a thread's id was generated for a run that named none. The server puts the principal before it.
#[must_use]
pub fn is_generated(thread_id: &str) -> bool {
    let id = thread_id.rsplit_once('/').map_or(thread_id, |(_, id)| id);
    uuid::Uuid::try_parse(id).is_ok_and(|id| id.get_version_num() == 7)
}
