//! The components that runs called.

use super::StoreError;
use async_trait::async_trait;

/// The components that runs called, so that their calls can be run again.
/// [Commits](super::RunStore::commit) name them.
#[async_trait]
pub trait ComponentStore: Send + Sync {
    /// Returns the bytes of a component that a run called, by their digest; `None` if they are
    /// not stored.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns whether the store keeps components. If so, commits list the components that a run
    /// refers to.
    fn archives(&self) -> bool;
}
