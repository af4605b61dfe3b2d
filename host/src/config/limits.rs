//! `[limits]`: the limits of single calls, of runs, and of all of them together.
//!
//! Every value is an integer with its unit in its name. `[limits]` applies to everything,
//! `[tools.NAME.limits]` to one tool and `[agents.ID.limits]` to one agent's runs. No tool may
//! exceed `[limits.ceiling]`.

use super::ConfigError;
use super::error::Source;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::limit_places::LimitPlaces;
use tollgate_agent::run::RunLimits;
use tollgate_sandbox::{GateLimits, Limits, SandboxConfig};
use toml::Spanned;

/// The limits of runs and calls.
#[derive(Debug, Clone)]
pub struct LimitsConfig {
    /// The limits of one attempt, unless its tool has its own.
    pub call: Limits,
    /// The limits of one run, unless its agent has its own.
    pub run: RunLimits,
    /// Limits of single tools, by tool name.
    pub tools: BTreeMap<String, ToolLimits>,
    /// Limits on all calls together, and the ceiling for each.
    pub sandbox: SandboxConfig,
    /// The names of the limits that the file sets for all tools.
    set: Arc<BTreeSet<String>>,
}

/// The limits of one tool's calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// The limits of one attempt.
    pub call: Limits,
    /// Milliseconds for one attempt, in place of the tool's own request.
    pub timeout_ms: Option<u32>,
    /// The maximum number of concurrent calls of this tool, if it has a limit of its own.
    pub concurrent_calls: Option<u32>,
    /// The names of the limits that the file sets for all tools, and for this one.
    set: Arc<BTreeSet<String>>,
    own: BTreeSet<String>,
}

/// The place from which the value of a limit comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitSource {
    /// The program: the configuration does not set the limit.
    #[default]
    Default,
    /// `[limits]`.
    AllTools,
    /// `[agents.ID.limits]`.
    Agent,
    /// `[tools.NAME.limits]`.
    Tool,
}

impl ToolLimits {
    /// Returns where the value of a limit of one attempt comes from, such as `fuel`.
    #[must_use]
    pub fn source(&self, limit: &str) -> LimitSource {
        if self.own.contains(limit) {
            return LimitSource::Tool;
        }
        if self.set.contains(limit) { LimitSource::AllTools } else { LimitSource::Default }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            call: Limits::default(),
            run: RunLimits::default(),
            tools: BTreeMap::new(),
            sandbox: SandboxConfig { limit_places: &PLACES, ..SandboxConfig::default() },
            set: Arc::default(),
        }
    }
}

impl LimitsConfig {
    /// Returns where the value of a limit comes from, unless a tool or an agent has its own.
    pub(super) fn source(&self, limit: &str) -> LimitSource {
        if self.set.contains(limit) { LimitSource::AllTools } else { LimitSource::Default }
    }

    /// Returns the limits of this tool's calls.
    #[must_use]
    pub fn of_tool(&self, tool_name: &str) -> ToolLimits {
        match self.tools.get(tool_name) {
            Some(limits) => limits.clone(),
            None => ToolLimits {
                call: self.call.clone(),
                timeout_ms: None,
                concurrent_calls: None,
                set: Arc::clone(&self.set),
                own: BTreeSet::new(),
            },
        }
    }
}

/// A table of limits as written.
#[derive(Debug, Default)]
pub(super) struct RawLimits {
    numbers: Numbers,
    ceiling: Option<(Spanned<String>, Numbers)>,
}

impl RawLimits {
    /// Returns whether the table sets a limit.
    pub(super) fn sets(&self, limit: &str) -> bool {
        self.numbers.keys().any(|name| name.get_ref() == limit)
    }
}

/// Limits by name, with the locations of name and number.
pub(super) type Numbers = BTreeMap<Spanned<String>, Spanned<i64>>;

/// Limits on all calls together, which are not part of any single call's limits.
#[derive(Debug, Serialize, Deserialize)]
struct HostNumbers {
    memory_budget_bytes: u64,
    concurrent_calls: u32,
    component_calls: Option<u32>,
    waiting_calls: u32,
    compile_cpu_ms: u32,
    compile_wall_ms: u32,
    compile_memory_bytes: u64,
    compiled_bytes: u64,
    loaded_code_bytes: u64,
    cache_bytes: u64,
    stack_bytes: usize,
}

impl HostNumbers {
    fn of(sandbox: &SandboxConfig) -> Self {
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Self {
            memory_budget_bytes: sandbox.memory_budget_bytes,
            concurrent_calls: sandbox.concurrent_calls,
            component_calls: sandbox.component_calls,
            waiting_calls: sandbox.waiting_calls,
            compile_cpu_ms: ms(sandbox.compile_cpu),
            compile_wall_ms: ms(sandbox.compile_wall),
            compile_memory_bytes: sandbox.compile_memory_bytes,
            compiled_bytes: sandbox.compiled_bytes,
            loaded_code_bytes: sandbox.loaded_code_bytes,
            cache_bytes: sandbox.cache_bytes,
            stack_bytes: sandbox.stack_bytes,
        }
    }

