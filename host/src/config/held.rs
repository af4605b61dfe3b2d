//! Host environment variables that no tool may see, because they hold a key or a token.

use super::{Config, GrantKind, SecretConfig, SecretSource, ServerPlace};
use crate::models::{ModelConfig, Provider};
use std::collections::BTreeSet;

const PROVIDERS: [Provider; 4] = [Provider::Openai, Provider::Anthropic, Provider::Gemini, Provider::Ollama];
/// Words in the names of variables that hold a secret.
const SECRET_WORDS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
/// The minimum length of a value that is searched for within others, in bytes.
const MIN_VALUE_BYTES: usize = 8;

impl Config {
    /// Describes the protected value that a host environment variable holds: a secret, a
    /// model's key, a server's token. `None` if it holds none of them.
    #[must_use]
    pub fn held_by(&self, variable: &str) -> Option<String> {
        if let Some(what) = self.held_variables.get(variable) {
            return Some(what.clone());
        }
        if let Some((name, _)) = self.secrets.iter().find(|(_, secret)| is_in(secret, variable)) {
            return Some(format!("the secret of [secrets.{name}]"));
        }
        // The command line can also name a model, whose key is in its customary variable.
        let customary = PROVIDERS.iter().any(|provider| provider.key_variable() == Some(variable));
        if customary || self.model_variables().any(|held| held == variable) {
            return Some("a model's API key".to_owned());
        }
        if let Some((id, _)) = self.agent_tokens().find(|(_, name)| *name == variable) {
            return Some(format!("the token of [agents.{id}]"));
        }
        for (name, server) in &self.servers {
            let (holds, what) = match &server.place {
                ServerPlace::Http { token_env, .. } => (token_env.as_deref() == Some(variable), "token"),
                ServerPlace::Process { env, .. } => {
                    (env.contains_key(variable) && is_secret_by_name(variable), "environment")
                }
            };
            if holds {
                return Some(format!("the {what} of [mcp.{name}]"));
            }
        }
        let of_telemetry = variable.starts_with("OTEL_") && variable.ends_with("_HEADERS");
        of_telemetry.then(|| "the headers of telemetry".to_owned())
    }

    /// Like `held`, but for a value, which may be in a variable of another name. `lookup` reads
    /// the host's environment.
    pub(crate) fn held_in(&self, value: &str, lookup: impl Fn(&str) -> Option<String>) -> Option<String> {
        let customary = PROVIDERS.iter().filter_map(|provider| provider.key_variable());
        let mut held = self.named_variables().chain(self.model_variables()).chain(customary);
        let named = held.find(|name| lookup(name).is_some_and(|secret| holds(value, &secret)));
        if let Some(name) = named {
            return Some(format!("the value of {name}, which is {}", self.held_by(name)?));
        }
        let in_server = |(name, server): (&String, &super::ServerConfig)| match &server.place {
            ServerPlace::Process { env, .. } => env
                .iter()
                .any(|(variable, secret)| is_secret_by_name(variable) && holds(value, secret))
                .then(|| format!("a key of the environment of [mcp.{name}]")),
            ServerPlace::Http { .. } => None,
        };
        self.servers.iter().find_map(in_server)
    }

    /// Returns the names of the environment variables that the configuration reads: keys of models,
    /// tokens of servers and agents, secrets, the database's password, and variables that
    /// components are granted.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<&str> {
        let granted = self.grants.values().flat_map(|grants| grants.names(GrantKind::Environment));
        self.named_variables().chain(self.model_variables()).chain(granted).collect()
    }

    /// Returns the variables that `tollgate.toml` names for secrets, tokens and passwords.
    fn named_variables(&self) -> impl Iterator<Item = &str> {
        let of_secrets = self.secrets.values().filter_map(|secret| match &secret.source {
            SecretSource::Environment(name) => Some(name.as_str()),
            SecretSource::File(_) => None,
        });
        let of_servers = self.servers.values().filter_map(|server| match &server.place {
            ServerPlace::Http { token_env, .. } => token_env.as_deref(),
            ServerPlace::Process { .. } => None,
        });
        let held = self.held_variables.keys().map(String::as_str);
        of_secrets.chain(of_servers).chain(self.agent_tokens().map(|(_, name)| name)).chain(held)
    }

    /// Returns the ids of agents on other servers, each with the variable that holds its token.
    fn agent_tokens(&self) -> impl Iterator<Item = (&str, &str)> {
        self.agents
            .iter()
            .filter_map(|(id, agent)| Some((id.as_str(), agent.remote.as_ref()?.token_env.as_deref()?)))
    }

    fn model_variables(&self) -> impl Iterator<Item = &str> {
        let of_agents = self.agents.values().filter_map(|agent| agent.model.as_ref());
        of_agents.chain(&self.model).filter_map(ModelConfig::key_variable)
    }
}

fn is_in(secret: &SecretConfig, variable: &str) -> bool {
    match &secret.source {
        SecretSource::Environment(name) => name == variable,
        SecretSource::File(_) => false,
    }
}

fn is_secret_by_name(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| variable.contains(word))
}

/// Returns whether a value equals or contains a secret.
pub(crate) fn holds(value: &str, secret: &str) -> bool {
    let secret = secret.trim();
    secret.len() >= MIN_VALUE_BYTES && value.contains(secret)
}
