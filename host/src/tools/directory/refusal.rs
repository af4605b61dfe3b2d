//! The reason why a file is not served, and the step that resolves it.

use crate::grants::ManifestError;
use crate::tools::remedy::FileRemedy;
use tollgate_registry::Error;

/// The reason why a file is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRefusal {
    /// The problem, its cause, and what to do.
    pub reason: String,
    /// The step that resolves the problem; `None` if the reason says all.
    pub remedy: Option<FileRemedy>,
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
