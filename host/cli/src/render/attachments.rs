//! The images, sounds, files and links that a tool attached to its result: shown, and saved.

use crate::terminal::output::DIM;
use crate::terminal::text::shown_line;
use crate::terminal::{Failure, Output};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tollgate_agent::content::ContentPart;
use tollgate_agent::run::CallEnd;

/// The maximum length of a file name that is taken from an attachment's URI, in bytes.
const MAX_NAME_BYTES: usize = 100;
/// The maximum number of files of one name in a directory: `a.png`, `a-2.png` and so on.
const MAX_EQUAL_NAMES: usize = 1_000;

/// Returns the attachments of a call.
pub(crate) fn attachments(end: &CallEnd) -> &[ContentPart] {
    match end {
        CallEnd::Result(result) => &result.content,
        CallEnd::Fault(_) => &[],
    }
}

/// Returns one line for each attachment, as [`ContentPart::label`] describes it.
pub(crate) fn lines(parts: &[ContentPart]) -> impl Iterator<Item = String> {
    parts.iter().map(|part| format!("{DIM}attached{DIM:#} {}", shown_line(&part.label(), 200)))
}

/// Saves attachments into a directory, which is created if it is missing. Links are not saved. No
/// existing file is changed.
///
/// # Errors
/// The directory or a file cannot be written.
pub(crate) fn save<'a>(
    parts: impl IntoIterator<Item = &'a ContentPart>,
    dir: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let failed = |e: io::Error| {
        Failure::failed(format!(
            "the attachments cannot be saved in {}: {e}; name another directory with --save",
            dir.display()
        ))
    };
    let mut has_saved = false;
    for part in parts {
        let Some(bytes) = bytes(part) else { continue };
        let saved = fs::create_dir_all(dir)
            .and_then(|()| create(dir, &file_name(part), &bytes.map_err(io::Error::other)?))
            .map_err(failed)?;
        output.hint(&format!("{DIM}saved {}{DIM:#}", saved.display()));
        has_saved = true;
    }
    if !has_saved {
        output.hint(&format!("{DIM}nothing to save: no image, sound or file is attached{DIM:#}"));
    }
    Ok(())
}

/// Returns the contents of an attachment; `None` for a link.
fn bytes(part: &ContentPart) -> Option<Result<Vec<u8>, base64::DecodeError>> {
    match part {
        ContentPart::Image { data, .. }
        | ContentPart::Audio { data, .. }
        | ContentPart::BinaryFile { data, .. } => Some(STANDARD.decode(data.as_bytes())),
        ContentPart::TextFile { text, .. } => Some(Ok(text.as_bytes().to_vec())),
        ContentPart::Link { .. } => None,
    }
}

/// Returns a file name that consists of harmless characters: the last part of the URI's path, or the
/// kind of the attachment with the extension of its media type.
fn file_name(part: &ContentPart) -> String {
    match part {
        ContentPart::Image { mime_type, .. } => format!("image.{}", extension(mime_type)),
        ContentPart::Audio { mime_type, .. } => format!("sound.{}", extension(mime_type)),
        ContentPart::TextFile { uri, .. }
        | ContentPart::BinaryFile { uri, .. }
        | ContentPart::Link { uri, .. } => {
            let path = uri.split(['?', '#']).next().unwrap_or_default();
            let last = path.rsplit(['/', ':']).next().unwrap_or_default();
            let is_harmless = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
            let name: String = last.chars().filter(is_harmless).take(MAX_NAME_BYTES).collect();
            let name = name.trim_start_matches(['.', '-']);
            if name.is_empty() { "file".to_owned() } else { name.to_owned() }
        }
    }
}

/// Returns the extension of files of a media type: `png` for `image/png`.
fn extension(mime_type: &str) -> &str {
    let subtype = mime_type.split_once('/').map_or("", |(_, subtype)| subtype);
    let subtype = subtype.split(['+', ';', ' ']).next().unwrap_or_default();
    let is_extension = !subtype.is_empty() && subtype.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_extension { subtype } else { "bin" }
}

/// Writes a new file of this name, with a number if the name is taken.
fn create(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let dot = if extension.is_empty() { "" } else { "." };
    for number in 1..=MAX_EQUAL_NAMES {
        let path = match number {
            1 => dir.join(name),
            _ => dir.join(format!("{stem}-{number}{dot}{extension}")),
        };
        match File::create_new(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, format!("{MAX_EQUAL_NAMES} files named like {name} exist")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn image() -> ContentPart {
        ContentPart::Image { mime_type: "image/svg+xml".to_owned(), data: "PHN2Zy8+".into() }
    }

    fn file(uri: &str) -> ContentPart {
        ContentPart::TextFile { uri: uri.to_owned(), mime_type: None, text: "Grüezi".into() }
    }

    #[test]
    fn attachments_are_saved_beside_existing_files() {
        let dir = tempfile::tempdir().unwrap();
        let into = dir.path().join("a/b");
        let output = Output::new(false, true);
        let parts = [image(), image(), file("desk:///notes/today.txt?x=../y")];
        save(&parts, &into, &output).unwrap();
        save(&parts[2..], &into, &output).unwrap();
        let mut names: Vec<_> = fs::read_dir(&into).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["image-2.svg", "image.svg", "today-2.txt", "today.txt"]);
        assert_eq!(fs::read(into.join("image.svg")).unwrap(), b"<svg/>");
        assert_eq!(fs::read_to_string(into.join("today-2.txt")).unwrap(), "Grüezi");
    }

    #[test]
    fn no_tool_chooses_a_path_or_a_hidden_file() {
        for (uri, name) in [
            ("file:///a/../../.bashrc", "bashrc"),
            ("file:///..", "file"),
            ("x:a%2f..%2fb\\c", "a2f..2fbc"),
            ("x:-rf", "rf"),
            ("x:", "file"),
        ] {
            assert_eq!(file_name(&file(uri)), name, "{uri}");
        }
    }
}
