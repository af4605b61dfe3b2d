//! What a call is given, and what one attempt of it comes to.

use crate::budget::Reservation;
use crate::children::ChildRunner;
use crate::grants::Grants;
use crate::limits::Limits;
use crate::report::ReportSink;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate_agent::context::{AgentView, Resumption, RunIdentity};
use tollgate_agent::gate::Permit;
use tollgate_agent::outcome::{Fault, Outcome, Usage};
use tollgate_agent::recorded_inputs::RecordedInputs;
use tollgate_agent::state::{KeySet, Snapshot};

/// One attempt of one permitted call. Only a [`Permit`] names tool and arguments,
/// so nothing runs that was not judged.
#[derive(Clone)]
pub struct Call<'a> {
    /// Which tool with which arguments.
    pub permit: &'a Permit,
    /// Where the call stands.
    pub identity: &'a RunIdentity,
    /// The agent that calls.
    pub agent: &'a AgentView,
    /// The state as it stood when the batch began. The tool sees of it what its
    /// component may read.
    pub snapshot: &'a Snapshot,
    /// What the state's keys are.
    pub keys: &'a KeySet,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// A person's decision, where a suspended call goes on.
    pub resume: Option<&'a Resumption>,
    /// What the attempt may use.
    pub limits: &'a Limits,
    /// How long it may take, from the moment in which it starts to run. (It waits
    /// for its turn as long again at most.)
    pub timeout: Duration,
    /// What its component was granted.
    pub grants: &'a Grants,
    /// Plays back what a recorded attempt took from the world. Without it, the clocks
    /// tell the time and the random numbers are new.
    pub replay: Option<&'a Arc<RecordedInputs>>,
    /// Where its reports go.
    pub reports: Arc<dyn ReportSink>,
    /// Who runs child agents for it.
    pub children: Arc<dyn ChildRunner>,
    /// Cancels the call: the guest is told, and stopped within some 100 ms.
    pub cancel: &'a CancellationToken,
}

/// What one attempt came to. Nothing that a guest does is missing from here, and
/// nothing that a guest does is an error of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The tool's answer, or the fault that ended it.
    pub outcome: Outcome,
    /// What it used; `attempts` is 1 if it started at all.
    pub usage: Usage,
    /// What it took from the world; none where it took nothing.
    pub taken: Option<Arc<RecordedInputs>>,
    /// What it wrote to standard output and error.
    pub console: Console,
    /// Reports that were over a limit, malformed, or met a full sink.
    pub dropped_reports: u64,
    /// HTTP requests that were let through.
    pub http_requests: u32,
    /// What it tried and was not granted, for the operator: the first few, cleaned.
    pub denied: Vec<String>,
    /// The host's memory that a large outcome takes, for whoever holds the outcome to hold
    /// as long; `None` of a small one.
    pub memory: Option<Arc<Reservation>>,
}

impl Attempt {
    /// An attempt of which nothing ran, for this reason.
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

/// Standard output and error of one attempt, as one text in the order in which it
/// was written, without terminal escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Console {
    /// What was kept.
    pub text: String,
    /// How many bytes beyond it were written and not kept.
    pub dropped_bytes: u64,
}
