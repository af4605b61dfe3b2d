//! Runs of any host: submitting them, claiming them, and commands that reach a run wherever it is.

use super::abandoned::Parents;
use super::checks::check_backend;
use super::thread_memory::ReadThread;
use super::threads::{FoldPurpose, FoldedRun};
use super::{Busy, Host, HostError, RunRequest, spec, threads};
use crate::blocking::aside_if;
use crate::error::RequestRefusal;
use crate::run::{Driver, RunEnd, RunError, new_id};
use crate::store::rules::spec_of;
use crate::store::{
    ClaimedRun, Commit, Hint, ReadAtClaim, RecordReader, RunCommand, RunFilter, SentCommand, now_ms,
};
use futures::FutureExt as _;
use futures::future::{self, Either};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::{Input, Phase, Run, Task, Thread, handed_to};

/// How often a host looks for work when no hint arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a host ends children that no one continues.
const ABANDONED: Duration = Duration::from_secs(60);
/// How long a host waits before it tries again to continue a run.
const BACK_OFF: Duration = Duration::from_secs(10);

/// The runs that a host claims.
#[derive(Debug, Clone)]
pub struct WorkOptions {
    /// The agents whose runs it claims.
    pub agents: Vec<String>,
    /// The maximum number of claimed runs at a time.
    pub concurrency: usize,
    /// How long claimed runs may go on after the host was asked to stop. Those that have not come
    /// to rest by then are released for other hosts.
    pub grace: Duration,
}

/// The places for claimed runs of a host that works.
struct RunPlaces {
    free: Arc<Semaphore>,
    /// The runs that could not be continued, and when to try again.
    failed: Mutex<HashMap<Arc<str>, Instant>>,
}

impl RunPlaces {
    fn new(concurrency: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(concurrency)), failed: Mutex::default() }
    }

    /// Records that a run could not be continued.
    fn add_failure(&self, run_id: &Arc<str>) {
        let now = Instant::now();
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|_, at| *at > now);
        failed.insert(Arc::clone(run_id), now + BACK_OFF);
    }

    /// Returns when to try a run again that could not be continued; `None` if it may be tried now.
    fn tries_at(&self, run_id: &str) -> Option<Instant> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(run_id).copied().filter(|at| *at > Instant::now())
    }
}

impl Host {
    /// Queues a run for a host that [works](Host::work) on the store, and returns its id. If a run
    /// of the thread waits for a person, the prompt continues that run instead, and the result is
    /// that run's id.
    ///
    /// # Errors
    /// The agent is not known, or the store cannot be used.
    pub async fn submit(&self, request: RunRequest) -> Result<Arc<str>, HostError> {
        self.agent(&request.agent_id)?;
        let thread_id: Arc<str> = request.thread_id.as_deref().map_or_else(new_id, Arc::from);
        let store = &self.inner.services.store;
        let waiting = RunFilter {
            thread_id: Some(thread_id.to_string()),
            status: Some("waiting".to_owned()),
            kind: Some("prompt".to_owned()),
            limit: 1,
            ..RunFilter::default()
        };
        // The thread is read meanwhile: few threads have a run that waits.
        let of_thread = Arc::clone(&thread_id);
        let principal = request.principal.as_deref();
        let admit = async || {
            let admitted = store.admit(Some(&of_thread), None, principal).await;
            admitted.map_err(HostError::not_admitted)
        };
        let reading = pin!(self.thread_of_run(&of_thread));
        let (waiting, reading) = match future::select(store.runs(waiting), reading).await {
            Either::Left((found, reading)) => (found, reading.left_future()),
            Either::Right((read, finding)) => (finding.await, future::ready(read).right_future()),
        };
        if let Some(run) = waiting?.pop() {
            admit().await?;
            let message = RunCommand::Message(request.prompt.clone());
            if store.send(&run.run_id, &new_id(), message).await? {
                return Ok(Arc::from(run.run_id));
            }
        }
        let ReadThread { thread, memory: _memory } = reading.await?;
        // A store may know the size of the thread's records now that the thread was read.
        admit().await?;
        let there = |id: &&str| self.inner.services.agents.contains_key(*id);
        let handed = handed_to(&thread.state, &request.agent_id).filter(there);
        let agent = self.agent(handed.unwrap_or(&request.agent_id))?;
        check_backend(agent, !thread.messages.is_empty(), false)?;
        let run_id = new_id();
        let mut spec = spec(&run_id, &thread_id, agent, Task::Prompt(request.prompt));
        spec.identity.principal = request.principal;
        spec.identity.asked_by_agent = request.asked_by_agent;
        spec.detached = request.detached;
        let start = Input::Start(Arc::new(spec));
        let now = now_ms();
        let events = Run::new(thread).decide(self.toolbox().catalog(), now, &start)?;
        let mut commit = Commit::new(Arc::clone(&run_id), thread_id, 0, now, events);
        (commit.queued, commit.epoch) = (true, 0);
        store.commit(commit).await?;
        Ok(run_id)
    }

