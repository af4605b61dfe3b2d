//! The configuration as written, before validation.

use super::grants::RawGrants;
use super::limits::{Numbers, RawLimits};
use super::paths::DEFAULT_TOOLS_DIR;
use crate::models::ModelConfig;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use tollgate_agent::gate::permissions::DefaultRule;
use tollgate_agent::{name, text};
use tollgate_registry::{HostSettings, LockMode, RawTrust};
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
    #[serde(default)]
    pub(super) mcp: BTreeMap<Spanned<String>, RawServer>,
    #[serde(default)]
    pub(super) gates: BTreeMap<Spanned<String>, RawGate>,
    pub(super) permissions: Option<RawPermissions>,
    #[serde(default)]
    pub(super) state: RawState,
    #[serde(default)]
    pub(super) secrets: BTreeMap<Spanned<String>, RawSecret>,
    #[serde(default)]
    pub(super) store: RawStore,
    #[serde(default)]
    pub(super) serve: RawServe,
    pub(super) trust: Option<Spanned<RawTrust>>,
    #[serde(default)]
    pub(super) registries: BTreeMap<Spanned<String>, HostSettings>,
}

/// `[store]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStore {
    pub(super) component_record_bytes: Option<Spanned<i64>>,
    pub(super) thread_record_bytes: Option<Spanned<i64>>,
    pub(super) principal_record_bytes: Option<Spanned<i64>>,
    pub(super) thread_state_bytes: Option<Spanned<i64>>,
    pub(super) min_free_bytes: Option<Spanned<i64>>,
    pub(super) keep: Option<Spanned<String>>,
    pub(super) url: Option<Spanned<String>>,
    pub(super) password_env: Option<Spanned<String>>,
    pub(super) password_file: Option<Spanned<PathBuf>>,
    pub(super) listen_url: Option<Spanned<String>>,
    pub(super) ca: Option<Spanned<PathBuf>>,
    pub(super) connections: Option<Spanned<i64>>,
    pub(super) lease_ms: Option<Spanned<i64>>,
}

/// `[serve]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServe {
    pub(super) listen: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) hosts: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) origins: Vec<Spanned<String>>,
    pub(super) decides: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) limits: RawServeLimits,
    #[serde(default)]
    pub(super) openai: RawOpenAi,
    #[serde(default)]
    pub(super) prices: BTreeMap<String, Spanned<RawPrice>>,
}

/// `[serve.limits]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServeLimits {
    pub(super) connections: Option<Spanned<i64>>,
    pub(super) streams_per_key: Option<Spanned<i64>>,
}

/// `[serve.openai]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOpenAi {
    pub(super) system: Option<Spanned<String>>,
    pub(super) progress: Option<Spanned<String>>,
    pub(super) waits: Option<Spanned<String>>,
    pub(super) hold_ms: Option<Spanned<i64>>,
    pub(super) thread_header: Option<Spanned<String>>,
}

/// `[serve.prices.MODEL]`
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPrice {
    pub(super) input: f64,
    pub(super) output: f64,
}

/// `[state]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawState {
    #[serde(default)]
    pub(super) visible: Vec<Spanned<String>>,
}

/// `[tools]`: the directories, and a table for each configured tool.
#[derive(Debug)]
pub(super) struct RawTools {
    pub(super) dir: PathBuf,
    pub(super) gates: Option<PathBuf>,
    pub(super) locked: LockMode,
    /// The tables of tools, by tool name.
    pub(super) tables: BTreeMap<String, RawTool>,
}

impl Default for RawTools {
    fn default() -> Self {
        Self {
            dir: PathBuf::from(DEFAULT_TOOLS_DIR),
            gates: None,
            locked: LockMode::default(),
            tables: BTreeMap::new(),
        }
    }
}

impl<'de> Deserialize<'de> for RawTools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawToolsVisitor)
    }
}

struct RawToolsVisitor;

