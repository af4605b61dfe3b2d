//! Replays a run's calls from its record, to check whether they have the same results.
//!
//! A call receives its recorded inputs: arguments, state, decision, attempt, clock readings,
//! random seed, and the same version of the component. Nothing is stored, and nothing outside
//! of the sandbox is touched.

use super::Host;
use crate::error::HostError;
use crate::run::RunError;
use crate::tools::{ArchivedTools, AttemptRequest, CallContext, Toolbox};
use futures::FutureExt;
use serde::Serialize;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate_agent::SmolStr;
use tollgate_agent::recorded_inputs::RecordedInputs;
use tollgate_agent::run::replay::{Finding, RecordedAttempt, RepeatedOutcome, Replay};
use tollgate_agent::run::{Event, Execution, RunSpec, StoredEvent};

/// The number of thread changes that are read at once.
const CHANGES_AT_ONCE: usize = 256;

/// The results of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayReport {
    /// The run.
    pub run_id: String,
    /// The attempts that ended a call or asked a person, in the order of the record.
    pub attempts: Vec<ReplayedAttempt>,
}

/// One attempt of the record.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayedAttempt {
    /// The call.
    pub call_id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// 1 for the first.
    pub attempt: u32,
    /// The number of the event that ended the attempt.
    pub event: u64,
    /// The result of the replay.
    #[serde(flatten)]
    pub finding: Finding,
}

impl ReplayReport {
    /// Returns whether every attempt had the same result.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.attempts.iter().all(|attempt| attempt.finding == Finding::Same)
    }
}

/// A record that is being replayed.
struct RecordReplay {
    host: Host,
    kept: Option<Arc<ArchivedTools>>,
    spec: Arc<RunSpec>,
    replay: Replay,
    /// Toolboxes of archived components by digest, or the reason why there is none.
    shelf: HashMap<String, Result<Arc<Toolbox>, String>>,
}

impl Host {
    /// Replays every call of a run from the record. Components come from this host's toolbox if
    /// it has the called version, and otherwise from the store if `kept` can load them.
    ///
    /// # Errors
    /// The run is not known, the store cannot be read, or the record is broken.
    pub async fn replay(
        &self,
        run_id: &str,
        kept: Option<Arc<ArchivedTools>>,
    ) -> Result<ReplayReport, HostError> {
        let _memory = self.room_for_record(run_id).await?;
        let record = self.store().events(run_id, 0).await?;
        let Some(Event::RunStarted { spec }) = record.first().map(|first| &first.event) else {
            return Err(HostError::UnknownRun(run_id.to_owned()));
        };
        let reading = RecordReplay {
            host: self.clone(),
            kept,
            spec: Arc::clone(spec),
            replay: Replay::default(),
            shelf: HashMap::new(),
        };
        // Guests run as tasks: see the sandbox's runtime.
        let read = tokio::spawn(reading.read(record)).await;
        let attempts = read.map_err(|e| RunError::new(format!("the replay failed: {e}")))??;
        Ok(ReplayReport { run_id: run_id.to_owned(), attempts })
    }
}

impl RecordReplay {
    async fn read(mut self, record: Vec<Arc<StoredEvent>>) -> Result<Vec<ReplayedAttempt>, HostError> {
        let mut attempts = Vec::new();
        for recorded in record {
            self.catch_up(&recorded.event).await?;
            if let Some(attempt) = self.replay.ended_by(&recorded.event) {
                let finding = self.make_again(&attempt, &recorded).await?;
                attempts.push(ReplayedAttempt {
                    call_id: attempt.call_id,
                    tool_name: attempt.tool_name,
                    attempt: attempt.attempt,
                    event: recorded.number,
                    finding,
                });
            }
            let passed = self.replay.pass(&recorded.event);
            passed.map_err(|e| RunError::of_record(&recorded.run_id, &e))?;
        }
        Ok(attempts)
    }

