//! The parts of a host that its runs use.

use super::child::{ChildForwarder, ChildRunResult, ChildStart};
use super::hooks::HookSet;
use super::thread_locks::ThreadLocks;
use crate::agents::Agent;
use crate::error::HostError;
use crate::gates::Gates;
use crate::models::Model;
use crate::store::{Store, StoreError};
use crate::tools::ServedTools;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::Run;
use tollgate_sandbox::MemoryBudget;

/// The number of thread changes that are read at once.
const CHANGES_AT_ONCE: usize = 32;

/// The parts of a host that all its runs share.
pub(crate) struct RunServices {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tools: ServedTools,
    pub(crate) gates: Gates,
    pub(crate) hooks: HookSet,
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) memory_budget: MemoryBudget,
    /// Held while a commit is retried after a conflict.
    pub(crate) conflicts: ThreadLocks,
}

/// The ways to stop a run from outside.
#[derive(Debug, Clone)]
pub(crate) struct RunStops {
    /// Ends the run early, which is recorded.
    pub(crate) cancel: CancellationToken,
    /// Stops driving the run without recording anything: another process may drive it.
    pub(crate) lapse: CancellationToken,
}

/// The host of a run, as far as the run acts on other runs.
pub(crate) trait RunHost: Send + Sync {
    /// Records that this host drives a run in this epoch, and carries out commands to it.
    fn drives(self: Arc<Self>, run_id: &Arc<str>, epoch: u64, stops: RunStops);

    /// Records that this host drives the run no longer.
    fn drives_no_longer(&self, run_id: &str, epoch: u64);

    /// Starts a child, or resumes it from its record, and forwards its updates.
    fn run_child(
        self: Arc<Self>,
        start: ChildStart,
        updates: ChildForwarder,
    ) -> BoxFuture<'static, Result<ChildRunResult, HostError>>;

    /// Ends a child that no process is running.
    fn end_child(self: Arc<Self>, run_id: String) -> BoxFuture<'static, Result<ChildRunResult, HostError>>;
}

impl RunServices {
    /// Returns the agent's model.
    pub(crate) fn model_of(&self, agent_id: &str) -> Option<Arc<dyn Model>> {
        self.agents.get(agent_id)?.model.clone()
    }

    /// Applies the changes of the thread up to this revision that the run lacks.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn catch_up(
        &self,
        run: &mut Run,
        thread_id: &str,
        until: u64,
    ) -> Result<(), StoreError> {
        while run.state().revision() < until {
            let known = run.state().revision();
            let changes = self.store.changes(thread_id, known, CHANGES_AT_ONCE).await?;
            let missed = changes.iter().take_while(|change| change.revision <= until);
            if missed.map(|change| run.absorb(change)).count() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Takes the lock for committing to a thread, for runs whose changes conflicted with
    /// others.
    pub(crate) async fn turn_to_commit(&self, thread_id: &Arc<str>) -> OwnedMutexGuard<()> {
        self.conflicts.of(thread_id).lock_owned().await
    }
}
