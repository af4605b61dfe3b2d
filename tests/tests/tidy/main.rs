//! The rules of CONTRIBUTING.md that a compiler does not check.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod circles;
mod codes;
mod commands;
mod files;
mod layers;
mod links;
mod modules;
mod names;
mod packaging;
mod prose;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the repository.
struct TextFile {
    /// The path relative to the root, with `/`.
    path: String,
    text: String,
}

impl TextFile {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.starts_with("tests/") || self.path.ends_with("tests.rs")
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns every text file that git tracks or would track.
fn text_files() -> Vec<TextFile> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files of the repository");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("names of files are UTF-8");
    let files: Vec<TextFile> = names
        .split_terminator('\0')
        .filter_map(|path| {
            let text = std::fs::read_to_string(root().join(path)).ok()?;
            Some(TextFile { path: path.to_owned(), text })
        })
        .collect();
    assert!(files.len() > 100, "only {} files were found in {}", files.len(), root().display());
    files
}

/// Fails with all findings at once, so that a single run shows everything to fix.
fn assert_none<T: Display>(rule: &str, findings: impl IntoIterator<Item = T>) {
    let findings: Vec<String> = findings.into_iter().map(|finding| format!("  {finding}")).collect();
    assert!(findings.is_empty(), "{rule}\n{}", findings.join("\n"));
}
