//! The permission rules as a gate to which permanent answers are added while hosts use it.

use super::{Gate, ProposedCall, Verdict};
use async_trait::async_trait;
use std::sync::{Arc, PoisonError, RwLock};
use tollgate_agent::gate::PERMISSIONS_ID;
use tollgate_agent::gate::permissions::{Permissions, RuleError, RuleSpec};

/// The gate of the permission rules. Clones share the rules.
#[derive(Debug, Clone)]
pub struct SharedPermissions(Arc<RwLock<Arc<Permissions>>>);

impl SharedPermissions {
    /// Creates a gate with these rules.
    #[must_use]
    pub fn new(rules: Permissions) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(rules))))
    }

    /// Adds a permanent answer. It answers the next question about a matching call.
    ///
    /// # Errors
    /// The rule is invalid, or too many answers are remembered.
    pub fn remember(&self, rule: RuleSpec) -> Result<(), RuleError> {
        let mut rules = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *rules = Arc::new(Permissions::clone(&rules).remembered(rule)?);
        Ok(())
    }
}

#[async_trait]
impl Gate for SharedPermissions {
    fn id(&self) -> &str {
        PERMISSIONS_ID
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        let rules = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        rules.judge(call)
    }
}
