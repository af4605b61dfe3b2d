//! Models: one request in, one reply out, streamed on the way.
//!
//! `HttpModel` calls a provider, [`ScriptedModel`] plays recorded turns, and [`RetryingModel`] wraps
//! either and retries transient faults. An operator configures a [`ModelConfig`], which creates
//! one of them. Without the feature `providers` there is no `HttpModel`, and a configuration that
//! names a provider creates no model.

mod config;
mod fault;
mod http_client;
mod provider;
#[cfg(feature = "providers")]
mod providers;
mod retry;
mod scripted;
mod secret;
mod text_calls;

pub use config::{ModelConfig, ModelConfigError, ProviderName, ToolCalls};
pub use fault::{
    FaultKind, MAX_EVENT_BYTES, MAX_EVENT_PARSED_BYTES, MAX_REPLY_BYTES, MAX_REPLY_CALLS, ModelFault,
};
pub use http_client::{HttpClientError, causes, http_client, is_loopback, tls_with};
pub use provider::{Provider, ReasoningEffort};
#[cfg(feature = "providers")]
pub use providers::{HttpModel, Probe};
pub use retry::{RetryPolicy, RetryingModel};
pub use scripted::{RecordingError, ScriptedModel, ScriptedTurn};
pub use secret::ApiKey;
pub use text_calls::TextCalls;
pub use tollgate_agent::message::ReplyMemory;

use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::message::{Message, ModelReply, ModelRequest};

/// A model that replies to a conversation.
///
/// Dropping the future of [`Model::reply`] cancels it: a live model's
/// connection closes with it.
#[async_trait]
pub trait Model: Send + Sync {
    /// Returns the model's display name, for messages and records.
    fn name(&self) -> &str;

    /// Asks the model, streams its output to `deltas`, and returns the whole reply at the end.
    ///
    /// Nothing in the reply has been checked: calls may name tools that do not exist, their
    /// arguments are text that may not be JSON, and their ids may be empty or repeated.
    ///
    /// # Errors
    /// The provider rejected the request, stopped in mid-reply, or could not be reached, or the
    /// [memory](ModelRequest::memory) of the request has no room for the reply, which is transient.
    /// Discard the deltas that were sent before.
    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault>;

    /// Called once a run with this model has ended, whatever its status, with the run's
    /// conversation. A backend elsewhere ends here what the run left behind. The default does
    /// nothing.
    async fn run_ended(&self, messages: &[Message]) {
        let _ = messages;
    }
}

#[async_trait]
impl<M: Model + ?Sized> Model for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        (**self).reply(request, deltas).await
    }

    async fn run_ended(&self, messages: &[Message]) {
        (**self).run_ended(messages).await;
    }
}

/// Receives the pieces of a reply as it is written. It is called between two reads of the stream
/// and must not block.
pub type DeltaSink<'a> = dyn FnMut(Delta) + Send + 'a;

/// A piece of a reply that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More of the text.
    Text(String),
    /// More of the model's reasoning.
    Reasoning(String),
    /// The attempt failed. Discard all deltas of this reply so far; the next attempt starts anew.
    Restarted {
        /// The next attempt; the first one is 1.
        attempt: u32,
        /// The number of attempts after which the fault ends the reply.
        max_attempts: u32,
        /// The pause before it.
        pause: Duration,
        /// Why the last attempt failed, in the provider's words.
        reason: String,
    },
}
