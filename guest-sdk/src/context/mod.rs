//! The call in progress.

mod state;
mod testing;

use crate::agents::{ChildError, ChildOutcome, ChildRun};
use crate::host::Host;
use crate::identity::{AgentView, Resumption, RunIdentity};
use crate::output::{Action, Mutation, ToolOutput};
use crate::report::{Level, ProgressStatus, Report};
use serde::Serialize;
use std::cell::RefCell;
use std::time::Duration;

/// The call in progress: who calls, what state it sees, what it writes and tells.
///
/// A tool's parameter of type `&Context` or `&mut Context` is this, and is no
/// part of the tool's arguments. In a test it is built by [`Context::for_test`].
pub struct Context {
    facts: Facts,
    mutations: RefCell<Vec<Mutation>>,
    actions: RefCell<Vec<Action>>,
    surroundings: Surroundings,
}

/// What the host says about a call when it begins.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) call_id: String,
    pub(crate) tool_name: String,
    pub(crate) identity: RunIdentity,
    pub(crate) agent: AgentView,
    pub(crate) revision: u64,
    pub(crate) snapshot: Vec<(String, String)>,
    pub(crate) deadline_ms: u32,
    pub(crate) attempt: u32,
    pub(crate) resume: Option<Resumption>,
}

enum Surroundings {
    #[cfg(target_family = "wasm")]
    Host(crate::wasm::CallHost),
    Test(crate::host::Recorder),
}

impl Context {
    /// The call that the host makes.
    #[cfg(target_family = "wasm")]
    pub(crate) fn of_call(facts: Facts) -> Self {
        Self {
            facts,
            mutations: RefCell::default(),
            actions: RefCell::default(),
            surroundings: Surroundings::Host(crate::wasm::CallHost),
        }
    }

    /// This call, unique within its run. The same in each attempt.
    pub fn call_id(&self) -> &str {
        &self.facts.call_id
    }

    /// The name under which the model called.
    pub fn tool_name(&self) -> &str {
        &self.facts.tool_name
    }

    /// The run that the call belongs to.
    pub fn identity(&self) -> &RunIdentity {
        &self.facts.identity
    }

    /// The agent that calls.
    pub fn agent(&self) -> &AgentView {
        &self.facts.agent
    }

    /// 1 for the first attempt.
    pub fn attempt(&self) -> u32 {
        self.facts.attempt
    }

    /// The wall clock time that this attempt had when it began.
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(u64::from(self.facts.deadline_ms))
    }

    /// What a person decided, where a suspended call goes on.
    pub fn resume(&self) -> Option<&Resumption> {
        self.facts.resume.as_ref()
    }

    /// True once the run is being cancelled: the moment to stop early. Some 100 ms
    /// later at most the tool is stopped all the same.
    pub fn is_cancelled(&self) -> bool {
        self.host().is_cancelled()
    }

    /// Shows what the tool is doing, in the place of the last activity of this kind.
    pub fn activity(&self, kind: impl Into<String>, content: impl Into<String>) {
        self.report(Report::Activity { kind: kind.into(), content: content.into() });
    }

    /// Changes the activity of this kind by a JSON Patch (RFC 6902). What cannot
    /// be written as JSON is an empty patch.
    pub fn activity_delta(&self, kind: impl Into<String>, patch: impl Serialize) {
        let patch = serde_json::to_value(patch).unwrap_or_else(|_| serde_json::json!([]));
        self.report(Report::ActivityDelta { kind: kind.into(), patch });
    }

    /// Says how far the running call is, as a fraction from 0 to 1.
    pub fn progress(&self, fraction: f64, message: impl Into<String>) {
        self.progress_status(ProgressStatus::Running, Some(message.into()), Some(fraction));
    }

    /// Says how far the call is, phase and all.
    pub fn progress_status(&self, status: ProgressStatus, message: Option<String>, progress: Option<f64>) {
        self.report(Report::Progress { status, message, progress });
    }

    /// Shows a piece of output before the call ends. The result stands for
    /// itself: it holds whatever the model is to read.
    pub fn stream_output(&self, delta: impl Into<String>) {
        self.report(Report::Output(delta.into()));
    }

    /// Writes a line for the operator. The model never sees it.
    pub fn log(&self, level: Level, message: impl Into<String>) {
        self.report(Report::Log(level, message.into()));
    }

    /// Runs another agent, and waits until it ends or waits for a person. The
    /// wait does not count against this call's timeout.
    ///
    /// # Errors
    /// Where the child cannot be started. One that starts and does not complete
    /// is an outcome; [`ChildOutcome::completed`] makes it an error.
    pub fn run_child(&self, child: ChildRun) -> Result<ChildOutcome, ChildError> {
        match &self.surroundings {
            #[cfg(target_family = "wasm")]
            Surroundings::Host(_) => crate::wasm::run_child(child),
            Surroundings::Test(recorder) => recorder.run_child(child),
        }
    }

    /// Asks that the thread be handed to this agent, when the call has committed.
    pub fn transfer_to(&self, agent_id: impl Into<String>) {
        self.act(Action::TransferToAgent(agent_id.into()));
    }

    /// Asks that the enclosing loop agent end.
    pub fn escalate(&self) {
        self.act(Action::Escalate);
    }

    /// Leaves a note of at most 16 KiB that the model sees at its next turn.
    pub fn add_context(&self, note: impl Into<String>) {
        self.act(Action::AddContext(note.into()));
    }

    /// Asks something of the agent loop.
    pub fn act(&self, action: Action) {
        self.actions.borrow_mut().push(action);
    }

    /// Puts what was written before what the output holds already.
    pub(crate) fn hand_over(&mut self, output: &mut ToolOutput) {
        let mutations = std::mem::take(self.mutations.get_mut());
        output.mutations.splice(..0, mutations);
        let actions = std::mem::take(self.actions.get_mut());
        output.actions.splice(..0, actions);
    }

    fn report(&self, report: Report) {
        self.host().report(report);
    }

    fn host(&self) -> &dyn Host {
        match &self.surroundings {
            #[cfg(target_family = "wasm")]
            Surroundings::Host(host) => host,
            Surroundings::Test(recorder) => recorder,
        }
    }
}
