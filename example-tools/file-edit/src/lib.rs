//! `edit_file`, `write_file` and `read_file`: edit the files of a granted directory.

pub mod edit;

use document::Directories;
use edit::Edited;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use tollgate_sdk::{CodedError, component, tool};

/// The largest file that is written, in bytes.
const MAX_FILE_BYTES: usize = 2 << 20;

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    /// The file's path.
    pub path: String,
    /// Its size.
    pub bytes: usize,
    /// Whether the file is new.
    pub created: bool,
}

/// The text of a file with line numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The file's path.
    pub path: String,
    /// The requested lines, such as `12| fn main() {`.
    pub text: String,
    /// The number of lines in the file.
    pub lines: usize,
}

/// Replaces a text in a file. The text must match exactly, including whitespace and
/// line endings, and must occur the expected number of times; otherwise nothing
/// changes. Read the file first.
///
/// Args:
///     path: The file, such as `/files/notes.md`.
///     old: The text to replace, exactly as in the file.
///     new: The replacement.
///     expected: How many times `old` occurs in the file.
#[tool(category = "files")]
pub fn edit_file(
    path: &str,
    old: &str,
    new: &str,
    #[default = 1] expected: u32,
) -> Result<Edited, CodedError> {
    let directories = granted();
    let file = directories.resolve(path)?;
    let text = directories.read(path)?;
    let edited = edit::replace(&text, old, new, expected as usize)?;
    write(&file, &edited.text)?;
    Ok(edited.at(&file))
}

/// Writes a whole file. An existing file is replaced only if `replace` is true.
///
/// Args:
///     path: The file, such as `/files/notes.md`; its folder must exist.
///     text: The complete content.
///     replace: Whether an existing file may be replaced.
#[tool(category = "files")]
pub fn write_file(path: &str, text: &str, #[default] replace: bool) -> Result<Written, CodedError> {
    let file = place(path)?;
    let created = fs::symlink_metadata(&file).is_err();
    if !created && !replace {
        return Err(CodedError::new("exists", format!("`{path}` exists. Edit it, or set `replace`.")));
    }
    write(&file, text)?;
    Ok(Written { path: file.display().to_string(), bytes: text.len(), created })
}

/// Returns lines of a file, each with its number.
///
/// Args:
///     path: The file, such as `/files/notes.md`.
///     first: The first line, counted from 1.
///     count: The number of lines.
#[tool(category = "files", idempotent)]
pub fn read_file(
    path: &str,
    #[default = 1] first: u32,
    #[default = 500] count: u32,
) -> Result<Shown, CodedError> {
    let text = granted().read(path)?;
    let lines = text.lines().enumerate().skip(first.max(1) as usize - 1).take(count as usize);
    let shown: Vec<String> = lines.map(|(number, line)| format!("{}| {line}", number + 1)).collect();
    Ok(Shown { path: path.to_owned(), text: shown.join("\n"), lines: text.lines().count() })
}

fn granted() -> Directories {
    Directories::granted("file-edit")
}

/// Returns the path of an existing or new file; its folder exists and is granted.
fn place(path: &str) -> Result<PathBuf, CodedError> {
    let named = Path::new(path);
    let name = named.file_name().filter(|_| !path.ends_with('/'));
    let name = name.ok_or_else(|| CodedError::new("bad_path", format!("`{path}` does not name a file.")))?;
    let folder =
        named.parent().map(|folder| folder.display().to_string()).filter(|folder| !folder.is_empty());
    let roots = granted().roots(folder.as_deref())?;
    match roots.as_slice() {
        [folder] => Ok(folder.join(name)),
        _ => Err(CodedError::new(
            "bad_path",
            format!("Several directories are granted: begin `{path}` with one of them."),
        )),
    }
}

fn write(file: &Path, text: &str) -> Result<(), CodedError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(CodedError::new("too_large", format!("A file has at most {MAX_FILE_BYTES} bytes.")));
    }
    fs::write(file, text).map_err(|why| {
        CodedError::new("unwritable", format!("`{}` cannot be written: {why}.", file.display()))
    })
}

component! { id: "file-edit", tools: [edit_file, write_file, read_file] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_is_written_edited_and_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.md").display().to_string();
        let written = write_file(&path, "one\ntwo\n", false).unwrap();
        assert_eq!((written.bytes, written.created), (8, true));
        assert_eq!(write_file(&path, "x", false).unwrap_err().code(), "exists");
        assert_eq!(edit_file(&path, "two", "three", 1).unwrap().line, 2);
        let shown = read_file(&path, 2, 1).unwrap();
        assert_eq!((shown.text.as_str(), shown.lines), ("2| three", 2));
        assert!(!write_file(&path, "new", true).unwrap().created);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a").display().to_string();
        fs::write(&path, "x x").unwrap();
        assert_eq!(edit_file(&path, "x", "y", 1).unwrap_err().code(), "not_unique");
        assert_eq!(write_file(&path, &"x".repeat(MAX_FILE_BYTES + 1), true).unwrap_err().code(), "too_large");
        assert_eq!(fs::read_to_string(&path).unwrap(), "x x");
        assert_eq!(write_file("/no/such/folder/a", "x", false).unwrap_err().code(), "not_found");
        assert_eq!(edit_file("../a", "x", "y", 1).unwrap_err().code(), "bad_path");
    }
}
