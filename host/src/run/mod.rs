//! Carrying a run through the world: effects are started, what comes of them is
//! decided on, committed, applied and told, in that order.

mod attempt;
mod audit_records;
mod charges;
mod child_requests;
mod children;
mod clients;
mod commit;
mod committed;
mod components;
mod decisions;
mod driver;
mod gate_round;
mod hooks;
mod lease;
mod model_turn;
mod room;
mod spans;
mod subscribers;
mod update;
mod visibility;
mod waiting;
mod work;

pub use clients::EventStream;
pub use subscribers::{RunEvent, Subscriber};
pub use update::{ChildTold, LiveContent, LiveUpdate, RunUpdate};

pub(crate) use attempt::{now_ms, overloaded};
pub(crate) use charges::charges;
pub(crate) use children::{ChildRan, ChildStart, ToldOfChild};
pub(crate) use clients::{Hub, PATIENCE};
pub(crate) use driver::{Driver, RunServices};
pub(crate) use hooks::HookSet;
pub(crate) use subscribers::Bus;
pub(crate) use update::Publisher;

use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate_agent::SmolStr;
use tollgate_agent::outcome::{Fault, ToolResult, Usage};
use tollgate_agent::run::event::{Finished, Suspended};
use tollgate_agent::run::{CallEnd, CallStatus, Phase, Run, RunStatus, RunUsage};

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
/// To drop it is to leave the run, which is cancelled 10 seconds later unless it was
/// started as [`detached`](crate::RunRequest::detached), or somebody
/// [`follow`](crate::Host::follow)s it.
#[derive(Debug)]
pub struct RunHandle {
    /// The run's id.
    pub run_id: Arc<str>,
    /// The thread that it belongs to.
    pub thread_id: Arc<str>,
    /// What happens in it, as it happens.
    pub events: EventStream,
    pub(crate) cancel: CancellationToken,
    pub(crate) end: tokio::task::JoinHandle<Result<RunEnd, RunError>>,
}

impl RunHandle {
    /// Ends the run early. Tools are told, and stopped within some 100 ms.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// A token that ends the run early when it is cancelled.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Waits until the run has ended, or waits for a person.
    ///
    /// # Errors
    /// The host could not carry the run on: the store failed, or its record is
    /// broken.
    pub async fn wait(self) -> Result<RunEnd, RunError> {
        match self.end.await {
            Ok(end) => end,
            Err(e) => Err(RunError(format!("the task of run {} broke off: {e}", self.run_id))),
        }
    }
}

/// How a run, or a direct call, left off.
#[derive(Debug, Clone)]
pub struct RunEnd {
    /// The run's id.
    pub run_id: Arc<str>,
    /// The thread that it belongs to.
    pub thread_id: Arc<str>,
    /// How it ended; none where it waits for a person.
    pub status: Option<RunStatus>,
    /// The answer, or the last text where there is none.
    pub text: String,
    /// What it used.
    pub usage: RunUsage,
    /// The questions that wait for a person.
    pub waiting: Vec<Arc<Suspended>>,
    /// The call that ended last; of a direct call, the call itself.
    pub last_call: Option<Arc<Finished>>,
}

impl RunEnd {
    /// How a run stands, with the call of it that ended last and the text that it
    /// answered.
    pub(crate) fn of(
        run: &Run,
        (run_id, thread_id): (Arc<str>, Arc<str>),
        last_call: Option<Arc<Finished>>,
        text: String,
    ) -> Self {
        let waiting = run.calls().iter().filter(|call| call.status == CallStatus::Suspended);
        Self {
            run_id,
            thread_id,
            status: match run.phase() {
                Phase::Finished(status) => Some(status.clone()),
                _ => None,
            },
            text,
            usage: *run.usage(),
            waiting: waiting.filter_map(|call| call.suspended.clone()).collect(),
            last_call,
        }
    }

    /// How a direct call ends that was refused before it began.
    pub(crate) fn refused(run_id: Arc<str>, thread_id: Arc<str>, tool_name: &str, fault: Fault) -> Self {
        let finished = Finished {
            call_id: SmolStr::new(&run_id),
            tool_name: SmolStr::new(tool_name),
            end: CallEnd::Fault(fault),
            change: None,
            replaced: None,
            notes: Vec::new(),
            scheduled: Vec::new(),
            filter: None,
            transfer: None,
            escalates: false,
            usage: Usage::default(),
            earlier: Usage::default(),
        };
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

    /// What the tool of the last call answered; none where another word ended it, or
    /// there was no call.
    #[must_use]
    pub fn result(&self) -> Option<&ToolResult> {
        match &self.last_call.as_ref()?.end {
            CallEnd::Result(result) => Some(result),
            CallEnd::Fault(_) => None,
        }
    }
}

/// The host could not carry a run on: a sentence for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct RunError(pub(crate) String);
