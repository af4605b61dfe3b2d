//! The effects of a run: model requests, argument checks by tools, and attempts at calls.

use super::audit_records::Refusals;
use super::children::CallChildren;
use super::clock::RunClock;
use super::conversation_memory::ReservedReply;
use super::hooks::HookContext;
use super::reports::CallReports;
use super::spans;
use crate::models::{Delta, Model, ReplyMemory};
use crate::store::{Remedy, Store, StoreError, StoreErrorKind};
use crate::stream::{LiveContent, Publisher};
use crate::tools::{Attempt, AttemptRequest, CallContext, Runner, Toolbox};
use futures::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate_agent::catalog::{OwnerKind, Tool};
use tollgate_agent::code::Code;
use tollgate_agent::hook::ModelHooked;
use tollgate_agent::limit_places::{LimitPlaces, LimitScope};
use tollgate_agent::message::{Message, ModelRequest};
use tollgate_agent::outcome::{Fault, Outcome, Usage};
use tollgate_agent::proposal::Proposal;
use tollgate_agent::run::{Execution, Input, RunSpec, Task};
use tollgate_agent::text::seconds;
use tollgate_sandbox::{ChildRunner, MemoryBudget, ReportSink, Reservation};
use tracing::Instrument as _;

/// The resources with which a model is asked.
pub(super) struct ModelResources {
    pub(super) model: Arc<dyn Model>,
    pub(super) memory_budget: MemoryBudget,
    /// Holds the memory of long replies until the run rests.
    pub(super) replies: Outcomes,
    pub(super) publisher: Publisher,
}

/// Asks the model and streams its output to the run's clients.
pub(super) async fn ask(resources: ModelResources, request: ModelRequest, ask: u32) -> Input {
    let span = spans::model(resources.model.name(), ask);
    reply(resources, request, ask).instrument(span).await
}

async fn reply(resources: ModelResources, mut request: ModelRequest, ask: u32) -> Input {
    let ModelResources { model, memory_budget, replies, publisher } = resources;
    let memory = ReservedReply::new(&memory_budget);
    request.memory = Some(Arc::clone(&memory) as Arc<dyn ReplyMemory>);
    let mut publish = |delta| {
        publisher.publish_live(match delta {
            Delta::Text(text) => LiveContent::TextDelta { text },
            Delta::Reasoning(text) => LiveContent::ReasoningDelta { text },
            Delta::Restarted { attempt, max_attempts, pause, reason } => {
                let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                LiveContent::ReplyRestarted { attempt, max_attempts, pause_ms, reason }
            }
        });
    };
    match AssertUnwindSafe(model.reply(request, &mut publish)).catch_unwind().await {
        Ok(Ok(mut reply)) => {
            match memory.hand_over(&reply) {
                Ok(memory) => memory.into_iter().for_each(|memory| replies.hold(Arc::new(memory))),
                Err(why) => return failed(ask, why),
            }
            reply.model.get_or_insert_with(|| model.name().into());
            spans::replied(&reply);
            Input::Replied { ask, reply, hooked: None }
        }
        Ok(Err(fault)) => failed(ask, fault.to_string()),
        Err(_) => failed(ask, "the model's client panicked".to_owned()),
    }
}

fn failed(ask: u32, error: String) -> Input {
    spans::failed();
    Input::ModelFailed { ask, error }
}

