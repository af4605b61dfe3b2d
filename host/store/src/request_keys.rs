//! The keys of requests that start a run at most once, however often they are sent.

use super::StoreError;
use async_trait::async_trait;

/// A key of a request: the SHA-256 of its sender, its route and the key that it was sent with.
pub type RequestKey = [u8; 32];

/// The row of a request's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedKey {
    /// The id of the run that the request starts or started.
    pub run_id: String,
    /// The SHA-256 of the request's body.
    pub body: [u8; 32],
    /// When the row was written, in milliseconds since the Unix epoch; `None` if it existed before.
    pub inserted_at_ms: Option<u64>,
}

/// The rows of requests' keys, which all processes share that may get the same request.
#[async_trait]
pub trait RequestKeyStore: Send + Sync {
    /// Returns the row of a key, or inserts one with this body and this id of a run. Rows that are
    /// older than [`KEEP_KEYS_MS`] may be removed.
    ///
    /// # Errors
    /// The rows cannot be read or written.
    async fn reserve(
        &self,
        key: &RequestKey,
        body: &[u8; 32],
        run_id: &str,
    ) -> Result<ReservedKey, StoreError>;

    /// Returns the id of the run for which a key is reserved.
    ///
    /// # Errors
    /// The rows cannot be read.
    async fn reserved(&self, key: &RequestKey) -> Result<Option<String>, StoreError>;

    /// Notes on a row of another process that this process uses it too, so that it is no longer
    /// [released](Self::release). Returns whether it still exists.
    ///
    /// # Errors
    /// The rows cannot be written.
    async fn share(&self, key: &RequestKey, run_id: &str) -> Result<bool, StoreError>;

    /// Removes a row that was inserted at this time, unless another process uses it too.
    ///
    /// # Errors
    /// The rows cannot be written.
    async fn release(&self, key: &RequestKey, run_id: &str, inserted_at_ms: u64) -> Result<(), StoreError>;

    /// Records that the request continued another run than the one with the reserved id.
    ///
    /// # Errors
    /// The rows cannot be written.
    async fn redirect(&self, key: &RequestKey, run_id: &str) -> Result<(), StoreError>;
}

/// How long a row is kept at least, in milliseconds: 30 days.
pub const KEEP_KEYS_MS: u64 = 30 * 86_400 * 1_000;
/// The maximum number of old rows that are removed at once.
pub const KEYS_REMOVED_AT_ONCE: u32 = 100;
