//! The audit.

use super::{AuditFilter, AuditRecord, StoreError, ToolHealth};
use async_trait::async_trait;

/// The audit, and what it shows about the health of tools. [Commits](super::RunStore::commit) write
/// audit records too.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds audit records that are not part of a run's commit, and that no thread or component is
    /// charged for. A record of a file is skipped if it repeats the file's last record.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError>;

    /// Returns audit records, newest first. Of records of the same time, the one that was stored last is
    /// first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError>;

    /// Returns the tools whose last calls trapped.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError>;
}