    fn set(self, sandbox: &mut SandboxConfig) {
        let time = |ms: u32| Duration::from_millis(u64::from(ms));
        sandbox.memory_budget_bytes = self.memory_budget_bytes;
        sandbox.concurrent_calls = self.concurrent_calls;
        sandbox.component_calls = self.component_calls;
        sandbox.waiting_calls = self.waiting_calls;
        (sandbox.compile_cpu, sandbox.compile_wall) = (time(self.compile_cpu_ms), time(self.compile_wall_ms));
        sandbox.compile_memory_bytes = self.compile_memory_bytes;
        sandbox.compiled_bytes = self.compiled_bytes;
        sandbox.loaded_code_bytes = self.loaded_code_bytes;
        sandbox.cache_bytes = self.cache_bytes;
        sandbox.stack_bytes = self.stack_bytes;
    }
}

/// The places of limits, as messages name them.
static PLACES: LimitPlaces = LimitPlaces {
    host: "tollgate.toml, under [limits]",
    attempt: "tollgate.toml, under [limits] or [tools.{}.limits]",
    tool: "tollgate.toml, under [tools.{}.limits]",
    gate: "tollgate.toml, under [gates.{}.limits]",
    agent: "tollgate.toml, under [agents.{}.limits]",
    server: "tollgate.toml, under [mcp.{}]",
    model: "tollgate.toml, under [model]",
    store: "tollgate.toml, under [store]",
};

/// The most bytes of stack for wasm code. The stacks of all calls are memory beside the budget.
const MAX_STACK_BYTES: i64 = 4 << 20;

/// Limits that may be zero; a zero elsewhere would fail every call.
const MAY_BE_ZERO: [&str; 16] = [
    "timeout_ms",
    "tool_calls",
    "waiting_calls",
    "tables",
    "table_elements",
    "handles",
    "listings",
    "open_files",
    "console_bytes",
    "reports",
    "report_bytes",
    "reports_bytes",
    "random_bytes",
    "http_requests",
    "http_body_bytes",
    "written_bytes",
];

pub(super) fn check(
    source: &Source<'_>,
    raw: RawLimits,
    tools: BTreeMap<String, Numbers>,
) -> Result<LimitsConfig, ConfigError> {
    let mut config = LimitsConfig::default();
    let ceiling = Table::read(
        source,
        raw.ceiling.map(|(_, numbers)| numbers).unwrap_or_default(),
        &[names(&config.sandbox.ceiling)],
    )?;
    config.sandbox.ceiling = ceiling.overlay(&config.sandbox.ceiling)?;

    let host = HostNumbers::of(&config.sandbox);
    let known = [names(&config.call), run_names(), names(&host)];
    let table = Table::read(source, raw.numbers, &known)?;
    table.overlay(&host)?.set(&mut config.sandbox);
    table.keep_at_most("stack_bytes", MAX_STACK_BYTES)?;
    config.run = table.overlay(&config.run)?;
    config.call = table.overlay(&config.call)?;
    config.set = Arc::new(table.names());
    table.keep_under(&config.call, &config.sandbox.ceiling)?;
    config.sandbox.timeout_ceiling = Duration::from_millis(u64::from(config.run.timeout_ceiling_ms));

    for (name, numbers) in tools {
        let limits = of_one_tool(source, numbers, &config)?;
        config.tools.insert(name, limits);
    }
    Ok(config)
}

/// Applies one agent's limits over those of all runs.
pub(super) fn check_run(
    source: &Source<'_>,
    raw: RawLimits,
    all: &RunLimits,
) -> Result<RunLimits, ConfigError> {
    if let Some((key, _)) = &raw.ceiling {
        return Err(source.unknown(key.span(), key.get_ref(), &as_strs(&run_names())));
    }
    Table::read(source, raw.numbers, &[run_names()])?.overlay(all)
}

/// Returns the limits of one question to a gate.
pub(super) fn check_gate(source: &Source<'_>, numbers: Numbers) -> Result<GateLimits, ConfigError> {
    let limits = GateLimits::default();
    Table::read(source, numbers, &[names(&limits)])?.overlay(&limits)
}