    /// Sends a command to a run, wherever it is. The host that drives the run carries out
    /// cancellations and decisions. If no host does, one that [works](Host::work) claims the run.
    ///
    /// # Errors
    /// The run is not known or has ended, or the command does not fit it; then nothing was sent.
    pub async fn send(&self, run_id: &str, mut command: RunCommand) -> Result<(), HostError> {
        let id = new_id();
        if let RunCommand::Decide(decision) = &mut command {
            if decision.id.is_empty() {
                decision.id = id.to_string();
            }
            if decision.at_ms == 0 {
                decision.at_ms = now_ms();
            }
        }
        let run = self.recorded(run_id).await?;
        let run = run.ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
        if run.is_finished() {
            return Err(HostError::AlreadyEnded(run_id.to_owned()));
        }
        let input = input_of(&command);
        self.check_own(&run.spec().identity, &input).await?;
        if matches!(run.phase(), Phase::Waiting) {
            self.check(&run, &input)?;
        } else if matches!(command, RunCommand::Message(_)) {
            return Err(RequestRefusal::NotWaiting(run_id.to_owned()).into());
        }
        // The same decision twice is one command.
        let id = match &command {
            RunCommand::Decide(decision) => Arc::from(decision.id.as_str()),
            _ => id,
        };
        match self.inner.services.store.send(run_id, &id, command).await? {
            true => Ok(()),
            false => Err(HostError::AlreadyEnded(run_id.to_owned())),
        }
    }

    /// Claims queued and interrupted runs, and waiting ones to which a command was sent, and drives
    /// them, until it is asked to stop. Also ends children that no one continues, at once and then once a
    /// minute: the host of a run that ended may have died before it ended the run's children. It claims
    /// abandoned direct calls like other interrupted runs.
    pub async fn work(&self, options: &WorkOptions, stop: &CancellationToken) {
        let ending = async {
            let mut parents = Parents::default();
            loop {
                if let Err(why) = self.end_orphans(&mut parents).await {
                    tracing::warn!("children that no one continues cannot be ended: {why}");
                }
                tokio::time::sleep(ABANDONED).await;
            }
        };
        tokio::join!(self.claim_and_drive(options, stop), stop.run_until_cancelled(ending));
    }

