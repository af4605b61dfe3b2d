//! Tool calls written as text, for a model that has no tool calls of its own.

use super::fault::MAX_REPLY_CALLS;
use super::{Delta, DeltaSink, Model, ModelFault};
use async_trait::async_trait;
use tollgate_agent::message::{ModelReply, ModelRequest};
use tollgate_agent::text_calls::{self, OPEN};

/// A model wrapper that lets a model call tools in the text of its reply; see
/// [`tollgate_agent::text_calls`].
pub struct TextCalls<M> {
    model: M,
}

impl<M: Model> TextCalls<M> {
    /// Wraps a model.
    #[must_use]
    pub fn new(model: M) -> Self {
        Self { model }
    }
}

#[async_trait]
impl<M: Model> Model for TextCalls<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let mut shown = VisibleText::default();
        let mut tell = |delta| match delta {
            Delta::Text(text) => {
                if let Some(text) = shown.next(&text) {
                    deltas(Delta::Text(text));
                }
            }
            Delta::Restarted { .. } => {
                shown = VisibleText::default();
                deltas(delta);
            }
            Delta::Reasoning(_) => deltas(delta),
        };
        let reply = self.model.reply(text_calls::as_text(&request), &mut tell).await?;
        if let Some(text) = shown.rest() {
            deltas(Delta::Text(text));
        }
        let reply = text_calls::read(reply);
        match reply.message.calls.len() > MAX_REPLY_CALLS {
            true => Err(ModelFault::too_many_calls()),
            false => Ok(reply),
        }
    }
}

/// The text that a client sees while a reply is written: everything before the first call.
#[derive(Default)]
struct VisibleText {
    /// Text that may be the beginning of a tag.
    held: String,
    is_over: bool,
}

impl VisibleText {
    fn next(&mut self, text: &str) -> Option<String> {
        if self.is_over {
            return None;
        }
        self.held.push_str(text);
        let end = match self.held.find(OPEN) {
            Some(at) => {
                self.is_over = true;
                at
            }
            None => (0..OPEN.len())
                .rev()
                .find(|length| self.held.ends_with(&OPEN[..*length]))
                .map_or(self.held.len(), |length| self.held.len() - length),
        };
        let rest = self.held.split_off(end);
        let told = std::mem::replace(&mut self.held, rest);
        (!told.is_empty()).then_some(told)
    }

    /// Returns the text that was held back and turned out not to be a tag.
    fn rest(&mut self) -> Option<String> {
        let held = std::mem::take(&mut self.held);
        (!self.is_over && !held.is_empty()).then_some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model that replies with one tag that holds this many calls.
    struct Flood(usize);

    #[async_trait]
    impl Model for Flood {
        fn name(&self) -> &str {
            "flood"
        }

        async fn reply(&self, _: ModelRequest, _: &mut DeltaSink<'_>) -> Result<ModelReply, ModelFault> {
            let calls = vec![r#"{"name":"t","args":{}}"#; self.0].join(",");
            let mut reply = ModelReply::default();
            reply.message.text = format!("[TOOL_CALL][{calls}][/TOOL_CALL]");
            Ok(reply)
        }
    }

    #[tokio::test]
    async fn a5_a_reply_of_too_many_calls_is_a_fault() {
        let reply =
            async |calls| TextCalls::new(Flood(calls)).reply(ModelRequest::default(), &mut |_| {}).await;
        assert_eq!(reply(10).await.map(|reply| reply.message.calls.len()), Ok(10));
        assert_eq!(reply(32_000).await, Err(ModelFault::too_many_calls()));
    }

    #[test]
    fn a5_a_client_is_shown_the_text_and_no_tags() {
        for (pieces, expected) in [
            (vec!["Well, ", "[TOOL", "_CALL]{}", "[/TOOL_CALL]"], "Well, "),
            (vec!["a [TO", "Y] and [TOOL_CAL"], "a [TOY] and [TOOL_CAL"),
            (vec!["[", "T", "x"], "[Tx"),
        ] {
            let mut shown = VisibleText::default();
            let mut said: String = pieces.iter().filter_map(|piece| shown.next(piece)).collect();
            said.extend(shown.rest());
            assert_eq!(said, expected);
        }
    }
}
