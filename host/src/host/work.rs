//! Runs of any host: submitting them, claiming them, and commands that reach a run wherever it is.

use super::checks::check_backend;
use super::thread_memory::ReadThread;
use super::{Busy, Host, HostError, RunRequest, spec, threads};
use crate::blocking::aside_if;
use crate::run::{Driver, RunEnd, RunError, new_id};
use crate::store::{ClaimedRun, Commit, Hint, RunCommand, RunFilter, SentCommand, now_ms};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::{Input, Phase, Run, Task, handed_to};

/// How often a host looks for work when no hint arrives.
const LOOK: Duration = Duration::from_secs(1);
/// How often a host ends children that no one continues.
const ABANDONED: Duration = Duration::from_secs(60);
/// How long a run that could not be continued is kept from being claimed again.
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
        let (admitted, waiting) = futures::join!(store.admit(Some(&thread_id), None), store.runs(waiting));
        admitted.map_err(HostError::not_admitted)?;
        if let Some(run) = waiting?.pop() {
            let message = RunCommand::Message(request.prompt.clone());
            if store.send(&run.run_id, &new_id(), message).await? {
                return Ok(Arc::from(run.run_id));
            }
        }
        let ReadThread { thread, memory: _memory } = self.thread_of_run(&thread_id).await?;
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
            return Err(HostError::Refused(format!("the run {run_id} does not wait for a message")));
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
            loop {
                if let Err(why) = self.end_orphans().await {
                    tracing::warn!("children that no one continues cannot be ended: {why}");
                }
                tokio::time::sleep(ABANDONED).await;
            }
        };
        tokio::join!(self.claim_and_drive(options, stop), stop.run_until_cancelled(ending));
    }

    async fn claim_and_drive(&self, options: &WorkOptions, stop: &CancellationToken) {
        let free = Arc::new(Semaphore::new(options.concurrency));
        let mut runs = JoinSet::new();
        let mut hints = self.inner.services.store.watch();
        while !stop.is_cancelled() {
            let room = free.available_permits();
            let claimed = match room {
                0 => Vec::new(),
                room => self.inner.services.store.claim(&options.agents, room).await.unwrap_or_else(|why| {
                    tracing::warn!("no run can be claimed: {why}");
                    Vec::new()
                }),
            };
            let goes_on = !claimed.is_empty();
            for run in claimed {
                let (host, permit) = (self.clone(), Arc::clone(&free).try_acquire_owned());
                runs.spawn(async move {
                    let _permit = permit;
                    host.carry_claimed(run).await;
                });
            }
            if goes_on {
                continue;
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
                // A run came to rest, so there is room.
                Some(_) = runs.join_next() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        let all = async { while runs.join_next().await.is_some() {} };
        // Dropped drivers release their runs.
        let _ = tokio::time::timeout(options.grace, all).await;
        runs.shutdown().await;
    }

    /// Drives a claimed run until it rests.
    async fn carry_claimed(&self, claimed: ClaimedRun) {
        let run_id = Arc::clone(&claimed.run_id);
        let ended = self.carry_acquired(&claimed).await;
        if let Err(why) = ended {
            tracing::warn!("the run {run_id} cannot be continued here: {why}");
            // Meanwhile no host tries again, as if this one were at work on it.
            tokio::time::sleep(BACK_OFF).await;
            self.inner.services.store.release(&run_id, claimed.epoch);
        }
    }

    async fn carry_acquired(&self, claimed: &ClaimedRun) -> Result<(), HostError> {
        let ClaimedRun { run_id, epoch } = claimed;
        let store = &self.inner.services.store;
        let no_record = || HostError::Refused("it has no record".to_owned());
        let spec = store.run_spec(run_id).await?.ok_or_else(no_record)?;
        let thread_id = Arc::<str>::from(spec.identity.thread_id.as_str());
        if matches!(spec.task, Task::Prompt(_)) {
            self.agent(&spec.identity.agent_id)?;
        }
        let turn = self.lock_thread(&thread_id, Busy::Queue).await?;
        let ReadThread { mut thread, memory } = self.thread_of_run(&thread_id).await?;
        let (known_messages, mut state) = (thread.messages.len(), std::mem::take(&mut thread.state));
        let (mut run, clock) = self.fold(thread, &thread_id, run_id).await?;
        threads::start_anew(self.toolbox().catalog().keys(), &run, &mut state);
        run.adopt(&state);
        let (input, command) = match self.next_input(&run, run_id).await? {
            Some(next) => next,
            None => {
                store.release(run_id, *epoch);
                return Ok(());
            }
        };
        let cancel = CancellationToken::new();
        let is_call = matches!(spec.task, Task::Call { .. });
        let (hub, publisher, events) = self.listened((run_id, *epoch), is_call, &cancel);
        let mut parts = self.parts(Arc::clone(run_id), thread_id, cancel, publisher);
        (parts.epoch, parts.command) = (*epoch, command);
        let mut driver = Driver::new(parts, run, known_messages).at(clock);
        driver.thread_memory = memory;
        drop(events);
        let end: Result<RunEnd, RunError> = {
            let _turn = turn;
            self.drive_attended(driver.drive(input), hub, None).await
        };
        end.map(drop).map_err(HostError::from)
    }

    /// Returns the input with which a claimed run goes on, and the command that it carries out.
    /// `None` if it waits and no command fits.
    async fn next_input(
        &self,
        run: &Run,
        run_id: &str,
    ) -> Result<Option<(Input, Option<Arc<str>>)>, HostError> {
        let store = &self.inner.services.store;
        let sent = store.commands(run_id).await?;
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
                    store.withdraw(run_id, &id).await?;
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
                Err(HostError::Refused("the question was answered before".to_owned()))
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
        crate::store::CoordinationStore::release(store, run_id, 1);
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