/// Asks the model with the hooks before and after it.
pub(super) async fn ask_with_hooks(
    context: HookContext,
    resources: ModelResources,
    request: ModelRequest,
    number: u32,
) -> Input {
    let publisher = resources.publisher.clone();
    let mut hooked = ModelHooked::default();
    let (request, supplied) = context.before_model(request, number, &mut hooked).await;
    let was_streamed = supplied.is_none();
    let replied = match supplied {
        Some(reply) => Input::Replied { ask: number, reply, hooked: None },
        None => ask(resources, request, number).await,
    };
    let reply = match replied {
        Input::Replied { reply, .. } => reply,
        failed => return failed,
    };
    let reply = context.after_model(reply, number, &mut hooked).await;
    let changed = !hooked.reply_changed_by.is_empty();
    if changed && was_streamed {
        // The client has seen parts of the first reply, which are no longer valid.
        let reason = format!("changed by {}", hooked.reply_changed_by.join(", "));
        publisher.publish_live(LiveContent::ReplyRestarted {
            attempt: 2,
            max_attempts: 2,
            pause_ms: 0,
            reason,
        });
    }
    if (changed || !was_streamed) && !reply.message.text.is_empty() {
        publisher.publish_live(LiveContent::TextDelta { text: reply.message.text.clone() });
    }
    let hooked = (hooked != ModelHooked::default()).then(|| Box::new(hooked));
    Input::Replied { ask: number, reply, hooked }
}

/// Runs the tool's own check of the arguments.
pub(super) async fn validate(runner: Option<Arc<dyn Runner>>, proposal: Proposal) -> Input {
    let checked = match runner {
        None => Err(gone(&proposal.tool().descriptor.name)),
        Some(runner) => AssertUnwindSafe(runner.validate(proposal.tool(), proposal.arguments()))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(panicked(&proposal.tool().descriptor.name))),
    };
    Input::Validated { call_id: proposal.call_id().to_owned(), fault: checked.err() }
}

/// One attempt at a call, with everything it needs.
pub(super) struct AttemptTask {
    pub(super) toolbox: Arc<Toolbox>,
    pub(super) store: Arc<dyn Store>,
    pub(super) spec: Arc<RunSpec>,
    pub(super) execution: Execution,
    pub(super) resources: AttemptResources,
    pub(super) cancel: CancellationToken,
    pub(super) clock: RunClock,
}

impl AttemptTask {
    /// Runs the attempt.
    pub(super) async fn run(&self) -> Input {
        let Execution { permit, attempt, not_before_ms, .. } = &self.execution;
        if *not_before_ms > 0 {
            // Boxed to keep the future small: most attempts begin at once and never pause.
            Box::pin(pause(not_before_ms.saturating_sub(self.clock.now_ms()), &self.cancel)).await;
        }
        let name = &permit.tool().descriptor.name;
        let ended = match self.toolbox.runner(name) {
            _ if self.cancel.is_cancelled() => Attempt::unstarted(Fault::new(Code::Cancelled, CANCELLED)),
            None => Attempt::unstarted(gone(name)),
            Some(runner) => match self.room().await {
                Err(full) => Attempt::unstarted(full),
                Ok(()) => {
                    let attempt = self.within_the_call(runner.run(self.request()));
                    let ended = AssertUnwindSafe(attempt).catch_unwind().await;
                    ended.unwrap_or_else(|_| lost(panicked(name)))
                }
            },
        };
        if let Some(memory) = ended.memory {
            self.resources.outcomes.hold(memory);
        }
        if !ended.denied.is_empty() {
            self.resources.refusals.add(self.clock.now_ms(), &self.spec, permit, &ended.denied);
            self.resources.reports.denied(ended.denied);
        }
        self.resources.reports.console(ended.console);
        let usage = Usage { dropped_reports: ended.dropped_reports, ..ended.usage };
        let outcome = match &self.resources.children {
            Some(children) if children.broke() => another_child(name).into(),
            _ => ended.outcome,
        };
        let outcome = match outcome {
            Outcome::Faulted(Fault { code: Code::TimedOut, .. }) => self.late().into(),
            outcome => outcome,
        };
        spans::attempted(&outcome, &usage);
        let (call_id, outcome) = (permit.call_id().to_owned(), Arc::new(outcome));
        Input::Attempted { call_id, attempt: *attempt, outcome, usage, taken: ended.taken }
    }

