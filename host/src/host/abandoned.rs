//! Ends direct calls whose process is gone and children of finished runs. No one resumes them,
//! so the next host on the store ends them, and a host that works on the store does so again and again.

use super::{Busy, Host, HostError};
use crate::store::{RunFilter, RunSummary};
use futures::stream::{self, StreamExt};
use std::collections::{HashMap, HashSet};
use tollgate_agent::SmolStr;
use tollgate_agent::run::Input;

/// The maximum number of runs of each kind that are examined; the next pass examines more.
const MAX_RUNS: usize = 1_000;
/// The number of runs that are ended concurrently: they share syncs of the disk.
const AT_ONCE: usize = 16;

/// The parents of open children, as their records name them. A parent never changes, so it is read once.
#[derive(Debug, Default)]
pub(super) struct Parents(HashMap<String, Option<SmolStr>>);

impl Parents {
    /// Forgets the parents of other runs.
    fn retain(&mut self, children: &[RunSummary]) {
        let ids: HashSet<&str> = children.iter().map(|child| child.run_id.as_str()).collect();
        self.0.retain(|id, _| ids.contains(id.as_str()));
    }
}

impl Host {
    /// Ends direct calls whose process was killed, and children left open by runs that have
    /// ended. Nothing runs again: a call that may have taken effect is recorded as
    /// `interrupted`. A call that waits for a person keeps waiting. Runs of prompts are left to
    /// [`recover`](Host::recover).
    ///
    /// # Errors
    /// The store cannot be read. A run that cannot be ended is logged and left as it is.
    pub async fn end_abandoned(&self) -> Result<(), HostError> {
        let calls = self.left("call", "running").await?;
        let end = |run: RunSummary| async move { self.explain(&run, self.end_call(&run.run_id).await).await };
        stream::iter(calls).for_each_concurrent(AT_ONCE, end).await;
        self.end_orphans(&mut Parents::default()).await
    }

    /// Ends children left open by runs that have ended.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn end_orphans(&self, parents: &mut Parents) -> Result<(), HostError> {
        let mut children = self.left("child", "running").await?;
        children.extend(self.left("child", "waiting").await?);
        parents.retain(&children);
        if children.is_empty() {
            return Ok(());
        }
        let mut open = HashSet::new();
        for status in ["running", "waiting"] {
            open.extend(self.open(None, status).await?.into_iter().map(|run| run.run_id));
        }
        let mut orphans = Vec::new();
        for child in children {
            match self.parent_of(&child.run_id, parents).await {
                Ok(Some(parent)) if !open.contains(parent.as_str()) => orphans.push((child, parent)),
                Ok(_) => {}
                Err(why) => self.explain(&child, Err(why)).await,
            }
        }
        let end = |(child, parent): (RunSummary, SmolStr)| async move {
            self.explain(&child, self.end_orphan(&child.run_id, &parent).await).await;
        };
        stream::iter(orphans).for_each_concurrent(AT_ONCE, end).await;
        Ok(())
    }

    /// Returns the parent that a child's record names.
    async fn parent_of(&self, run_id: &str, parents: &mut Parents) -> Result<Option<SmolStr>, HostError> {
        if let Some(parent) = parents.0.get(run_id) {
            return Ok(parent.clone());
        }
        let spec = self.store().run_spec(run_id).await?;
        let parent = spec.and_then(|spec| spec.identity.parent_run_id.clone());
        parents.0.insert(run_id.to_owned(), parent.clone());
        Ok(parent)
    }

    /// Returns the newest open runs.
    async fn open(&self, kind: Option<&str>, status: &str) -> Result<Vec<RunSummary>, HostError> {
        let filter = RunFilter {
            kind: kind.map(str::to_owned),
            status: Some(status.to_owned()),
            limit: MAX_RUNS,
            ..RunFilter::default()
        };
        Ok(self.store().runs(filter).await?)
    }

    /// Returns the newest open runs that no process drives.
    async fn left(&self, kind: &str, status: &str) -> Result<Vec<RunSummary>, HostError> {
        let mut runs = self.open(Some(kind), status).await?;
        runs.retain(|run| !run.is_driven);
        Ok(runs)
    }

    /// Logs why a run could not be ended.
    async fn explain(&self, run: &RunSummary, ended: Result<(), HostError>) {
        let id = run.run_id.as_str();
        // Another host may have ended the run meanwhile.
        if let Err(why) = ended
            && self.summary(id).await.is_ok_and(|now| now.is_none_or(|now| now.events == run.events))
        {
            tracing::warn!("the interrupted run {id} cannot be ended: {why}");
        }
    }

    async fn end_call(&self, run_id: &str) -> Result<(), HostError> {
        let ending = self.continue_run(run_id, Input::Abandoned, Busy::Queue).await?;
        ending.wait().await?;
        Ok(())
    }

    /// Ends a child unless its parent may still go on, which may not be one of the newest open runs.
    async fn end_orphan(&self, run_id: &str, parent: &str) -> Result<(), HostError> {
        let parent = self.summary(parent).await?;
        if parent.is_none_or(|parent| !parent.is_open()) {
            self.end_child(run_id).await?;
        }
        Ok(())
    }
}
