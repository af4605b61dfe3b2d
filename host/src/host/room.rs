//! Direct calls that the store has no room to record.

use super::{CallRequest, Host};
use crate::run::{RunEnd, overloaded};
use std::sync::Arc;

impl Host {
    /// Returns the end of a direct call that the store has no room to record. The call does not
    /// begin, and leaves no record.
    pub(super) async fn without_room(&self, request: &CallRequest, run_id: &Arc<str>) -> Option<RunEnd> {
        let toolbox = self.toolbox();
        let owner = toolbox.catalog().tool(&request.tool_name).map(|tool| tool.owner.id.as_str());
        let why = self.inner.services.store.admit(request.stored_thread(), owner).await.err()?;
        let thread_id = request.thread_id.as_deref().map_or_else(|| Arc::clone(run_id), Arc::from);
        let fault = overloaded(&why, toolbox.catalog().limit_places());
        Some(RunEnd::refused(Arc::clone(run_id), thread_id, &request.tool_name, fault))
    }
}
