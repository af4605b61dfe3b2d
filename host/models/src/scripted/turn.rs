//! One recorded turn, and its playback.

use super::answers::Answers;
use crate::ModelFault;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::message::{
    AssistantMessage, Finish, Message, ModelCall, ModelReply, ModelRequest, TokenUsage,
};

/// One turn of a recorded model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "RawTurn")]
pub struct ScriptedTurn {
    text: String,
    reasoning: Option<String>,
    calls: Vec<RecordedCall>,
    finish: Finish,
    usage: TokenUsage,
    expect: Option<String>,
    pub(super) fault: Option<ModelFault>,
}

#[derive(Debug, Clone, PartialEq)]
struct RecordedCall {
    id: String,
    name: String,
    arguments: Value,
}

impl ScriptedTurn {
    /// Creates a turn with text only.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a turn that calls tools, by name and arguments. Arguments given as a string are
    /// sent unchanged, JSON or not.
    #[must_use]
    pub fn calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> Self {
        calls.into_iter().fold(Self::default(), |turn, (name, arguments)| turn.with_call("", name, arguments))
    }

    /// Creates a turn that fails, after any text it is given.
    #[must_use]
    pub fn fault(fault: ModelFault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// Adds a call with the provider's id for it; empty for none.
    #[must_use]
    pub fn with_call(mut self, id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        self.calls.push(RecordedCall { id: id.into(), name: name.into(), arguments });
        self
    }

    /// Adds text.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Adds reasoning before the text.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }

    /// Sets the finish reason.
    #[must_use]
    pub fn with_finish(mut self, finish: Finish) -> Self {
        self.finish = finish;
        self
    }

    /// Sets the token usage.
    #[must_use]
    pub fn with_usage(mut self, usage: TokenUsage) -> Self {
        self.usage = usage;
        self
    }

    /// Requires the last message to contain this text.
    #[must_use]
    pub fn expecting(mut self, text: impl Into<String>) -> Self {
        self.expect = Some(text.into());
        self
    }

    /// Returns this turn's reply to a request, or the end of a sentence about why it does not
    /// fit.
    pub(super) fn played(&self, request: &ModelRequest) -> Result<ModelReply, String> {
        self.check_expected(request)?;
        let answers = Answers::of(&request.messages);
        let calls = self
            .calls
            .iter()
            .map(|call| {
                Ok(ModelCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: match &call.arguments {
                        Value::String(as_it_stands) => as_it_stands.clone(),
                        value => answers.fill_value(value)?.to_string(),
                    },
                    provider_data: None,
                })
            })
            .collect::<Result<_, String>>()?;
        Ok(ModelReply {
            message: AssistantMessage {
                text: answers.fill(&self.text)?,
                reasoning: self.reasoning.clone(),
                calls: Arc::new(calls),
            },
            finish: self.finish,
            usage: self.usage,
            model: None,
            correction: None,
        })
    }

    fn check_expected(&self, request: &ModelRequest) -> Result<(), String> {
        let Some(expected) = &self.expect else {
            return Ok(());
        };
        let last = match request.messages.last() {
            None => "",
            Some(Message::User(text) | Message::Note(text)) => text,
            Some(Message::Assistant(message)) => &message.text,
            Some(Message::Answer(answer)) => &answer.content,
        };
        if last.contains(expected) {
            return Ok(());
        }
        Err(format!(
            "expects {expected:?} in the last message, which reads {:?}. Record that turn again, or \
             take out its `expect`.",
            last.chars().take(300).collect::<String>()
        ))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTurn {
    #[serde(default)]
    text: String,
    reasoning: Option<String>,
    #[serde(default)]
    calls: Vec<RawCall>,
    #[serde(default)]
    finish: Finish,
    #[serde(default)]
    usage: RawUsage,
    expect: Option<String>,
    fault: Option<RawFault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    #[serde(default)]
    id: String,
    name: String,
    #[serde(default = "no_arguments")]
    arguments: Value,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawUsage {
    input_tokens: u64,
    output_tokens: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFault {
    message: String,
    #[serde(default)]
    permanent: bool,
    retry_after_ms: Option<u64>,
}

impl From<RawTurn> for ScriptedTurn {
    fn from(raw: RawTurn) -> Self {
        ScriptedTurn {
            text: raw.text,
            reasoning: raw.reasoning,
            calls: raw.calls.into_iter().map(RecordedCall::from).collect(),
            finish: raw.finish,
            usage: TokenUsage {
                input_tokens: raw.usage.input_tokens,
                output_tokens: raw.usage.output_tokens,
            },
            expect: raw.expect,
            fault: raw.fault.map(ModelFault::from),
        }
    }
}

impl From<RawCall> for RecordedCall {
    fn from(RawCall { id, name, arguments }: RawCall) -> Self {
        RecordedCall { id, name, arguments }
    }
}

impl From<RawFault> for ModelFault {
    fn from(raw: RawFault) -> Self {
        match raw.permanent {
            true => ModelFault::permanent(&raw.message),
            false => ModelFault::transient(&raw.message, raw.retry_after_ms.map(Duration::from_millis)),
        }
    }
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}
