//! The facts that the server gives to the console: sessions, keys, installed components and prices.

use crate::operator::{ComponentFacts, HostFacts};
use crate::pricing::Price;
use crate::{Principal, Problem, Scope};
use axum::http::StatusCode;
use tollgate::async_trait;
use tollgate_agent::gate::permissions::RuleSpec;

/// Facts that only the server knows. It puts an `Arc<dyn ConsoleData>` into the extensions of each
/// request. Every function has a default, so that the console works without it.
#[async_trait]
pub trait ConsoleData: Send + Sync {
    /// Returns the sessions of this principal, or all sessions if it has the scope `operate`,
    /// newest first.
    async fn sessions(&self, viewer: &Principal) -> Result<Vec<SessionRow>, Problem> {
        let _ = viewer;
        Ok(Vec::new())
    }

    /// Ends a session of this principal, or any session if it has the scope `operate`.
    ///
    /// # Errors
    /// There is no such session for this principal.
    async fn end_session(&self, viewer: &Principal, id: &str) -> Result<(), Problem> {
        let _ = (viewer, id);
        Err(Problem::not_found("session"))
    }

    /// Returns the keys, for principals with the scope `operate`; newest first.
    async fn keys(&self) -> Result<Vec<KeyRow>, Problem> {
        Ok(Vec::new())
    }

    /// Returns the installed component with this id.
    fn component(&self, id: &str) -> Option<ComponentFacts> {
        let _ = id;
        None
    }

    /// Returns the hosts that share the store; none if one process has it for itself.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn hosts(&self) -> Result<Vec<HostFacts>, Problem> {
        Ok(Vec::new())
    }

    /// Returns the price of a model's tokens, if it is configured.
    fn price(&self, model: &str) -> Option<Price> {
        let _ = model;
        None
    }

    /// Returns whether permanent answers to the permission rules can be kept. If not, the console
    /// does not offer them.
    fn keeps_rules(&self) -> bool {
        false
    }

    /// Keeps a permanent answer to the permission rules in the configuration.
    ///
    /// # Errors
    /// It cannot be kept.
    fn keep_rule(&self, rule: &RuleSpec) -> Result<(), Problem> {
        let _ = rule;
        Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "not_kept", "permanent answers are not kept here"))
    }
}

/// A server that knows none of these facts.
pub(super) struct NoData;

impl ConsoleData for NoData {}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The id, which is not a secret.
    pub id: String,
    /// The principal.
    pub principal: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// When it was last used, in milliseconds since the Unix epoch.
    pub used_at_ms: u64,
    /// When it ends at the latest, in milliseconds since the Unix epoch.
    pub ends_at_ms: u64,
    /// The browser's own description of itself; `None` if unknown.
    pub browser: Option<String>,
    /// Whether it is the session of the request.
    pub is_current: bool,
}

/// A key in a list, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// The id.
    pub id: String,
    /// The name of its principal.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<Scope>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// When it was last used, in milliseconds since the Unix epoch; `None` if never.
    pub used_at_ms: Option<u64>,
    /// When it expires, in milliseconds since the Unix epoch; `None` if never.
    pub expires_at_ms: Option<u64>,
    /// Whether it was revoked.
    pub is_revoked: bool,
}
