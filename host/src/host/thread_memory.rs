//! Reading threads and records: the memory is reserved first, and a direct call reads only what it needs.

use super::{Host, HostError};
use crate::store::{KeyFilter, StateRead, ThreadRead, ThreadSize};
use crate::tools::Toolbox;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::gate::permissions::REMEMBERED_IN_THREAD;
use tollgate_agent::run::Thread;
use tollgate_agent::state::Access;
use tollgate_agent::state::key::owner_of;
use tollgate_sandbox::Reservation;

/// Text up to this size is read without a reservation, in bytes.
const SMALL_BYTES: u64 = 256 * 1024;
/// Memory per byte of a state's text. Small objects take that much; most values take less.
const MEMORY_OF_STATE: u64 = 16;
/// Memory per byte of a conversation's text, which is read before it is parsed.
const MEMORY_OF_MESSAGES: u64 = 4;
/// One thread may use up to one part in this many of the memory budget.
const THREAD_PART: u64 = 4;
/// A conversation that needs more than one part in this many of the memory budget is not read. Its memory
/// is never reserved in part, because a run reads it whole.
const CONVERSATION_PART: u64 = 2;
/// Memory per byte of a record's text, which is read before it is parsed.
const MEMORY_OF_RECORD: u64 = 4;
/// How long a run waits for memory to read its thread.
const PATIENCE: Duration = Duration::from_secs(30);

/// A thread, and the memory that is reserved for it if it is large.
#[derive(Default)]
pub(super) struct ReadThread {
    pub(super) thread: Thread,
    pub(super) memory: Option<Reservation>,
}

impl Host {
    /// Reads a thread for a run, which continues its conversation.
    ///
    /// # Errors
    /// The store cannot be read, there is no memory for the thread, or its conversation is too long.
    pub(super) async fn thread_of_run(&self, thread_id: &str) -> Result<ReadThread, HostError> {
        let size = loop {
            match self.inner.services.store.thread_within(thread_id, SMALL_BYTES).await? {
                ThreadRead::Larger(size) => break size,
                ThreadRead::Thread(thread) => {
                    if let Some(thread) = self.fitting(thread_id, thread).await? {
                        return Ok(ReadThread { thread, memory: None });
                    }
                }
            }
        };
        let memory = match self.memory_of_thread(size) {
            None => None,
            Some(needed) => {
                if memory_of_messages(size) > self.memory_budget().total_bytes() / CONVERSATION_PART {
                    return Err(self.overloaded(self.too_long(thread_id, size.message_bytes)));
                }
                let reserved = tokio::time::timeout(PATIENCE, self.memory_budget().reserve(needed)).await;
                Some(reserved.map_err(|_| self.overloaded(self.no_memory()))?)
            }
        };
        Ok(ReadThread { thread: self.thread(thread_id).await?, memory })
    }

    /// Reads the part of a thread that a direct call needs: the state that its tool, the gates and
    /// the hooks may see. `None` if there is no memory for it.
    pub(super) async fn thread_of_call(
        &self,
        toolbox: &Toolbox,
        thread_id: &str,
        tool_name: &str,
    ) -> Result<Option<ReadThread>, HostError> {
        let (wanted, store) = (self.keys_of_call(toolbox, tool_name), &self.inner.services.store);
        let (mut max_bytes, mut memory) = (SMALL_BYTES, None);
        loop {
            match store.state(thread_id, &wanted, max_bytes).await? {
                StateRead::State(mut state) => {
                    // A small thread is read whole. Values of others are not checked on this call's time.
                    state.keep_only(|key| wanted.matches(key));
                    let thread = Thread { messages: Arc::default(), state };
                    if let Some(thread) = self.fitting(thread_id, thread).await? {
                        return Ok(Some(ReadThread { thread, memory }));
                    }
                }
                StateRead::Larger(bytes) => {
                    drop(memory.take());
                    let needed = self.part_of_budget(bytes * MEMORY_OF_STATE);
                    match self.memory_budget().try_reserve(needed) {
                        Some(reserved) => (max_bytes, memory) = (bytes, Some(reserved)),
                        None => return Ok(None),
                    }
                }
            }
        }
    }

