//! Contexts for a tool's tests.

use super::{Context, Facts, Surroundings};
use crate::agents::{ChildError, ChildOutcome, ChildRun};
use crate::content::Attachment;
use crate::host::Recorder;
use crate::identity::{AgentView, Resumption, RunIdentity};
use crate::output::{Action, Mutation};
use crate::report::Report;
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::time::Duration;

/// Constructors for tests. They set what the host would provide.
impl Context {
    /// Creates a first attempt with a time limit of 15 s and without state.
    ///
    /// ```
    /// use tollgate_sdk::{Context, Key, json};
    ///
    /// static COUNT: Key<i64> = Key::thread("demo.count");
    ///
    /// let ctx = Context::for_test().with_state("demo.count", json!(2));
    /// ctx.set(&COUNT, &(ctx.get(&COUNT)? + 1))?;
    /// assert_eq!(ctx.mutations()[0].update(), json!(3));
    /// # Ok::<(), tollgate_sdk::ToolError>(())
    /// ```
    pub fn for_test() -> Self {
        let facts = Facts {
            call_id: "call-1".to_owned(),
            tool_name: "test".to_owned(),
            identity: RunIdentity {
                run_id: "run-1".to_owned(),
                thread_id: "thread-1".to_owned(),
                agent_id: "agent".to_owned(),
                ..RunIdentity::default()
            },
            agent: AgentView { id: "agent".to_owned(), ..AgentView::default() },
            deadline_ms: 15_000,
            attempt: 1,
            ..Facts::default()
        };
        Self {
            facts,
            mutations: RefCell::default(),
            actions: RefCell::default(),
            surroundings: Surroundings::Test(Recorder::default()),
        }
    }

    /// Sets a key in the snapshot, by its full name.
    #[must_use]
    pub fn with_state(mut self, key: impl Into<String>, value: Value) -> Self {
        self.facts.snapshot.push((key.into(), value.to_string()));
        self
    }

    /// Sets a key that is too large for the snapshot and has to be requested from the
    /// host.
    #[must_use]
    pub fn with_large_state(self, key: impl Into<String>, value: Value) -> Self {
        let key = key.into();
        self.recording(|recorder| recorder.large_state.push((key, value.to_string())))
    }

    /// Resumes the call with this decided value.
    #[must_use]
    pub fn with_resume(self, value: impl Serialize) -> Self {
        self.with_resumption(Resumption::new(value))
    }

    /// Resumes the call with this decision.
    #[must_use]
    pub fn with_resumption(mut self, resumption: Resumption) -> Self {
        self.facts.resume = Some(resumption);
        self
    }

    /// Sets the name that the model used.
    #[must_use]
    pub fn with_tool_name(mut self, name: impl Into<String>) -> Self {
        self.facts.tool_name = name.into();
        self
    }

    /// Sets the call's id.
    #[must_use]
    pub fn with_call_id(mut self, id: impl Into<String>) -> Self {
        self.facts.call_id = id.into();
        self
    }

    /// Sets the run.
    #[must_use]
    pub fn with_identity(mut self, identity: RunIdentity) -> Self {
        self.facts.identity = identity;
        self
    }

    /// Sets the calling agent.
    #[must_use]
    pub fn with_agent(mut self, agent: AgentView) -> Self {
        self.facts.agent = agent;
        self
    }

    /// Sets the revision of the state.
    #[must_use]
    pub fn with_revision(mut self, revision: u64) -> Self {
        self.facts.revision = revision;
        self
    }

    /// Sets the number of the attempt, counted from 1.
    #[must_use]
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.facts.attempt = attempt;
        self
    }

    /// Sets the time limit of the attempt.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.facts.deadline_ms = u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX);
        self
    }

    /// Marks the run as being cancelled.
    #[must_use]
    pub fn cancelled(self) -> Self {
        self.recording(|recorder| recorder.cancelled = true)
    }

    /// Sets a setting.
    #[must_use]
    pub fn with_setting(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let setting = (name.into(), value.into());
        self.recording(|recorder| recorder.settings.push(setting))
    }

    /// Sets the outcome of the next child that the tool runs. Without it, no agent is
    /// found.
    #[must_use]
    pub fn with_child(self, outcome: Result<ChildOutcome, ChildError>) -> Self {
        self.recording(|recorder| recorder.outcomes.get_mut().push_back(outcome))
    }

    /// Returns the children run so far. Empty in a call made by a host.
    pub fn children(&self) -> Vec<ChildRun> {
        match &self.surroundings {
            #[cfg(target_family = "wasm")]
            Surroundings::Host(_) => Vec::new(),
            Surroundings::Test(recorder) => recorder.children.borrow().clone(),
        }
    }

    /// Returns the writes so far.
    pub fn mutations(&self) -> Vec<Mutation> {
        self.mutations.borrow().clone()
    }

    /// Returns the actions requested so far.
    pub fn actions(&self) -> Vec<Action> {
        self.actions.borrow().clone()
    }

    /// Returns the attachments so far. Empty in a call made by a host.
    pub fn attachments(&self) -> Vec<Attachment> {
        match &self.surroundings {
            #[cfg(target_family = "wasm")]
            Surroundings::Host(_) => Vec::new(),
            Surroundings::Test(recorder) => recorder.attachments.borrow().clone(),
        }
    }

    /// Returns the reports so far. Empty in a call made by a host.
    pub fn reports(&self) -> Vec<Report> {
        self.host().reports()
    }

    fn recording(mut self, change: impl FnOnce(&mut Recorder)) -> Self {
        match &mut self.surroundings {
            #[cfg(target_family = "wasm")]
            Surroundings::Host(_) => {}
            Surroundings::Test(recorder) => change(recorder),
        }
        self
    }
}
