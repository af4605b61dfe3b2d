//! Hooks: code that runs before and after calls and model turns.

use super::{Effects, HookPoints, HookedCall, HookedTurn, Parts, Plugin};
use async_trait::async_trait;
use std::sync::Arc;
use tollgate_agent::message::{ModelReply, ModelRequest};

/// Called before and after calls and model turns. A hook adds to a call or turn; a
/// [`Gate`](crate::gates::Gate) decides whether it may happen.
///
/// Hooks of several plugins run one after another, in the order in which the plugins were
/// installed. [`HostBuilder::hook_timeout`](crate::HostBuilder::hook_timeout) limits each one,
/// and takes effect at its next `await`. A hook that is too slow, panics or returns an error
/// has failed. If the process ends before a hook's answer is stored, the hook is called again.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Returns which of the functions below are called. A host without hooks after calls makes
    /// one commit less per call.
    fn points(&self) -> HookPoints {
        HookPoints::ALL
    }

    /// Called when the gates let a call through and it begins. Called once for each call,
    /// regardless of the number of attempts, and not again when a person's decision resumes it.
    /// The tool does not see the state written here.
    ///
    /// # Errors
    /// Fails the call as `hook_failed`; it does not run.
    async fn before_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        let _ = call;
        Ok(Effects::none())
    }

    /// Called when the end of a call is known: once for each call that was let through or whose
    /// result was supplied, whatever its end is.
    ///
    /// # Errors
    /// Fails the call as `hook_failed`, and the tool's writes are dropped.
    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        let _ = call;
        Ok(Effects::none())
    }

    /// Called before the model is asked.
    ///
    /// # Errors
    /// The model is asked without this hook's contribution; the failure is recorded.
    async fn before_model(
        &self,
        turn: &HookedTurn<'_>,
        request: &ModelRequest,
    ) -> Result<BeforeModel, HookError> {
        let _ = (turn, request);
        Ok(BeforeModel::default())
    }

    /// Called after the model replied. A returned reply replaces the model's: its calls are made
    /// and its text is the answer. Clients are asked to discard the parts of the first reply that
    /// were already streamed.
    ///
    /// # Errors
    /// The reply stays as it is; the failure is recorded.
    async fn after_model(
        &self,
        turn: &HookedTurn<'_>,
        reply: &ModelReply,
    ) -> Result<Option<ModelReply>, HookError> {
        let _ = (turn, reply);
        Ok(None)
    }
}

/// A hook's contribution before the model is asked.
#[derive(Debug, Clone, Default)]
pub struct BeforeModel {
    /// A request that replaces the original. A tool that it lacks is hidden.
    pub request: Option<ModelRequest>,
    /// A reply in place of the model's. Neither the model nor any further hook is asked then.
    pub answer: Option<ModelReply>,
    /// Tools to hide from the model in this turn. A call of one is answered with `not_found`.
    pub hide: Vec<String>,
    /// A note that the model reads only in this turn, after the conversation; at most 16 KiB.
    pub note: Option<String>,
}

/// The reason why a hook failed: a sentence for the operator. The model learns only that it
/// failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct HookError(String);

impl HookError {
    /// Creates a failure with this reason.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl From<&str> for HookError {
    fn from(why: &str) -> Self {
        Self::new(why)
    }
}

impl From<String> for HookError {
    fn from(why: String) -> Self {
        Self::new(why)
    }
}

/// The hooks of one plugin.
#[derive(Clone)]
pub(crate) struct InstalledHooks {
    pub(crate) plugin: Arc<str>,
    pub(crate) points: HookPoints,
    pub(crate) hooks: Arc<dyn Hooks>,
}

/// Hooks that run for one agent only.
pub(super) struct HooksOfAgent {
    agent_id: String,
    hooks: Arc<dyn Hooks>,
}

impl HooksOfAgent {
    pub(super) fn new(agent_id: impl Into<String>, hooks: Arc<dyn Hooks>) -> Self {
        Self { agent_id: agent_id.into(), hooks }
    }
}

#[async_trait]
impl Hooks for HooksOfAgent {
    fn points(&self) -> HookPoints {
        self.hooks.points()
    }

    async fn before_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        match call.agent.id == self.agent_id {
            true => self.hooks.before_call(call).await,
            false => Ok(Effects::none()),
        }
    }

    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        match call.agent.id == self.agent_id {
            true => self.hooks.after_call(call).await,
            false => Ok(Effects::none()),
        }
    }

    async fn before_model(
        &self,
        turn: &HookedTurn<'_>,
        request: &ModelRequest,
    ) -> Result<BeforeModel, HookError> {
        match turn.agent.id == self.agent_id {
            true => self.hooks.before_model(turn, request).await,
            false => Ok(BeforeModel::default()),
        }
    }

    async fn after_model(
        &self,
        turn: &HookedTurn<'_>,
        reply: &ModelReply,
    ) -> Result<Option<ModelReply>, HookError> {
        match turn.agent.id == self.agent_id {
            true => self.hooks.after_model(turn, reply).await,
            false => Ok(None),
        }
    }
}

/// The plugin of the hooks that an agent brings itself.
pub(crate) struct AgentHooks {
    name: String,
    hooks: HooksOfAgent,
}

impl AgentHooks {
    pub(crate) fn new(agent_id: &str, hooks: Arc<dyn Hooks>) -> Self {
        Self { name: format!("{agent_id}-hooks"), hooks: HooksOfAgent::new(agent_id, hooks) }
    }
}

impl Plugin for AgentHooks {
    fn name(&self) -> &str {
        &self.name
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        parts.hooks(self.hooks);
    }
}
