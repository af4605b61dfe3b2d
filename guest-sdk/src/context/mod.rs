//! The call in progress.

mod state;
mod testing;

use crate::agents::{ChildError, ChildOutcome, ChildRun};
use crate::content::Attachment;
use crate::error::ToolError;
use crate::host::Host;
use crate::identity::{AgentView, Resumption, RunIdentity};
use crate::output::{Action, Mutation, ToolOutput};
use crate::report::{Level, ProgressStatus, Report};
use serde::Serialize;
use std::cell::RefCell;
use std::time::Duration;

/// The call in progress: its caller, its state, its writes and its reports.
///
/// A tool's parameter of type `&Context` or `&mut Context` receives it and is not part
/// of the tool's arguments. Tests create one with [`Context::for_test`].
pub struct Context {
    facts: Facts,
    mutations: RefCell<Vec<Mutation>>,
    actions: RefCell<Vec<Action>>,
    surroundings: Surroundings,
}

/// The host's description of a call when it begins.
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
    /// The call as made by the host.
    #[cfg(target_family = "wasm")]
    pub(crate) fn of_call(facts: Facts) -> Self {
        Self {
            facts,
            mutations: RefCell::default(),
            actions: RefCell::default(),
            surroundings: Surroundings::Host(crate::wasm::CallHost),
        }
    }

    /// Returns the call's id, unique within its run. It is the same in each attempt.
    pub fn call_id(&self) -> &str {
        &self.facts.call_id
    }

    /// Returns the name that the model used.
    pub fn tool_name(&self) -> &str {
        &self.facts.tool_name
    }

    /// Returns the run that the call belongs to.
    pub fn identity(&self) -> &RunIdentity {
        &self.facts.identity
    }

    /// Returns the calling agent.
    pub fn agent(&self) -> &AgentView {
        &self.facts.agent
    }

    /// Returns the number of this attempt, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.facts.attempt
    }

    /// Returns the wall-clock time that this attempt had when it began.
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(u64::from(self.facts.deadline_ms))
    }

    /// Returns a person's answer to this tool's own question, if the call asked one.
    pub fn resume(&self) -> Option<&Resumption> {
        self.facts.resume.as_ref()
    }

    /// Returns whether the run is being cancelled, so that the tool can stop early. The
    /// host stops it after at most about 100 ms in any case.
    pub fn is_cancelled(&self) -> bool {
        self.host().is_cancelled()
    }

    /// Shows the current activity; replaces the last one of this kind.
    pub fn activity(&self, kind: impl Into<String>, content: impl Into<String>) {
        self.report(Report::Activity { kind: kind.into(), content: content.into() });
    }

    /// Changes the current activity of this kind by a JSON Patch (RFC 6902). A patch
    /// that cannot be written as JSON is empty.
    pub fn activity_delta(&self, kind: impl Into<String>, patch: impl Serialize) {
        let patch = serde_json::to_value(patch).unwrap_or_else(|_| serde_json::json!([]));
        self.report(Report::ActivityDelta { kind: kind.into(), patch });
    }

    /// Reports the progress of the running call as a fraction from 0 to 1.
    pub fn progress(&self, fraction: f64, message: impl Into<String>) {
        self.progress_status(ProgressStatus::Running, Some(message.into()), Some(fraction));
    }

    /// Reports the progress of the call including its phase.
    pub fn progress_status(&self, status: ProgressStatus, message: Option<String>, progress: Option<f64>) {
        self.report(Report::Progress { status, message, progress });
    }

    /// Shows a piece of output before the call ends. The result does not build on it:
    /// it has to contain everything that the model is to read.
    pub fn stream_output(&self, delta: impl Into<String>) {
        self.report(Report::Output(delta.into()));
    }

    /// Writes a log line for the operator. The model never sees it.
    pub fn log(&self, level: Level, message: impl Into<String>) {
        self.report(Report::Log(level, message.into()));
    }

    /// Returns the setting with this name, which an operator wrote into the component's
    /// grants. `None` if there is none.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.host().setting(name)
    }

    /// Runs another agent and waits until it ends or waits for a person. The wait does
    /// not count against this call's timeout.
    ///
    /// # Errors
    /// Returns an error if the child cannot be started. A child that starts and does
    /// not complete is an outcome; [`ChildOutcome::completed`] makes it an error.
    pub fn run_child(&self, child: ChildRun) -> Result<ChildOutcome, ChildError> {
        match &self.surroundings {
            #[cfg(target_family = "wasm")]
            Surroundings::Host(_) => crate::wasm::run_child(child),
            Surroundings::Test(recorder) => recorder.run_child(child),
        }
    }

    /// Attaches an image or a sound to the result. `mime_type` is `image/...` or `audio/...`.
    /// Clients of the Model Context Protocol receive it; a model sees an image if it can,
    /// and reads a line about it otherwise.
    ///
    /// # Errors
    /// It is refused: the media type is another one, or the call's parts have more than
    /// 3 MiB together.
    pub fn attach(&self, mime_type: &str, data: &[u8]) -> Result<(), ToolError> {
        self.attach_part(mime_type, data, None)
    }

    /// Attaches a file to the result. The model reads its text if it is UTF-8 and its media
    /// type is `text/...`, JSON, XML or empty.
    ///
    /// # Errors
    /// It is refused: the URI or the media type is malformed, or the call's parts have more
    /// than 3 MiB together.
    pub fn attach_file(&self, uri: &str, mime_type: &str, data: &[u8]) -> Result<(), ToolError> {
        self.attach_part(mime_type, data, Some(uri))
    }

    /// Attaches a link that the client may fetch itself.
    ///
    /// # Errors
    /// It is refused: the URI is malformed, or the call has too many parts.
    pub fn attach_link(&self, uri: &str, name: &str, description: Option<&str>) -> Result<(), ToolError> {
        match &self.surroundings {
            #[cfg(target_family = "wasm")]
            Surroundings::Host(_) => {
                crate::wasm::link(uri, name, description).map_err(ToolError::execution_failed)
            }
            Surroundings::Test(recorder) => {
                recorder.attachments.borrow_mut().push(Attachment::Link {
                    uri: uri.to_owned(),
                    name: name.to_owned(),
                    description: description.map(str::to_owned),
                });
                Ok(())
            }
        }
    }

    fn attach_part(&self, mime_type: &str, data: &[u8], uri: Option<&str>) -> Result<(), ToolError> {
        match &self.surroundings {
            #[cfg(target_family = "wasm")]
            Surroundings::Host(_) => {
                crate::wasm::attach(mime_type, data, uri).map_err(ToolError::execution_failed)
            }
            Surroundings::Test(recorder) => {
                recorder.attachments.borrow_mut().push(Attachment::Data {
                    mime_type: mime_type.to_owned(),
                    data: data.to_vec(),
                    uri: uri.map(str::to_owned),
                });
                Ok(())
            }
        }
    }

    /// Requests to hand the thread over to this agent once the call has committed.
    pub fn transfer_to(&self, agent_id: impl Into<String>) {
        self.act(Action::TransferToAgent(agent_id.into()));
    }

    /// Requests to end the enclosing loop agent.
    pub fn escalate(&self) {
        self.act(Action::Escalate);
    }

    /// Adds a note of at most 16 KiB that the model sees on its next turn.
    pub fn add_context(&self, note: impl Into<String>) {
        self.act(Action::AddContext(note.into()));
    }

    /// Requests an action of the agent loop.
    pub fn act(&self, action: Action) {
        self.actions.borrow_mut().push(action);
    }

    /// Puts the context's writes and actions before those of the output.
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
