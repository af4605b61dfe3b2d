//! Replaces the model of an agent that runs elsewhere: it replies with the calls that reach it.

use super::RemoteAgent;
use crate::models::{Delta, DeltaSink, Model, ModelFault};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};
use tollgate_agent::name::{FOLLOW_AGENT, MESSAGE_AGENT};
use tollgate_agent::remote::{self, RemoteStep};

#[async_trait]
impl Model for RemoteAgent {
    fn name(&self) -> &str {
        "a remote agent"
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let mut message = AssistantMessage::default();
        match remote::next(&request.messages, self.has_transcript()) {
            RemoteStep::Send(sent) => message.calls = self.calls(MESSAGE_AGENT, json!(sent)),
            RemoteStep::Follow(task) => message.calls = self.calls(FOLLOW_AGENT, json!(task)),
            RemoteStep::Done(text) => {
                deltas(Delta::Text(text.clone()));
                message.text = text;
            }
            RemoteStep::Failed(why) => return Err(ModelFault::permanent(&why)),
        }
        Ok(ModelReply { message, ..ModelReply::default() })
    }

    /// Cancels the tasks whose answers the run no longer waits for.
    async fn run_ended(&self, messages: &[Message]) {
        let open = remote::open_tasks(messages);
        futures::future::join_all(open.iter().map(|task| self.cancel(&task.task_id))).await;
    }
}

impl RemoteAgent {
    /// Returns a call of one of the two tools. The address is among its arguments, for gates and
    /// for people who are asked.
    fn calls(&self, name: &str, mut arguments: Value) -> Arc<Vec<ModelCall>> {
        arguments["url"] = json!(self.address());
        let (name, arguments) = (name.to_owned(), arguments.to_string());
        Arc::new(vec![ModelCall { name, arguments, ..ModelCall::default() }])
    }
}