fn of_one_tool(source: &Source<'_>, numbers: Numbers, all: &LimitsConfig) -> Result<ToolLimits, ConfigError> {
    #[derive(Serialize, Deserialize)]
    struct OwnLimits {
        timeout_ms: Option<u32>,
        concurrent_calls: Option<u32>,
    }
    let own = OwnLimits { timeout_ms: None, concurrent_calls: None };
    let table = Table::read(source, numbers, &[names(&all.call), names(&own)])?;
    let call = table.overlay(&all.call)?;
    table.keep_under(&call, &all.sandbox.ceiling)?;
    let OwnLimits { timeout_ms, concurrent_calls } = table.overlay(&own)?;
    Ok(ToolLimits { call, timeout_ms, concurrent_calls, set: Arc::clone(&all.set), own: table.names() })
}

/// The numbers of one table and the names that are known there.
struct Table<'a> {
    source: &'a Source<'a>,
    numbers: Numbers,
}

impl<'a> Table<'a> {
    fn read(source: &'a Source<'a>, numbers: Numbers, known: &[Vec<String>]) -> Result<Self, ConfigError> {
        let known = known.concat();
        for (key, value) in &numbers {
            let name = key.get_ref().as_str();
            if !known.iter().any(|k| k == name) {
                return Err(source.unknown(key.span(), name, &as_strs(&known)));
            }
            let least = i64::from(!MAY_BE_ZERO.contains(&name));
            if *value.get_ref() < least {
                let problem = format!("`{name}` is {}; it must be at least {least}", value.get_ref());
                return Err(source.wrong(value.span(), problem));
            }
        }
        Ok(Self { source, numbers })
    }

    /// Returns the names in this table.
    fn names(&self) -> BTreeSet<String> {
        self.numbers.keys().map(|key| key.get_ref().clone()).collect()
    }

    /// Returns the value with the fields replaced that this table names.
    fn overlay<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<T, ConfigError> {
        let mut fields = fields(value);
        for (key, number) in &self.numbers {
            if let Some(field) = fields.get_mut(key.get_ref()) {
                *field = Value::from(*number.get_ref());
                self.must_fit::<T>(key, number, &fields)?;
            }
        }
        serde_json::from_value(Value::Object(fields)).map_err(|e| self.source.wrong(0..0, e.to_string()))
    }

    fn must_fit<T: DeserializeOwned>(
        &self,
        key: &Spanned<String>,
        number: &Spanned<i64>,
        fields: &Map<String, Value>,
    ) -> Result<(), ConfigError> {
        let fits = serde_json::from_value::<T>(Value::Object(fields.clone())).is_ok();
        let too_large = || {
            format!("`{}` is {}; the most that can be set is {}", key.get_ref(), number.get_ref(), u32::MAX)
        };
        if fits { Ok(()) } else { Err(self.source.wrong(number.span(), too_large())) }
    }

    fn keep_at_most(&self, name: &str, most: i64) -> Result<(), ConfigError> {
        let written = self.numbers.iter().find(|(key, _)| key.get_ref() == name);
        match written.filter(|(_, number)| *number.get_ref() > most) {
            Some((_, number)) => {
                let problem = format!("`{name}` is {}; the most that can be set is {most}", number.get_ref());
                Err(self.source.wrong(number.span(), problem))
            }
            None => Ok(()),
        }
    }

    fn keep_under(&self, limits: &Limits, ceiling: &Limits) -> Result<(), ConfigError> {
        let (limits, ceiling) = (fields(limits), fields(ceiling));
        for (key, number) in &self.numbers {
            let name = key.get_ref();
            if let (Some(value), Some(most)) = (limits.get(name), ceiling.get(name))
                && value.as_u64() > most.as_u64()
            {
                let problem = format!(
                    "`{name}` is {value}, above the ceiling of {most}; lower it, or raise `{name}` in [limits.ceiling]"
                );
                return Err(self.source.wrong(number.span(), problem));
            }
        }
        Ok(())
    }
}

fn fields(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn names(value: &impl Serialize) -> Vec<String> {
    fields(value).into_iter().map(|(name, _)| name).collect()
}

/// Returns the names of the numeric limits of a run.
fn run_names() -> Vec<String> {
    fields(&RunLimits::default())
        .into_iter()
        .filter(|(_, value)| value.is_number() || value.is_null())
        .map(|(name, _)| name)
        .collect()
}

fn as_strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

impl<'de> Deserialize<'de> for RawLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawLimitsVisitor)
    }
}

struct RawLimitsVisitor;

impl<'de> Visitor<'de> for RawLimitsVisitor {
    type Value = RawLimits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of limits")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RawLimits, M::Error> {
        let mut raw = RawLimits::default();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            match key.get_ref().as_str() {
                "ceiling" => {
                    let numbers = map.next_value()?;
                    raw.ceiling = Some((key, numbers));
                }
                _ => {
                    let value = map.next_value()?;
                    raw.numbers.insert(key, value);
                }
            }
        }
        Ok(raw)
    }
}
