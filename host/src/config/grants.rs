//! `[grants.COMPONENT]`: the only source of a component's permissions.

use super::error::Source;
use super::paths::in_dir;
use super::raw::{RawDelegate, RawFileGrant, RawGrants};
use super::{AgentConfig, Config, ConfigError, SecretConfig, agents};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tollgate_agent::catalog::CatalogGrants;
use tollgate_agent::child::{DelegateGrant, Delegates};
use tollgate_agent::egress::{AddressRange, HttpPattern, ParseError};
use tollgate_agent::name;
use tollgate_agent::outcome::ActionGrants;
use tollgate_sandbox::{DEFAULT_QUOTA_BYTES, FileAccess};
use toml::Spanned;

/// The grants of one component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentGrants {
    /// Directories of the host.
    pub files: Vec<FileGrantConfig>,
    /// HTTP requests that it may send.
    pub http: Vec<HttpPattern>,
    /// Address ranges that its requests may reach although they are not global.
    pub addresses: Vec<AddressRange>,
    /// Secrets that are added to its requests, by name.
    pub secrets: BTreeSet<String>,
    /// Settings that it reads, by name.
    pub settings: BTreeMap<String, String>,
    /// Names of host environment variables that it sees.
    pub environment: BTreeSet<String>,
    /// State keys of other components, actions, and agents to run.
    pub catalog: CatalogGrants,
}

impl ComponentGrants {
    /// Returns the agents that its tools may run, with the keys that are passed along.
    pub fn delegates(&self) -> impl Iterator<Item = (&String, &DelegateGrant)> {
        match &self.catalog.delegates {
            Delegates::Granted(agents) => Some(agents),
            Delegates::None | Delegates::Any => None,
        }
        .into_iter()
        .flatten()
    }
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
    /// The number of bytes that may be written to it until the tools are loaded again.
    pub quota_bytes: u64,
}

/// The actions that this version of the host supports.
const ACTIONS: [&str; 3] = ["add-context", "transfer", "escalate"];

pub(super) fn check(
    source: &Source<'_>,
    raw: BTreeMap<Spanned<String>, RawGrants>,
    config: &Config,
) -> Result<BTreeMap<String, ComponentGrants>, ConfigError> {
    let mut grants = BTreeMap::new();
    for (id, granted) in raw {
        if !name::is_id(id.get_ref()) {
            let problem = format!(
                "`{}` is not a component id; grants belong to a component, such as [grants.notes]",
                tollgate_agent::text::clean(id.get_ref(), 100)
            );
            return Err(source.wrong(id.span(), problem));
        }
        grants.insert(id.into_inner(), check_one(source, granted, config)?);
    }
    Ok(grants)
}

fn check_one(source: &Source<'_>, raw: RawGrants, config: &Config) -> Result<ComponentGrants, ConfigError> {
    // By the lower-case path: on a case-insensitive file system, paths that differ only in case are
    // the same directory.
    let mut guests: BTreeMap<String, String> = BTreeMap::new();
    let mut files = Vec::with_capacity(raw.files.len());
    for file in raw.files {
        let span = file.guest.span();
        let grant = check_file(source, file, &config.base_dir)?;
        if let Some(other) = guests.insert(grant.guest.to_lowercase(), grant.guest.clone()) {
            let problem = match other == grant.guest {
                true => format!("`guest` \"{other}\" is granted twice"),
                false => format!(
                    "`guest` \"{}\" differs from \"{}\" only in case; rename one of them",
                    tollgate_agent::text::clean(&grant.guest, 100),
                    tollgate_agent::text::clean(&other, 100)
                ),
            };
            return Err(source.wrong(span, problem));
        }
        files.push(grant);
    }
    let catalog = CatalogGrants {
        reads: check_keys(source, raw.state.read)?,
        writes: check_keys(source, raw.state.write)?,
        actions: check_actions(source, &raw.actions)?,
        delegates: check_delegates(source, raw.delegates, &config.agents)?,
    };
    Ok(ComponentGrants {
        files,
        catalog,
        http: parsed(source, &raw.http)?,
        addresses: parsed(source, &raw.addresses)?,
        secrets: check_secrets(source, raw.secrets, &config.secrets)?,
        settings: raw.settings,
        environment: check_environment(source, raw.environment, config)?,
    })
}

fn parsed<T: FromStr<Err = ParseError>>(
    source: &Source<'_>,
    texts: &[Spanned<String>],
) -> Result<Vec<T>, ConfigError> {
    let parse = |text: &Spanned<String>| {
        text.get_ref().parse().map_err(|why: ParseError| source.wrong(text.span(), why.to_string()))
    };
    texts.iter().map(parse).collect()
}

