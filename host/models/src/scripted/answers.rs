//! References in a recorded text to the answers of tools during playback.

use memchr::memmem;
use serde_json::Value;
use tollgate_agent::message::Message;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// The answers in a conversation, oldest first.
pub(super) struct Answers<'a>(&'a [Message]);

impl<'a> Answers<'a> {
    pub(super) fn of(messages: &'a [Message]) -> Self {
        Self(messages)
    }

    /// Returns the names of the tools with their answers, in order.
    fn all(&self) -> impl DoubleEndedIterator<Item = (&'a str, &'a str)> + use<'a> {
        self.0.iter().filter_map(|message| match message {
            Message::Answer(answer) => Some((answer.tool_name.as_str(), answer.content.as_ref())),
            _ => None,
        })
    }

    /// Returns the text with its references replaced, or the end of a sentence about a reference
    /// that cannot be resolved.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, reference, after)) = next_reference(rest) {
            filled.push_str(before);
            match self.find(reference)? {
                Value::String(text) => filled.push_str(&text),
                value => filled.push_str(&value.to_string()),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Like [`Self::fill`], in every string of a value. A string that consists of a single
    /// reference becomes the referenced value.
    pub(super) fn fill_value(&self, value: &Value) -> Result<Value, String> {
        match value {
            Value::String(text) => match next_reference(text) {
                None => Ok(value.clone()),
                Some(("", reference, "")) => self.find(reference),
                Some(_) => self.fill(text).map(Value::String),
            },
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| Ok((key.clone(), self.fill_value(value)?))).collect()
            }
            plain => Ok(plain.clone()),
        }
    }

    fn find(&self, reference: &str) -> Result<Value, String> {
        let reference = reference.trim();
        let (which, pointer) = reference.split_at(reference.find('/').unwrap_or(reference.len()));
        let content = self
            .answer(which)
            .ok_or_else(|| format!("refers to {{{{{reference}}}}}, but {}.", self.known()))?;
        if pointer.is_empty() {
            return Ok(Value::String(content.to_owned()));
        }
        let data = data_of(content).ok_or_else(|| {
            format!("refers to {{{{{reference}}}}}, but that answer is not JSON: {}", start(content))
        })?;
        data.pointer(pointer).cloned().ok_or_else(|| {
            format!(
                "refers to {{{{{reference}}}}}, but there is no {pointer} in that answer: {}",
                start(content)
            )
        })
    }

    /// Returns an answer: `TOOL` is the tool's latest, `TOOL#2` its second, `last` the latest of
    /// any tool.
    fn answer(&self, which: &str) -> Option<&'a str> {
        if which == "last" {
            return self.all().next_back().map(|(_, content)| content);
        }
        let (tool, number) = match which.split_once('#') {
            Some((tool, number)) => (tool, Some(number.parse::<usize>().ok()?.checked_sub(1)?)),
            None => (which, None),
        };
        let mut of_tool = self.all().filter(|(name, _)| *name == tool);
        let found = match number {
            Some(index) => of_tool.nth(index),
            None => of_tool.next_back(),
        };
        found.map(|(_, content)| content)
    }

    fn known(&self) -> String {
        let names: Vec<&str> = self.all().map(|(name, _)| name).collect();
        match names.as_slice() {
            [] => "no tool has answered yet".to_owned(),
            names => format!("the answers so far are of {}", names.join(", ")),
        }
    }
}

/// Splits the text into the part before the first reference, the reference, and the rest.
fn next_reference(text: &str) -> Option<(&str, &str, &str)> {
    // Texts are long and references rare: `memmem` scans many bytes at a time.
    let (before, opened) = text.split_at(memmem::find(text.as_bytes(), OPEN.as_bytes())?);
    let (reference, after) = opened[OPEN.len()..].split_once(CLOSE)?;
    Some((before, reference, after))
}

/// Returns the JSON of an answer: the whole answer, or the part after its message.
fn data_of(content: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(content) {
        return Some(value);
    }
    let line_starts = content.match_indices('\n').map(|(at, _)| at + 1);
    line_starts
        .filter(|at| content[*at..].starts_with(['{', '[']))
        .find_map(|at| serde_json::from_str(&content[at..]).ok())
}

fn start(content: &str) -> String {
    content.chars().take(200).collect()
}
