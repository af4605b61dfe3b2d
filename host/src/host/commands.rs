//! Commands between hosts: those that other hosts sent to runs of this one, and those of this one
//! to runs that another drives.

use super::{FollowUntil, Host, HostError, HostState};
use crate::run::{
    ChildForwarder, ChildRunResult, ChildStart, RunError, RunHandle, RunHost, RunStops, new_id,
};
use crate::store::{Hint, Hints, RunCommand, SentCommand};
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::{Decision, Event};

/// How often commands are looked for when no hint arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a caller waits for another host to take its command. After that, the command stays stored for
/// the host that drives the run then.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// The runs that a host drives.
#[derive(Debug, Default)]
pub(super) struct DrivenRuns {
    driven: Mutex<DrivenSet>,
    /// Notified when the last of them came to rest.
    idle: Notify,
}

#[derive(Debug, Default)]
struct DrivenSet {
    runs: HashMap<Arc<str>, DrivenRun>,
    /// Whether a task looks for commands to them.
    is_attended: bool,
}

#[derive(Debug)]
struct DrivenRun {
    epoch: u64,
    stops: RunStops,
    /// Whether commands to it are being carried out.
    is_busy: bool,
}

/// The status of commands to a run of another host.
enum CommandStatus {
    /// The run's host has carried them out, or refused them.
    Taken,
    /// The run came to rest first, and they were taken back.
    TakenBack,
    /// The run's host has not answered yet.
    Pending,
}

impl DrivenRuns {
    fn lock(&self) -> MutexGuard<'_, DrivenSet> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the task that looks for commands, unless a run began meanwhile.
    fn leave(&self) -> bool {
        let mut driven = self.lock();
        driven.is_attended = !driven.runs.is_empty();
        !driven.is_attended
    }
}

impl RunHost for HostState {
    fn drives(self: Arc<Self>, run_id: &Arc<str>, epoch: u64, stops: RunStops) -> bool {
        let mut driven = self.driven.lock();
        if driven.runs.get(run_id).is_some_and(|run| run.epoch == epoch) {
            return false;
        }
        let run = DrivenRun { epoch, stops, is_busy: false };
        driven.runs.insert(Arc::clone(run_id), run);
        if !std::mem::replace(&mut driven.is_attended, true) {
            tokio::spawn(attend(Arc::downgrade(&self), self.services.store.watch()));
        }
        true
    }

    fn drives_no_longer(&self, run_id: &str, epoch: u64) {
        let mut driven = self.driven.lock();
        if driven.runs.get(run_id).is_some_and(|run| run.epoch == epoch) {
            driven.runs.remove(run_id);
            if driven.runs.is_empty() {
                self.driven.idle.notify_one();
            }
        }
    }

    fn run_child(
        self: Arc<Self>,
        start: ChildStart,
        updates: ChildForwarder,
    ) -> BoxFuture<'static, Result<ChildRunResult, HostError>> {
        let host = Host { inner: self };
        Box::pin(async move { host.run_child(start, updates).await })
    }

    fn end_child(self: Arc<Self>, run_id: String) -> BoxFuture<'static, Result<ChildRunResult, HostError>> {
        let host = Host { inner: self };
        Box::pin(async move { host.end_child(&run_id).await })
    }
}

impl Host {
    /// Carries out the commands to runs that this host drives.
    async fn check_commands(&self) {
        let runs: Vec<_> = self.inner.driven.lock().runs.keys().cloned().collect();
        if runs.is_empty() {
            return;
        }
        // If the commands cannot be read now, the next look finds them.
        for run_id in self.inner.services.store.runs_with_commands(&runs).await.unwrap_or_default() {
            self.start_commands(&run_id);
        }
    }

    /// Carries out the commands to a run, if this host drives it. The work is done in a task of its
    /// own, because a run takes a decision only between two of its steps.
    fn start_commands(&self, run_id: &Arc<str>) {
        {
            let mut driven = self.inner.driven.lock();
            let Some(run) = driven.runs.get_mut(run_id) else { return };
            if std::mem::replace(&mut run.is_busy, true) {
                return;
            }
        }
        let (host, run_id) = (self.clone(), Arc::clone(run_id));
        tokio::spawn(async move {
            if let Err(why) = host.execute_commands(&run_id).await {
                tracing::warn!("the commands to the run {run_id} cannot be carried out now: {why}");
            }
            if let Some(run) = host.inner.driven.lock().runs.get_mut(&run_id) {
                run.is_busy = false;
            }
        });
    }

