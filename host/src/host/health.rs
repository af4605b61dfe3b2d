//! Disables tools that trap too often, and enables them again. The store's records decide, for
//! every process that uses it.

use super::{Host, HostError};
use crate::store::{AuditKind, AuditRecord, StoreError};
use tollgate_agent::{SmolStr, health};

impl Host {
    /// Records the loaded tools, disables those that trapped too often, and
    /// [ends](Host::end_abandoned) direct calls that were interrupted. Call it once the host is
    /// built.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn record_loaded(&self, loaded: Vec<AuditRecord>) -> Result<(), HostError> {
        self.note_loaded(loaded).await?;
        self.end_abandoned().await
    }

    /// Records the loaded tools, and disables those that trapped too often.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn note_loaded(&self, loaded: Vec<AuditRecord>) -> Result<(), HostError> {
        self.inner.store.record_audit(loaded).await?;
        Ok(self.refresh_health().await?)
    }

    /// Disables and enables tools according to the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn refresh_health(&self) -> Result<(), StoreError> {
        let trapping = self.inner.store.tool_health().await?;
        let toolbox = self.toolbox();
        let catalog = toolbox.catalog();
        let wrong: Vec<(String, Option<String>)> = catalog
            .tools()
            .filter_map(|tool| {
                let name = &tool.descriptor.name;
                let known = trapping.iter().find(|health| {
                    health.tool_name == *name
                        && (&health.component_id, &health.digest) == (&tool.owner.id, &tool.owner.version)
                });
                let reason = known.and_then(|health| health::reason_to_disable(health.traps));
                (reason.as_deref() != catalog.disabled(name)).then(|| (name.clone(), reason))
            })
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let amended: Result<(), std::convert::Infallible> = self.update_toolbox(|toolbox| {
            for (name, reason) in wrong {
                match reason {
                    Some(reason) => toolbox.disable(&name, reason),
                    None => toolbox.enable(&name),
                }
            }
            Ok(())
        });
        let Ok(()) = amended;
        Ok(())
    }

    /// Enables a tool again that trapped too often, and records that a person did so.
    ///
    /// # Errors
    /// No tool of this name is served, or the store cannot be written.
    pub async fn enable(&self, tool_name: &str) -> Result<(), HostError> {
        self.enabled(tool_name, "person".into()).await
    }

    /// Like [`enable`](Self::enable), by this principal.
    ///
    /// # Errors
    /// No tool of this name is served, or the store cannot be written.
    pub async fn enable_by(&self, tool_name: &str, principal: &str) -> Result<(), HostError> {
        self.enabled(tool_name, SmolStr::from_iter(["person ", principal])).await
    }

    async fn enabled(&self, tool_name: &str, who: SmolStr) -> Result<(), HostError> {
        let toolbox = self.toolbox();
        let Some(tool) = toolbox.catalog().tool(tool_name) else {
            let known = toolbox.catalog().tools().map(|tool| tool.descriptor.name.to_string()).collect();
            return Err(HostError::UnknownTool { name: tool_name.to_owned(), known });
        };
        let record = AuditRecord::new(AuditKind::Enabling, who, "enabled")
            .of_component(tool.owner.id.clone(), Some(tool.owner.version.clone()))
            .of_tool(tool_name);
        self.inner.store.record_audit(vec![record]).await?;
        Ok(self.refresh_health().await?)
    }
}
