//! The reason why a file is not served, and the step that resolves it.

use super::files::file_name;
use crate::grants::ManifestError;
use crate::tools::RefusedFile;
use crate::tools::toolbox::FileRemedy;
use std::path::Path;
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
    /// Returns the refusal of this file. `still_serves` is the digest of an earlier version that stays in service.
    pub(super) fn into_refused_file(self, file: &Path, still_serves: Option<String>) -> RefusedFile {
        let Self { reason, remedy } = self;
        // Messages name a refused file before the reason, so the reason does not begin with its name.
        let names = [file.display().to_string(), file_name(file)];
        let after_name = names.iter().find_map(|name| reason.strip_prefix(name)?.strip_prefix(' '));
        let reason = match after_name {
            Some(rest) => format!("it {rest}"),
            None => reason,
        };
        RefusedFile { file: file.to_owned(), reason, remedy, still_serves }
    }

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
