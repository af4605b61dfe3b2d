//! The details of grants.

use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tollgate_agent::child::DelegateGrant;
use tollgate_agent::egress::{AddressRange, HttpPattern};
use tollgate_sandbox::FileAccess;
use toml_edit::{Array, Value};

/// The details of a grant beyond its kind and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Details {
    /// It has only a name.
    None,
    /// A directory.
    File(FileGrantConfig),
    /// The access to a directory that a component requests. The grant determines the directory.
    Access(FileAccess),
    /// The parsed pattern of HTTP requests.
    Http(HttpPattern),
    /// The parsed range of addresses.
    Addresses(AddressRange),
    /// The value of a setting.
    Value(String),
    /// The keys that are passed to and from an agent.
    Delegate(DelegateGrant),
}

/// A host directory that a component may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileGrantConfig {
    /// The directory.
    pub host: PathBuf,
    /// The path at which the component sees it; begins with `/`.
    pub guest: String,
    /// Whether the component may write to it.
    pub access: FileAccess,
    /// The number of bytes that may be written to it until the tools are loaded again. `None` is
    /// [`DEFAULT_QUOTA_BYTES`](tollgate_sandbox::DEFAULT_QUOTA_BYTES), and keeps the quota of an
    /// existing grant that is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
}

impl Details {
    /// Returns the access to files that this grants or requests. Other details do not limit it.
    pub(super) fn access(&self) -> FileAccess {
        match self {
            Self::File(file) => file.access,
            Self::Access(access) => *access,
            _ => FileAccess::ReadWrite,
        }
    }

    /// Returns the details, or the name of a grant without any, as the configuration writes them.
    pub(super) fn to_json(&self, name: &str) -> serde_json::Value {
        match self {
            Self::None | Self::Access(_) | Self::Http(_) | Self::Addresses(_) => name.into(),
            Self::File(file) => json!(file),
            Self::Value(value) => value.as_str().into(),
            Self::Delegate(keys) => json!(keys),
        }
    }

    /// Returns the values of a directory's or an agent's table in the configuration, by key. Empty lists
    /// of keys are left out.
    pub(in crate::config) fn values(&self) -> Vec<(&'static str, Value)> {
        let file = match self {
            Self::File(file) => file,
            Self::Delegate(keys) => {
                let lists = [("seed", &keys.seed), ("export", &keys.export)].into_iter();
                let lists = lists.filter(|(_, keys)| !keys.is_empty());
                let array = |keys: &BTreeSet<String>| keys.iter().map(String::as_str).collect::<Array>();
                return lists.map(|(name, keys)| (name, array(keys).into())).collect();
            }
            _ => return Vec::new(),
        };
        let access = if file.access == FileAccess::Read { "read" } else { "read-write" };
        let host = file.host.to_string_lossy().into_owned();
        let guest = file.guest.as_str();
        let mut values = vec![("host", host.into()), ("guest", guest.into()), ("access", access.into())];
        // The largest integer of TOML is more than any disk holds.
        let quota = file.quota_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        values.extend(quota.map(|bytes| ("quota_bytes", bytes.into())));
        values
    }
}
