//! The file format of recorded turns.

use super::{RecordedCall, ScriptedTurn};
use crate::ModelFault;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_agent::message::{Finish, TokenUsage};

/// The reason why a file could not be used as a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file could not be read.
    #[error("The recording {} cannot be read: {source}.", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a recording.
    #[error("The recording {} cannot be used: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The problem and its position.
        reason: String,
    },
    /// The file contains no turns.
    #[error("The recording {} contains no turns. Add one: a line `[[turn]]`, and below it `text = \"...\"`.", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// A recording, as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recording {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) pace_ms: u64,
    #[serde(default)]
    pub(super) turn: Vec<ScriptedTurn>,
}

pub(super) fn read(path: &Path) -> Result<Recording, RecordingError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| RecordingError::Read { path: path.to_owned(), source })?;
    let is_json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    let parsed: Result<Recording, String> = match is_json {
        true => serde_json::from_str(&text).map_err(|e| e.to_string()),
        false => toml::from_str(&text).map_err(|e| e.to_string()),
    };
    let path = path.to_owned();
    match parsed {
        Err(reason) => Err(RecordingError::Parse { path, reason }),
        Ok(recording) if recording.turn.is_empty() => Err(RecordingError::Empty { path }),
        Ok(recording) => Ok(recording),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTurn {
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
