//! The configuration as it is written. Nothing here has a meaning yet.

use super::DEFAULT_TOOLS_DIR;
use super::limits::RawLimits;
use crate::model::ModelConfig;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tollgate_sandbox::FileAccess;
use toml::Spanned;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    #[serde(default)]
    pub(super) tools: RawTools,
    #[serde(default)]
    pub(super) limits: RawLimits,
    pub(super) model: Option<ModelConfig>,
    #[serde(default)]
    pub(super) agents: BTreeMap<Spanned<String>, RawAgent>,
    #[serde(default)]
    pub(super) grants: BTreeMap<Spanned<String>, RawGrants>,
}

/// `[tools]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTools {
    #[serde(default = "default_tools_dir")]
    pub(super) dir: PathBuf,
}

impl Default for RawTools {
    fn default() -> Self {
        Self { dir: default_tools_dir() }
    }
}

/// `[agents.ID]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAgent {
    #[serde(default)]
    pub(super) instructions: String,
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) tools: Vec<Spanned<String>>,
    pub(super) model: Option<ModelConfig>,
    #[serde(default)]
    pub(super) limits: RawLimits,
}

/// `[grants.COMPONENT]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGrants {
    #[serde(default)]
    pub(super) files: Vec<RawFileGrant>,
    #[serde(default)]
    pub(super) state: RawStateGrants,
    #[serde(default)]
    pub(super) actions: Vec<Spanned<String>>,
}

/// One of `files`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFileGrant {
    pub(super) host: Spanned<PathBuf>,
    pub(super) guest: Spanned<String>,
    #[serde(default = "read_only")]
    pub(super) access: FileAccess,
}

/// `state = { read = [...], write = [...] }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStateGrants {
    #[serde(default)]
    pub(super) read: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) write: Vec<Spanned<String>>,
}

fn default_tools_dir() -> PathBuf {
    PathBuf::from(DEFAULT_TOOLS_DIR)
}

fn read_only() -> FileAccess {
    FileAccess::Read
}
