//! The step by which a file that is refused gets served.

use std::path::PathBuf;
use tollgate_registry::Remedy;

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
