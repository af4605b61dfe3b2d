//! Limits on the records of one component, of one thread and of one principal, and on free disk space.

use super::{Remedy, StoreError};
use tollgate_agent::text::clean;

/// The limits of a store. `[store]` in the configuration sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// The maximum size in bytes of the records that one component causes.
    pub component_record_bytes: u64,
    /// The maximum size in bytes of the records of one thread.
    pub thread_record_bytes: u64,
    /// The maximum size in bytes of the records of all threads of one principal, so that one principal does
    /// not use up what the records of a component may take for all.
    pub principal_record_bytes: u64,
    /// The minimum free disk space in bytes; with less, no new call or run begins.
    pub min_free_bytes: u64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            component_record_bytes: 1 << 30,
            thread_record_bytes: 1 << 30,
            principal_record_bytes: 512 << 20,
            min_free_bytes: 256 << 20,
        }
    }
}

impl StoreLimits {
    /// Checks the size of the records of a component.
    ///
    /// # Errors
    /// They have reached the limit.
    pub fn check_component(&self, component_id: &str, bytes: u64) -> Result<(), StoreError> {
        let subject = format!("the component {}", clean(component_id, 64));
        check(&subject, bytes, "component_record_bytes", self.component_record_bytes)
    }

    /// Checks the size of the records of a thread.
    ///
    /// # Errors
    /// They have reached the limit.
    pub fn check_thread(&self, thread_id: &str, bytes: u64) -> Result<(), StoreError> {
        let subject = format!("the thread {}", clean(thread_id, 64));
        check(&subject, bytes, "thread_record_bytes", self.thread_record_bytes)
    }

    /// Checks the size of the records of all threads of a principal.
    ///
    /// # Errors
    /// They have reached the limit.
    pub fn check_principal(&self, principal: &str, bytes: u64) -> Result<(), StoreError> {
        let subject = format!("the principal {}", clean(principal, 64));
        check(&subject, bytes, "principal_record_bytes", self.principal_record_bytes)
    }
}

fn check(subject: &str, bytes: u64, name: &str, limit: u64) -> Result<(), StoreError> {
    if bytes < limit {
        return Ok(());
    }
    let message = format!("the records of {subject} have {bytes} bytes, and the limit is {name} = {limit}");
    Err(StoreError::full(message).with_remedy(Remedy::MakeRoom))
}
