//! `tollgate.toml`: parsing and validation.
//!
//! `RawConfig` is the file as typed. [`Config`] is the validated result, which only
//! [`Config::load`] and [`Config::parse`] create. A key that nothing enforces is an error that
//! lists the known keys.

mod agents;
mod change;
mod edit;
mod error;
mod gates;
mod grants;
mod held;
mod limits;
mod openai;
mod paths;
mod permissions;
mod raw;
mod secrets;
mod serve;
mod servers;
mod store;

pub(crate) use agents::agent_url;
pub use agents::{AgentConfig, DEFAULT_AGENT, DIRECT_AGENT, RemoteConfig};
pub(crate) use change::change;
pub use change::{Changes, ConfigChangeError};
pub use edit::{Edit, EditError, granted_path};
pub use error::{ConfigError, nearest_file};
pub use gates::{GateConfig, GatesDir};
pub(crate) use grants::unknown_field;
pub use grants::{ComponentGrants, Details, FileGrantConfig, Grant, GrantKind, KINDS, KindRow};
pub(crate) use held::holds;
pub use limits::{LimitSource, LimitsConfig, ToolLimits};
pub use openai::{OpenAiConfig, SystemMessages};
pub use paths::{DEFAULT_GATES_DIR, DEFAULT_TOOLS_DIR};
pub use permissions::{RememberError, remember_always};
pub use secrets::{SecretConfig, SecretSource};
pub use serve::{DEFAULT_LISTEN, DecisionMakers, ModelPrice, ServeConfig, ServeLimits};
pub use servers::{ServerConfig, ServerPlace};
pub use store::{DatabaseConfig, InvalidPeriod, StoreConfig, read_period};

use crate::models::ModelConfig;
use error::Source;
use paths::in_dir;
use raw::RawConfig;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tollgate_agent::gate::permissions::Permissions;
use tollgate_agent::{name, text};
use tollgate_registry::{HostSettings, LockMode, RawTrust, Trust};
use toml::Spanned;

/// The name of the configuration file in the working directory.
pub const FILE_NAME: &str = "tollgate.toml";

/// The validated configuration of a host.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that was read; `None` if there is no file.
    pub file: Option<PathBuf>,
    /// The file that was not found. A running host reads it once it exists.
    pub absent_file: Option<PathBuf>,
    /// The directory to which the file's relative paths refer.
    pub base_dir: PathBuf,
    /// The directory of components.
    pub tools_dir: PathBuf,
    /// The directory of the store, if it is known: no tool is granted a directory that contains
    /// it.
    pub data_dir: Option<PathBuf>,
    /// The directory of gates.
    pub gates_dir: GatesDir,
    /// Configurations of single gates, by gate id.
    pub gates: BTreeMap<String, GateConfig>,
    /// The rules for allowing, asking about and denying calls; `None` if there are none.
    pub permissions: Option<Permissions>,
    /// Whether an MCP client may have an answer remembered, instead of only answering one call
    /// with yes or no.
    pub clients_may_remember: bool,
    /// The limits of runs and calls.
    pub limits: LimitsConfig,
    /// The model that answers; `None` if none is configured.
    pub model: Option<ModelConfig>,
    /// The agents by id. There is always at least one, which is [`DEFAULT_AGENT`] unless others
    /// are configured.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Grants by component id.
    pub grants: BTreeMap<String, ComponentGrants>,
    /// State keys whose values clients and subscribers receive. An entry that ends in `*`
    /// matches keys by prefix.
    pub visible_keys: Vec<String>,
    /// MCP servers that provide tools, by name.
    pub servers: BTreeMap<String, ServerConfig>,
    /// The program and first arguments with which servers are started; empty if they are
    /// started directly. It receives this process's id, the server's command and its arguments,
    /// and becomes the server, which then ends with this process in every case.
    pub launcher: Vec<OsString>,
    /// The program and first arguments of a process that is started in each server's process
    /// group; empty if there is none. It receives the group's id and kills the group once its
    /// input is closed. So everything that a server started ends with this process in every
    /// case.
    pub group_keeper: Vec<OsString>,
    /// Secrets that may be added to requests, by name.
    pub secrets: BTreeMap<String, SecretConfig>,
    /// Variables that hold a token or key of the host, in addition to those in the file, each
    /// with the place that names it. No tool sees them.
    pub held_variables: BTreeMap<String, String>,
    /// How much the store keeps, and for how long.
    pub store: StoreConfig,
    /// The HTTP server of `tollgate serve`.
    pub serve: ServeConfig,
    /// The components that are checked against the lock file at each load.
    pub locked: LockMode,
    /// The signatures that are required, and the components that they are required for.
    pub trust: Trust,
    /// The settings of registries, by host.
    pub registries: BTreeMap<String, HostSettings>,
}

/// The maximum size of the host's own files, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Reads a file that a person writes. Follows links, but opens only regular files: reading a
/// pipe or a device might never end.
///
/// # Errors
/// The file cannot be read, is not regular, or is larger than 16 MiB.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other("it is larger than 16 MiB"));
    }
    Ok(text)
}

impl Config {
    /// Reads `file`, or if it is `None`, `tollgate.toml` in the working directory if it exists.
    ///
    /// # Errors
    /// The named file is missing, or the file cannot be read or is not valid.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let path = file.unwrap_or(Path::new(FILE_NAME));
        match read_text(path) {
            Ok(text) => Self::parse(path, &text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && file.is_none() => {
                Ok(Self { absent_file: Some(path.to_owned()), ..Self::default() })
            }
            Err(e) => Err(ConfigError::unreadable(path, &e)),
        }
    }

