//! Hooks: code that is asked before and after calls, and turns of the model.

use super::{Effects, HookPoints, HookedCall, HookedTurn};
use async_trait::async_trait;
use std::sync::Arc;
use tollgate_agent::message::{ModelReply, ModelRequest};

/// Asked before and after calls, and turns of the model. A hook adds to what happens;
/// whether it may happen is a [`Gate`](crate::gates::Gate)'s question.
///
/// Hooks of several plugins are asked one after the other, in the order in which the
/// plugins were installed. Each is waited for as long as
/// [`HostBuilder::hook_timeout`](crate::HostBuilder::hook_timeout) says, at its next
/// `await`; one that is too slow, panics or returns an error has failed. Where the
/// process ends before what a hook answered is stored, the hook is asked again.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Which of the functions below are asked. A host that has no hooks after calls
    /// commits each call once less.
    fn points(&self) -> HookPoints {
        HookPoints::ALL
    }

    /// The gates let a call through, and it begins: asked once for each call, whatever
    /// number of attempts follow, and not again where a person's decision lets it go
    /// on. The tool does not see what is written here.
    ///
    /// # Errors
    /// Fails the call as `hook_failed`; it does not run.
    async fn before_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        let _ = call;
        Ok(Effects::none())
    }

    /// It is known how a call ends: asked once for each call that was let through, or
    /// whose result somebody supplied, whatever its end is.
    ///
    /// # Errors
    /// Fails the call as `hook_failed`, and what the tool wrote is dropped.
    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        let _ = call;
        Ok(Effects::none())
    }

    /// The model is to be asked.
    ///
    /// # Errors
    /// The model is asked without what this hook has to say; the record tells it.
    async fn before_model(
        &self,
        turn: &HookedTurn<'_>,
        request: &ModelRequest,
    ) -> Result<BeforeModel, HookError> {
        let _ = (turn, request);
        Ok(BeforeModel::default())
    }

    /// The model replied. A reply that is returned counts as the model's: its calls
    /// are made, its text is the answer. What was told of the first one while it was
    /// written is told to be void.
    ///
    /// # Errors
    /// The reply stays as it is; the record tells it.
    async fn after_model(
        &self,
        turn: &HookedTurn<'_>,
        reply: &ModelReply,
    ) -> Result<Option<ModelReply>, HookError> {
        let _ = (turn, reply);
        Ok(None)
    }
}

/// What a hook has to say before the model is asked.
#[derive(Debug, Clone, Default)]
pub struct BeforeModel {
    /// What the model is asked instead. A tool that it lacks is hidden.
    pub request: Option<ModelRequest>,
    /// A reply in the model's place; nobody else is asked then.
    pub answer: Option<ModelReply>,
    /// Tools that the model is not told of in this turn. One that it calls all the same
    /// is answered `not_found`.
    pub hide: Vec<String>,
    /// A note that the model reads in this turn alone, after the conversation; at most
    /// 16 KiB.
    pub note: Option<String>,
}

/// Why a hook failed: a sentence for the operator. The model reads that it failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct HookError(String);

impl HookError {
    /// A failure, for this reason.
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
