//! The agents and tools that this host serves, which it publishes to the other hosts of a database.

use crate::session::models::model_to_run;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tollgate::config::Config;
use tollgate::tools::LoadedTools;
use tollgate::{DIRECT_AGENT, Host};
use tollgate_postgres::{HostDescription, PostgresStore};

/// How often tools that were added, replaced or removed are published.
const TOLD_EVERY: Duration = Duration::from_secs(5);
/// The number of characters of a digest that tell versions apart.
const DIGEST_CHARS: usize = 12;

/// The agents of a configuration whose runs this host can drive, and the others.
pub(crate) struct ServedAgents {
    /// The ids of the agents that are served.
    pub(crate) ids: Vec<String>,
    /// The agents that are not served, and why, one sentence each.
    pub(crate) unserved: Vec<String>,
    /// A digest of the configuration of all agents.
    config: String,
}

impl ServedAgents {
    /// Finds the agents that have a model and all the tools that they list.
    pub(crate) fn find(config: &Config, loaded: &LoadedTools) -> Self {
        let (mut ids, mut unserved) = (Vec::new(), Vec::new());
        for id in config.agents.keys().filter(|id| *id != DIRECT_AGENT) {
            match unusable(id, config, loaded) {
                None => ids.push(id.clone()),
                Some(why) => unserved.push(format!("{id}: {why}")),
            }
        }
        Self { ids, unserved, config: digest(config) }
    }

    /// Publishes what this host serves, for as long as the result lives.
    pub(crate) fn announce(&self, host: &Host, store: Arc<PostgresStore>) -> DropGuard {
        let (host, stop) = (host.clone(), CancellationToken::new());
        let (unserved, config) = (self.unserved.clone(), self.config.clone());
        let served = move || HostDescription {
            unserved: unserved.clone(),
            tools: tools(&host),
            config: config.clone(),
        };
        store.describe(served());
        let stopped = stop.clone();
        tokio::spawn(async move {
            let mut due = tokio::time::interval(TOLD_EVERY);
            while stopped.run_until_cancelled(due.tick()).await.is_some() {
                store.describe(served());
            }
        });
        stop.drop_guard()
    }
}

/// Returns why an agent is not served; `None` if it is.
fn unusable(id: &str, config: &Config, loaded: &LoadedTools) -> Option<String> {
    if let Err(why) = model_to_run(None, id, config) {
        return Some(why.to_string());
    }
    let mut unknown = loaded.unknown_tools.iter();
    unknown.find(|unknown| unknown.agent.as_deref() == Some(id)).map(|unknown| unknown.notice.clone())
}

/// Returns the tools of a host, each as `NAME DIGEST`.
fn tools(host: &Host) -> Vec<String> {
    let toolbox = host.toolbox();
    let mut tools: Vec<String> = toolbox
        .catalog()
        .tools()
        .map(|tool| {
            let digest = tool.digest();
            let short = digest.strip_prefix("sha256:").unwrap_or(&digest).chars().take(DIGEST_CHARS);
            format!("{} {}", tool.descriptor.name, short.collect::<String>())
        })
        .collect();
    tools.sort();
    tools
}

/// Returns a digest of the agents: without places and secrets, which may differ between hosts.
fn digest(config: &Config) -> String {
    let mut hash = Sha256::new();
    for (id, agent) in &config.agents {
        let model = config.model_of(id).and_then(|model| model.model.clone()).unwrap_or_default();
        let output = agent.output.as_ref().map(ToString::to_string).unwrap_or_default();
        let (description, offered) = (agent.description.as_deref(), agent.offered_as.as_deref());
        let lists = [agent.tools.join(","), agent.delegates.join(",")];
        for part in [id, &agent.instructions, &model, &output, &lists[0], &lists[1]] {
            hash.update(part);
            hash.update([0]);
        }
        hash.update(format!("{description:?} {offered:?} {:?} {:?}\0", agent.limits, agent.made_of));
    }
    hash.finalize().iter().take(DIGEST_CHARS / 2).map(|byte| format!("{byte:02x}")).collect()
}
