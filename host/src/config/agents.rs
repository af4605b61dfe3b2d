//! `[agents.ID]`: agents with their instructions, tools, model and limits.

use super::error::Source;
use super::raw::{RawAgent, RawKind, RawTranscript};
use super::{Config, ConfigError, LimitSource, LimitsConfig, limits};
use crate::models::ModelConfig;
use reqwest::Url;
use serde_json::Value;
use std::collections::BTreeMap;
use tollgate_agent::composition::{Composition, MAX_PARTS, MAX_ROUNDS};
use tollgate_agent::name;
use tollgate_agent::run::RunLimits;
use toml::Spanned;

/// The name of the limit on the time of an attempt.
const TIMEOUT: &str = "timeout_ms";

/// The agent that makes direct calls.
pub const DIRECT_AGENT: &str = "direct";

/// The agent that runs if none is named.
pub const DEFAULT_AGENT: &str = "default";

/// The configuration of one agent.
#[derive(Debug, Clone, Default)]
pub struct AgentConfig {
    /// The system prompt; empty for none.
    pub instructions: String,
    /// The agent's purpose.
    pub description: Option<String>,
    /// The names of the tools that the agent may call; `*` means all. An empty list means none.
    pub tools: Vec<String>,
    /// The agents to which it may hand the conversation.
    pub delegates: Vec<String>,
    /// The name of the tool under which other agents can call it.
    pub offered_as: Option<String>,
    /// The JSON Schema of its answer; `None` if it answers in text.
    pub output: Option<Value>,
    /// The agents that it is composed of; `None` if it has a model.
    pub made_of: Option<Composition>,
    /// The agent of another server that does its work; `None` if it runs here.
    pub remote: Option<RemoteConfig>,
    /// The agent's own model; `None` for the configuration's.
    pub model: Option<ModelConfig>,
    /// The limits of its runs.
    pub limits: RunLimits,
    /// The place that sets the timeout of attempts of tools without one of their own.
    pub timeout_source: LimitSource,
}

/// The configuration of an agent of another server, with `kind = "a2a"`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteConfig {
    /// The address below which its card is.
    pub url: String,
    /// The variable with the bearer token, if the server requires one.
    pub token_env: Option<String>,
    /// Whether the earlier messages of a conversation are sent too.
    pub transcript: bool,
}

/// Returns the agents of a host without a configuration. Both list every tool.
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
    let mut named = Vec::new();
    for (id, agent) in raw {
        if !name::is_id(id.get_ref()) || name::is_reserved_id(id.get_ref()) {
            let problem = format!(
                "the agent id `{}` must fit [a-z][a-z0-9-]{{0,63}} and not be host or tollgate",
                id.get_ref()
            );
            return Err(source.wrong(id.span(), problem));
        }
        let is_remote = agent.kind.as_ref().filter(|kind| *kind.get_ref() == RawKind::A2a);
        if let Some(kind) = is_remote.filter(|_| id.get_ref() == DIRECT_AGENT) {
            let problem = "the agent of direct calls runs here; give an agent of another server another id";
            return Err(source.wrong(kind.span(), problem));
        }
        named.extend(agent.delegates.iter().chain(agent.agents.iter().flatten()).cloned());
        agents.insert(id.into_inner(), check_one(source, agent, limits)?);
    }
    add_defaults(&mut agents, limits, none_configured);
    for other in &named {
        known_agent(source, other, &agents)?;
    }
    Ok(agents)
}

fn check_one(source: &Source<'_>, raw: RawAgent, limits: &LimitsConfig) -> Result<AgentConfig, ConfigError> {
    let (remote, made_of) = (check_remote(source, &raw)?, check_made_of(source, &raw)?);
    let delegates = raw.delegates.into_iter().map(Spanned::into_inner).collect();
    let timeout_source = match raw.limits.sets(TIMEOUT) {
        true => LimitSource::Agent,
        false => limits.source(TIMEOUT),
    };
    let mut limits = limits::check_run(source, raw.limits, &limits.run)?;
    limits.stop_on_tools = tool_names(source, raw.stop_on_tools, false)?;
    limits.stop_on_texts = stop_texts(source, raw.stop_on_texts)?;
    Ok(AgentConfig {
        instructions: raw.instructions,
        description: raw.description,
        tools: tool_names(source, raw.tools, true)?,
        delegates,
        offered_as: raw.offered_as.map(|name| tool_name(source, name)).transpose()?,
        output: raw.output.map(|schema| check_output(source, schema)).transpose()?,
        made_of,
        remote,
        model: raw.model,
        limits,
        timeout_source,
    })
}

