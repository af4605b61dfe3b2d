//! The memory of large events while a client reads them. A client may read as slowly as it likes.

use super::Host;
use std::time::Duration;
use tollgate_sandbox::Reservation;

/// Memory per byte of an event's text: the event, and what is written of it.
const MEMORY_OF_EVENT: u64 = 3;
/// Clients that read large events may use one part in this many of the memory budget, all together.
pub const CLIENT_MEMORY_PART: u64 = 4;
/// How often to look for memory that calls have returned.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The memory of a large event that a client reads.
pub(super) struct ClientMemory {
    _of_clients: Reservation,
    _of_host: Reservation,
}

impl Host {
    /// Reserves the memory of an event whose text has this many bytes; `None` if other clients or
    /// calls hold it.
    pub(super) fn try_client_memory(&self, bytes: u64) -> Option<ClientMemory> {
        let needed = self.memory_of_event(bytes);
        let of_clients = self.inner.client_memory.try_reserve(needed)?;
        let of_host = self.memory_budget().try_reserve(needed)?;
        Some(ClientMemory { _of_clients: of_clients, _of_host: of_host })
    }

    /// Waits for this memory.
    pub(super) async fn client_memory(&self, bytes: u64) -> ClientMemory {
        let needed = self.memory_of_event(bytes);
        let of_clients = self.inner.client_memory.reserve(needed).await;
        loop {
            // Calls must not wait behind a client, so this does not join their queue.
            if let Some(of_host) = self.memory_budget().try_reserve(needed) {
                return ClientMemory { _of_clients: of_clients, _of_host: of_host };
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn memory_of_event(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(MEMORY_OF_EVENT).min(self.inner.client_memory.total_bytes())
    }
}
