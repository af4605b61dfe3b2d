//! The reason why a file is not served, and the step that resolves it.

use crate::grants::ManifestError;
use std::path::PathBuf;
use tollgate_registry::{Error, Remedy};

/// The reason why a file is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRefusal {
    /// The problem, its cause, and what to do.
    pub reason: String,
    /// The step that resolves the problem; `None` if the reason says all.
    pub remedy: Option<FileRemedy>,
}

/// A step by which an operator can get a file served. A program with an interface for operators
/// says how that step is taken there, such as by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileRemedy {
    /// Look at the component in the file, and approve it.
    Approve {
        /// The component's id.
        id: String,
        /// Its file.
        file: PathBuf,
    },
    /// Look at two files that claim the same id, and approve the first.
    ApproveOne {
        /// The claimed id.
        id: String,
        /// The file that is not served.
        file: PathBuf,
        /// The other file.
        rival: PathBuf,
    },
    /// Restore the file that was installed.
    Restore,
    /// Change the lock file or the files that it records.
    Lock(Remedy),
}

impl FileRefusal {
    /// Creates a refusal with the step that resolves it.
    pub(super) fn new(reason: impl Into<String>, remedy: FileRemedy) -> Self {
        Self { reason: reason.into(), remedy: Some(remedy) }
    }
}

impl From<String> for FileRefusal {
    fn from(reason: String) -> Self {
        Self { reason, remedy: None }
    }
}

impl From<ManifestError> for FileRefusal {
    fn from(error: ManifestError) -> Self {
        error.to_string().into()
    }
}

impl From<Error> for FileRefusal {
    fn from(error: Error) -> Self {
        Self { reason: error.to_string(), remedy: error.remedy().cloned().map(FileRemedy::Lock) }
    }
}