    async fn execute_commands(&self, run_id: &Arc<str>) -> Result<(), HostError> {
        let store = &self.inner.services.store;
        let sent = store.commands(run_id).await?;
        let cancels = sent.iter().find_map(|sent| match &sent.command {
            RunCommand::Cancel(reason) => Some(reason),
            _ => None,
        });
        if let Some(reason) = cancels {
            // The commit that ends the run removes its commands.
            match self.live(run_id) {
                Some(hub) => hub.cancel(Some(reason.clone())),
                None => self.end_driven(run_id),
            }
            return Ok(());
        }
        for SentCommand { id, command } in sent {
            // A message is for a run that waits.
            let RunCommand::Decide(decision) = command else { continue };
            let Some(hub) = self.live(run_id) else { return Ok(()) };
            match hub.deliver(vec![decision]).await {
                Some(Ok(())) => {}
                // The run came to rest, or failed; the command goes to the host that continues it.
                None | Some(Err(HostError::Store(_) | HostError::Run(_))) => return Ok(()),
                Some(Err(why)) => tracing::warn!("a command to the run {run_id} is dropped: {why}"),
            }
            store.withdraw(run_id, &id).await?;
        }
        Ok(())
    }

    fn end_driven(&self, run_id: &str) {
        if let Some(run) = self.inner.driven.lock().runs.get(run_id) {
            run.stops.cancel.cancel();
        }
    }

    /// Stops driving all runs, because other hosts may have taken them over.
    fn lapse(&self) {
        self.inner.driven.lock().runs.values().for_each(|run| run.stops.lapse.cancel());
    }

    /// Ends a run that another host drives. Returns `false` if it came to rest first.
    pub(super) async fn cancel_elsewhere(&self, run_id: &str, reason: String) -> Result<bool, HostError> {
        let (id, mut hints) = (new_id(), self.inner.services.store.watch());
        if !self.inner.services.store.send(run_id, &id, RunCommand::Cancel(reason)).await? {
            return Ok(false);
        }
        let status = self.command_status(run_id, &[id], &mut hints).await?;
        // A command that is pending survives the host that is to carry it out.
        Ok(!matches!(status, CommandStatus::TakenBack))
    }

    /// Sends decisions to the host that drives the run, one by one. If that host does not answer, they
    /// stay stored for the host that takes over the run, and the result follows it. Returns `None` if one of
    /// them was not taken: the run came to rest first, or its host refused it.
    pub(super) async fn decide_elsewhere(
        &self,
        run_id: &str,
        decisions: &[Decision],
    ) -> Result<Option<RunHandle>, HostError> {
        let store = &self.inner.services.store;
        let mut hints = store.watch();
        let found = self.summary(run_id).await?.ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
        let (thread_id, after) = (Arc::<str>::from(found.thread_id), found.events);
        let ids: Vec<Arc<str>> = decisions.iter().map(|decision| Arc::from(decision.id.as_str())).collect();
        for (id, decision) in ids.iter().zip(decisions) {
            if !store.send(run_id, id, RunCommand::Decide(decision.clone())).await? {
                return Ok(None);
            }
        }
        let status = self.command_status(run_id, &ids, &mut hints).await?;
        let news = store.events(run_id, after).await?;
        let is_recorded = |wanted: &Decision| {
            let mut made = news.iter().filter_map(|stored| match &stored.event {
                Event::CallDecided { decision, .. } => Some(decision),
                _ => None,
            });
            made.any(|decision| decision.id == wanted.id)
        };
        match matches!(status, CommandStatus::Pending) || decisions.iter().all(is_recorded) {
            true => Ok(Some(self.joined_elsewhere(Arc::from(run_id), thread_id, after).await?)),
            false => Ok(None),
        }
    }

