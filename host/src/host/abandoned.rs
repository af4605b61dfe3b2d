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

impl Host {
    /// Ends direct calls whose process was killed, and children left open by runs that have
    /// ended. Nothing runs again: a call that may have taken effect is recorded as
    /// `interrupted`. A call that waits for a person keeps waiting. Runs of prompts are left to
    /// [`recover`](Host::recover).
    ///
    /// # Errors
    /// The store cannot be read. A run that cannot be ended is logged and left as it is.
    pub async fn end_abandoned(&self) -> Result<(), HostError> {
        self.end_all(self.left("call", "running").await?).await;
        self.end_orphans(&mut Parents::default()).await
    }

    /// Ends children left open by runs that have ended.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn end_orphans(&self, parents: &mut Parents) -> Result<(), HostError> {
        let mut children = self.left("child", "running").await?;
        children.extend(self.left("child", "waiting").await?);
        parents.0.retain(|id, _| children.iter().any(|child| child.run_id == *id));
        if children.is_empty() {
            return Ok(());
        }
        let mut open = HashSet::new();
        for status in ["running", "waiting"] {
            open.extend(self.open(None, status).await?.into_iter().map(|run| run.run_id));
        }
        let mut orphans = Vec::new();
        for child in children {
            if !parents.0.contains_key(&child.run_id) {
                let Ok(spec) = self.store().run_spec(&child.run_id).await else {
                    // Ending it fails for the same reason, which is logged then.
                    orphans.push(child);
                    continue;
                };
                let parent = spec.and_then(|spec| spec.identity.parent_run_id.clone());
                parents.0.insert(child.run_id.clone(), parent);
            }
            let parent = parents.0.get(&child.run_id).and_then(Option::as_ref);
            if parent.is_some_and(|parent| !open.contains(parent.as_str())) {
                orphans.push(child);
            }
        }
        self.end_all(orphans).await;
        Ok(())
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
        runs.retain(|run| !run.at_work);
        Ok(runs)
    }

    async fn end_all(&self, runs: Vec<RunSummary>) {
        stream::iter(runs).for_each_concurrent(AT_ONCE, |run| self.end_abandoned_run(run)).await;
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

    /// Ends a child unless its parent may still go on, which may not be one of the newest open runs.
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
