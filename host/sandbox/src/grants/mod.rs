//! The grants of a component, given by a person. Nothing is granted by default.

mod moved_content;

pub use moved_content::MAX_MOVED;
pub(crate) use moved_content::{FileId, UsedGrant};

use crate::egress::HttpGrant;
use crate::error::SandboxError;
use moved_content::MovedContent;
#[cfg(target_os = "linux")]
use rustix::fs::{CWD, ResolveFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::{FsPerms, OpenMode};

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
    /// Settings, read through `wasi:config`.
    Settings,
    /// Running other agents.
    Delegates,
}

impl Power {
    /// Returns the power's name in configuration and listings.
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

/// The access to a granted directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileAccess {
    /// Files may be read and directories listed.
    Read,
    /// Files and directories may also be created, changed and removed.
    ReadWrite,
}

/// An interface that a component imports and that this host provides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Import {
    /// The interface with its version, such as `wasi:clocks/wall-clock@0.2.6`.
    pub interface: String,
    /// The power that must be granted to use it; `None` if it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
}

/// The grants of a component. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Grants {
    files: Vec<Arc<FileGrant>>,
    delegates: bool,
    http: Option<Arc<HttpGrant>>,
    settings: Arc<BTreeMap<String, String>>,
    environment: Arc<BTreeMap<String, String>>,
}

impl Grants {
    /// Adds a directory.
    #[must_use]
    pub fn with_files(mut self, grant: FileGrant) -> Self {
        self.files.push(Arc::new(grant));
        self
    }

    /// Allows the component to run other agents; the host checks which ones.
    #[must_use]
    pub fn with_delegates(mut self, delegates: bool) -> Self {
        self.delegates = delegates;
        self
    }

    /// Grants HTTP requests.
    #[must_use]
    pub fn with_http(mut self, grant: HttpGrant) -> Self {
        self.http = Some(Arc::new(grant));
        self
    }

    /// Sets the settings that it reads through `wasi:config`.
    #[must_use]
    pub fn with_settings(mut self, settings: BTreeMap<String, String>) -> Self {
        self.settings = Arc::new(settings);
        self
    }

    /// Sets its environment variables; it has no others.
    #[must_use]
    pub fn with_environment(mut self, environment: BTreeMap<String, String>) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// Returns the granted directories.
    #[must_use]
    pub fn files(&self) -> &[Arc<FileGrant>] {
        &self.files
    }

    /// Returns the directories without any other grant. A replay records that the component asked
    /// for them, and does not open them.
    pub(crate) fn files_alone(&self) -> Self {
        let mut files = Self::default();
        files.files.clone_from(&self.files);
        files
    }

    /// Returns the HTTP requests that are allowed.
    #[must_use]
    pub fn http(&self) -> Option<&Arc<HttpGrant>> {
        self.http.as_ref()
    }

    /// Returns the granted settings, by name.
    #[must_use]
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// Returns the granted environment variables, by name.
    #[must_use]
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Returns whether the power is granted to any extent.
    #[must_use]
    pub fn has(&self, power: Power) -> bool {
        match power {
            Power::Files => !self.files.is_empty(),
            Power::Http => self.http.as_ref().is_some_and(|http| !http.egress().is_empty()),
            Power::Settings => !self.settings.is_empty(),
            Power::Delegates => self.delegates,
            Power::Sockets => false,
        }
    }
}

/// A directory of the host that a component may use. It is opened once, when it is granted, so
/// that the guest never sees a directory that replaces it later.
pub struct FileGrant {
    host_path: PathBuf,
    guest_path: String,
    access: FileAccess,
    directory: Dir,
    left_bytes: AtomicU64,
    moved: Mutex<MovedContent>,
}

/// The default number of bytes that may be written to a granted directory by all calls together,
/// for as long as the grant is held.
pub const DEFAULT_QUOTA_BYTES: u64 = 1 << 30;

