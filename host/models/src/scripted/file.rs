//! The file format of recorded turns.

use super::turn::ScriptedTurn;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The reason why a file could not be used as a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file could not be read.
    #[error("the recording {} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a recording.
    #[error("the recording {} cannot be used: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The problem and its position.
        reason: String,
    },
    /// The file contains no turns.
    #[error("the recording {} contains no turns; add one: a line `[[turn]]`, and below it `text = \"...\"`", path.display())]
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
        false => toml::from_str(&text).map_err(|e| e.to_string().trim_end().to_owned()),
    };
    let path = path.to_owned();
    match parsed {
        Err(reason) => Err(RecordingError::Parse { path, reason }),
        Ok(recording) if recording.turn.is_empty() => Err(RecordingError::Empty { path }),
        Ok(recording) => Ok(recording),
    }
}
