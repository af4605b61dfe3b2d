//! Replaces the model of a composed agent and runs its parts. Its requests are ordinary calls:
//! they are judged, recorded, suspended and resumed like any other.

use crate::models::{Delta, DeltaSink, Model, ModelFault};
use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use tollgate_agent::composition::{Composition, NextStep};
use tollgate_agent::message::{AssistantMessage, ModelCall, ModelReply, ModelRequest};
use tollgate_agent::name::RUN_AGENT;

/// Replies with the next calls of a composed agent.
pub(super) struct Conductor {
    composition: Composition,
}

impl Conductor {
    pub(super) fn new(composition: Composition) -> Self {
        Self { composition }
    }
}

#[async_trait]
impl Model for Conductor {
    fn name(&self) -> &str {
        "made of agents"
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let in_loop = matches!(self.composition, Composition::Loop { .. });
        let mut message = AssistantMessage::default();
        match self.composition.next(&request.messages) {
            NextStep::Run(step, parts) => {
                Arc::make_mut(&mut message.calls).extend(parts.into_iter().map(|(agent, request)| {
                    ModelCall {
                        name: RUN_AGENT.to_owned(),
                        arguments:
                            json!({"agent": agent, "request": request, "step": step, "in_loop": in_loop})
                                .to_string(),
                        ..ModelCall::default()
                    }
                }));
            }
            NextStep::Done(text) => {
                deltas(Delta::Text(text.clone()));
                message.text = text;
            }
            NextStep::Failed(why) => return Err(ModelFault::permanent(&why)),
        }
        Ok(ModelReply { message, ..ModelReply::default() })
    }
}
