//! The checks of grants as written, each at its place in the configuration.

use super::details::{Details, FileGrantConfig};
use crate::config::error::Source;
use crate::config::paths::in_dir;
use crate::config::{Config, ConfigError};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tollgate_agent::child::DelegateGrant;
use tollgate_agent::egress::ParseError;
use tollgate_agent::name::{is_id, is_reserved_id};
use tollgate_agent::text::clean;
use tollgate_sandbox::{DEFAULT_QUOTA_BYTES, FileAccess};
use toml::Spanned;

/// Checks a name of a list. Returns the details of its grant, or the problem.
pub(in crate::config) type NameCheck = fn(&str, &Config) -> Result<Details, String>;

/// The actions that components can be granted.
const ACTIONS: [&str; 3] = ["add-context", "transfer", "escalate"];

/// One of `files`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFileGrant {
    host: Spanned<PathBuf>,
    pub(super) guest: Spanned<String>,
    #[serde(default = "read_only")]
    access: FileAccess,
    quota_bytes: Option<u64>,
}

/// One of `delegates`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDelegate {
    pub(super) agent: Spanned<String>,
    #[serde(default)]
    seed: Vec<Spanned<String>>,
    #[serde(default)]
    export: Vec<Spanned<String>>,
}

fn read_only() -> FileAccess {
    FileAccess::Read
}

pub(super) fn file(
    source: &Source<'_>,
    raw: RawFileGrant,
    base_dir: &Path,
) -> Result<FileGrantConfig, ConfigError> {
    let guest = raw.guest.get_ref();
    if !guest.starts_with('/') || guest.split('/').any(|part| part == "..") || guest.contains('\0') {
        let problem = format!(
            "`guest` is \"{}\"; it is the path that the tool sees, and begins with /, such as \"/docs\"",
            clean(guest, 100)
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
        quota_bytes: Some(raw.quota_bytes.unwrap_or(DEFAULT_QUOTA_BYTES)),
    })
}

pub(super) fn delegate(
    source: &Source<'_>,
    raw: RawDelegate,
    config: &Config,
) -> Result<(String, DelegateGrant), ConfigError> {
    let agent = config.known_agent(source, &raw.agent)?;
    let keys = |keys: Vec<Spanned<String>>| -> Result<BTreeSet<String>, ConfigError> {
        keys.iter().try_for_each(|key| name(source, key, state_key, config).map(drop))?;
        Ok(keys.into_iter().map(Spanned::into_inner).collect())
    };
    Ok((agent, DelegateGrant { seed: keys(raw.seed)?, export: keys(raw.export)? }))
}

pub(super) fn name(
    source: &Source<'_>,
    name: &Spanned<String>,
    check: NameCheck,
    config: &Config,
) -> Result<Details, ConfigError> {
    check(name.get_ref(), config).map_err(|problem| source.wrong(name.span(), problem))
}

/// Describes a grant of this name that follows another one of the same name.
pub(super) fn duplicate(details: &Details, name: &str, other: &str) -> String {
    match details {
        Details::Delegate(_) => format!("the agent `{name}` is granted twice"),
        _ if name == other => format!("`guest` \"{other}\" is granted twice"),
        _ => format!(
            "`guest` \"{}\" differs from \"{}\" only in case; rename one of them",
            clean(name, 100),
            clean(other, 100)
        ),
    }
}

pub(super) fn http(pattern: &str, _: &Config) -> Result<Details, String> {
    pattern.parse().map(Details::Http).map_err(|why: ParseError| why.to_string())
}

pub(super) fn addresses(range: &str, _: &Config) -> Result<Details, String> {
    range.parse().map(Details::Addresses).map_err(|why: ParseError| why.to_string())
}

pub(super) fn secret(name: &str, config: &Config) -> Result<Details, String> {
    if config.secrets.contains_key(name) {
        return Ok(Details::None);
    }
    let shown = clean(name, 100);
    Err(format!(
        "there is no secret \"{shown}\"; define it in [secrets.{shown}] with its source (`env` or `file`), \
         the origin that it is sent `to`, and the `header`"
    ))
}

pub(super) fn variable(name: &str, config: &Config) -> Result<Details, String> {
    if let Some(what) = config.held_by(name) {
        return Err(format!("the variable {name} holds {what}, which no tool may see"));
    }
    if name.is_empty() || name.contains(['=', '\0']) {
        let shown = clean(name, 100);
        return Err(format!(
            "\"{shown}\" is not the name of a variable; its value comes from the host's environment"
        ));
    }
    Ok(Details::None)
}

pub(super) fn state_key(key: &str, _: &Config) -> Result<Details, String> {
    let owner = key.split_once('.').map(|(owner, _)| owner);
    if owner.is_some_and(|owner| is_id(owner) && !is_reserved_id(owner)) {
        return Ok(Details::None);
    }
    Err(format!(
        "`{}` is not a component's state key; write COMPONENT-ID.NAME, such as \"notes.items\"",
        clean(key, 100)
    ))
}

pub(super) fn action(action: &str, _: &Config) -> Result<Details, String> {
    if ACTIONS.contains(&action) {
        return Ok(Details::None);
    }
    Err(format!("\"{}\" is not an action; known: \"{}\"", clean(action, 100), ACTIONS.join("\", \"")))
}