impl Config {
    /// Returns the id of a configured agent other than the one of direct calls.
    pub(super) fn known_agent(
        &self,
        source: &Source<'_>,
        named: &Spanned<String>,
    ) -> Result<String, ConfigError> {
        known_agent(source, named, &self.agents)
    }
}

/// Returns the id of a configured agent other than the one of direct calls.
fn known_agent(
    source: &Source<'_>,
    named: &Spanned<String>,
    agents: &BTreeMap<String, AgentConfig>,
) -> Result<String, ConfigError> {
    let id = named.get_ref();
    if id != DIRECT_AGENT && agents.contains_key(id) {
        return Ok(id.clone());
    }
    let known: Vec<&str> = agents.keys().map(String::as_str).filter(|id| *id != DIRECT_AGENT).collect();
    let shown = tollgate_agent::text::clean(id, 100);
    let problem = format!("there is no agent `{shown}`; known: {}; add [agents.{shown}]", known.join(", "));
    Err(source.wrong(named.span(), problem))
}

/// Checks `kind = "a2a"` and the keys that belong to it. The remote agent has its own instructions,
/// tools and model.
fn check_remote(source: &Source<'_>, raw: &RawAgent) -> Result<Option<RemoteConfig>, ConfigError> {
    let is_remote = raw.kind.as_ref().is_some_and(|kind| *kind.get_ref() == RawKind::A2a);
    let own = [
        raw.url.as_ref().map(Spanned::span),
        raw.token_env.as_ref().map(Spanned::span),
        raw.transcript.as_ref().map(Spanned::span),
    ];
    let Some(kind) = raw.kind.as_ref().filter(|_| is_remote) else {
        return match own.into_iter().flatten().next() {
            None => Ok(None),
            Some(span) => Err(source
                .wrong(span, "`url`, `token_env` and `transcript` belong to an agent with `kind = \"a2a\"`")),
        };
    };
    for (key, is_set) in [
        ("instructions", !raw.instructions.is_empty()),
        ("tools", !raw.tools.is_empty()),
        ("model", raw.model.is_some()),
        ("delegates", !raw.delegates.is_empty()),
        ("output", raw.output.is_some()),
        ("agents", raw.agents.is_some()),
        ("max_rounds", raw.max_rounds.is_some()),
        ("stop_on_tools", !raw.stop_on_tools.is_empty()),
        ("stop_on_texts", !raw.stop_on_texts.is_empty()),
    ] {
        if is_set {
            let problem = format!("an agent of another server has no `{key}` here; remove it");
            return Err(source.wrong(kind.span(), problem));
        }
    }
    let Some(url) = &raw.url else {
        return Err(source.wrong(
            kind.span(),
            "`kind = \"a2a\"` needs the address of the agent: `url = \"https://HOST/PATH\"`",
        ));
    };
    agent_url(url.get_ref()).map_err(|why| source.wrong(url.span(), why))?;
    Ok(Some(RemoteConfig {
        url: url.get_ref().clone(),
        token_env: raw.token_env.as_ref().map(|name| name.get_ref().clone()),
        transcript: raw.transcript.as_ref().is_some_and(|told| *told.get_ref() == RawTranscript::Whole),
    }))
}

