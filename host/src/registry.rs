//! The lock file of a configuration, and the registries that it names.
//!
//! The crate `tollgate-registry` fetches components and verifies who signed them. This module connects
//! it with the configuration, and re-exports the types that its functions take and return.

use crate::config::{Config, FILE_NAME};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_registry::{Code, Settings};

pub use tollgate_registry::{Client, Credentials, Entry, Error, Files, Lock, LockMode, Remedy, Trust};

/// Returns the locations of the lock file, the kept bundles and the tools of a configuration.
#[must_use]
pub fn files(config: &Config) -> Files {
    let name = config.file.as_deref().unwrap_or(Path::new(FILE_NAME));
    let stem = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Files {
        lock: config.base_dir.join(format!("{stem}.lock")),
        bundles: config.base_dir.join(format!("{stem}.bundles")),
        tools: config.tools_dir.clone(),
    }
}

/// Reads the lock file of a configuration, unless nothing is checked against it.
///
/// # Errors
/// The lock file cannot be read.
pub fn lock_of(config: &Config) -> Result<Lock, Error> {
    match config.locked {
        LockMode::Off => Ok(Lock::default()),
        LockMode::Recorded | LockMode::All => files(config).read_lock(),
    }
}

/// The origin of a component as a person sees it: on the command line, and in the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Its source, such as `oci://ghcr.io/acme/weather`; `None` if the lock file does not record it.
    pub from: Option<String>,
    /// The tag that is followed.
    pub tag: Option<String>,
    /// Its signer, in words; `None` if it is unsigned or not recorded.
    pub signer: Option<String>,
    /// Its licence, by the publisher's own statement.
    pub licence: Option<String>,
    /// Whether each load checks its file against the lock file.
    pub lock: LockState,
}

/// Whether each load checks the file of a component against the lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LockState {
    /// Each load checks the file.
    Recorded,
    /// The lock file has no entry for the component.
    Unrecorded,
    /// The configuration turns all such checks off.
    Off,
}

impl Origin {
    /// Returns the origin of a component with this entry in the lock file. Texts are those of the
    /// lock file; they are not cleaned.
    #[must_use]
    pub fn of(entry: Option<&Entry>, mode: LockMode) -> Self {
        Self {
            from: entry.map(|entry| entry.from.clone()),
            tag: entry.and_then(|entry| entry.tag.clone()),
            signer: entry.and_then(|entry| entry.signed.as_ref()).map(ToString::to_string),
            licence: entry.and_then(|entry| entry.licence.clone()),
            lock: match (mode, entry) {
                (LockMode::Off, _) => LockState::Off,
                (_, Some(_)) => LockState::Recorded,
                (_, None) => LockState::Unrecorded,
            },
        }
    }
}

/// Returns the file in which `docker login` stores credentials.
#[must_use]
pub fn docker_config() -> Option<PathBuf> {
    let named = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let directory = named.or_else(|| Some(std::env::home_dir()?.join(".docker")));
    directory.map(|directory| directory.join("config.json"))
}

/// Creates a client of the registries of a configuration. `docker_config` is the file in which
/// `docker login` stores credentials. `timeout` limits all requests about one artifact together;
/// `None` means 5 minutes.
///
/// # Errors
/// The HTTP client cannot be set up.
pub fn client(
    config: &Config,
    docker_config: Option<PathBuf>,
    timeout: Option<Duration>,
) -> Result<Client, Error> {
    let user_agent = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
    let builder = |authorities: &[_]| {
        let tls = crate::models::tls_with(authorities).map_err(|e| match authorities.is_empty() {
            true => Error::new(Code::Unreachable, format!("TLS cannot be set up: {e}")),
            false => {
                let what = format!("a certificate authority of [registries] cannot be used: {e}");
                Error::new(Code::InvalidTrust, what)
            }
        })?;
        Ok(reqwest::Client::builder().tls_backend_preconfigured(tls).user_agent(user_agent))
    };
    let credentials = Credentials { docker_config };
    Client::new(builder, Settings { hosts: config.registries.clone(), credentials, timeout })
}
