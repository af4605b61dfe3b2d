//! `[agents.ID]`: who runs, with which instructions, tools, model and limits.

use super::error::Source;
use super::raw::RawAgent;
use super::{ConfigError, LimitsConfig, limits};
use crate::DIRECT_AGENT;
use crate::model::ModelConfig;
use std::collections::BTreeMap;
use tollgate_agent::name;
use tollgate_agent::run::RunLimits;
use toml::Spanned;

/// The agent that runs where none is named.
pub const DEFAULT_AGENT: &str = "default";

/// One agent.
#[derive(Debug, Clone, Default)]
pub struct AgentConfig {
    /// The system prompt; empty for none.
    pub instructions: String,
    /// What it is for.
    pub description: Option<String>,
    /// The names of the tools that it may call; `*` is all. Without a list it has
    /// none.
    pub tools: Vec<String>,
    /// Its own model; none for the configuration's.
    pub model: Option<ModelConfig>,
    /// What bounds its runs.
    pub limits: RunLimits,
}

/// The agents of a host that is not configured: both list every tool.
pub(super) fn defaults(limits: &LimitsConfig) -> BTreeMap<String, AgentConfig> {
    let mut agents = BTreeMap::new();
    add_defaults(&mut agents, limits, true);
    agents
}

pub(super) fn check(
    source: &Source<'_>,
    raw: BTreeMap<Spanned<String>, RawAgent>,
    limits: &LimitsConfig,
) -> Result<BTreeMap<String, AgentConfig>, ConfigError> {
    let none_configured = !raw.keys().any(|id| id.get_ref() != DIRECT_AGENT);
    let mut agents = BTreeMap::new();
    for (id, agent) in raw {
        if !name::is_id(id.get_ref()) || name::is_reserved_id(id.get_ref()) {
            let problem = format!(
                "the agent id `{}` must fit [a-z][a-z0-9-]{{0,63}} and not be host or tollgate",
                id.get_ref()
            );
            return Err(source.wrong(id.span(), problem));
        }
        agents.insert(id.into_inner(), check_one(source, agent, limits)?);
    }
    add_defaults(&mut agents, limits, none_configured);
    Ok(agents)
}

fn check_one(source: &Source<'_>, raw: RawAgent, limits: &LimitsConfig) -> Result<AgentConfig, ConfigError> {
    let mut limits = limits::check_run(source, raw.limits, &limits.run)?;
    limits.stop_on_tools = tool_names(source, raw.stop_on_tools, false)?;
    Ok(AgentConfig {
        instructions: raw.instructions,
        description: raw.description,
        tools: tool_names(source, raw.tools, true)?,
        model: raw.model,
        limits,
    })
}

fn tool_names(
    source: &Source<'_>,
    written: Vec<Spanned<String>>,
    all_may_be_meant: bool,
) -> Result<Vec<String>, ConfigError> {
    let mut names = Vec::with_capacity(written.len());
    for tool in written {
        let is_all = all_may_be_meant && tool.get_ref() == "*";
        if !is_all && !name::is_tool_name(tool.get_ref()) {
            let all = if all_may_be_meant { ", or \"*\" for all tools" } else { "" };
            let problem = format!(
                "`{}` is no tool name; write the name that `tollgate tools` shows{all}",
                tollgate_agent::text::clean(tool.get_ref(), 100)
            );
            return Err(source.wrong(tool.span(), problem));
        }
        names.push(tool.into_inner());
    }
    Ok(names)
}

fn add_defaults(agents: &mut BTreeMap<String, AgentConfig>, limits: &LimitsConfig, none_configured: bool) {
    let every_tool =
        || AgentConfig { tools: vec!["*".to_owned()], limits: limits.run.clone(), ..AgentConfig::default() };
    agents.entry(DIRECT_AGENT.to_owned()).or_insert_with(every_tool);
    if none_configured {
        agents.insert(DEFAULT_AGENT.to_owned(), every_tool());
    }
}
