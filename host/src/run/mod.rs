//! Driving a run: effects are started, and their results are decided on, committed, applied and
//! published, in that order.

mod attempt;
mod audit_records;
mod child;
mod child_requests;
mod children;
mod clock;
mod commit;
mod committed;
mod conversation_memory;
mod decisions;
mod driver;
mod gate_round;
mod hooks;
mod kept_turn;
mod lease;
mod model_turn;
mod recent_changes;
mod reports;
mod room;
mod services;
mod spans;
mod thread_locks;
mod waiting;
mod work;

pub use crate::error::{RunError, UnrecordedEffect};
pub use crate::stream::{ChildUpdate, EventStream, LiveContent, LiveUpdate, RunEvent, RunUpdate, Subscriber};

pub(crate) use attempt::overloaded;
pub(crate) use child::{ChildForwarder, ChildRunResult, ChildStart};
pub(crate) use clock::RunClock;
pub(crate) use conversation_memory::ConversationMemory;
pub(crate) use driver::Driver;
pub(crate) use hooks::HookSet;
pub(crate) use room::no_memory;
pub(crate) use services::{LONG_VALUES_AT_ONCE, RunHost, RunParts, RunServices, RunStops};
pub(crate) use thread_locks::ThreadLocks;

use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate_agent::outcome::{Fault, ToolResult};
use tollgate_agent::run::event::{FinishedCall, SuspendedCall};
use tollgate_agent::run::{CallEnd, Event, Phase, Run, RunStatus, RunUsage, StoredEvent, Thread};
use uuid::Uuid;

/// A run under way.
///
/// ```
/// use tollgate::{Agent, Host, LiveContent, ScriptedModel, RunRequest, RunUpdate, ScriptedTurn};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new(vec![ScriptedTurn::text("One, two, three.")]);
/// let host = Host::builder().agent(Agent::new("counter", model)).build()?;
///
/// let mut run = host.run(RunRequest::new("counter", "Count.")).await?;
/// let mut words = 0;
/// while let Some(told) = run.events.next().await {
///     match told {
///         RunUpdate::Live(moment) if matches!(moment.piece, LiveContent::TextDelta { .. }) => words += 1,
///         RunUpdate::Live(_) | RunUpdate::Child(_) => {}
///         RunUpdate::Stored(event) => println!("{}: {:?}", event.number, event.event),
///     }
/// }
/// assert_eq!((words, run.wait().await?.text.as_str()), (3, "One, two, three."));
/// # Ok(())
/// # }
/// ```
///
/// Dropping the handle leaves the run. The run is cancelled after 10 s unless it was started as
/// [`detached`](crate::RunRequest::detached) or another client [follows](crate::Host::follow) it.
#[derive(Debug)]
pub struct RunHandle {
    /// The run's id.
    pub run_id: Arc<str>,
    /// The run's thread.
    pub thread_id: Arc<str>,
    /// The events of the run, as they happen.
    pub events: EventStream,
    pub(crate) cancel: CancellationToken,
    pub(crate) end: tokio::task::JoinHandle<Result<RunEnd, RunError>>,
}

impl RunHandle {
    /// Ends the run early. Tools are notified, and stopped within about 100 ms.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Returns a token that ends the run early when it is cancelled.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Leaves the run, as dropping the handle does, and waits for its end.
    pub fn leave(self) -> impl Future<Output = Result<RunEnd, RunError>> + Send + use<> {
        let Self { run_id, end, .. } = self;
        async move {
            match end.await {
                Ok(end) => end,
                Err(e) => Err(RunError::new(format!("the task of run {run_id} failed: {e}"))),
            }
        }
    }

    /// Waits until the run has ended or waits for a person.
    ///
    /// # Errors
    /// The host could not continue the run: the store failed, or the run's record is broken.
    pub async fn wait(self) -> Result<RunEnd, RunError> {
        match self.end.await {
            Ok(end) => end,
            Err(e) => Err(RunError::new(format!("the task of run {} failed: {e}", self.run_id))),
        }
    }
}

/// The state in which a run or direct call ended or came to rest.
#[derive(Debug, Clone)]
pub struct RunEnd {
    /// The run's id.
    pub run_id: Arc<str>,
    /// The run's thread.
    pub thread_id: Arc<str>,
    /// The final status; `None` if the run waits for a person.
    pub status: Option<RunStatus>,
    /// The answer, or the last text if there is no answer.
    pub text: String,
    /// The resources used.
    pub usage: RunUsage,
    /// The questions that wait for a person.
    pub waiting: Vec<Arc<SuspendedCall>>,
    /// The call that ended last; for a direct call, the call itself.
    pub last_call: Option<Arc<FinishedCall>>,
}

impl RunEnd {
    /// Describes the run with its last ended call and its answer.
    pub(crate) fn of(
        run: &Run,
        (run_id, thread_id): (Arc<str>, Arc<str>),
        last_call: Option<Arc<FinishedCall>>,
        text: String,
    ) -> Self {
        Self {
            run_id,
            thread_id,
            status: match run.phase() {
                Phase::Finished(status) => Some(status.clone()),
                _ => None,
            },
            text,
            usage: run.usage().clone(),
            waiting: run.open_questions().cloned().collect(),
            last_call,
        }
    }

    /// Returns the state of a run by its whole record, from the first event on.
    ///
    /// # Errors
    /// The record cannot be folded.
    pub fn of_record(record: &[Arc<StoredEvent>], thread_id: &Arc<str>) -> Result<Self, RunError> {
        let mut run = Run::new(Thread::default());
        let (mut last_call, mut text) = (None, String::new());
        for numbered in record {
            run.apply(&numbered.event).map_err(|e| RunError::of_record(&numbered.run_id, &e))?;
            match &numbered.event {
                Event::CallFinished(finished) => last_call = Some(Arc::clone(finished)),
                Event::RunFinished { text: answered, .. } => text.clone_from(answered),
                _ => {}
            }
        }
        let run_id = record.first().map_or_else(|| Arc::from(""), |first| Arc::clone(&first.run_id));
        Ok(Self::of(&run, (run_id, Arc::clone(thread_id)), last_call, text))
    }

    /// Returns the end of a direct call that was refused before it began.
    pub(crate) fn refused(run_id: Arc<str>, thread_id: Arc<str>, tool_name: &str, fault: Fault) -> Self {
        let finished = FinishedCall::new(&*run_id, tool_name, CallEnd::Fault(fault));
        Self {
            run_id,
            thread_id,
            status: Some(RunStatus::Completed),
            text: String::new(),
            usage: RunUsage::default(),
            waiting: Vec::new(),
            last_call: Some(Arc::new(finished)),
        }
    }

    /// Returns the result of the last call's tool; `None` if the call ended with another code, or
    /// there was no call.
    #[must_use]
    pub fn result(&self) -> Option<&ToolResult> {
        match &self.last_call.as_ref()?.end {
            CallEnd::Result(result) => Some(result),
            CallEnd::Fault(_) => None,
        }
    }
}

/// Returns a new id of a run, a thread or a command.
pub(crate) fn new_id() -> Arc<str> {
    Arc::from(&*Uuid::now_v7().hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}