impl<'de> Visitor<'de> for RawToolsVisitor {
    type Value = RawTools;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RawTools, M::Error> {
        let mut raw = RawTools::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "dir" => raw.dir = map.next_value()?,
                "locked" => raw.locked = map.next_value()?,
                "gates" => raw.gates = Some(map.next_value()?),
                _ => {
                    let tool = map.next_value_seed(ToolSeed(&key))?;
                    raw.tables.insert(key, tool);
                }
            }
        }
        Ok(raw)
    }
}

/// Reads the table of the tool with this name. If the value is not a table, the error suggests the key
/// that was probably meant.
struct ToolSeed<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for ToolSeed<'_> {
    type Value = RawTool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawTool, D::Error> {
        RawTool::deserialize(deserializer).map_err(|why| {
            let hint = name::did_you_mean(self.0, ["dir", "gates", "locked"].into_iter());
            match hint.filter(|_| why.to_string().contains("invalid type")) {
                Some(hint) => D::Error::custom(format!(
                    "unknown key `{}`{hint} known: dir, gates, locked, and a table for each tool",
                    text::clean(self.0, 100)
                )),
                None => why,
            }
        })
    }
}

/// `[tools.NAME]`
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "the table of a tool, as in [tools.NAME.limits]; or `dir`, `gates`, `locked`"
)]
pub(super) struct RawTool {
    #[serde(default)]
    pub(super) limits: Numbers,
}

/// `[gates.ID]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGate {
    #[serde(default)]
    pub(super) settings: toml::Table,
    #[serde(default)]
    pub(super) limits: Numbers,
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
    #[serde(default)]
    pub(super) stop_on_tools: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) stop_on_texts: Vec<Spanned<String>>,
    pub(super) model: Option<ModelConfig>,
    #[serde(default)]
    pub(super) delegates: Vec<Spanned<String>>,
    pub(super) offered_as: Option<Spanned<String>>,
    pub(super) output: Option<Spanned<toml::Table>>,
    pub(super) kind: Option<Spanned<RawKind>>,
    pub(super) agents: Option<Vec<Spanned<String>>>,
    pub(super) max_rounds: Option<Spanned<u32>>,
    pub(super) url: Option<Spanned<String>>,
    pub(super) token_env: Option<Spanned<String>>,
    pub(super) transcript: Option<Spanned<RawTranscript>>,
    #[serde(default)]
    pub(super) limits: RawLimits,
}

/// `kind` of an agent that is composed of others, or runs elsewhere
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawKind {
    Sequential,
    Parallel,
    Loop,
    A2a,
}

/// `transcript` of an agent that runs elsewhere
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawTranscript {
    Last,
    Whole,
}

/// `[secrets.NAME]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSecret {
    pub(super) env: Option<String>,
    pub(super) file: Option<PathBuf>,
    pub(super) to: Spanned<String>,
    pub(super) header: String,
    #[serde(default)]
    pub(super) prefix: String,
}

/// `[mcp.SERVER]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServer {
    pub(super) command: Option<String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    pub(super) url: Option<String>,
    pub(super) token_env: Option<String>,
    #[serde(default = "ten_seconds")]
    pub(super) start_timeout_ms: u64,
    pub(super) timeout_ms: Option<u32>,
    #[serde(default = "one_mebibyte")]
    pub(super) answer_bytes: usize,
}

fn ten_seconds() -> u64 {
    10_000
}

fn one_mebibyte() -> usize {
    1024 * 1024
}

/// `[permissions]` as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPermissions {
    #[serde(default)]
    pub(super) otherwise: DefaultRule,
    #[serde(default)]
    pub(super) allow: Vec<Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) ask: Vec<Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) deny: Vec<Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) remembered: Vec<Spanned<toml::Value>>,
    /// Whether an answer from an MCP client may be remembered.
    #[serde(default)]
    pub(super) clients_may_remember: bool,
}
