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
use axum::routing::{get, post};

pub use error::OpenAiError;

/// Returns the routes below `/v1`.
pub fn router() -> axum::Router<Shared> {
    axum::Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/{model}", get(models::one))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/compact", post(responses::compact))
        .route("/v1/responses/{id}", get(responses::retrieve))
        .route("/v1/responses/{id}/cancel", post(responses::cancel))
        .route("/v1/responses/{id}/input_items", get(responses::inputs))
}
