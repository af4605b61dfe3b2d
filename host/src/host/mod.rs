//! The host: tools, gates, agents and a store, and their runs.

mod abandoned;
mod builder;
mod checks;
mod children;
mod commands;
mod control;
mod ending;
mod follower;
mod listening;
pub mod replay;
mod request;
mod thread_memory;
mod threads;
mod tools;
mod work;

pub use builder::HostBuilder;
pub use follower::{CLIENT_MEMORY_PART, FollowUntil, RunFollower};
pub use request::{Busy, CallRequest, RunOptions, RunRequest};
pub use work::WorkOptions;

use crate::agents::Agent;
use crate::blocking::aside_if;
use crate::builtin;
use crate::config::DIRECT_AGENT;
use crate::error::{HostError, RequestRefusal};
use crate::plugins;
use crate::run::{
    self, Driver, RunEnd, RunError, RunHandle, RunHost, RunParts, RunServices, ThreadLocks, new_id,
};
use crate::store::{CommitError, Store};
use crate::stream::{Bus, EventStream, Hub, Publisher, RunUpdate};
use crate::tools::{NativePlugin, Toolbox};
use checks::check_backend;
use follower::Followers;
use futures::future::BoxFuture;
use listening::{ContinuedOnDrop, FIRST_EPOCH, Failures};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use thread_memory::ReadThread;
use threads::{FoldPurpose, FoldedRun};
use tokio::sync::{OwnedMutexGuard, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tollgate_agent::SmolStr;
use tollgate_agent::context::RunIdentity;
use tollgate_agent::run::{Input, Run, RunSeed, RunSpec, StoredEvent, Task, handed_to};
use tollgate_sandbox::MemoryBudget;

/// Runs agents and single calls. Cloning is cheap; clones are the same host.
///
/// ```
/// use tollgate::{Agent, Host, ScriptedModel, RunRequest, RunStatus, ScriptedTurn};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let turns = vec![ScriptedTurn::text("Good morning."), ScriptedTurn::text("You greeted me.")];
/// let model = ScriptedModel::new(turns);
/// let host = Host::builder().agent(Agent::new("porter", model)).build()?;
///
/// // A thread is a conversation: the model receives its earlier messages again.
/// let hello = RunRequest::new("porter", "Good morning!").on_thread("lobby");
/// let end = host.run(hello).await?.wait().await?;
/// assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "Good morning."));
/// let end = host.run(RunRequest::new("porter", "What did I do?").on_thread("lobby")).await?.wait().await?;
/// assert_eq!(end.text, "You greeted me.");
/// assert_eq!(host.store().thread("lobby").await?.messages.len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Host {
    inner: Arc<HostState>,
}

struct HostState {
    services: Arc<RunServices>,
    thread_state_bytes: usize,
    /// The parts of plugins that every toolbox receives.
    plugins: Vec<NativePlugin>,
    threads: ThreadLocks,
    bus: Arc<Bus>,
    /// The part of the memory budget that clients may use for large events.
    client_memory: MemoryBudget,
    /// Places for reading events whose size is not known yet.
    unmeasured_pages: Semaphore,
    /// Active runs, to which clients may reconnect.
    live: Mutex<HashMap<Arc<str>, Weak<Hub>>>,
    /// Clients that wait for something to happen to a run that this host does not drive.
    followers: Followers,
    failures: Failures,
    /// The runs that this host drives.
    driven: commands::DrivenRuns,
}

/// A direct call that is ready to run, with its first client.
struct AttendedCall {
    run_id: Arc<str>,
    thread_id: Arc<str>,
    events: EventStream,
    drive: BoxFuture<'static, Result<RunEnd, RunError>>,
}

/// Returns the error of a run that this host could not take over. Nothing of its input is recorded.
fn not_taken_over(why: CommitError, run_id: &str) -> HostError {
    match why {
        // Another process was faster.
        CommitError::Advanced | CommitError::Fenced => HostError::OwnedElsewhere(run_id.to_owned()),
        why => why.into(),
    }
}

