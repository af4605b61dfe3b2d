//! A gate that is a component: what it does not come to an answer about is denied.

use super::AskedGate;
use async_trait::async_trait;
use tollgate_agent::gate::{ProposedCall, Verdict};
use tollgate_sandbox::GateComponent;

#[async_trait]
impl AskedGate for GateComponent {
    fn id(&self) -> &str {
        &self.descriptor().id
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        GateComponent::judge(self, call).await.unwrap_or_else(|fault| {
            let id = &self.descriptor().id;
            Verdict::Deny(format!(
                "The gate '{id}' failed ({}), so the call may not run: {}",
                fault.code, fault.message
            ))
        })
    }
}
