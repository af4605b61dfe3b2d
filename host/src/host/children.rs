//! Child runs, which run like any other, but only their parent may start and continue them.

use super::listening::FIRST_EPOCH;
use super::threads::{FoldPurpose, FoldedRun};
use super::{Host, HostError, begun, not_taken_over};
use crate::blocking::aside_if;
use crate::error::RequestRefusal;
use crate::run::{
    ChildForwarder, ChildRunResult, ChildStart, ConversationMemory, Driver, RunClock, RunError,
};
use crate::store::RunSummary;
use crate::stream::Publisher;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tollgate_agent::child::{ChildError, ChildStatus};
use tollgate_agent::context::RunIdentity;
use tollgate_agent::run::{ChildEnd, Input, Phase, Run, RunSpec, Thread};

/// How long a child waits for memory to read its record.
const PATIENCE: Duration = Duration::from_secs(30);
/// The interval at which the status of a child that another process drives is read again.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long a child that has ended waits for memory to parse its answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// The memory in bytes up to which an answer is parsed without a reservation.
const SMALL_ANSWER_BYTES: u64 = 256 * 1024;
/// The answer is parsed, and copied for the call that asked.
const ANSWER_COPIES: u64 = 2;

impl Host {
    /// Starts a child, or resumes it from its record: a child that ended returns its outcome,
    /// one that waits continues with the decision if there is one, and one whose process is
    /// gone continues from its last recorded step. If the process that drove its parent before
    /// continues it in between, the record is read again; if there is no memory for it, it waits.
    pub(super) async fn run_child(
        &self,
        start: ChildStart,
        updates: ChildForwarder,
    ) -> Result<ChildRunResult, HostError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let ran = self.try_run_child(&start, &updates).await;
            let is_tried_again = match &ran {
                Err(HostError::OwnedElsewhere(_)) => true,
                Err(HostError::Overloaded { .. }) => Instant::now() < until,
                _ => false,
            };
            if !is_tried_again || start.cancel.is_cancelled() {
                return ran;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn try_run_child(
        &self,
        start: &ChildStart,
        updates: &ChildForwarder,
    ) -> Result<ChildRunResult, HostError> {
        let ChildStart { run_id, plan, decision, exports, cancel } = start;
        let recorded = match self.store().run_spec(run_id).await? {
            None => None,
            Some(spec) => {
                let purpose = match self.wait_for_other_driver(run_id, cancel).await? {
                    Some(run) if run.is_open() => FoldPurpose::Continue,
                    _ => FoldPurpose::Inspect,
                };
                Some(self.folded(run_id, &spec, purpose).await?)
            }
        };
        let (folded, input) = match recorded {
            None => match plan.clone() {
                Ok(plan) => {
                    let start = Input::StartSeeded(plan.spec, plan.seed);
                    let (run, clock) = (Run::new(Thread::default()), RunClock::default());
                    (FoldedRun { run, clock, memory: ConversationMemory::after(0) }, Some(start))
                }
                Err(error) => return Ok(ChildRunResult::refused(error)),
            },
            Some(folded) => {
                let run = &folded.run;
                let input = match run.phase() {
                    Phase::Finished(_) => None,
                    Phase::Waiting => decision
                        .clone()
                        .map(|decision| Input::Decided(vec![decision]))
                        .filter(|input| self.takes(run, input)),
                    _ if !run.spec().agent.backend.persistence => Some(Input::Cancel {
                        reason: "its agent's backend does not outlive the process".to_owned(),
                    }),
                    _ => Some(Input::Restarted),
                };
                (folded, input)
            }
        };
        let run = match input {
            Some(input) => {
                self.drive_child(Arc::clone(run_id), folded, input, cancel.clone(), updates).await?
            }
            None => folded.run,
        };
        let ran = self.ran(&run, exports).await;
        if let ChildEnd::Ended { status, .. } = &ran.end {
            updates.ended(status);
        }
        Ok(ran)
    }

    /// Waits while another process drives the run; that which drove its parent before may still do
    /// so, up to the run's end. Returns the run as it then is.
    async fn wait_for_other_driver(
        &self,
        run_id: &str,
        cancel: &CancellationToken,
    ) -> Result<Option<RunSummary>, HostError> {
        loop {
            let found = self.summary(run_id).await?;
            let is_driven = self.live(run_id).is_none() && found.as_ref().is_some_and(|run| run.is_driven);
            if !is_driven || cancel.is_cancelled() {
                return Ok(found);
            }
            let _ = cancel.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await;
        }
    }

    /// Ends a child that no process is running.
    pub(super) async fn end_child(&self, run_id: &str) -> Result<ChildRunResult, HostError> {
        let Some(spec) = self.store().run_spec(run_id).await? else {
            return Ok(ChildRunResult::refused(ChildError::ExecutionFailed("it had not begun".to_owned())));
        };
        let FoldedRun { run, clock, .. } = self.folded(run_id, &spec, FoldPurpose::Inspect).await?;
        if run.is_finished() {
            return Ok(self.ran(&run, &[]).await);
        }
        let input = Input::Cancel { reason: "the call that asked for it is over".to_owned() };
        let (cancel, run_id) = (CancellationToken::new(), Arc::<str>::from(run_id));
        let publisher = Publisher::without_clients(Arc::clone(&self.inner.bus), Arc::clone(&run_id));
        let mut parts = self.parts(Arc::clone(&run_id), Arc::clone(&run_id), cancel, publisher);
        parts.epoch = self.acquire(&run_id, run.events()).await?;
        let (_, run) = boxed(Driver::new(parts, run, 0).at(clock), Some(input)).await?;
        Ok(self.ran(&run, &[]).await)
    }

    /// Refuses operations that are reserved to the parent.
    pub(super) async fn check_own(&self, identity: &RunIdentity, input: &Input) -> Result<(), HostError> {
        let Some(parent) = &identity.parent_run_id else { return Ok(()) };
        let orphaned = matches!(input, Input::Restarted)
            && self.recorded(parent).await?.is_some_and(|parent| parent.is_finished());
        if orphaned {
            return Ok(());
        }
        let call_id = identity.parent_call_id.as_deref().unwrap_or_default().to_owned();
        Err(RequestRefusal::BelongsToCall { call_id, parent_run_id: parent.to_string() }.into())
    }

    /// Reconstructs a run from its record and its thread; `None` if there is no record.
    pub(super) async fn recorded(&self, run_id: &str) -> Result<Option<Run>, HostError> {
        let Some(spec) = self.store().run_spec(run_id).await? else { return Ok(None) };
        Ok(Some(self.folded(run_id, &spec, FoldPurpose::Inspect).await?.run))
    }

    /// Reconstructs a run of this specification, with the time of the record and the memory of its
    /// conversation.
    async fn folded(
        &self,
        run_id: &str,
        spec: &RunSpec,
        purpose: FoldPurpose,
    ) -> Result<FoldedRun, HostError> {
        let mut thread = self.store().thread(&spec.identity.thread_id).await?;
        let state = std::mem::take(&mut thread.state);
        // The messages of a run that has ended are already in its thread.
        let mut folded = self.fold(thread, &spec.identity.thread_id, run_id, purpose).await?;
        folded.run.adopt(&state);
        Ok(folded)
    }

    async fn drive_child(
        &self,
        run_id: Arc<str>,
        FoldedRun { run, clock, memory }: FoldedRun,
        input: Input,
        cancel: CancellationToken,
        updates: &ChildForwarder,
    ) -> Result<Run, HostError> {
        let epoch = if run.events() == 0 { FIRST_EPOCH } else { self.acquire(&run_id, run.events()).await? };
        let (hub, publisher, mut events) = self.listened((&run_id, epoch), false, &cancel);
        let mut parts = self.parts(Arc::clone(&run_id), Arc::clone(&run_id), cancel, publisher);
        parts.epoch = epoch;
        let mut driver = Driver::new(parts, run, 0).at(clock).with_conversation(memory);
        begun(&mut driver, &hub, input).await.map_err(|why| not_taken_over(why, &run_id))?;
        let telling = async {
            while let Some(event) = events.next().await {
                updates.send(event);
            }
        };
        let (ended, ()) = tokio::join!(self.drive_attended(boxed(driver, None), hub, None), telling);
        Ok(ended?.1)
    }

    fn takes(&self, run: &Run, input: &Input) -> bool {
        let toolbox = self.toolbox();
        let takes_long = run.takes_long(toolbox.catalog(), input);
        let decided = aside_if(takes_long, || run.decide(toolbox.catalog(), 0, input));
        decided.is_ok_and(|events| !events.is_empty())
    }

    /// Returns the result of a child. Its answer is parsed if there is memory for it.
    async fn ran(&self, run: &Run, exports: &[String]) -> ChildRunResult {
        let bytes = run.output_bytes().saturating_mul(ANSWER_COPIES);
        let (budget, is_large) = (self.memory_budget(), bytes > SMALL_ANSWER_BYTES);
        let memory = match is_large && bytes <= budget.total_bytes() {
            // The run that waits for it holds memory, so it must not queue for more.
            true => budget.reserve_unqueued(bytes, ANSWER_PATIENCE).await,
            false => None,
        };
        if is_large && memory.is_none() {
            let why = format!(
                "reading its answer would take {bytes} bytes, for which there is no memory now; the limit is \
                 memory_budget_bytes = {}, of all runs and calls together, which an operator can raise{}",
                budget.total_bytes(),
                budget.limit_place()
            );
            let end = run.child_end(ChildStatus::Failed(why.clone()));
            return ChildRunResult { end, outcome: Err(ChildError::ExecutionFailed(why)), _memory: None };
        }
        let toolbox = self.toolbox();
        let outcome = aside_if(is_large, || run.child_outcome(toolbox.catalog().keys(), exports));
        let status = match &outcome.status {
            ChildStatus::Suspended(_) => ChildStatus::Cancelled,
            status => status.clone(),
        };
        ChildRunResult { end: run.child_end(status), outcome: Ok(outcome), _memory: memory }
    }
}

/// Boxes the future: a child's driver may have children of its own, so its future contains
/// itself.
fn boxed(
    driver: Box<Driver>,
    first: Option<Input>,
) -> futures::future::BoxFuture<'static, Result<(crate::run::RunEnd, Run), RunError>> {
    Box::pin(driver.drive_to_rest(first))
}