/// Takes a run's first input. If it is not recorded, the streams of those who follow the run end.
async fn begun(driver: &mut Driver, hub: &Hub, first: Input) -> Result<(), CommitError> {
    let begun = driver.begin(first).await;
    if begun.is_err() {
        hub.close();
    }
    begun
}

impl Host {
    /// Starts building a host.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder::new()
    }

    /// Returns the agents that it can run, including the one of direct calls, sorted by id.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.inner.services.agents.values()
    }

    /// Returns the tools that can currently be called.
    #[must_use]
    pub fn toolbox(&self) -> Arc<Toolbox> {
        self.inner.services.tools.current()
    }

    /// Publishes a new toolbox. Runs use it from their next turn on; the calls of a turn finish
    /// with the toolbox with which the turn began.
    ///
    /// # Errors
    /// Something in it collides with the host's own tools, with a plugin, or with an agent that
    /// is offered as a tool.
    pub fn publish(&self, mut toolbox: Toolbox) -> Result<(), HostError> {
        plugins::equip(&mut toolbox, &self.inner.plugins)?;
        builtin::equip(&mut toolbox, &self.inner.services.agents)?;
        toolbox.set_thread_state_bytes(self.inner.thread_state_bytes);
        toolbox.set_limit_places(self.memory_budget().limit_places());
        self.inner.services.tools.publish(toolbox);
        Ok(())
    }

    /// Publishes a changed version of the current toolbox. Concurrent publications are kept.
    ///
    /// # Errors
    /// Returns the error of `change`. In that case nothing is published.
    pub fn update_toolbox<E>(&self, change: impl FnOnce(&mut Toolbox) -> Result<(), E>) -> Result<(), E> {
        self.inner.services.tools.update(change)
    }

    /// Returns a receiver of the number of published toolboxes, which changes with each one.
    #[must_use]
    pub fn published(&self) -> watch::Receiver<u64> {
        self.inner.services.tools.published()
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.services.store
    }

    /// Returns the memory budget for clients and models, and for tools if the host was built
    /// that way: see [`HostBuilder::memory_budget`].
    #[must_use]
    pub fn memory_budget(&self) -> &MemoryBudget {
        &self.inner.services.memory_budget
    }

    /// Starts a run of an agent. An interrupted run of the thread is finished first. If a run
    /// of the thread waits for a person, no new run is started: the prompt supersedes its open
    /// calls, and that run continues.
    ///
    /// # Errors
    /// The agent is not known, the thread is busy, or the store cannot be used. If an interrupted
    /// run waits for a person after its recovery, the error is [`HostError::Waiting`]: no one has
    /// seen its question yet.
    pub async fn run(&self, request: RunRequest) -> Result<RunHandle, HostError> {
        let agent = self.agent(&request.agent_id)?;
        let thread_id: Arc<str> = request.thread_id.as_deref().map_or_else(new_id, Arc::from);
        let wall_ms = request.options.applied_to(&agent.limits).wall_ms;
        self.run_on(&thread_id, &request, Duration::from_millis(wall_ms)).await
    }

    async fn start(
        &self,
        thread_id: &Arc<str>,
        request: &RunRequest,
        turn: OwnedMutexGuard<()>,
    ) -> Result<RunHandle, HostError> {
        let admitted =
            self.inner.services.store.admit(Some(thread_id), None, request.principal.as_deref()).await;
        admitted.map_err(HostError::not_admitted)?;
        let ReadThread { thread, memory } = self.thread_of_run(thread_id).await?;
        let there = |id: &&str| self.inner.services.agents.contains_key(*id);
        let handed = handed_to(&thread.state, &request.agent_id).filter(there);
        let agent = self.agent(handed.unwrap_or(&request.agent_id))?;
        if !request.history.is_empty() && !thread.messages.is_empty() {
            return Err(RequestRefusal::ThreadHasMessages(thread_id.to_string()).into());
        }
        check_backend(agent, !thread.messages.is_empty(), !request.history.is_empty())?;
        let (known_messages, thread_id) = (thread.messages.len(), Arc::clone(thread_id));
        let run_id = request.run_id.as_deref().map_or_else(new_id, Arc::from);
        let limits = request.options.applied_to(&agent.limits);
        let agent = Agent { limits, ..agent.clone() };
        let mut spec = spec(&run_id, &thread_id, &agent, Task::Prompt(request.prompt.clone()));
        spec.identity.principal.clone_from(&request.principal);
        spec.identity.asked_by_agent = request.asked_by_agent;
        spec.detached = request.detached;
        let spec = Arc::new(spec);
        let cancel = CancellationToken::new();
        let (hub, publisher, events) = self.listened((&run_id, FIRST_EPOCH), false, &cancel);
        let parts = self.parts(Arc::clone(&run_id), Arc::clone(&thread_id), cancel.clone(), publisher);
        let mut driver = Driver::new(parts, Run::new(thread), known_messages);
        driver.thread_memory = memory;
        let first = match request.history.is_empty() {
            true => Input::Start(spec),
            false => Input::StartSeeded(spec, RunSeed { change: None, messages: request.history.clone() }),
        };
        begun(&mut driver, &hub, first).await.map_err(|why| match why {
            CommitError::Busy(_) => HostError::Busy(thread_id.to_string()),
            why => why.into(),
        })?;
        let abandoned = (!request.detached).then(|| cancel.clone());
        let host = self.clone();
        let end = tokio::spawn(async move {
            let _turn = turn;
            host.drive_attended(driver.drive(None), hub, abandoned).await
        });
        Ok(RunHandle { run_id, thread_id, events, cancel, end })
    }

    /// Makes one call without a model: validated, judged, run and committed like any other. It
    /// takes no lock on its thread and commits once.
    ///
    /// # Errors
    /// The store cannot be read or written. Failures of the tool are in the answer.
    pub async fn call(&self, request: CallRequest) -> Result<RunEnd, HostError> {
        let run_id = request.run_id.as_deref().map_or_else(new_id, Arc::from);
        if let Some(refused) = self.without_room(&request, &run_id).await {
            return Ok(refused);
        }
        let publisher = Publisher::without_clients(Arc::clone(&self.inner.bus), Arc::clone(&run_id));
        let (driver, first) = self.direct(request, run_id, publisher).await?;
        Ok(driver.drive(Some(first)).await?)
    }

    /// Like [`Host::call`], but streams the tool's reports while it runs.
    ///
    /// # Errors
    /// Same as [`Host::call`].
    pub async fn start_call(&self, request: CallRequest) -> Result<RunHandle, HostError> {
        let cancel = request.cancel.clone();
        let AttendedCall { run_id, thread_id, events, drive } = self.attended_call(request).await?;
        Ok(RunHandle { run_id, thread_id, events, cancel, end: tokio::spawn(drive) })
    }

    /// Like [`Host::start_call`], but waits for the end of the call and returns it with the events that
    /// were stored meanwhile. The call runs in the caller's task. If the returned future is dropped, it
    /// goes on in a task of its own, like a call whose handle is dropped.
    ///
    /// # Errors
    /// Same as [`Host::call`].
    pub async fn call_with_events(
        &self,
        request: CallRequest,
    ) -> Result<(RunEnd, Vec<Arc<StoredEvent>>), HostError> {
        let AttendedCall { mut events, drive, .. } = self.attended_call(request).await?;
        let (mut drive, mut stored) = (ContinuedOnDrop::new(drive), Vec::new());
        let mut keep = |update| match update {
            RunUpdate::Stored(event) => stored.push(event),
            RunUpdate::Live(_) | RunUpdate::Child(_) => {}
        };
        let end = loop {
            tokio::select! {
                biased;
                end = &mut drive => break end?,
                Some(update) = events.next() => keep(update),
            }
        };
        // The stream has ended with the call.
        while let Some(update) = events.next().await {
            keep(update);
        }
        Ok((end, stored))
    }

    /// Prepares a direct call with its first client.
    async fn attended_call(&self, request: CallRequest) -> Result<AttendedCall, HostError> {
        let (cancel, detached) = (request.cancel.clone(), request.detached);
        let run_id = request.run_id.as_deref().map_or_else(new_id, Arc::from);
        let refused = self.without_room(&request, &run_id).await;
        let (hub, publisher, events) = self.listened((&run_id, FIRST_EPOCH), true, &cancel);
        if let Some(end) = refused {
            hub.close();
            let thread_id = Arc::clone(&end.thread_id);
            return Ok(AttendedCall { run_id, thread_id, events, drive: Box::pin(async { Ok(end) }) });
        }
        let (driver, first) = self.direct(request, Arc::clone(&run_id), publisher).await?;
        let thread_id = driver.thread_id();
        let abandoned = (!detached).then_some(cancel);
        let host = self.clone();
        let drive =
            Box::pin(async move { host.drive_attended(driver.drive(Some(first)), hub, abandoned).await });
        Ok(AttendedCall { run_id, thread_id, events, drive })
    }

    async fn continue_run(&self, run_id: &str, input: Input, busy: Busy) -> Result<RunHandle, HostError> {
        let spec = self
            .inner
            .services
            .store
            .run_spec(run_id)
            .await?
            .ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
        let detached = spec.detached;
        let (run_id, thread_id) =
            (Arc::<str>::from(run_id), Arc::<str>::from(spec.identity.thread_id.as_str()));
        self.check_own(&spec.identity, &input).await?;
        let turn = self.lock_thread(&thread_id, busy).await?;
        let ReadThread { mut thread, memory } = self.thread_of_run(&thread_id).await?;
        let (known_messages, mut state) = (thread.messages.len(), std::mem::take(&mut thread.state));
        // Read under the lock: no other process appends to it from here on.
        let FoldedRun { mut run, clock, memory: conversation } =
            self.fold(thread, &thread_id, &run_id, FoldPurpose::of(&input)).await?;
        threads::start_anew(self.toolbox().catalog().keys(), &run, &mut state);
        run.adopt(&state);
        let toolbox = self.toolbox();
        let takes_long = run.takes_long(toolbox.catalog(), &input);
        let decided = aside_if(takes_long, || run.decide(toolbox.catalog(), 0, &input));
        decided?;
        let epoch = self.acquire(&run_id, run.events()).await?;
        let cancel = CancellationToken::new();
        let is_call = matches!(spec.task, Task::Call { .. });
        let (hub, publisher, events) = self.listened((&run_id, epoch), is_call, &cancel);
        let mut parts = self.parts(Arc::clone(&run_id), Arc::clone(&thread_id), cancel.clone(), publisher);
        parts.epoch = epoch;
        let mut driver = Driver::new(parts, run, known_messages).at(clock).with_conversation(conversation);
        driver.thread_memory = memory;
        // The caller learns whether its input is part of the record.
        begun(&mut driver, &hub, input).await.map_err(|why| match why {
            CommitError::Busy(_) => HostError::Busy(thread_id.to_string()),
            why => not_taken_over(why, &run_id),
        })?;
        let abandoned = (!detached).then(|| cancel.clone());
        let host = self.clone();
        let end = tokio::spawn(async move {
            let _turn = turn;
            host.drive_attended(driver.drive(None), hub, abandoned).await
        });
        Ok(RunHandle { run_id, thread_id, events, cancel, end })
    }

    /// Acquires a run of which the caller has read this many events, and returns its epoch.
    async fn acquire(&self, run_id: &str, known: u64) -> Result<u64, HostError> {
        let acquired = self.inner.services.store.acquire(run_id, known).await;
        acquired.map_err(|why| not_taken_over(why, run_id))
    }

    /// Prepares a direct call, and its first input.
    async fn direct(
        &self,
        request: CallRequest,
        run_id: Arc<str>,
        publisher: Publisher,
    ) -> Result<(Box<Driver>, Input), HostError> {
        let agent = self.agent(DIRECT_AGENT)?;
        let stored = request.stored_thread().map(str::to_owned);
        let thread_id = request.thread_id.map_or_else(|| Arc::clone(&run_id), Arc::from);
        let parts = self.parts(run_id, Arc::clone(&thread_id), request.cancel, publisher);
        let found = match stored {
            Some(id) => self.thread_of_call(&parts.toolbox, &id, &request.tool_name).await?,
            None => Some(ReadThread::default()),
        };
        let refused = found
            .is_none()
            .then(|| run::no_memory("the state of its thread", &request.tool_name, self.memory_budget()));
        let task = Task::Call { tool_name: request.tool_name, arguments: request.arguments };
        let mut spec = spec(&parts.run_id, &thread_id, agent, task);
        spec.identity.principal = request.principal;
        spec.detached = request.detached;
        let first = match refused {
            None => Input::Start(Arc::new(spec)),
            Some(fault) => Input::StartRefused(Arc::new(spec), fault),
        };
        let ReadThread { thread, memory } = found.unwrap_or_default();
        let mut driver = Driver::new(parts, Run::new(thread), 0);
        driver.state_memory = memory;
        Ok((driver, first))
    }

    /// Returns the end of a direct call that the store has no room to record. The call does not
    /// begin, and leaves no record.
    async fn without_room(&self, request: &CallRequest, run_id: &Arc<str>) -> Option<RunEnd> {
        let toolbox = self.toolbox();
        let owner = toolbox.catalog().tool(&request.tool_name).map(|tool| tool.owner.id.as_str());
        let (thread_id, principal) = (request.stored_thread(), request.principal.as_deref());
        let why = self.inner.services.store.admit(thread_id, owner, principal).await.err()?;
        let thread_id = request.thread_id.as_deref().map_or_else(|| Arc::clone(run_id), Arc::from);
        let fault = run::overloaded(&why, toolbox.catalog().limit_places());
        Some(RunEnd::refused(Arc::clone(run_id), thread_id, &request.tool_name, fault))
    }

    fn parts(
        &self,
        run_id: Arc<str>,
        thread_id: Arc<str>,
        cancel: CancellationToken,
        publisher: Publisher,
    ) -> RunParts {
        let services = Arc::clone(&self.inner.services);
        let host: Arc<dyn RunHost> = Arc::clone(&self.inner) as _;
        let (toolbox, command) = (self.toolbox(), None);
        RunParts {
            services,
            host,
            toolbox,
            publisher,
            cancel,
            run_id,
            thread_id,
            epoch: FIRST_EPOCH,
            command,
        }
    }

    fn agent(&self, id: &str) -> Result<&Agent, HostError> {
        self.inner.services.agents.get(id).ok_or_else(|| {
            let known =
                self.inner.services.agents.keys().filter(|known| *known != DIRECT_AGENT).cloned().collect();
            HostError::UnknownAgent { id: id.to_owned(), known }
        })
    }
}

fn spec(run_id: &Arc<str>, thread_id: &Arc<str>, agent: &Agent, task: Task) -> RunSpec {
    RunSpec {
        identity: RunIdentity {
            run_id: Arc::clone(run_id).into(),
            thread_id: Arc::clone(thread_id).into(),
            agent_id: SmolStr::new(&agent.spec.view.id),
            ..RunIdentity::default()
        },
        agent: Arc::clone(&agent.spec),
        limits: agent.limits.clone(),
        task,
        detached: false,
    }
}
