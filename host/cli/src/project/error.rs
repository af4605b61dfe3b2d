//! The errors of building a tool.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a tool was not built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// It was tried and did not work.
    #[error("{0}")]
    Failed(String),
    /// A file could not be read or written.
    #[error("{} cannot be {what}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl BuildError {
    /// Cargo is missing, or cannot be started.
    pub(super) fn no_cargo(why: &io::Error) -> Self {
        Self::Failed(format!("cargo cannot be run: {why}. Install it from https://rustup.rs"))
    }

    pub(super) fn file(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, what, source }
    }
}