    /// Waits until the host that drives the run has taken these commands.
    async fn command_status(
        &self,
        run_id: &str,
        ids: &[Arc<str>],
        hints: &mut Hints,
    ) -> Result<CommandStatus, HostError> {
        let (store, until) = (&self.inner.services.store, Instant::now() + TAKEN_WITHIN);
        loop {
            let mut left = store.commands(run_id).await?;
            left.retain(|sent| ids.contains(&sent.id));
            if left.is_empty() {
                return Ok(CommandStatus::Taken);
            }
            let found =
                self.summary(run_id).await?.ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
            if !found.is_driven {
                for sent in left {
                    store.withdraw(run_id, &sent.id).await?;
                }
                return Ok(CommandStatus::TakenBack);
            }
            if Instant::now() >= until {
                return Ok(CommandStatus::Pending);
            }
            let hinted = async { while !hints.next().await.is_about(run_id) {} };
            let _ = tokio::time::timeout(POLL_INTERVAL, hinted).await;
        }
    }

    /// Returns a handle of a run that another host drives.
    async fn joined_elsewhere(
        &self,
        run_id: Arc<str>,
        thread_id: Arc<str>,
        after: u64,
    ) -> Result<RunHandle, HostError> {
        let events = self.follow(&run_id, after).await?;
        let mut follower = self.follow_until(&run_id, after, FollowUntil::Rest).await?;
        let cancel = CancellationToken::new();
        let (host, id, cancelled) = (self.clone(), Arc::clone(&run_id), cancel.clone());
        let end = tokio::spawn(async move {
            let mut is_cancelled = false;
            loop {
                tokio::select! {
                    update = follower.next() => {
                        if update?.is_none() {
                            return host.run_end(&id).await.map_err(RunError::from);
                        }
                    }
                    () = cancelled.cancelled(), if !is_cancelled => {
                        is_cancelled = true;
                        if let Err(why) = host.cancel(&id, None).await {
                            tracing::warn!("the run {id} cannot be cancelled: {why}");
                        }
                    }
                }
            }
        });
        Ok(RunHandle { run_id, thread_id, events, cancel, end })
    }
}

/// Carries out commands for as long as the host drives runs.
async fn attend(host: Weak<HostState>, mut hints: Hints) {
    let mut due = tokio::time::interval_at(Instant::now() + POLL_INTERVAL, POLL_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let Some(inner) = host.upgrade() else { return };
        let host = Host { inner };
        let hint = tokio::select! {
            () = host.inner.driven.idle.notified() => {
                if host.inner.driven.leave() {
                    return;
                }
                continue;
            }
            hint = hints.next() => hint,
            _ = due.tick() => Hint::Any,
        };
        match hint {
            Hint::Events(_) | Hint::Work => {}
            Hint::Commands(run_id) => host.start_commands(&run_id),
            Hint::Lapsed => host.lapse(),
            Hint::Any => host.check_commands().await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{CallRequest, FnTool, ToolContext};
    use serde_json::Value;
    use std::sync::OnceLock;
    use tollgate_agent::descriptor::ExecutionPolicy;

    /// Other hosts know of a call by its record. A call that may run twice has none until it ends, and
    /// looking for commands to it would only take time.
    #[tokio::test]
    async fn commands_are_looked_for_while_a_call_has_a_record() {
        let host = Arc::new(OnceLock::<Host>::new());
        let tool = |name: &str, idempotent| {
            let (host, execution) = (Arc::clone(&host), ExecutionPolicy { idempotent, ..Default::default() });
            let driven = move |_: Value, _: ToolContext| {
                let driven = host.get().map(|host| host.inner.driven.lock().runs.len());
                async move { Value::from(driven.unwrap_or_default()) }
            };
            FnTool::new(name, name, "Counts the runs.", driven).with_execution(execution)
        };
        let built = Host::builder().tool(tool("once", false)).tool(tool("again", true)).build().unwrap();
        let host = host.get_or_init(|| built);
        for (name, driven) in [("once", 1_usize), ("again", 0)] {
            let end = host.call(CallRequest::from_json(name, "{}")).await.unwrap();
            assert_eq!(end.result().unwrap().data, Value::from(driven), "{name}");
        }
        assert!(host.inner.driven.lock().runs.is_empty());
    }
}
