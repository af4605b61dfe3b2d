//! The context of a call, the result of one of its attempts, and the interface through which the host runs
//! child agents for it.

use crate::budget::Reservation;
use crate::report::ReportSink;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest};
use tollgate_agent::context::{AgentView, Resumption, RunIdentity};
use tollgate_agent::gate::Permit;
use tollgate_agent::outcome::{Fault, Outcome, Usage};
use tollgate_agent::recorded_inputs::RecordedInputs;
use tollgate_agent::state::{KeySet, Snapshot};

/// The context of one attempt of one permitted call, wherever its tool runs. Only a [`Permit`] names the tool and its arguments, so
/// nothing runs that was not judged.
#[derive(Clone)]
pub struct CallContext<'a> {
    /// The tool and its arguments.
    pub permit: &'a Permit,
    /// The thread, run and call that this attempt belongs to.
    pub identity: &'a RunIdentity,
    /// The calling agent.
    pub agent: &'a AgentView,
    /// The state at the start of the batch. The tool sees only the part that its component may
    /// read.
    pub snapshot: &'a Snapshot,
    /// The declared state keys.
    pub keys: &'a KeySet,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// A person's answer to the tool's own question, if the call asked one.
    pub resume: Option<&'a Resumption>,
    /// The maximum duration, measured from when the attempt starts to run. (It waits for a slot
    /// for at most the same time.)
    pub timeout: Duration,
    /// The recorded inputs of an earlier attempt to replay. If `None`, the clocks are real and
    /// the random numbers are new.
    pub replay: Option<&'a Arc<RecordedInputs>>,
    /// The sink for its reports.
    pub reports: Arc<dyn ReportSink>,
    /// The runner for child agents.
    pub children: Arc<dyn ChildRunner>,
    /// Cancels the call. The guest is notified, and stopped within about 100 ms.
    pub cancel: &'a CancellationToken,
}

/// The result of one attempt. It covers everything that a guest can do; a guest never causes a
/// host error.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The tool's answer, or the fault that ended it.
    pub outcome: Outcome,
    /// The resources used; `attempts` is 1 if it started at all.
    pub usage: Usage,
    /// The nondeterministic inputs that it read; `None` if it read none.
    pub taken: Option<Arc<RecordedInputs>>,
    /// Its standard output and standard error.
    pub console: Console,
    /// Reports that were over a limit, malformed, or offered to a full sink.
    pub dropped_reports: u64,
    /// HTTP requests that were allowed.
    pub http_requests: u32,
    /// Denied operations, for the operator: the first few, sanitized.
    pub denied: Vec<String>,
    /// The reserved host memory of a large outcome, to be held as long as the outcome; `None` for
    /// a small one.
    pub memory: Option<Arc<Reservation>>,
}

impl Attempt {
    /// Returns an attempt that ended for this reason before anything ran.
    #[must_use]
    pub fn unstarted(fault: Fault) -> Self {
        Self {
            outcome: Outcome::Faulted(fault),
            usage: Usage::default(),
            taken: None,
            console: Console::default(),
            dropped_reports: 0,
            http_requests: 0,
            denied: Vec::new(),
            memory: None,
        }
    }
}

/// Standard output and standard error of one attempt, interleaved in write order, without
/// terminal escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Console {
    /// The text that was kept.
    pub text: String,
    /// How many further bytes were written and discarded.
    pub dropped_bytes: u64,
}

/// Runs child agents for one attempt of one call.
pub trait ChildRunner: Send + Sync {
    /// Returns why a request to this agent is refused before anything else of it is read; `None` if
    /// it may be passed to [`run_child`](Self::run_child).
    ///
    /// A refused request still takes a position among the call's requests. The answer is immediate, so
    /// the call's clock does not stop for it.
    fn refuse(&self, agent_id: &str) -> Option<ChildError>;

    /// Starts the child, or picks up the one that the call already has at this position among its
    /// requests, and waits until it ends or waits for a person.
    ///
    /// The future resolves to an error if the child cannot be run: it is not granted, exceeds a limit, or
    /// its request is invalid.
    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>>;
}

/// Runs no children.
impl ChildRunner for () {
    fn refuse(&self, agent_id: &str) -> Option<ChildError> {
        Some(ChildError::not_granted(agent_id))
    }

    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>> {
        Box::pin(std::future::ready(Err(ChildError::not_granted(&request.agent_id))))
    }
}