fn check_secrets(
    source: &Source<'_>,
    names: Vec<Spanned<String>>,
    secrets: &BTreeMap<String, SecretConfig>,
) -> Result<BTreeSet<String>, ConfigError> {
    if let Some(name) = names.iter().find(|name| !secrets.contains_key(name.get_ref())) {
        let shown = tollgate_agent::text::clean(name.get_ref(), 100);
        let problem = format!(
            "there is no secret \"{shown}\"; define it in [secrets.{shown}] with its source (`env` or `file`), \
             the origin that it is sent `to`, and the `header`"
        );
        return Err(source.wrong(name.span(), problem));
    }
    Ok(names.into_iter().map(Spanned::into_inner).collect())
}

fn check_environment(
    source: &Source<'_>,
    names: Vec<Spanned<String>>,
    config: &Config,
) -> Result<BTreeSet<String>, ConfigError> {
    for name in &names {
        if let Some(what) = config.held_by(name.get_ref()) {
            let problem = format!("the variable {} holds {what}, which no tool may see", name.get_ref());
            return Err(source.wrong(name.span(), problem));
        }
    }
    if let Some(name) =
        names.iter().find(|name| name.get_ref().is_empty() || name.get_ref().contains(['=', '\0']))
    {
        let shown = tollgate_agent::text::clean(name.get_ref(), 100);
        let problem =
            format!("\"{shown}\" is not the name of a variable; its value comes from the host's environment");
        return Err(source.wrong(name.span(), problem));
    }
    Ok(names.into_iter().map(Spanned::into_inner).collect())
}

fn check_file(
    source: &Source<'_>,
    raw: RawFileGrant,
    base_dir: &Path,
) -> Result<FileGrantConfig, ConfigError> {
    let guest = raw.guest.get_ref();
    if !guest.starts_with('/') || guest.split('/').any(|part| part == "..") || guest.contains('\0') {
        let problem = format!(
            "`guest` is \"{}\"; it is the path that the tool sees, and begins with /, such as \"/docs\"",
            tollgate_agent::text::clean(guest, 100)
        );
        return Err(source.wrong(raw.guest.span(), problem));
    }
    if raw.host.get_ref().as_os_str().is_empty() {
        return Err(source
            .wrong(raw.host.span(), "`host` is empty; it is a directory of this machine, such as \".\""));
    }
    Ok(FileGrantConfig {
        host: in_dir(base_dir, raw.host.get_ref()),
        guest: raw.guest.into_inner(),
        access: raw.access,
        quota_bytes: raw.quota_bytes.unwrap_or(DEFAULT_QUOTA_BYTES),
    })
}

fn check_keys(source: &Source<'_>, keys: Vec<Spanned<String>>) -> Result<BTreeSet<String>, ConfigError> {
    for key in &keys {
        let owner = key.get_ref().split_once('.').map(|(owner, _)| owner);
        if !owner.is_some_and(|owner| name::is_id(owner) && !name::is_reserved_id(owner)) {
            let problem = format!(
                "`{}` is not a component's state key; write COMPONENT-ID.NAME, such as \"notes.items\"",
                tollgate_agent::text::clean(key.get_ref(), 100)
            );
            return Err(source.wrong(key.span(), problem));
        }
    }
    Ok(keys.into_iter().map(Spanned::into_inner).collect())
}

fn check_actions(source: &Source<'_>, actions: &[Spanned<String>]) -> Result<ActionGrants, ConfigError> {
    let mut granted = ActionGrants::default();
    for action in actions {
        match action.get_ref().as_str() {
            "add-context" => granted.add_context = true,
            "transfer" => granted.transfer = true,
            "escalate" => granted.escalate = true,
            other => {
                let problem = format!(
                    "\"{}\" is not an action; known: \"{}\"",
                    tollgate_agent::text::clean(other, 100),
                    ACTIONS.join("\", \"")
                );
                return Err(source.wrong(action.span(), problem));
            }
        }
    }
    Ok(granted)
}

fn check_delegates(
    source: &Source<'_>,
    raw: Vec<RawDelegate>,
    known: &BTreeMap<String, AgentConfig>,
) -> Result<Delegates, ConfigError> {
    let mut granted = BTreeMap::new();
    for delegate in raw {
        let agent = agents::known_agent(source, &delegate.agent, known)?;
        let grant = DelegateGrant {
            seed: check_keys(source, delegate.seed)?,
            export: check_keys(source, delegate.export)?,
        };
        if granted.insert(agent, grant).is_some() {
            let problem = format!("the agent `{}` is granted twice", delegate.agent.get_ref());
            return Err(source.wrong(delegate.agent.span(), problem));
        }
    }
    Ok(if granted.is_empty() { Delegates::None } else { Delegates::Granted(granted) })
}
