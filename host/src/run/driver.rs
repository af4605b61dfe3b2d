//! The loop around the step machine: commit before acting, commit before telling.

use super::perform::{ask, execute, judge, now_ms, validate};
use super::{RunEnd, RunError, Teller};
use crate::model::Model;
use crate::store::{Commit, CommitError, Store, change_of};
use crate::tools::Toolbox;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate_agent::gate::Gate;
use tollgate_agent::history;
use tollgate_agent::message::{Message, ModelRequest, ToolSpec};
use tollgate_agent::run::event::{Event, Finished};
use tollgate_agent::run::{CallStatus, Effect, EffectKey, Input, Phase, Run, Task};

/// How long a cancelled run waits for its calls: their grace of 100 ms, as long
/// again to stop them, and some for a file operation that the system has begun.
const CANCEL_WAIT: Duration = Duration::from_millis(400);
/// How often one input is decided anew because others wrote to the thread.
const MAX_CONFLICTS: u32 = 1_000;

/// What a driver needs from its host.
pub(crate) struct DriverParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gates: Arc<[Arc<dyn Gate>]>,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) teller: Teller,
    pub(crate) cancel: CancellationToken,
    pub(crate) run_id: Arc<str>,
    pub(crate) thread_id: Arc<str>,
}

/// Carries one run until it ends or waits for a person.
pub(crate) struct Driver {
    parts: DriverParts,
    run: Run,
    under_way: HashSet<EffectKey>,
    work: FuturesUnordered<BoxFuture<'static, (EffectKey, Input)>>,
    /// Events of a direct call, which are committed once, at its end.
    held_back: Vec<Event>,
    /// The messages that the thread had before this run.
    known_messages: usize,
    tool_specs: Option<Arc<Vec<ToolSpec>>>,
    last_call: Option<Finished>,
    end_text: String,
}

impl Driver {
    /// A driver of a run that stands as its record says.
    pub(crate) fn new(parts: DriverParts, run: Run, known_messages: usize) -> Self {
        Self {
            parts,
            run,
            under_way: HashSet::new(),
            work: FuturesUnordered::new(),
            held_back: Vec::new(),
            known_messages,
            tool_specs: None,
            last_call: None,
            end_text: String::new(),
        }
    }

    /// Carries the run on from this input.
    pub(crate) async fn drive(mut self, first: Input) -> Result<RunEnd, RunError> {
        self.step(first).await?;
        let deadline = self.deadline();
        while !self.rests() {
            self.start_effects();
            let input = match self.wait(deadline).await {
                Waited::Input(input) => input,
                Waited::Cancelled => {
                    self.stop_work().await?;
                    Input::Cancel { reason: "it was cancelled by its caller".to_owned() }
                }
                Waited::TimeUp => {
                    self.parts.cancel.cancel();
                    self.stop_work().await?;
                    Input::WallTimeUp
                }
            };
            self.step(input).await?;
        }
        Ok(self.end())
    }

    fn rests(&self) -> bool {
        matches!(self.run.phase(), Phase::Finished(_) | Phase::Waiting)
    }

    fn is_direct(&self) -> bool {
        matches!(self.run.spec().task, Task::Call { .. })
    }

