//! Agents of other servers, reached by A2A 1.0 over JSON-RPC or HTTP+JSON.
//!
//! A remote agent is run like any other: its messages are calls that the gates judge and the
//! record keeps. The remote server is untrusted. It receives the one message that the call's
//! arguments show, and everything that it sends back is bounded and cleaned.

mod binding;
mod client;
mod error;
mod events;
mod memory;
mod model;
mod task;
mod tools;

pub(crate) use tools::{FollowAgent, MessageAgent};

use crate::config::{RemoteConfig, agent_url};
use crate::models::ApiKey;
use binding::Endpoint;
use reqwest::Url;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tollgate_agent::text::one_line;
use tollgate_sandbox::MemoryBudget;

/// How long a connection to a remote server may take to begin.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An agent of another server.
///
/// ```no_run
/// use tollgate::a2a::RemoteAgent;
/// use tollgate::{Agent, Host};
///
/// # fn host() -> Result<Host, Box<dyn std::error::Error>> {
/// let archive = RemoteAgent::new("https://agents.example.com/a2a/archive")?;
/// let host = Host::builder().agent(Agent::remote("archive", archive).offered_as("ask_archive")).build()?;
/// # Ok(host)
/// # }
/// ```
#[derive(Debug)]
pub struct RemoteAgent {
    /// The address below which the agent's card is.
    url: Url,
    token: Option<ApiKey>,
    transcript: bool,
    http: reqwest::Client,
    /// The endpoint that the card named last.
    endpoint: Mutex<Option<Endpoint>>,
    /// The host's budget, from which the memory of answers is reserved.
    budget: OnceLock<MemoryBudget>,
}

/// The reason why a remote agent cannot be used: a clause without a period.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RemoteAgentError(String);

impl RemoteAgent {
    /// Creates an agent whose card is at `URL/.well-known/agent-card.json`.
    ///
    /// # Errors
    /// It is not a URL of HTTP, it contains a user or a query, or TLS cannot be set up.
    pub fn new(url: &str) -> Result<Self, RemoteAgentError> {
        let url = agent_url(url).map_err(RemoteAgentError)?;
        let http =
            crate::models::http_client(&url, CONNECT_TIMEOUT).map_err(|e| RemoteAgentError(e.to_string()))?;
        Ok(Self {
            url,
            token: None,
            transcript: false,
            http,
            endpoint: Mutex::default(),
            budget: OnceLock::new(),
        })
    }

    /// Sets the bearer token that is sent with every request.
    #[must_use]
    pub fn with_token(mut self, token: ApiKey) -> Self {
        if self.url.scheme() == "http" && !crate::models::is_loopback(&self.url) {
            tracing::warn!(host = self.url.host_str(), "the token is sent without encryption; use https://");
        }
        self.token = Some(token);
        self
    }

    /// Sends the earlier messages of a conversation with the first message, as text. Without this,
    /// a request with earlier messages is refused.
    #[must_use]
    pub fn with_transcript(mut self) -> Self {
        self.transcript = true;
        self
    }

    /// Reserves the memory of answers from this budget from now on. The first budget stays.
    pub(crate) fn use_budget(&self, budget: &MemoryBudget) {
        self.budget.get_or_init(|| budget.clone());
    }

    /// Returns whether earlier messages are sent.
    pub(crate) fn has_transcript(&self) -> bool {
        self.transcript
    }

    /// Returns the address as calls show it.
    fn address(&self) -> &str {
        self.url.as_str()
    }
}

impl RemoteConfig {
    /// Creates the agent. `env` reads an environment variable.
    ///
    /// # Errors
    /// The URL cannot be used, or the variable with the token is not set.
    pub fn connect(&self, env: impl Fn(&str) -> Option<String>) -> Result<RemoteAgent, RemoteAgentError> {
        let agent = RemoteAgent::new(&self.url)?;
        let agent = if self.transcript { agent.with_transcript() } else { agent };
        let Some(variable) = &self.token_env else { return Ok(agent) };
        let shown = one_line(variable, 100);
        let text = env(variable).ok_or_else(|| {
            RemoteAgentError(format!("the variable {shown} is not set; type `export {shown}=TOKEN`"))
        })?;
        let token = ApiKey::new(&text).ok_or_else(|| {
            RemoteAgentError(format!(
                "the variable {shown} is empty, or contains characters invalid in a token"
            ))
        })?;
        Ok(agent.with_token(token))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_checked() {
        assert_eq!(RemoteAgent::new("https://x/a2a/b/").unwrap().address(), "https://x/a2a/b");
        for (url, why) in [
            ("ftp://x", "neither"),
            ("nothing", "not a URL"),
            ("https://a:b@x/", "`token_env`"),
            ("https://x/?q=1", "query"),
            ("https://x/#f", "fragment"),
        ] {
            let error = RemoteAgent::new(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
    }

    #[test]
    fn a_token_comes_from_its_variable_and_is_never_shown() {
        let config = RemoteConfig {
            url: "http://127.0.0.1:1".to_owned(),
            token_env: Some("TOKEN".to_owned()),
            transcript: false,
        };
        let error = config.connect(|_| None).unwrap_err().to_string();
        assert!(error.contains("export TOKEN=TOKEN"), "{error}");
        assert!(config.connect(|_| Some("a b".to_owned())).is_err());
        let agent = config.connect(|_| Some("very-secret".to_owned())).unwrap();
        assert!(!format!("{agent:?}").contains("very-secret"));
    }
}