    /// Applies the changes that others had committed to the thread before this event.
    async fn catch_up(&mut self, event: &Event) -> Result<(), HostError> {
        while let Some(until) = self.replay.base_revision(event) {
            let known = self.replay.run().state().revision();
            let thread_id = &self.spec.identity.thread_id;
            let changes = self.host.store().changes(thread_id, known, CHANGES_AT_ONCE).await?;
            let missed = changes.iter().take_while(|change| change.revision <= until);
            if missed.map(|change| self.replay.absorb(change)).count() == 0 {
                let words = format!("the record of the thread {thread_id} lacks the changes after {known}");
                return Err(RunError::new(words).into());
            }
        }
        Ok(())
    }

    async fn make_again(
        &mut self,
        attempt: &RecordedAttempt,
        recorded: &StoredEvent,
    ) -> Result<Finding, HostError> {
        let toolbox = match self.toolbox(attempt).await? {
            Ok(toolbox) => toolbox,
            Err(why) => return Ok(Finding::NotReplayable { why }),
        };
        let (execution, taken) = match self.replay.inputs(attempt, &recorded.event, toolbox.catalog()) {
            Ok(inputs) => inputs,
            Err(why) => return Ok(Finding::NotReplayable { why }),
        };
        Ok(match self.run(&toolbox, execution, &taken).await {
            Ok(again) => self.replay.judge(attempt, recorded, toolbox.catalog(), &again),
            Err(why) => Finding::NotReplayable { why },
        })
    }

    /// Returns the toolbox that holds the called version of the tool.
    async fn toolbox(
        &mut self,
        attempt: &RecordedAttempt,
    ) -> Result<Result<Arc<Toolbox>, String>, HostError> {
        let Some(version) = &attempt.version else {
            return Ok(Err("the record does not say which tool was called".to_owned()));
        };
        let live = self.host.toolbox();
        let is_live = live
            .catalog()
            .tool(&attempt.tool_name)
            .is_some_and(|tool| tool.owner.id == version.id && tool.owner.version == version.version);
        if is_live {
            return Ok(Ok(live));
        }
        if let Some(known) = self.shelf.get(version.version.as_str()) {
            return Ok(known.clone());
        }
        let bytes = self.host.store().component(&version.version).await?;
        let toolbox = match (bytes, &self.kept) {
            (Some(bytes), Some(kept)) => kept.load(&version.id, &version.version, bytes).await.map(Arc::new),
            _ => Err(format!("the version of '{}' that was called is not archived", version.id)),
        };
        self.shelf.insert(version.version.to_string(), toolbox.clone());
        Ok(toolbox)
    }

    async fn run(
        &self,
        toolbox: &Toolbox,
        execution: Execution,
        taken: &Arc<RecordedInputs>,
    ) -> Result<RepeatedOutcome, String> {
        let name = &execution.permit.tool().descriptor.name;
        let Some(runner) = toolbox.runner(name).filter(|runner| runner.replays(name)) else {
            return Err("it runs outside of the sandbox and could repeat its side effects".to_owned());
        };
        let call = CallContext {
            permit: &execution.permit,
            identity: &self.spec.identity,
            agent: &self.spec.agent.view,
            snapshot: &execution.snapshot,
            keys: toolbox.catalog().keys(),
            attempt: execution.attempt,
            resume: execution.resume.as_deref(),
            timeout: Duration::from_millis(u64::from(execution.timeout_ms)),
            replay: Some(taken),
            reports: Arc::new(()),
            children: Arc::new(()),
            cancel: &CancellationToken::new(),
        };
        let request = AttemptRequest { call, history: None };
        let ended = AssertUnwindSafe(runner.run(request)).catch_unwind().await;
        let ended = ended.map_err(|_| "the host failed during the replay".to_owned())?;
        Ok(RepeatedOutcome { outcome: Arc::new(ended.outcome), usage: ended.usage, taken: ended.taken })
    }
}
