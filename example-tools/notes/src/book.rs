//! The notes of one thread.

use serde::Serialize;
use std::collections::BTreeMap;
use tollgate_sdk::{CodedError, data};

/// The most notes of one thread. Even at their largest they stay well below the size
/// that the host stores under one key.
pub const MAX_NOTES: usize = 100;

/// The longest note, in characters.
pub const MAX_TEXT_CHARS: usize = 2000;

/// The most tags of one note, and the longest of them in characters.
pub const MAX_TAGS: usize = 8;
const MAX_TAG_CHARS: usize = 40;

/// The notes by id.
#[data]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[serde(transparent)]
pub struct Book(BTreeMap<String, Note>);

/// A note.
#[data]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The text to remember.
    pub text: String,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// A list of notes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Oldest first.
    pub notes: Vec<ShownNote>,
    /// The number of notes, including those not listed.
    pub count: usize,
}

/// A note with its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownNote {
    /// The id, for deleting the note.
    pub id: String,
    /// The note itself.
    #[serde(flatten)]
    pub note: Note,
}

impl Book {
    /// Returns the number of notes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no notes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a note with this id exists.
    pub fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Returns the note to add under this id, without its time. Fails with
    /// `empty_note`, `note_too_long`, `bad_tags` or `too_many_notes`.
    pub fn check(&self, id: &str, text: String, tags: Vec<String>) -> Result<Note, CodedError> {
        if text.trim().is_empty() {
            return Err(CodedError::new("empty_note", "The note has no text."));
        }
        if text.chars().count() > MAX_TEXT_CHARS {
            return Err(CodedError::new(
                "note_too_long",
                format!("A note has at most {MAX_TEXT_CHARS} characters. Split it in two."),
            ));
        }
        let fits = |tag: &String| !tag.is_empty() && tag.chars().count() <= MAX_TAG_CHARS;
        if tags.len() > MAX_TAGS || !tags.iter().all(fits) {
            return Err(CodedError::new(
                "bad_tags",
                format!("A note has at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARS} characters."),
            ));
        }
        if self.len() >= MAX_NOTES && !self.has(id) {
            return Err(CodedError::new(
                "too_many_notes",
                format!("There are already {MAX_NOTES} notes, which is the limit. Delete one first."),
            ));
        }
        Ok(Note { text, tags, created_ms: 0 })
    }

    /// Returns the notes with this text and this tag, oldest first.
    pub fn show(self, contains: Option<&str>, tag: Option<&str>) -> Shown {
        let count = self.len();
        let contains = contains.map(str::to_lowercase);
        let wanted = |note: &Note| {
            contains.as_ref().is_none_or(|part| note.text.to_lowercase().contains(part))
                && tag.is_none_or(|tag| note.tags.iter().any(|known| known == tag))
        };
        let mut notes: Vec<ShownNote> = self
            .0
            .into_iter()
            .filter(|(_, note)| wanted(note))
            .map(|(id, note)| ShownNote { id, note })
            .collect();
        notes.sort_by_key(|shown| shown.note.created_ms);
        Shown { notes, count }
    }
}

/// Returns the id of the note that a call adds: short enough for a model to repeat,
/// and stable across attempts of the same call.
pub fn id(run_id: &str, call_id: &str) -> String {
    let bytes = run_id.bytes().chain([0]).chain(call_id.bytes());
    let hash = bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    format!("n-{:010x}", hash >> 24)
}

/// FNV-1a with 64 bits: the hash of Rust's own maps differs between processes.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn full() -> Book {
        let note = Note { text: "x".into(), tags: Vec::new(), created_ms: 1 };
        Book((0..MAX_NOTES).map(|number| (format!("n-{number}"), note.clone())).collect())
    }

    fn code(book: &Book, text: &str, tags: &[&str]) -> &'static str {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        book.check("n-new", text.to_owned(), tags).unwrap_err().code()
    }

    #[test]
    fn bounds_hold() {
        let empty = Book::default();
        assert_eq!(code(&empty, "", &[]), "empty_note");
        assert_eq!(code(&empty, &"ä".repeat(MAX_TEXT_CHARS + 1), &[]), "note_too_long");
        assert!(empty.check("n", "ä".repeat(MAX_TEXT_CHARS), Vec::new()).is_ok());
        assert_eq!(code(&empty, "x", &[""]), "bad_tags");
        assert_eq!(code(&empty, "x", &["t"; MAX_TAGS + 1]), "bad_tags");
        assert_eq!(code(&full(), "x", &[]), "too_many_notes");
    }

    #[test]
    fn a_note_may_be_written_again_in_a_full_book() {
        assert!(full().check("n-5", "x".to_owned(), Vec::new()).is_ok());
    }

    #[test]
    fn ids_differ_by_run_and_by_call() {
        assert_eq!(id("run", "call"), id("run", "call"));
        assert_ne!(id("run", "call"), id("runc", "all"));
        assert!(id("run", "call").starts_with("n-"));
        assert_eq!(id("run", "call").len(), 12);
    }
}
