//! Errors in a configuration with their location: file, line, column, the line itself, and the
//! keys that are known there.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tollgate_agent::name;
use tollgate_agent::text::clean;

/// The reason why a configuration cannot be used. It displays as its location and the problem,
/// followed by the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: String,
    place: Option<Location>,
    problem: String,
    is_missing: bool,
}

/// The location of a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Location {
    /// Starts at 1.
    line: usize,
    /// In characters; starts at 1.
    column: usize,
    /// The line, cleaned and cut to 200 characters.
    shown: String,
    /// The number of characters to mark, at least 1.
    marked: usize,
}

impl ConfigError {
    /// Returns the line of the error, starting at 1; `None` if it concerns the whole file.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.place.as_ref().map(|place| place.line)
    }

    /// Returns the column of the error in characters, starting at 1.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.place.as_ref().map(|place| place.column)
    }

    /// Returns the problem without its location.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns whether the file does not exist, and no other has a similar name.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Returns the error for a file that cannot be read.
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => match nearest_file(path) {
                Some(near) => name::suggestion(clean(&near.display().to_string(), 200)),
                None => String::new(),
            },
            io::ErrorKind::InvalidData => "; save it as UTF-8".to_owned(),
            _ => String::new(),
        };
        Self {
            file: path.display().to_string(),
            place: None,
            problem: format!("the configuration cannot be read: {error}{advice}"),
            is_missing: error.kind() == io::ErrorKind::NotFound && advice.is_empty(),
        }
    }
}

/// The maximum number of files among which one with a similar name is looked for.
const MAX_SIMILAR_FILES: usize = 1_000;

/// Returns the file in the same directory whose name is nearest to that of one that does not exist.
#[must_use]
pub fn nearest_file(path: &Path) -> Option<PathBuf> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let wanted = path.file_name()?.to_str()?;
    let entries = std::fs::read_dir(dir.unwrap_or(Path::new("."))).ok()?.flatten().take(MAX_SIMILAR_FILES);
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()));
    let names: Vec<String> = files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let near = *name::nearest(wanted, names.iter().map(String::as_str)).first()?;
    Some(dir.map_or_else(|| PathBuf::from(near), |dir| dir.join(near)))
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Location { line, column, shown, marked }) = &self.place else {
            return write!(f, "{}: {}", self.file, self.problem);
        };
        writeln!(f, "{}:{line}:{column}: {}", self.file, self.problem)?;
        let indent = line.to_string().len();
        writeln!(f, " {line} | {shown}")?;
        let before: String =
            shown.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(f, " {:indent$} | {before}{}", "", "^".repeat(*marked))
    }
}

impl std::error::Error for ConfigError {}

/// The text that is being read, for locating errors in it.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// Returns an error at these bytes of the text.
    pub(super) fn wrong(&self, span: Range<usize>, problem: impl Into<String>) -> ConfigError {
        ConfigError {
            file: self.path.display().to_string(),
            place: Some(self.place(span)),
            problem: problem.into(),
            is_missing: false,
        }
    }

    /// Returns the line of these bytes, starting at 1.
    pub(super) fn line(&self, span: Range<usize>) -> usize {
        self.place(span).line
    }

    /// Returns an error for an unknown key at these bytes, with the keys that are known there.
    pub(super) fn unknown(&self, span: Range<usize>, key: &str, known: &[&str]) -> ConfigError {
        self.wrong(span, unknown_key(key, known))
    }

    /// Converts an error of the parser or of deserialization.
    pub(super) fn refused(&self, error: &toml::de::Error) -> ConfigError {
        self.wrong(error.span().unwrap_or(0..0), reworded(error.message()))
    }

    /// Converts an error in a table that was taken out of the text, at the table's original
    /// location.
    pub(super) fn refused_at(&self, span: Range<usize>, error: &toml::de::Error) -> ConfigError {
        self.wrong(span, reworded(error.message()))
    }

    /// Returns the location of these bytes. A span of several lines is marked on the first.
    fn place(&self, span: Range<usize>) -> Location {
        let start = floor_boundary(self.text, span.start);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let shown = self.text[line_start..].lines().next().unwrap_or_default();
        let on_this_line = span.end.min(line_start + shown.len()).max(start);
        let marked = self.text[start..floor_boundary(self.text, on_this_line)].chars().count();
        Location {
            line: before.matches('\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            shown: clean(without_secret(shown), 200),
            marked: marked.clamp(1, 200),
        }
    }
}

/// Returns a line without its value, if its key says that the value is a secret. Errors are shown to
/// others; a configuration should only name the environment variables of secrets.
fn without_secret(line: &str) -> &str {
    const SECRETS: [&str; 5] = ["password", "passwd", "secret", "token", "api_key"];
    let Some((key, _)) = line.split_once('=') else { return line };
    let name = key.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    match SECRETS.iter().any(|secret| name.ends_with(secret)) {
        true => &line[..=key.len()],
        false => line,
    }
}

/// Returns the last boundary between characters at or before this byte.
fn floor_boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    let hint = name::did_you_mean(key, known.iter().copied()).unwrap_or_else(|| ";".to_owned());
    let known = match known {
        [] => "no keys are known here".to_owned(),
        known => format!("known: {}", known.join(", ")),
    };
    format!("unknown key `{}`{hint} {known}", clean(key, 100))
}

/// Rewords serde's messages if ours say more: `unknown field \`x\`, expected one of \`a\`,
/// \`b\``, `missing field \`x\``, `invalid type: string "x", expected i64`.
fn reworded(message: &str) -> String {
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let words = quoted(rest);
        if let Some((key, known)) = words.split_first() {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return unknown_key(key, &known);
        }
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let words = quoted(rest);
        if let Some((value, known)) = words.split_first() {
            let near = name::nearest(value, known.iter().map(String::as_str));
            let hint = near.first().map(|near| name::suggestion(format_args!("\"{near}\"")));
            return format!(
                "\"{}\" is not known here{} known: \"{}\"",
                clean(value, 100),
                hint.unwrap_or_else(|| ";".to_owned()),
                known.join("\", \"")
            );
        }
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing here");
    }
    message
        .replace("expected i64", "expected a whole number")
        .replace("expected u64", "expected a whole number, 0 or more")
        .replace("expected u32", "expected a whole number, 0 or more")
        .replace("expected f64", "expected a number")
        .replace("expected a sequence", "expected a list in [ ]")
        .replace("expected a map", "expected a table")
}