    /// Reserves the memory of a thread's state and conversation, for a caller that shows them. `None`
    /// if they are small.
    ///
    /// # Errors
    /// The store cannot be read, or there is no memory for the thread.
    pub async fn room_for_thread(&self, thread_id: &str) -> Result<Option<Reservation>, HostError> {
        let size = self.inner.services.store.thread_size(thread_id).await?;
        let Some(needed) = self.memory_of_thread(size) else { return Ok(None) };
        let reserved = self.memory_budget().try_reserve(needed);
        reserved.map(Some).ok_or_else(|| self.overloaded(self.no_memory()))
    }

    /// Reserves the memory of a run's whole record, for a caller that reads it as a whole. `None` if
    /// the record is small.
    ///
    /// # Errors
    /// The store cannot be read, or there is no memory for the record.
    pub async fn room_for_record(&self, run_id: &str) -> Result<Option<Reservation>, HostError> {
        let bytes = self.inner.services.store.record_bytes(run_id).await?;
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let reserved = self.memory_budget().try_reserve(bytes.saturating_mul(MEMORY_OF_RECORD));
        reserved.map(Some).ok_or_else(|| {
            self.overloaded(format!(
                "the host has no memory to read the whole record of the run {run_id} now: it has {bytes} bytes, \
                 which take up to {MEMORY_OF_RECORD} times as much memory; try again later, or raise \
                 memory_budget_bytes (now {}){}",
                self.memory_budget().total_bytes(),
                self.memory_budget().limit_place()
            ))
        })
    }

    /// Returns the keys of a thread's state that a direct call of this tool may use.
    fn keys_of_call(&self, toolbox: &Toolbox, tool_name: &str) -> KeyFilter {
        let catalog = toolbox.catalog();
        // The host's own keys, such as a person's answers for the whole thread.
        let mut owner_ids = BTreeSet::from([owner_of(REMEMBERED_IN_THREAD).to_owned()]);
        let mut keys = BTreeSet::new();
        let mut add = |access: &Access| {
            keys.extend(access.reads().map(str::to_owned));
            // The size of all keys of their owner is limited.
            owner_ids.extend(access.writes().map(|key| owner_of(key).to_owned()));
        };
        for gate in self.inner.services.gates.others.iter() {
            match gate.reads() {
                Some(access) => add(&access),
                None => return KeyFilter::All,
            }
        }
        catalog.hook_owners().for_each(|owner| add(&owner.access));
        if let Some(tool) = catalog.tool(tool_name) {
            add(&tool.access);
            // A new version of the tool that is loaded meanwhile may have more keys.
            owner_ids.insert(tool.owner.id.to_string());
        }
        KeyFilter::Of { owner_ids, keys }
    }

    /// Returns the memory for a thread of this size, in bytes; `None` if it is small.
    fn memory_of_thread(&self, size: ThreadSize) -> Option<u64> {
        let of_state = self.part_of_budget(size.state_bytes.saturating_mul(MEMORY_OF_STATE));
        (size.state_bytes + size.message_bytes > SMALL_BYTES)
            .then(|| of_state.saturating_add(memory_of_messages(size)))
    }

    fn part_of_budget(&self, bytes: u64) -> u64 {
        bytes.min(self.memory_budget().total_bytes() / THREAD_PART)
    }

    /// Returns the error of a request for which there is no memory now.
    pub(super) fn overloaded(&self, message: String) -> HostError {
        HostError::Overloaded { message, memory_budget_bytes: self.memory_budget().total_bytes() }
    }

    fn too_long(&self, thread_id: &str, message_bytes: u64) -> String {
        format!(
            "the conversation of the thread {thread_id} has {message_bytes} bytes, which take up to \
             {MEMORY_OF_MESSAGES} times as much memory, and a conversation may use half of memory_budget_bytes = {}; \
             begin a new thread, or raise memory_budget_bytes{}",
            self.memory_budget().total_bytes(),
            self.memory_budget().limit_place()
        )
    }

    fn no_memory(&self) -> String {
        format!(
            "the host has no memory to read the thread now; try again later, or raise memory_budget_bytes (now {}){}",
            self.memory_budget().total_bytes(),
            self.memory_budget().limit_place()
        )
    }
}

fn memory_of_messages(size: ThreadSize) -> u64 {
    size.message_bytes.saturating_mul(MEMORY_OF_MESSAGES)
}
