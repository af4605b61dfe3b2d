//! The tools of a host: keeps those of a directory up to date, disables those that trap too often,
//! and enables them again. The store's records decide, for every process that uses it.

use super::{Host, HostError};
use crate::config::Config;
use crate::store::{AuditKind, AuditRecord, StoreError};
use crate::tools::directory::{DirectoryState, Watch, WatchError};
use crate::tools::{LoadedTools, ServedTools};
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_sandbox::Sandbox;

impl Host {
    /// Keeps the tools of a directory and their grants up to date while the result lives: see
    /// [`Watch`]. `loaded` is the result with which this host was started.
    #[must_use]
    pub fn watch(
        &self,
        sandbox: Sandbox,
        config: Arc<Config>,
        loaded: &LoadedTools,
    ) -> (Watch, Option<WatchError>) {
        Watch::start(DirectoryState::new(self, sandbox, config, loaded))
    }

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
        Ok(self.inner.services.tools.note_loaded(loaded).await?)
    }

    /// Disables and enables tools according to the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn refresh_health(&self) -> Result<(), StoreError> {
        self.inner.services.tools.refresh_health().await
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
        self.inner.services.store.record_audit(vec![record]).await?;
        Ok(self.refresh_health().await?)
    }
}

impl From<&Host> for ServedTools {
    fn from(host: &Host) -> Self {
        host.inner.services.tools.clone()
    }
}

impl From<Host> for ServedTools {
    fn from(host: Host) -> Self {
        Self::from(&host)
    }
}
