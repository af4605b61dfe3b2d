//! The parts of a host that its runs use, and all parts that the driver of one run works with.

use super::child::{ChildForwarder, ChildRunResult, ChildStart};
use super::hooks::HookSet;
use super::recent_changes::RecentChanges;
use super::thread_locks::ThreadLocks;
use crate::agents::Agent;
use crate::error::HostError;
use crate::gates::Gates;
use crate::models::Model;
use crate::store::{KeyFilter, StateRead, Store, StoreError};
use crate::stream::Publisher;
use crate::tools::{ServedTools, Toolbox};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::Run;
use tollgate_agent::state::{KeyScope, StateChange};
use tollgate_sandbox::MemoryBudget;

/// The number of thread changes that are read at once.
const CHANGES_AT_ONCE: usize = 256;

/// The number of thread changes whose values are read only to drop them.
const VALUES_AT_ONCE: u64 = 8;

/// How often the state of a thread is read for one commit. It is read again if a change wrote keys
/// that were not read.
const MAX_READS: usize = 16;

/// The number of long values that calls rewrite at once without being the next to commit to their
/// thread. Others would only hold copies of a value that is outdated before they commit.
pub(crate) const LONG_VALUES_AT_ONCE: usize = 4;

/// The turn of a run to commit to its thread, among those whose changes conflicted with others.
pub(crate) type CommitTurn = OwnedMutexGuard<RecentChanges>;

/// The parts of a host that all its runs share.
pub(crate) struct RunServices {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tools: ServedTools,
    pub(crate) gates: Gates,
    pub(crate) hooks: HookSet,
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) memory_budget: MemoryBudget,
    /// Held while a commit is retried after a conflict.
    pub(crate) conflicts: ThreadLocks<RecentChanges>,
    /// Held while a long value is rewritten.
    pub(crate) long_values: Arc<Semaphore>,
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
    /// Records that this host drives a run in this epoch, and carries out commands to it. Returns `false`
    /// if it drives another run of the same id and epoch; this one will then be refused.
    fn drives(self: Arc<Self>, run_id: &Arc<str>, epoch: u64, stops: RunStops) -> bool;

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
    pub(crate) async fn turn_to_commit(&self, thread_id: &Arc<str>) -> CommitTurn {
        self.conflicts.of(thread_id).lock_owned().await
    }

    /// Brings the run's state up to date before it commits: takes over the changes of the thread
    /// that the run lacks, without the values that they led to, and the current values of the keys
    /// that they wrote and of `keys`. The amount that is read does not depend on the number of
    /// changes that runs before this one have read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn catch_up_with(
        &self,
        run: &mut Run,
        thread_id: &str,
        recent: &mut RecentChanges,
        mut keys: BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let mut known = run.state().revision();
        let mut missed: Vec<StateChange> = Vec::new();
        for _ in 0..MAX_READS {
            let wanted = KeyFilter::Of { owner_ids: BTreeSet::new(), keys: keys.clone() };
            let StateRead::State(state) = self.store.state(thread_id, &wanted, u64::MAX).await? else {
                break;
            };
            let mut grew = false;
            while known < state.revision() {
                let mut more = self.missed(thread_id, known, state.revision(), recent).await?;
                more.retain(|change| change.revision <= state.revision());
                let Some(last) = more.last() else { break };
                known = last.revision;
                let updates = more.iter().flat_map(|change| change.updates.iter());
                let of_thread = updates.filter(|update| update.scope == KeyScope::Thread);
                let before = keys.len();
                keys.extend(of_thread.map(|update| update.key.to_string()));
                grew |= keys.len() > before;
                missed.append(&mut more);
            }
            if !grew && known == state.revision() {
                run.absorb_all(&missed, &state, keys.iter().map(String::as_str));
                return Ok(());
            }
        }
        Err(StoreError::other(format!(
            "the changes of the thread {thread_id} cannot be read up to its state"
        )))
    }

    /// Returns outlines of some of the changes after one revision up to another, from the first on.
    async fn missed(
        &self,
        thread_id: &str,
        after: u64,
        until: u64,
        recent: &mut RecentChanges,
    ) -> Result<Vec<StateChange>, StoreError> {
        let following = recent.following(after);
        if !following.is_empty() {
            return Ok(following);
        }
        let gap = recent.gap_after(after).unwrap_or(until - after).clamp(1, VALUES_AT_ONCE);
        let changes = self.store.changes(thread_id, after, usize::try_from(gap).unwrap_or(1)).await?;
        changes.iter().for_each(|change| recent.push(change));
        Ok(changes.iter().map(StateChange::outlined).collect())
    }
}

/// The parts that the driver of one run works with.
pub(crate) struct RunParts {
    /// The store, gates, hooks, models and newest tools of the host.
    pub(crate) services: Arc<RunServices>,
    pub(crate) host: Arc<dyn RunHost>,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) publisher: Publisher,
    pub(crate) cancel: CancellationToken,
    pub(crate) run_id: Arc<str>,
    pub(crate) thread_id: Arc<str>,
    /// The epoch in which this process drives the run.
    pub(crate) epoch: u64,
    /// The command that the next commit carries out.
    pub(crate) command: Option<Arc<str>>,
}