/// Reads the address of an agent of another server, without a slash at its end.
///
/// # Errors
/// It is not a URL of HTTP, or it contains a user or a query; as a clause without a period.
pub(crate) fn agent_url(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| format!("`url` {why}; write it as https://HOST/PATH");
    let mut url = Url::parse(text).map_err(|why| wrong(&format!("is not a URL ({why})")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("is neither http:// nor https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("contains a user or a password; a token comes from `token_env`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("contains a query or a fragment"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Checks `kind` of an agent that is composed of others, and the keys that belong to it.
fn check_made_of(source: &Source<'_>, raw: &RawAgent) -> Result<Option<Composition>, ConfigError> {
    let Some(kind) = &raw.kind else {
        let stray = raw.agents.iter().flatten().next().map(Spanned::span);
        return match stray.or(raw.max_rounds.as_ref().map(Spanned::span)) {
            None => Ok(None),
            Some(span) => Err(source.wrong(
                span,
                "`agents` and `max_rounds` belong to an agent with `kind = \"sequential\"`, \"parallel\" or \"loop\"",
            )),
        };
    };
    // A loop has one more part than the others.
    let compose: Option<fn(Vec<String>) -> Composition> = match kind.get_ref() {
        RawKind::A2a => return Ok(None),
        RawKind::Sequential => Some(Composition::Sequential),
        RawKind::Parallel => Some(Composition::Parallel),
        RawKind::Loop => None,
    };
    let agents: Vec<String> = raw.agents.iter().flatten().map(|agent| agent.get_ref().clone()).collect();
    if !(1..=MAX_PARTS).contains(&agents.len()) {
        let problem = format!("it is made of {} agents; list 1 to {MAX_PARTS} in `agents`", agents.len());
        return Err(source.wrong(kind.span(), problem));
    }
    if !raw.tools.is_empty() || raw.model.is_some() {
        let problem = "an agent that is made of others has no `tools` and no `model` of its own";
        return Err(source.wrong(kind.span(), problem));
    }
    for (key, listed) in [("stop_on_tools", &raw.stop_on_tools), ("stop_on_texts", &raw.stop_on_texts)] {
        if let Some(first) = listed.first() {
            let problem = format!(
                "an agent that is made of others has no model that `{key}` could stop; write it under those in `agents`"
            );
            return Err(source.wrong(first.span(), problem));
        }
    }
    let rounds = raw.max_rounds.as_ref();
    Ok(Some(match (compose, rounds) {
        (None, Some(rounds)) if (1..=MAX_ROUNDS).contains(rounds.get_ref()) => {
            Composition::Loop { agents, max_rounds: *rounds.get_ref() }
        }
        (None, rounds) => {
            let span = rounds.map_or(kind.span(), Spanned::span);
            return Err(source.wrong(span, format!("a loop needs `max_rounds`, 1 to {MAX_ROUNDS}")));
        }
        (Some(_), Some(rounds)) => {
            return Err(source.wrong(rounds.span(), "`max_rounds` belongs to `kind = \"loop\"`"));
        }
        (Some(compose), None) => compose(agents),
    }))
}

fn check_output(source: &Source<'_>, raw: Spanned<toml::Table>) -> Result<Value, ConfigError> {
    let span = raw.span();
    let wrong =
        |why: String| source.wrong(span.clone(), format!("`output` is not a usable JSON Schema: {why}"));
    let schema = serde_json::to_value(raw.into_inner()).map_err(|e| wrong(e.to_string()))?;
    tollgate_agent::schema::Schema::compile(&schema).map_err(|e| wrong(e.to_string()))?;
    Ok(schema)
}

fn tool_name(source: &Source<'_>, name: Spanned<String>) -> Result<String, ConfigError> {
    if name::is_tool_name(name.get_ref()) && !name::is_reserved_name(name.get_ref()) {
        return Ok(name.into_inner());
    }
    let problem = format!(
        "`{}` is not a tool name; it must fit [a-zA-Z0-9_-]{{1,64}} and not be the host's own",
        tollgate_agent::text::clean(name.get_ref(), 100)
    );
    Err(source.wrong(name.span(), problem))
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
                "`{}` is not a tool name; it must fit [a-zA-Z0-9_-]{{1,64}}{all}",
                tollgate_agent::text::clean(tool.get_ref(), 100)
            );
            return Err(source.wrong(tool.span(), problem));
        }
        names.push(tool.into_inner());
    }
    Ok(names)
}

/// Rejects texts without a word: nearly every reply contains one.
fn stop_texts(source: &Source<'_>, written: Vec<Spanned<String>>) -> Result<Vec<String>, ConfigError> {
    if let Some(empty) = written.iter().find(|text| text.get_ref().trim().is_empty()) {
        let problem =
            "a text without a word ends every run; write the words with which the model says that it is done";
        return Err(source.wrong(empty.span(), problem));
    }
    Ok(written.into_iter().map(Spanned::into_inner).collect())
}

fn add_defaults(agents: &mut BTreeMap<String, AgentConfig>, limits: &LimitsConfig, none_configured: bool) {
    let every_tool = || AgentConfig {
        tools: vec!["*".to_owned()],
        limits: limits.run.clone(),
        timeout_source: limits.source(TIMEOUT),
        ..AgentConfig::default()
    };
    agents.entry(DIRECT_AGENT.to_owned()).or_insert_with(every_tool);
    if none_configured {
        agents.insert(DEFAULT_AGENT.to_owned(), every_tool());
    }
}
