//! The gates directory, and `[gates.ID]`: the settings and limits of one gate.

use super::error::Source;
use super::paths::{DEFAULT_GATES_DIR, in_dir};
use super::raw::RawGate;
use super::{ConfigError, limits};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tollgate_agent::name;
use tollgate_sandbox::GateLimits;
use toml::Spanned;

/// The directory of gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatesDir {
    /// The directory.
    pub path: PathBuf,
    /// Whether the configuration names it. Then it must exist.
    pub is_named: bool,
}

impl Default for GatesDir {
    fn default() -> Self {
        Self { path: PathBuf::from(DEFAULT_GATES_DIR), is_named: false }
    }
}

impl GatesDir {
    pub(super) fn meant(written: Option<&Path>, base_dir: &Path) -> Self {
        let path = in_dir(base_dir, written.unwrap_or(Path::new(DEFAULT_GATES_DIR)));
        Self { path, is_named: written.is_some() }
    }
}

/// The operator's configuration of one gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateConfig {
    /// Settings that the gate reads, an object. The gate rejects unknown ones.
    pub settings: Value,
    /// The limits of one question to the gate.
    pub limits: GateLimits,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self { settings: Value::Object(serde_json::Map::new()), limits: GateLimits::default() }
    }
}

pub(super) fn check(
    source: &Source<'_>,
    raw: BTreeMap<Spanned<String>, RawGate>,
) -> Result<BTreeMap<String, GateConfig>, ConfigError> {
    let mut gates = BTreeMap::new();
    for (id, gate) in raw {
        if !name::is_id(id.get_ref()) {
            let shown = tollgate_agent::text::clean(id.get_ref(), 100);
            let problem = format!("`{shown}` is not the id of a gate; it must fit [a-z][a-z0-9-]{{0,63}}");
            return Err(source.wrong(id.span(), problem));
        }
        let limits = limits::check_gate(source, gate.limits)?;
        let settings = as_json(toml::Value::Table(gate.settings));
        gates.insert(id.into_inner(), GateConfig { settings, limits });
    }
    Ok(gates)
}

/// Converts the value to JSON; a date becomes a string.
fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(flag) => Value::from(flag),
        toml::Value::Datetime(at) => Value::from(at.to_string()),
        toml::Value::Array(items) => items.into_iter().map(as_json).collect(),
        toml::Value::Table(fields) => fields.into_iter().map(|(key, value)| (key, as_json(value))).collect(),
    }
}
