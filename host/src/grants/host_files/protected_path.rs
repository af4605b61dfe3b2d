//! A path that grants are checked against.

use std::path::{Path, PathBuf};

/// A file or directory that grants are checked against: one of the host's own, or a source.
pub(super) struct ProtectedPath {
    pub(super) path: PathBuf,
    /// Its description for messages.
    pub(super) what: String,
}

impl ProtectedPath {
    pub(super) fn new(path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

/// Resolves a path relative to the working directory of this process.
pub(super) fn from_here(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
