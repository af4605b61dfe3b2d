//! Endpoints for clients of OpenAI: models, chat completions and responses. The model is the
//! agent's id.
//!
//! A tool that this server runs is never reported as a tool call of a chat completion, because a
//! client that receives one runs the tool itself.

mod chat;
mod error;
mod models;
mod responses;

use crate::Shared;
use axum::extract::Extension;
use axum::routing::{get, post};
use std::sync::Arc;
use std::time::Duration;

pub use error::OpenAiError;

/// The default time for which a stream is kept open while the run waits for a person.
const HOLD: Duration = Duration::from_secs(240);

/// The settings of the OpenAI endpoints, from `[serve.openai]`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The treatment of system and developer messages.
    pub system: SystemMessages,
    /// Whether the progress of tools is streamed as reasoning content.
    pub progress: bool,
    /// Whether a stream stays open while the run waits for a person. Otherwise the answer ends
    /// and names the question.
    pub holds: bool,
    /// How long a stream stays open while the run waits for a person.
    pub hold: Duration,
    /// The request header that names the thread, such as `X-OpenWebUI-Chat-Id`.
    pub thread_header: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { system: SystemMessages::Note, progress: true, holds: true, hold: HOLD, thread_header: None }
    }
}

/// The treatment of a client's system and developer messages. They never become the system
/// prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemMessages {
    /// The model reads them as a note that is marked as the client's.
    Note,
    /// The request is refused.
    Refuse,
}

/// Returns the routes below `/v1`, with the default settings.
pub fn router() -> axum::Router<Shared> {
    router_with(Options::default())
}

/// Returns the routes below `/v1`.
pub fn router_with(options: Options) -> axum::Router<Shared> {
    axum::Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/{model}", get(models::one))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/compact", post(responses::compact))
        .route("/v1/responses/{id}", get(responses::retrieve))
        .route("/v1/responses/{id}/cancel", post(responses::cancel))
        .route("/v1/responses/{id}/input_items", get(responses::inputs))
        .layer(Extension(Arc::new(options)))
}