    /// Parses the text of a configuration file. `path` names it in messages, and relative paths
    /// refer to its directory.
    ///
    /// # Errors
    /// The text is not a valid configuration.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let source = Source { path, text };
        let raw: RawConfig = toml::from_str(text).map_err(|e| source.refused(&e))?;
        let base_dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        let of_tools = raw.tools.tables.into_iter().map(|(name, tool)| (name, tool.limits)).collect();
        let limits = limits::check(&source, raw.limits, of_tools)?;
        let agents = agents::check(&source, raw.agents, &limits)?;
        let secrets = secrets::check(&source, raw.secrets, &base_dir)?;
        let mut config = Self {
            file: Some(path.to_owned()),
            absent_file: None,
            tools_dir: in_dir(&base_dir, &raw.tools.dir),
            data_dir: None,
            gates_dir: GatesDir::meant(raw.tools.gates.as_deref(), &base_dir),
            gates: gates::check(&source, raw.gates)?,
            visible_keys: visible_keys(&source, raw.state.visible)?,
            clients_may_remember: raw.permissions.as_ref().is_some_and(|raw| raw.clients_may_remember),
            permissions: raw.permissions.map(|raw| permissions::check(&source, raw)).transpose()?,
            grants: BTreeMap::new(),
            agents,
            servers: servers::check(&source, raw.mcp)?,
            launcher: Vec::new(),
            group_keeper: Vec::new(),
            secrets,
            held_variables: BTreeMap::new(),
            store: store::check(&source, raw.store, &base_dir)?,
            serve: serve::check(&source, raw.serve)?,
            locked: raw.tools.locked,
            trust: trust(&source, raw.trust, &base_dir)?,
            registries: registries(&source, raw.registries, &base_dir)?,
            model: raw.model,
            limits,
            base_dir,
        };
        if let Some(SecretSource::Environment(variable)) =
            config.store.database.as_ref().and_then(|database| database.password.clone())
        {
            config.held_variables.insert(variable, "the password of [store]".to_owned());
        }
        config.grants = grants::check(&source, raw.grants, &config)?;
        Ok(config)
    }

    /// Returns the component's grants, which are empty if it is not named.
    #[must_use]
    pub fn grants_of(&self, component_id: &str) -> ComponentGrants {
        self.grants.get(component_id).cloned().unwrap_or_default()
    }

    /// Returns the model of an agent: its own, or else the configuration's. `None` if neither is
    /// configured, or if the agent has no model because others do its work.
    #[must_use]
    pub fn model_of(&self, agent_id: &str) -> Option<&ModelConfig> {
        let agent = self.agents.get(agent_id);
        if agent.is_some_and(|agent| agent.made_of.is_some() || agent.remote.is_some()) {
            return None;
        }
        agent.and_then(|agent| agent.model.as_ref()).or(self.model.as_ref())
    }

    /// Returns the name of the configuration for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.file {
            Some(file) => file.display().to_string(),
            None => FILE_NAME.to_owned(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let limits = LimitsConfig::default();
        Self {
            file: None,
            absent_file: None,
            base_dir: PathBuf::from("."),
            tools_dir: PathBuf::from(DEFAULT_TOOLS_DIR),
            data_dir: None,
            gates_dir: GatesDir::default(),
            gates: BTreeMap::new(),
            permissions: None,
            clients_may_remember: false,
            visible_keys: Vec::new(),
            model: None,
            agents: agents::defaults(&limits),
            grants: BTreeMap::new(),
            servers: BTreeMap::new(),
            launcher: Vec::new(),
            group_keeper: Vec::new(),
            secrets: BTreeMap::new(),
            held_variables: BTreeMap::new(),
            store: StoreConfig::default(),
            serve: ServeConfig::default(),
            locked: LockMode::default(),
            trust: Trust::default(),
            registries: BTreeMap::new(),
            limits,
        }
    }
}

/// `[trust]`, with the keys that it names.
fn trust(source: &Source<'_>, raw: Option<Spanned<RawTrust>>, base_dir: &Path) -> Result<Trust, ConfigError> {
    let Some(raw) = raw else { return Ok(Trust::default()) };
    Trust::new(raw.get_ref(), base_dir).map_err(|e| source.wrong(raw.span(), e.to_string()))
}

/// `[registries]`, with paths that begin at `base_dir`.
fn registries(
    source: &Source<'_>,
    raw: BTreeMap<Spanned<String>, HostSettings>,
    base_dir: &Path,
) -> Result<BTreeMap<String, HostSettings>, ConfigError> {
    let checked = raw.into_iter().map(|(host, settings)| {
        let settings = settings.checked(host.get_ref(), base_dir);
        let settings = settings.map_err(|e| source.wrong(host.span(), e.to_string()))?;
        Ok((host.into_inner(), settings))
    });
    checked.collect()
}

/// `[state]`: the keys whose values clients and subscribers receive.
fn visible_keys(source: &Source<'_>, patterns: Vec<Spanned<String>>) -> Result<Vec<String>, ConfigError> {
    let meant = |pattern: &str| match pattern.split_once('.') {
        Some((owner, key)) => {
            name::is_id(owner) && !key.is_empty() && !key.trim_end_matches('*').contains('*')
        }
        None => pattern == "*",
    };
    if let Some(wrong) = patterns.iter().find(|pattern| !meant(pattern.get_ref())) {
        let shown = text::clean(wrong.get_ref(), 100);
        let problem = format!(
            "`{shown}` is not a state key; write `notes.items` for one key, `notes.*` for all of a component, or `*`"
        );
        return Err(source.wrong(wrong.span(), problem));
    }
    Ok(patterns.into_iter().map(Spanned::into_inner).collect())
}

#[cfg(test)]
mod tests;
