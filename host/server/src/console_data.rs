//! The facts that the server gives to the console.

use crate::access::{KeySummary, Principal, SessionSummary};
use crate::access_audit::end_session;
use crate::console::{ConsoleData, KeyRow, SessionRow};
use crate::operator::{ComponentFacts, HostFacts};
use crate::pricing::Price;
use crate::problem::Problem;
use crate::scope::Scope;
use crate::state::Shared;
use axum::http::StatusCode;
use tollgate::async_trait;
use tollgate_agent::gate::permissions::RuleSpec;

/// The sessions, keys and prices of a server.
pub(crate) struct ServerData {
    state: Shared,
    /// The id of the session that sent the request; `None` for a key.
    session: Option<String>,
}

impl ServerData {
    pub(crate) fn new(state: Shared, session: Option<String>) -> Self {
        Self { state, session }
    }

    fn row(&self, session: SessionSummary) -> SessionRow {
        SessionRow {
            is_current: self.session.as_ref() == Some(&session.id),
            id: session.id,
            principal: session.name,
            started_at_ms: session.created_at_ms,
            used_at_ms: session.used_at_ms,
            ends_at_ms: session.ends_at_ms,
            browser: session.user_agent,
        }
    }

    /// Returns the sessions that the principal may see.
    fn visible_sessions(&self, viewer: &Principal) -> Result<Vec<SessionSummary>, Problem> {
        let mut sessions = self.state.access.sessions().map_err(|e| Problem::internal(&e))?;
        sessions.retain(|session| session.name == viewer.name || viewer.has(Scope::Operate));
        Ok(sessions)
    }
}

#[async_trait]
impl ConsoleData for ServerData {
    async fn sessions(&self, viewer: &Principal) -> Result<Vec<SessionRow>, Problem> {
        Ok(self.visible_sessions(viewer)?.into_iter().map(|session| self.row(session)).collect())
    }

    async fn end_session(&self, viewer: &Principal, id: &str) -> Result<(), Problem> {
        let visible = self.visible_sessions(viewer)?;
        let found = visible.iter().find(|session| session.id == id);
        let session = found.ok_or_else(|| Problem::not_found("session"))?;
        match end_session(&self.state, &viewer.name, &session.id, &session.name).await? {
            true => Ok(()),
            false => Err(Problem::not_found("session")),
        }
    }

    async fn keys(&self) -> Result<Vec<KeyRow>, Problem> {
        let keys = self.state.access.keys().map_err(|e| Problem::internal(&e))?;
        Ok(keys.into_iter().map(key_row).collect())
    }

    fn component(&self, id: &str) -> Option<ComponentFacts> {
        self.state.operator.as_ref()?.component(id)
    }

    async fn hosts(&self) -> Result<Vec<HostFacts>, Problem> {
        match &self.state.operator {
            Some(operator) => operator.hosts().await.map_err(|why| Problem::internal(&why)),
            None => Ok(Vec::new()),
        }
    }

    fn keeps_rules(&self) -> bool {
        self.state.operator.is_some()
    }

    fn keep_rule(&self, rule: &RuleSpec) -> Result<(), Problem> {
        let Some(operator) = &self.state.operator else {
            let detail = "this server has no configuration file for permanent answers";
            return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "not_kept", detail));
        };
        operator.keep_rule(rule).map_err(|why| {
            tracing::error!("a permanent answer is not kept: {why}");
            let detail = "the answer counts for this thread only: the configuration cannot be changed; the log of \
                          the server has the reason";
            Problem::new(StatusCode::CONFLICT, "not_kept", detail)
        })
    }

    fn price(&self, model: &str) -> Option<Price> {
        self.state.price(model)
    }
}

fn key_row(key: KeySummary) -> KeyRow {
    KeyRow {
        scopes: key.scopes.iter().filter_map(|name| name.parse().ok()).collect(),
        id: key.id,
        name: key.name,
        created_at_ms: key.created_at_ms,
        used_at_ms: key.used_at_ms,
        expires_at_ms: key.expires_at_ms,
        is_revoked: key.revoked_at_ms.is_some(),
    }
}
