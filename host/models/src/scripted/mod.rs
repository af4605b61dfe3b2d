//! A model that plays recorded turns.
//!
//! Its own text is fixed, but the answers of its tools are not. A text may therefore refer to an
//! answer, as in `{{word_count/words}}`, which is replaced by the call's result during playback.

mod answers;
mod file;

pub use file::RecordingError;

use super::{Delta, DeltaSink, Model, ModelFault};
use answers::Answers;
use async_trait::async_trait;
use file::Recording;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tollgate_agent::message::{
    AssistantMessage, Finish, Message, ModelCall, ModelReply, ModelRequest, TokenUsage,
};

/// A model that plays one turn for each request, in order. A turn is used up as soon as it starts
/// to play, even if the request is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    name: String,
    turns: Vec<ScriptedTurn>,
    next: AtomicUsize,
    pace: Duration,
    starts_again: bool,
}

impl ScriptedModel {
    /// Creates a recording in code.
    #[must_use]
    pub fn new(turns: Vec<ScriptedTurn>) -> Self {
        Self {
            name: "recorded".to_owned(),
            turns,
            next: AtomicUsize::new(0),
            pace: Duration::ZERO,
            starts_again: false,
        }
    }

    /// Reads a recording: JSON if the file's name ends in `.json`, otherwise TOML.
    ///
    /// ```toml
    /// name = "tour"        # the display name; "recorded" by default
    /// pace_ms = 20         # pause between two words; 0 by default
    ///
    /// [[turn]]
    /// expect = "How long"  # must be in the last message
    /// reasoning = "I should count."
    /// text = "Let me count."
    /// calls = [{ name = "word_count", arguments = { path = "README.md" } }]
    ///
    /// [[turn]]
    /// text = "It has {{word_count/words}} words."
    /// ```
    ///
    /// `{{TOOL}}` is the tool's whole latest answer, `{{TOOL/a/0}}` the value at a JSON pointer
    /// within it, `{{TOOL#2/a}}` a value within its second answer, and `{{last/a}}` a value within
    /// the latest answer of any tool. References work in `text` and in the strings of `arguments`.
    /// A string of `arguments` that consists of a single reference takes the value's type.
    /// Arguments written as one string are sent unchanged. A turn may have `finish` (`stop`,
    /// `length`, `filtered`), `usage` (`input_tokens`, `output_tokens`), an `id` for each call,
    /// and `fault` instead of an answer (`message`, `permanent`, `retry_after_ms`).
    ///
    /// # Errors
    /// The file cannot be read, is not a recording, or contains no turn.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let Recording { name, pace_ms, turn } = file::read(path)?;
        let recorded = Self::new(turn).with_pace(Duration::from_millis(pace_ms));
        Ok(match name {
            Some(name) => recorded.named(name),
            None => recorded,
        })
    }

    /// Sets the name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the pause before each word.
    #[must_use]
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Starts again with each message of a user, whatever was played before. References then
    /// count the answers since that message.
    #[must_use]
    pub fn starting_again(mut self) -> Self {
        self.starts_again = true;
        self
    }

    fn next_turn(&self, request: &mut ModelRequest) -> Result<(usize, &ScriptedTurn), ModelFault> {
        let index = match self.starts_again {
            false => self.next.fetch_add(1, Ordering::Relaxed),
            true => {
                let messages = &request.messages;
                let asked = messages.iter().rposition(|message| matches!(message, Message::User(_)));
                request.messages = messages[asked.unwrap_or(0)..].to_vec().into();
                request.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count()
            }
        };
        match self.turns.get(index) {
            Some(turn) => Ok((index + 1, turn)),
            None => Err(ModelFault::permanent(&format!(
                "The recording `{}` has {} turns, but turn {} was requested. Add a turn to it, or \
                 make fewer requests.",
                self.name,
                self.turns.len(),
                index + 1
            ))),
        }
    }

    async fn tell(&self, text: &str, delta: fn(String) -> Delta, deltas: &mut DeltaSink<'_>) {
        for word in text.split_inclusive(' ') {
            if !self.pace.is_zero() {
                tokio::time::sleep(self.pace).await;
            }
            deltas(delta(word.to_owned()));
        }
    }
}

#[async_trait]
impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn reply(
        &self,
        mut request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let (number, turn) = self.next_turn(&mut request)?;
        let reply = turn.played(&request).map_err(|why| {
            ModelFault::permanent(&format!("Turn {number} of the recording `{}` {why}", self.name))
        })?;
        if let Some(reasoning) = &reply.message.reasoning {
            self.tell(reasoning, Delta::Reasoning, deltas).await;
        }
        self.tell(&reply.message.text, Delta::Text, deltas).await;
        match &turn.fault {
            None => Ok(reply),
            Some(fault) => Err(fault.clone()),
        }
    }
}

/// One turn of a recorded model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "file::RawTurn")]
pub struct ScriptedTurn {
    text: String,
    reasoning: Option<String>,
    calls: Vec<RecordedCall>,
    finish: Finish,
    usage: TokenUsage,
    expect: Option<String>,
    fault: Option<ModelFault>,
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
    fn played(&self, request: &ModelRequest) -> Result<ModelReply, String> {
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

#[cfg(test)]
mod tests;
