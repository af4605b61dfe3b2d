//! Gates that are components. If a gate does not reach an answer, the call is denied.

use super::Gate;
use async_trait::async_trait;
use std::sync::Arc;
use tollgate_agent::gate::{ProposedCall, Verdict};
use tollgate_agent::state::Access;
use tollgate_sandbox::{GateComponent, Reservation};

#[async_trait]
impl Gate for GateComponent {
    fn id(&self) -> &str {
        &self.descriptor().id
    }

    fn reads(&self) -> Option<Access> {
        Some(self.descriptor().access())
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        Gate::answer(self, call).await.0
    }

    async fn answer(&self, call: &ProposedCall<'_>) -> (Verdict, Option<Arc<Reservation>>) {
        GateComponent::answer(self, call).await.unwrap_or_else(|fault| {
            let id = &self.descriptor().id;
            let denied = format!(
                "The gate '{id}' failed ({}), so the call may not run: {}",
                fault.code, fault.message
            );
            (Verdict::Deny(denied), None)
        })
    }
}