    async fn claim_and_drive(&self, options: &WorkOptions, stop: &CancellationToken) {
        let places = Arc::new(RunPlaces::new(options.concurrency));
        let free = &places.free;
        let mut runs = JoinSet::new();
        let mut hints = self.inner.services.store.watch();
        while !stop.is_cancelled() {
            // This claim sees the runs that these hints were about.
            while hints.try_next().is_some() {}
            let claimed = match free.available_permits() {
                0 => Vec::new(),
                room => self.inner.services.store.claim(&options.agents, room).await.unwrap_or_else(|why| {
                    tracing::warn!("no run can be claimed: {why}");
                    Vec::new()
                }),
            };
            for run in claimed {
                let (host, places, stop) = (self.clone(), Arc::clone(&places), stop.clone());
                let permit = Arc::clone(free).try_acquire_owned().ok();
                runs.spawn(async move { host.drive_claimed(run, permit, &places, &stop).await });
            }
            let changed = async {
                loop {
                    match hints.next().await {
                        Hint::Events(_) | Hint::Lapsed => {}
                        Hint::Work | Hint::Commands(_) | Hint::Any => return,
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = changed => {}
                // A run came to rest, so the next one of its thread may be free.
                Some(_) = runs.join_next() => {}
                _ = free.acquire(), if free.available_permits() == 0 => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
        let all = async { while runs.join_next().await.is_some() {} };
        // Dropped drivers release their runs.
        let _ = tokio::time::timeout(options.grace, all).await;
        runs.shutdown().await;
    }

    /// Drives a claimed run until it rests. The permit counts it among the runs of this host.
    async fn drive_claimed(
        &self,
        claimed: ClaimedRun,
        mut permit: Option<OwnedSemaphorePermit>,
        places: &RunPlaces,
        stop: &CancellationToken,
    ) {
        let ClaimedRun { run_id, epoch, mut read } = claimed;
        let release = || self.inner.services.store.release(&run_id, epoch);
        if let Some(at) = places.tries_at(&run_id) {
            // By then, it is out of date.
            read = None;
            // Until then no host tries, as if this one were at work on it. It takes no room from other runs:
            // a few such runs, which are the oldest, would keep a host from all others.
            drop(permit.take());
            let again = async {
                tokio::time::sleep_until(at).await;
                Arc::clone(&places.free).acquire_owned().await.ok()
            };
            match stop.run_until_cancelled(again).await {
                Some(again) => permit = again,
                None => return release().await,
            }
        }
        if let Err(why) = self.drive_acquired(&run_id, epoch, read).await {
            tracing::warn!("the run {run_id} cannot be continued here: {why}");
            places.add_failure(&run_id);
            drop(permit);
            // Another host may be able to continue it.
            release().await;
        }
    }

    /// Drives a claimed run until it rests. It is read from the store, unless it was read with the claim.
    async fn drive_acquired(
        &self,
        run_id: &Arc<str>,
        epoch: u64,
        read: Option<Box<ReadAtClaim>>,
    ) -> Result<(), HostError> {
        let store = &self.inner.services.store;
        let (mut record, known) = match read.map(|read| *read) {
            Some(ReadAtClaim { events, thread, commands }) => {
                (RecordReader::of_record(&**store, run_id, events), Some((thread, commands)))
            }
            None => (RecordReader::new(&**store, run_id), None),
        };
        let first = record.peek().await?;
        let spec = spec_of(first.as_slice());
        let spec = spec.ok_or_else(|| HostError::UnknownRun(run_id.to_string()))?;
        let thread_id = Arc::<str>::from(spec.identity.thread_id.as_str());
        if matches!(spec.task, Task::Prompt(_)) {
            self.agent(&spec.identity.agent_id)?;
        }
        let turn = self.lock_thread(&thread_id, Busy::Queue).await?;
        let (ReadThread { mut thread, memory }, sent) =
            self.thread_and_commands(run_id, &thread_id, known).await?;
        let (known_messages, mut state) = (thread.messages.len(), std::mem::take(&mut thread.state));
        let is_cancelled = sent.iter().any(|sent| matches!(sent.command, RunCommand::Cancel(_)));
        let purpose = if is_cancelled { FoldPurpose::Inspect } else { FoldPurpose::Continue };
        let FoldedRun { mut run, clock, memory: conversation } =
            self.fold_record(thread, &thread_id, (&**run_id, record), purpose).await?;
        threads::start_anew(self.toolbox().catalog().keys(), &run, &mut state);
        run.adopt(&state);
        let (input, command) = match self.next_input(&run, run_id, sent).await? {
            Some(next) => next,
            None => {
                store.release(run_id, epoch).await;
                return Ok(());
            }
        };
        let cancel = CancellationToken::new();
        let is_call = matches!(spec.task, Task::Call { .. });
        let (hub, publisher, events) = self.listened((run_id, epoch), is_call, &cancel);
        let mut parts = self.parts(Arc::clone(run_id), thread_id, cancel, publisher);
        (parts.epoch, parts.command) = (epoch, command);
        let mut driver = Driver::new(parts, run, known_messages).at(clock).with_conversation(conversation);
        driver.thread_memory = memory;
        drop(events);
        let end: Result<RunEnd, RunError> = {
            let _turn = turn;
            self.drive_attended(driver.drive(Some(input)), hub, None).await
        };
        end.map(drop).map_err(HostError::from)
    }

    /// Returns the thread of a claimed run and the commands to it, which may have been read with the claim.
    async fn thread_and_commands(
        &self,
        run_id: &str,
        thread_id: &str,
        known: Option<(Thread, Vec<SentCommand>)>,
    ) -> Result<(ReadThread, Vec<SentCommand>), HostError> {
        if let Some((thread, sent)) = known
            && let Some(thread) = self.fitting(thread_id, thread).await?
        {
            return Ok((ReadThread { thread, memory: None }, sent));
        }
        let (read, sent) =
            futures::join!(self.thread_of_run(thread_id), self.inner.services.store.commands(run_id));
        Ok((read?, sent?))
    }

    /// Returns the input with which a claimed run goes on, and the one of the sent commands that it
    /// carries out. `None` if it waits and no command fits.
    async fn next_input(
        &self,
        run: &Run,
        run_id: &str,
        sent: Vec<SentCommand>,
    ) -> Result<Option<(Input, Option<Arc<str>>)>, HostError> {
        if let Some(SentCommand { id, command }) =
            sent.iter().find(|sent| matches!(sent.command, RunCommand::Cancel(_)))
        {
            return Ok(Some((input_of(command), Some(Arc::clone(id)))));
        }
        if !matches!(run.phase(), Phase::Waiting) {
            let is_call = matches!(run.spec().task, Task::Call { .. });
            return Ok(Some((if is_call { Input::Abandoned } else { Input::Restarted }, None)));
        }
        for SentCommand { id, command } in sent {
            let input = input_of(&command);
            match self.check(run, &input) {
                Ok(()) => return Ok(Some((input, Some(id)))),
                Err(why) => {
                    // Such as the second of two decisions.
                    tracing::warn!("a command to the run {run_id} is dropped: {why}");
                    self.inner.services.store.withdraw(run_id, &id).await?;
                }
            }
        }
        Ok(None)
    }

    fn check(&self, run: &Run, input: &Input) -> Result<(), HostError> {
        let toolbox = self.toolbox();
        let takes_long = run.takes_long(toolbox.catalog(), input);
        let decided = aside_if(takes_long, || run.decide(toolbox.catalog(), 0, input));
        match decided {
            Ok(events) if events.is_empty() => {
                let repeated = match input {
                    Input::Decided(decisions) => decisions.first(),
                    _ => None,
                };
                let made = repeated.and_then(|repeated| run.decision(&repeated.id));
                Err(HostError::AlreadyDecided {
                    message: "the question was answered before".to_owned(),
                    target: repeated.map(|repeated| repeated.target.clone()).unwrap_or_default(),
                    decision: made.cloned().map(Box::new),
                })
            }
            Ok(_) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

fn input_of(command: &RunCommand) -> Input {
    match command {
        RunCommand::Decide(decision) => Input::Decided(vec![decision.clone()]),
        RunCommand::Cancel(reason) => Input::Cancel { reason: reason.clone() },
        RunCommand::Message(text) => Input::Message(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Agent;
    use crate::models::{ScriptedModel, ScriptedTurn};
    use crate::store::{MemoryStore, Store};
    use tollgate_agent::context::RunIdentity;
    use tollgate_agent::run::{AgentSpec, Event, RunLimits, RunSpec};

    /// A child whose parent is gone, and which no process drives.
    async fn orphan(store: &MemoryStore, run_id: &str) {
        let identity = RunIdentity {
            run_id: run_id.into(),
            thread_id: run_id.into(),
            parent_run_id: Some("gone".into()),
            ..RunIdentity::default()
        };
        let agent = AgentSpec::default().into();
        let task = Task::Prompt("Help.".to_owned());
        let spec = RunSpec { identity, agent, limits: RunLimits::default(), task, detached: true };
        let started = vec![
            Event::RunStarted { spec: Arc::new(spec) },
            Event::MessageAdded { text: "Help.".to_owned() },
            Event::StepStarted { step: 1 },
        ];
        let mut first = Commit::new(run_id.into(), run_id.into(), 0, 7, started);
        first.epoch = 1;
        crate::store::RunStore::commit(store, first).await.unwrap();
        crate::store::CoordinationStore::release(store, run_id, 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_cannot_be_continued_do_not_keep_a_host_from_others() {
        let store = Arc::new(MemoryStore::new());
        let agent = Agent::new("able", ScriptedModel::new(vec![ScriptedTurn::text("Done.")]));
        let host = Host::builder().store(Arc::clone(&store) as Arc<dyn Store>).agent(agent).build().unwrap();
        // This host does not know their agent. They are the oldest.
        for run_id in ["0", "1", "2"] {
            let identity =
                RunIdentity { run_id: run_id.into(), agent_id: "unknown".into(), ..RunIdentity::default() };
            let (agent, task) = (AgentSpec::default().into(), Task::Prompt("Go.".to_owned()));
            let spec = RunSpec { identity, agent, limits: RunLimits::default(), task, detached: true };
            let events = vec![Event::RunStarted { spec: Arc::new(spec) }];
            let mut commit = Commit::new(run_id.into(), run_id.into(), 0, 7, events);
            (commit.queued, commit.epoch) = (true, 0);
            crate::store::RunStore::commit(&*store, commit).await.unwrap();
        }
        let good = host.submit(RunRequest::new("able", "Go.")).await.unwrap();
        let agents = vec!["unknown".to_owned(), "able".to_owned()];
        let options = WorkOptions { agents, concurrency: 1, grace: Duration::ZERO };
        let (stop, began) = (CancellationToken::new(), Instant::now());
        let looking = async {
            while host.summary(&good).await.unwrap().unwrap().status != "completed" {
                assert!(began.elapsed() < BACK_OFF, "they hold it up");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stop.cancel();
        };
        tokio::join!(host.work(&options, &stop), looking);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_works_ends_children_that_no_one_continues() {
        let store = Arc::new(MemoryStore::new());
        let host = Host::builder().store(Arc::clone(&store) as Arc<dyn Store>).build().unwrap();
        let (stop, options) = (
            CancellationToken::new(),
            WorkOptions { agents: Vec::new(), concurrency: 1, grace: Duration::ZERO },
        );
        let looking = async {
            orphan(&store, "first").await;
            for run_id in ["first", "second"] {
                let began = std::time::Instant::now();
                while host.summary(run_id).await.unwrap().unwrap().status != "cancelled" {
                    assert!(began.elapsed() < Duration::from_secs(30), "{run_id} goes on");
                    tokio::time::sleep(ABANDONED).await;
                }
                // This one was left later.
                if run_id == "first" {
                    orphan(&store, "second").await;
                }
            }
            stop.cancel();
        };
        tokio::join!(host.work(&options, &stop), looking);
    }
}