    /// Ends an attempt that is still pending when the whole call must have ended. Such an attempt
    /// waits for its turn, or for something else that its own timeout does not measure. The
    /// call's time stands still while it waits for child runs.
    async fn within_the_call(&self, attempt: impl Future<Output = Attempt>) -> Attempt {
        let until_ms = self.execution.until_ms;
        if until_ms == 0 || self.resources.children.is_some() {
            return attempt.await;
        }
        let left = Duration::from_millis(until_ms.saturating_sub(self.clock.now_ms())) + LATE;
        match tokio::time::timeout(left, attempt).await {
            Ok(ended) => ended,
            Err(_) => lost(self.late()),
        }
    }

    /// Returns the fault of an attempt that took too long. The limit of the whole call includes
    /// waiting for its turn.
    fn late(&self) -> Fault {
        let Execution { permit, timeout_ms, until_ms, .. } = &self.execution;
        let places = self.toolbox.catalog().limit_places();
        let is_over = *until_ms > 0 && self.resources.children.is_none() && self.clock.now_ms() >= *until_ms;
        match is_over {
            true => {
                let ceiling_ms = self.spec.limits.timeout_ceiling_ms;
                let place = places.of(LimitScope::Host);
                past_limit(&permit.tool().descriptor.name, "timeout_ceiling_ms", ceiling_ms, &place)
            }
            false => timed_out(permit.tool(), *timeout_ms, places),
        }
    }

    /// Returns the attempt's timeout, limited by the time the whole call has left.
    fn timeout(&self) -> Duration {
        let Execution { timeout_ms, until_ms, .. } = &self.execution;
        let own = u64::from(*timeout_ms);
        let left = match until_ms {
            0 => own,
            // At least 1 ms, so that the attempt ends as a timeout.
            until_ms => until_ms.saturating_sub(self.clock.now_ms()).max(1),
        };
        Duration::from_millis(own.min(left))
    }

    /// Checks that there is room for the attempt's record. A direct call was admitted before it
    /// began.
    async fn room(&self) -> Result<(), Fault> {
        if matches!(self.spec.task, Task::Call { .. }) {
            return Ok(());
        }
        let (identity, owner) = (&self.spec.identity, &self.execution.permit.tool().owner.id);
        let places = self.toolbox.catalog().limit_places();
        let admitted =
            self.store.admit(Some(&identity.thread_id), Some(owner), identity.principal.as_deref()).await;
        admitted.map_err(|why| overloaded(&why, places))
    }

    fn request(&self) -> AttemptRequest<'_> {
        let Self { toolbox, spec, execution, resources, cancel, .. } = self;
        let call = CallContext {
            permit: &execution.permit,
            identity: &spec.identity,
            agent: &spec.agent.view,
            snapshot: &execution.snapshot,
            keys: toolbox.catalog().keys(),
            attempt: execution.attempt,
            resume: execution.resume.as_deref(),
            timeout: self.timeout(),
            replay: None,
            reports: Arc::clone(&resources.reports) as Arc<dyn ReportSink>,
            children: match &resources.children {
                Some(children) => Arc::clone(children) as Arc<dyn ChildRunner>,
                None => Arc::new(()),
            },
            cancel,
        };
        AttemptRequest { call, history: resources.history.clone() }
    }
}

/// How long after the call's deadline an attempt that has not ended is stopped.
const LATE: Duration = Duration::from_millis(250);
/// The message of an attempt that was cancelled before it began.
const CANCELLED: &str = "The call was cancelled.";

/// Waits until an attempt may begin or is cancelled.
async fn pause(pause_ms: u64, cancel: &CancellationToken) {
    // A cancellation ends the pause early.
    let _ = cancel.run_until_cancelled(tokio::time::sleep(Duration::from_millis(pause_ms))).await;
}

/// The host memory held by outcomes of calls in flight, and until their commit.
#[derive(Clone, Default)]
pub(super) struct Outcomes(Arc<Mutex<Vec<Arc<Reservation>>>>);

impl Outcomes {
    pub(super) fn hold(&self, memory: Arc<Reservation>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }

    /// Returns how much memory is held, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().map(|memory| memory.bytes()).sum()
    }

    /// Returns this memory and another part, for a holder that outlives the run; `None` if there is
    /// nothing to hold.
    pub(super) fn with(&self, more: Option<Reservation>) -> Option<Arc<dyn Any + Send + Sync>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.extend(more.map(Arc::new));
        (!all.is_empty()).then(|| Arc::new(all) as Arc<dyn Any + Send + Sync>)
    }

    /// Returns the memory once the outcomes are committed or dropped.
    pub(super) fn release(&self) -> Vec<Arc<Reservation>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The run's resources that an attempt may use.
pub(super) struct AttemptResources {
    pub(super) reports: Arc<CallReports>,
    /// `None` if the tool may not run agents.
    pub(super) children: Option<Arc<CallChildren>>,
    /// Holds the memory of large outcomes.
    pub(super) outcomes: Outcomes,
    /// Takes the records of refused powers.
    pub(super) refusals: Refusals,
    /// The conversation, only for the host's own tools.
    pub(super) history: Option<Arc<Vec<Message>>>,
}

/// Returns the fault of a call that does not begin, because its record could not be stored.
pub(crate) fn overloaded(why: &StoreError, places: &LimitPlaces) -> Fault {
    let words = match why.kind() {
        StoreErrorKind::Full => "The host has no room for the record of another call",
        _ => "The host cannot store the record of another call",
    };
    let place = places.of(LimitScope::Store);
    let remedy = match why.remedy() {
        Some(Remedy::MakeRoom) => format!(" An operator can change it{place}, or remove old runs."),
        _ => String::new(),
    };
    Fault::new(Code::Overloaded, format!("{words}: {why}.{remedy}"))
}

fn gone(tool_name: &str) -> Fault {
    Fault::new(Code::HostFailed, format!("The tool '{tool_name}' is no longer loaded."))
}

/// Returns an attempt that ran and whose only result is this fault.
fn lost(fault: Fault) -> Attempt {
    Attempt { usage: Usage::of_a_lost_attempt(), ..Attempt::unstarted(fault) }
}

/// Returns the fault of an attempt that took longer than its timeout.
pub(super) fn timed_out(tool: &Tool, timeout_ms: u32, places: &'static LimitPlaces) -> Fault {
    let (name, owner) = (&tool.descriptor.name, &tool.owner);
    let scope = match owner.kind {
        OwnerKind::Component => LimitScope::Attempt(name),
        OwnerKind::Mcp => LimitScope::Server(&owner.id),
        OwnerKind::Native | OwnerKind::Agent => LimitScope::Host,
    };
    past_limit(name, "timeout_ms", timeout_ms, &places.of(scope))
}

fn past_limit(tool_name: &str, key: &str, limit_ms: u32, place: &str) -> Fault {
    let after = seconds(Duration::from_millis(limit_ms.into()));
    Fault::new(
        Code::TimedOut,
        format!(
            "Tool '{tool_name}' timed out after {after}: its limit is {key} = {limit_ms}. An operator can raise \
             it{place}."
        ),
    )
}

fn panicked(tool_name: &str) -> Fault {
    Fault::new(Code::HostFailed, format!("The host failed while it ran '{tool_name}'."))
}

fn another_child(tool_name: &str) -> Fault {
    let message = format!(
        "'{tool_name}' requested a different child than in an earlier attempt; a call that runs again must make the same requests."
    );
    Fault::new(Code::BadAction, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_suggests_only_what_is_possible_with_it() {
        let full = |remedy: Remedy| {
            let why = StoreError::full("the thread is full").with_remedy(remedy);
            overloaded(&why, &LimitPlaces { store: "the settings", ..LimitPlaces::NONE }).message
        };
        let ends = " An operator can change it in the settings, or remove old runs.";
        assert!(full(Remedy::MakeRoom).ends_with(ends));
        assert!(!full(Remedy::Verify).contains("operator"));
    }
}
