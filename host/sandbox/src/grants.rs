//! What a person granted to a component. Nothing is granted by default.

use crate::error::SandboxError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A power that a component can be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// Directories of the host.
    Files,
    /// HTTP requests.
    Http,
    /// Sockets and name lookup. Never granted.
    Sockets,
    /// Settings by `wasi:config`.
    Settings,
    /// Running other agents.
    Delegates,
}

impl Power {
    /// The power as configuration and listings spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Power::Files => "files",
            Power::Http => "http",
            Power::Sockets => "sockets",
            Power::Settings => "settings",
            Power::Delegates => "delegates",
        }
    }
}

/// Whether a granted directory may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileAccess {
    /// Files may be read and directories listed.
    Read,
    /// Files and directories may also be made, changed and removed.
    ReadWrite,
}

/// What a component was granted. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Grants {
    files: Vec<Arc<FileGrant>>,
}

impl Grants {
    /// Adds a directory.
    #[must_use]
    pub fn with_files(mut self, grant: FileGrant) -> Self {
        self.files.push(Arc::new(grant));
        self
    }

    /// The granted directories.
    #[must_use]
    pub fn files(&self) -> &[Arc<FileGrant>] {
        &self.files
    }

    /// Whether the power is granted, in whatever extent.
    #[must_use]
    pub fn has(&self, power: Power) -> bool {
        match power {
            Power::Files => !self.files.is_empty(),
            Power::Http | Power::Sockets | Power::Settings | Power::Delegates => false,
        }
    }
}

/// A directory of the host that a component may use: opened once, when it is
/// granted, so that what is put in its place later is not what the guest gets.
pub struct FileGrant {
    host_path: PathBuf,
    guest_path: String,
    access: FileAccess,
}

impl FileGrant {
    /// Opens the directory, following no symbolic link in any part of the path.
    ///
    /// # Errors
    /// It does not exist, is no directory, may not be opened, or is reached by a
    /// symbolic link.
    pub fn open(
        host_path: impl AsRef<Path>,
        guest_path: impl Into<String>,
        access: FileAccess,
    ) -> Result<Self, SandboxError> {
        let host_path = host_path.as_ref().to_owned();
        std::fs::read_dir(&host_path)
            .map_err(|e| SandboxError::new(format!("cannot open {}: {e}", host_path.display())))?;
        Ok(Self {
            host_path,
            guest_path: guest_path.into(),
            access,
        })
    }

    /// The path on the host, as it was granted.
    #[must_use]
    pub fn host_path(&self) -> &Path {
        &self.host_path
    }

    /// The path at which the guest sees the directory.
    #[must_use]
    pub fn guest_path(&self) -> &str {
        &self.guest_path
    }

    /// Whether it may be changed.
    #[must_use]
    pub fn access(&self) -> FileAccess {
        self.access
    }
}