    /// Decides on one input, commits what follows, applies it and tells it.
    async fn step(&mut self, input: Input) -> Result<(), RunError> {
        for _ in 0..MAX_CONFLICTS {
            let events = self
                .run
                .decide(self.parts.toolbox.catalog(), now_ms(), input.clone())
                .map_err(|e| RunError(e.to_string()))?;
            if events.is_empty() {
                return Ok(());
            }
            let direct = self.is_direct() || is_direct_start(&events);
            if direct && !events.iter().any(ends) {
                self.apply(&events)?;
                self.held_back.extend(events);
                return Ok(());
            }
            match self.commit(&events).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Conflict(changes)) => {
                    changes.iter().for_each(|change| self.run.absorb(change))
                }
                Err(e) => return Err(RunError(e.to_string())),
            }
        }
        Err(RunError("other runs keep changing the thread's state; try again".to_owned()))
    }

    async fn commit(&mut self, events: &[Event]) -> Result<(), CommitError> {
        let mut all = self.held_back.clone();
        all.extend_from_slice(events);
        let commit = Commit {
            run_id: Arc::clone(&self.parts.run_id),
            thread_id: Arc::clone(&self.parts.thread_id),
            after: self.run.events() - self.held_back.len() as u64,
            at_ms: now_ms(),
            messages: self.new_messages(events),
            events: all,
        };
        let numbered = self.parts.store.commit(commit).await?;
        self.held_back.clear();
        self.apply(events).map_err(|e| CommitError::Failed(crate::store::StoreError(e.to_string())))?;
        numbered.iter().for_each(|event| self.parts.teller.stored(event));
        Ok(())
    }

    fn apply(&mut self, events: &[Event]) -> Result<(), RunError> {
        for event in events {
            self.run.apply(event).map_err(|e| RunError(e.to_string()))?;
            match event {
                Event::CallFinished(finished) => self.last_call = Some(finished.clone()),
                Event::RunFinished { text, .. } => self.end_text.clone_from(text),
                _ => {}
            }
        }
        Ok(())
    }

    /// What joins the thread's conversation, once the run has ended.
    fn new_messages(&self, events: &[Event]) -> Vec<Message> {
        if self.is_direct() || !events.iter().any(|event| matches!(event, Event::RunFinished { .. })) {
            return Vec::new();
        }
        let mut ended = self.run.clone();
        for event in events {
            if ended.apply(event).is_err() {
                return Vec::new();
            }
        }
        ended.messages()[self.known_messages.min(ended.messages().len())..].to_vec()
    }

    fn start_effects(&mut self) {
        let effects = self.run.next(self.parts.toolbox.catalog());
        let executions = effects.iter().filter(|effect| matches!(effect, Effect::Execute(_))).count();
        for effect in effects {
            let key = effect.key();
            if !self.under_way.insert(key.clone()) {
                continue;
            }
            let work = self.perform(effect);
            // Several tools that compute use several cores; one alone is spared the way
            // to another thread.
            let work: BoxFuture<'static, (EffectKey, Input)> = if executions > 1 {
                let task = AbortOnDrop(tokio::spawn(work));
                Box::pin(async move { (key, task.join().await) })
            } else {
                Box::pin(async move { (key, work.await) })
            };
            self.work.push(work);
        }
    }

    fn perform(&mut self, effect: Effect) -> BoxFuture<'static, Input> {
        let DriverParts { toolbox, teller, .. } = &self.parts;
        match effect {
            Effect::AskModel { ask: number } => {
                let request = self.request();
                match self.parts.model.clone() {
                    Some(model) => Box::pin(ask(model, request, number, self.parts.teller.clone())),
                    None => {
                        let error = "the agent has no model; add [model] to tollgate.toml".to_owned();
                        Box::pin(std::future::ready(Input::ModelFailed { ask: number, error }))
                    }
                }
            }
            Effect::Validate(proposal) => {
                let runner = toolbox.runner(&proposal.tool().descriptor.name).cloned();
                Box::pin(validate(runner, proposal))
            }
            Effect::Judge { round, questions } => {
                let answered = judge(&self.parts.gates, toolbox, &self.run, round, &questions);
                Box::pin(std::future::ready(answered))
            }
            Effect::Execute(execution) => Box::pin(execute(
                Arc::clone(toolbox),
                Arc::clone(self.run.spec()),
                execution,
                teller.clone(),
                self.parts.cancel.child_token(),
            )),
        }
    }

    fn request(&mut self) -> ModelRequest {
        let tools = match &self.tool_specs {
            Some(specs) => Arc::clone(specs),
            None => Arc::new(self.run.tool_specs(self.parts.toolbox.catalog())),
        };
        self.tool_specs = Some(Arc::clone(&tools));
        ModelRequest {
            system: Arc::clone(&self.run.spec().agent.instructions),
            messages: history::shorten(self.run.messages(), self.run.spec().limits.history_bytes),
            tools,
        }
    }

    /// The moment at which the run's wall time is used up; direct calls are
    /// bounded by their attempts.
    fn deadline(&self) -> Option<Instant> {
        let wall = Duration::from_millis(self.run.spec().limits.wall_ms);
        (!self.is_direct()).then(|| Instant::now() + wall)
    }

    async fn wait(&mut self, deadline: Option<Instant>) -> Waited {
        let time_up = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.parts.cancel.cancelled() => Waited::Cancelled,
            Some((key, input)) = self.work.next() => {
                self.under_way.remove(&key);
                Waited::Input(input)
            }
            () = time_up => Waited::TimeUp,
        }
    }

    /// Waits, within bounds, until what was under way has stopped; what it returns
    /// after the cancellation is dropped.
    async fn stop_work(&mut self) -> Result<(), RunError> {
        let executing = self.run.calls().iter().any(|call| call.status == CallStatus::Running);
        if executing {
            let stopped = async { while self.work.next().await.is_some() {} };
            // What has not stopped by then is dropped, and that stops it.
            let _ = tokio::time::timeout(CANCEL_WAIT, stopped).await;
        }
        self.work.clear();
        self.under_way.clear();
        Ok(())
    }

    fn end(self) -> RunEnd {
        let waiting = self.run.calls().iter().filter(|call| call.status == CallStatus::Suspended);
        RunEnd {
            run_id: self.parts.run_id,
            thread_id: self.parts.thread_id,
            status: match self.run.phase() {
                Phase::Finished(status) => Some(status.clone()),
                _ => None,
            },
            text: self.end_text,
            usage: *self.run.usage(),
            waiting: waiting.filter_map(|call| call.suspended.clone()).collect(),
            last_call: self.last_call,
        }
    }
}

enum Waited {
    Input(Input),
    Cancelled,
    TimeUp,
}

/// Whether a direct call is to be committed with this event: it ended, it waits,
/// or it changed the thread.
fn ends(event: &Event) -> bool {
    matches!(event, Event::RunFinished { .. } | Event::RunWaiting) || change_of(event).is_some()
}

fn is_direct_start(events: &[Event]) -> bool {
    matches!(events.first(), Some(Event::RunStarted { spec }) if matches!(spec.task, Task::Call { .. }))
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop(tokio::task::JoinHandle<Input>);

impl AbortOnDrop {
    async fn join(mut self) -> Input {
        match (&mut self.0).await {
            Ok(input) => input,
            // Tools' panics are caught within; this is the end of the runtime.
            Err(_) => Input::Cancel { reason: "the host is shutting down".to_owned() },
        }
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
