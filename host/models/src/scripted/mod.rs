//! A model that plays recorded turns.
//!
//! Its own text is fixed, but the answers of its tools are not. A text may therefore refer to an
//! answer, as in `{{word_count/words}}`, which is replaced by the call's result during playback.

mod answers;
mod file;
mod turn;

pub use file::RecordingError;
pub use turn::ScriptedTurn;

use super::{Delta, DeltaSink, Model, ModelFault};
use async_trait::async_trait;
use file::Recording;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tollgate_agent::message::{Message, ModelReply, ModelRequest};

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

#[cfg(test)]
mod tests;
