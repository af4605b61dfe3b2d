//! Contacts the servers that the configuration names: models, agents of other servers, MCP servers
//! and registries. All are asked at the same time, each for a few seconds at most.

use super::finding::{Finding, State};
use crate::session::shutdown;
use crate::terminal::Failure;
use futures::future::join_all;
use std::collections::BTreeSet;
use std::time::Duration;
use tollgate::config::Config;
#[cfg(feature = "mcp")]
use tollgate::config::ServerPlace;
use tollgate::models::{ModelConfig, Probe, ProviderName};
use tollgate_registry::Source;

/// How long each server may take to answer.
const LIMIT: Duration = Duration::from_secs(5);
pub(super) const PART: &str = "servers";

/// Returns what each server answers.
pub(super) async fn servers(config: &Config) -> Result<Vec<Finding>, Failure> {
    shutdown::take_signals();
    let all = async {
        let (models, agents, mcp, registries) =
            tokio::join!(models(config), agents(config), mcp(config), registries(config));
        Ok::<_, Failure>([models, agents, mcp, registries].concat())
    };
    shutdown::unless_asked(all).await
}

fn finding(name: String, state: State, words: impl Into<String>) -> Finding {
    Finding { part: PART, name, state, words: words.into() }
}

/// Asks the provider of each model that an agent uses.
async fn models(config: &Config) -> Vec<Finding> {
    let agents = config.agents.keys().filter(|id| *id != tollgate::DIRECT_AGENT);
    let mut models: Vec<&ModelConfig> = Vec::new();
    for model in agents.filter_map(|id| config.model_of(id)) {
        if !models.contains(&model) {
            models.push(model);
        }
    }
    join_all(models.into_iter().map(model)).await.into_iter().flatten().collect()
}

async fn model(model: &ModelConfig) -> Option<Finding> {
    let probed = model.probe(|name| std::env::var(name).ok(), LIMIT).await?;
    let wanted = model.model.as_deref().unwrap_or_default().trim();
    let (state, words) = match probed {
        Ok(Probe::Ready) => (State::Ok, "its provider answers and has it".to_owned()),
        Ok(Probe::Unlisted) => (State::Ok, "its provider answers, but does not list its models".to_owned()),
        Ok(Probe::Lacks(others)) => (State::Note, lacks(model, wanted, &others)),
        Err(fault) => (State::Broken, fault.message().to_owned()),
    };
    Some(finding(format!("model {wanted}"), state, words))
}

fn lacks(model: &ModelConfig, wanted: &str, others: &[String]) -> String {
    let remedy = match model.provider {
        ProviderName::Ollama => format!("download it: ollama pull {wanted}"),
        _ => format!("correct `model`: the list begins with {}", others.join(", ")),
    };
    format!("its provider answers, but does not list it; {remedy}")
}

/// Reads the card of each agent of another server.
async fn agents(config: &Config) -> Vec<Finding> {
    let remotes = config.agents.iter().filter_map(|(id, agent)| {
        // One whose token is missing is reported with the configuration.
        let remote = agent.remote.as_ref()?.connect(|name| std::env::var(name).ok()).ok()?;
        Some(async move {
            let (state, words) = match tokio::time::timeout(LIMIT, remote.check()).await {
                Ok(Ok(())) => (State::Ok, "its server answers".to_owned()),
                Ok(Err(why)) => (State::Broken, format!("{why}; correct `url` in [agents.{id}]")),
                Err(_) => (State::Broken, late(&format!("`url` in [agents.{id}]"))),
            };
            finding(format!("agent {id}"), state, words)
        })
    });
    join_all(remotes).await
}

fn late(setting: &str) -> String {
    format!("its server did not answer within {} s; start it, or correct {setting}", LIMIT.as_secs())
}

/// Starts or contacts each MCP server, lists its tools, and ends the connection.
#[cfg(feature = "mcp")]
async fn mcp(config: &Config) -> Vec<Finding> {
    let startable = config.servers.keys().filter(|name| server_problem(name, config).is_none());
    join_all(startable.map(|name| mcp_server(name, config))).await
}

#[cfg(feature = "mcp")]
async fn mcp_server(name: &str, config: &Config) -> Finding {
    let mut alone = config.clone();
    alone.servers.retain(|other, _| other == name);
    for server in alone.servers.values_mut() {
        server.start_timeout = server.start_timeout.min(LIMIT);
    }
    let shown = format!("mcp {name}");
    let host = match tollgate::Host::builder().build() {
        Ok(host) => host,
        Err(why) => return finding(shown, State::Broken, why.to_string()),
    };
    let servers = tollgate_mcp::Servers::connect(&host, &alone).await;
    let tools = host.toolbox().catalog().tools().filter(|tool| tool.owner.id == name).count();
    let notices = servers.notices.join("; ");
    let failed = servers.failed.first().cloned();
    servers.end().await;
    match failed {
        Some(why) => finding(shown, State::Broken, why),
        None if notices.is_empty() => {
            let words =
                format!("it answers, with {}", crate::terminal::quantity::count(tools as u64, "tool"));
            finding(shown, State::Ok, words)
        }
        None => finding(shown, State::Note, notices),
    }
}

#[cfg(not(feature = "mcp"))]
async fn mcp(_: &Config) -> Vec<Finding> {
    Vec::new()
}

/// Asks each registry that is configured, or from which a component was installed.
async fn registries(config: &Config) -> Vec<Finding> {
    let installed = tollgate::registry::files(config).read_lock().unwrap_or_default();
    let hosts = installed.entries().filter_map(|entry| match entry.from.parse::<Source>() {
        Ok(Source::Registry(reference)) => Some(reference.host),
        _ => None,
    });
    let hosts: BTreeSet<String> = hosts.chain(config.registries.keys().cloned()).collect();
    if hosts.is_empty() {
        return Vec::new();
    }
    let client = match tollgate::registry::client(config, None, Some(LIMIT)) {
        Ok(client) => client,
        Err(why) => return vec![finding("registries".to_owned(), State::Broken, why.to_string())],
    };
    let client = &client;
    let asked = hosts.into_iter().map(|host| async move {
        match client.check(&host).await {
            Ok(()) => finding(format!("registry {host}"), State::Ok, "it answers"),
            // Tools that are installed work without it.
            Err(why) => finding(
                format!("registry {host}"),
                State::Note,
                format!("{why}; until it answers, `add`, `update` and `publish` do not work with it"),
            ),
        }
    });
    join_all(asked).await
}

/// Returns why an MCP server cannot be contacted at all.
#[cfg(feature = "mcp")]
pub(super) fn server_problem(name: &str, config: &Config) -> Option<String> {
    match &config.servers.get(name)?.place {
        ServerPlace::Process { command, .. } => (!tollgate_mcp::is_program(command, &config.base_dir))
            .then(|| format!("its program {command} is not found; correct `command` in [mcp.{name}]")),
        ServerPlace::Http { token_env, .. } => {
            let unset = token_env.as_ref().filter(|variable| std::env::var_os(variable).is_none());
            unset.map(|variable| {
                format!("the environment variable {variable}, `token_env` of [mcp.{name}], is not set")
            })
        }
    }
}
