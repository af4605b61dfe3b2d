//! Ends direct calls whose process is gone and children of finished runs. No one resumes them,
//! so the next host on the store ends them, and a host that works on the store does so again and again.

use super::{Busy, Host, HostError};
use crate::store::{RunFilter, RunSummary};
use futures::stream::{self, StreamExt};
use tollgate_agent::run::Input;

/// The maximum number of runs of each kind that are examined; the next pass examines more.
const MAX_RUNS: usize = 1_000;
/// The number of runs that are ended concurrently: they share syncs of the disk.
const AT_ONCE: usize = 16;

impl Host {
    /// Ends direct calls whose process was killed, and children left open by runs that have
    /// ended. Nothing runs again: a call that may have taken effect is recorded as
    /// `interrupted`. A call that waits for a person keeps waiting. Runs of prompts are left to
    /// [`recover`](Host::recover).
    ///
    /// # Errors
    /// The store cannot be read. A run that cannot be ended is logged and left as it is.
    pub async fn end_abandoned(&self) -> Result<(), HostError> {
        self.end_all_of("call", "running").await?;
        self.end_orphans().await
    }

    /// Ends children left open by runs that have ended.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn end_orphans(&self) -> Result<(), HostError> {
        self.end_all_of("child", "running").await?;
        self.end_all_of("child", "waiting").await
    }

    async fn end_all_of(&self, kind: &str, status: &str) -> Result<(), HostError> {
        let filter = RunFilter {
            kind: Some(kind.to_owned()),
            status: Some(status.to_owned()),
            limit: MAX_RUNS,
            ..RunFilter::default()
        };
        let runs = self.store().runs(filter).await?;
        let abandoned = runs.into_iter().filter(|run| !run.at_work);
        stream::iter(abandoned).for_each_concurrent(AT_ONCE, |run| self.end_abandoned_run(run)).await;
        Ok(())
    }

    async fn end_abandoned_run(&self, run: RunSummary) {
        let id = run.run_id.as_str();
        let ended = match run.kind.as_str() {
            "call" => self.end_call(id).await,
            _ => self.end_orphan(id).await,
        };
        // Another host may have ended the run meanwhile.
        if let Err(why) = ended
            && self.summary(id).await.is_ok_and(|now| now.is_none_or(|now| now.events == run.events))
        {
            tracing::warn!("the interrupted run {id} cannot be ended: {why}");
        }
    }

    async fn end_call(&self, run_id: &str) -> Result<(), HostError> {
        let ending = self.carry_on(run_id, Input::Abandoned, Busy::Queue).await?;
        ending.wait().await?;
        Ok(())
    }

    /// Ends a child unless its parent may still go on.
    async fn end_orphan(&self, run_id: &str) -> Result<(), HostError> {
        let Some(spec) = self.store().run_spec(run_id).await? else { return Ok(()) };
        let Some(parent) = &spec.identity.parent_run_id else { return Ok(()) };
        let parent = self.summary(parent).await?;
        if parent.is_none_or(|parent| !matches!(parent.status.as_str(), "running" | "waiting")) {
            self.end_child(run_id).await?;
        }
        Ok(())
    }
}