impl FileGrant {
    /// Opens the directory, following no symbolic link in any part of the path.
    ///
    /// # Errors
    /// Fails if it does not exist, is not a directory, may not be opened, or is reached through a
    /// symbolic link, or if the guest path is empty.
    pub fn open(
        host_path: impl AsRef<Path>,
        guest_path: impl Into<String>,
        access: FileAccess,
    ) -> Result<Self, SandboxError> {
        let host_path = host_path.as_ref().to_owned();
        let guest_path = guest_path.into();
        if guest_path.is_empty() {
            return Err(SandboxError::new(format!(
                "the directory {} is granted under an empty path; name the path at which the tool should see it, such as \"/data\"",
                host_path.display()
            )));
        }
        let directory = open_directory(&host_path).map_err(|why| not_granted(&host_path, why))?;
        let (perms, mode) = match access {
            FileAccess::Read => (FsPerms::ReadOnly, OpenMode::READ),
            FileAccess::ReadWrite => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
        };
        let directory = Dir::new(directory, perms, mode, false);
        let left_bytes = AtomicU64::new(DEFAULT_QUOTA_BYTES);
        Ok(Self { host_path, guest_path, access, directory, left_bytes, moved: Mutex::default() })
    }

    /// Sets how many bytes all calls together may write to it, for as long as this grant is held.
    #[must_use]
    pub fn with_quota(mut self, quota_bytes: u64) -> Self {
        self.left_bytes = AtomicU64::new(quota_bytes);
        self
    }

    /// Returns the path on the host, as it was granted.
    #[must_use]
    pub fn host_path(&self) -> &Path {
        &self.host_path
    }

    /// Returns the path at which the guest sees the directory.
    #[must_use]
    pub fn guest_path(&self) -> &str {
        &self.guest_path
    }

    /// Returns whether it may be changed.
    #[must_use]
    pub fn access(&self) -> FileAccess {
        self.access
    }

    /// Returns how many bytes may still be written.
    pub(crate) fn left_bytes(&self) -> &AtomicU64 {
        &self.left_bytes
    }

    /// Returns the handle, for one call.
    pub(crate) fn directory(&self) -> Dir {
        self.directory.clone()
    }
}

/// Opens a directory, following no link in any part of the path.
#[cfg(target_os = "linux")]
fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), links) {
        // Kernels before 5.6 and some containers do not have the call.
        Err(Errno::NOSYS | Errno::PERM) => open_last_part(path),
        opened => Ok(opened?.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_directory(path: &Path) -> io::Result<File> {
    open_last_part(path)
}

/// Opens a directory without the system call that follows no link at all: rejects a path with a link
/// in it, and follows none in the last part.
fn open_last_part(path: &Path) -> io::Result<File> {
    let absolute = std::path::absolute(path)?;
    if path.canonicalize()? != absolute {
        return Err(Errno::LOOP.into());
    }
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(&absolute, flags, Mode::empty())?.into())
}

fn not_granted(path: &Path, why: io::Error) -> SandboxError {
    let shown = path.display();
    if why.raw_os_error() != Some(Errno::LOOP.raw_os_error()) {
        return SandboxError::new(format!("the directory {shown} cannot be granted: {why}"));
    }
    let real = path.canonicalize().map_or(String::new(), |real| format!("; grant {} itself", real.display()));
    SandboxError::new(format!(
        "the directory {shown} cannot be granted: a part of the path is a symbolic link{real}"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    fn refusal(path: &Path) -> String {
        match FileGrant::open(path, "/data", FileAccess::Read) {
            Ok(_) => String::new(),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn a_directory_is_opened_once() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        let grant = FileGrant::open(&real, "/data", FileAccess::Read).unwrap();
        std::fs::rename(&real, real.with_extension("old")).unwrap();
        std::fs::create_dir(&real).unwrap();
        std::fs::write(real.join("planted"), "").unwrap();
        let again = open_last_part(&real.with_extension("old")).unwrap();
        assert_eq!(grant.directory.dir.metadata().unwrap().ino(), again.metadata().unwrap().ino());
    }

    #[test]
    fn links_files_and_nothing_are_not_granted() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        std::fs::write(real.join("file"), "").unwrap();
        std::os::unix::fs::symlink(real.join("a"), real.join("link")).unwrap();
        assert_eq!(refusal(&real.join("a/b")), "");
        assert!(refusal(&real.join("link")).contains("symbolic link"));
        let inner = refusal(&real.join("link/b"));
        assert!(inner.contains(&format!("grant {} itself", real.join("a/b").display())), "{inner}");
        assert!(open_last_part(&real.join("link/b")).is_err());
        assert!(refusal(&real.join("file")).contains("cannot be granted"));
        assert!(refusal(&real.join("absent")).contains("cannot be granted"));
        assert!(FileGrant::open(&real, "", FileAccess::Read).is_err());
    }
}
