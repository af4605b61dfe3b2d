//! Records of keys, sessions and sign-in codes.

use super::principal::Principal;
use crate::scope::Scope;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long a session may be idle, in milliseconds.
pub(super) const SESSION_IDLE_MS: u64 = 12 * 3_600 * 1_000;
/// How long a session lasts at most, in milliseconds.
pub(super) const SESSION_MS: u64 = 30 * 86_400 * 1_000;
/// How long a sign-in code is valid, in milliseconds.
pub(super) const CODE_MS: u64 = 5 * 60 * 1_000;

/// A key to create.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// The principal's name, scopes, agents and tools.
    pub principal: Principal,
    /// When the key expires, in milliseconds since the Unix epoch; `None` if never.
    pub expires_at_ms: Option<u64>,
}

/// A key in a list, without its secret.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct KeySummary {
    /// The key's id.
    pub id: String,
    /// The principal.
    pub name: String,
    /// The names of its scopes.
    pub scopes: Vec<String>,
    /// The agents it may use, as patterns; all if empty.
    pub agents: Vec<String>,
    /// The tools it may call, as patterns; all if empty.
    pub tools: Vec<String>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// When it expires; `None` if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// When it was revoked; `None` if it is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<u64>,
    /// When it was last used, to within a minute; `None` if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_at_ms: Option<u64>,
}

/// A session in a list.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct SessionSummary {
    /// The session's public id.
    pub id: String,
    /// The principal.
    pub name: String,
    /// The names of its scopes.
    pub scopes: Vec<String>,
    /// The browser, as it described itself at sign-in, cut to 200 bytes; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// When it began, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// When it was last used, to within a minute.
    pub used_at_ms: u64,
    /// When it ends at the latest.
    pub ends_at_ms: u64,
}

/// A session that began.
#[derive(Debug)]
pub struct NewSession {
    /// The session's public id.
    pub id: String,
    /// The principal.
    pub name: String,
    /// The secret of its cookie, which is stored nowhere.
    pub cookie: String,
    /// When it ends at the latest, in milliseconds since the Unix epoch.
    pub ends_at_ms: u64,
}

/// A valid key or session.
#[derive(Debug)]
pub struct Credential {
    /// The id of the key or session.
    pub id: String,
    /// Whether it is a session's cookie.
    pub is_session: bool,
    /// The principal.
    pub principal: Arc<Principal>,
    /// When it expires; `u64::MAX` if never.
    pub(super) ends_at_ms: u64,
    /// When it was last used.
    pub(super) used_at_ms: AtomicU64,
    /// The last use that is stored.
    pub(super) stored_at_ms: AtomicU64,
}

impl Credential {
    /// Returns whether it is valid at this time.
    pub(super) fn is_valid(&self, now_ms: u64) -> bool {
        let used = self.used_at_ms.load(Ordering::Relaxed);
        let idle = self.is_session && now_ms.saturating_sub(used) > SESSION_IDLE_MS;
        !idle && now_ms < self.ends_at_ms
    }

    /// Returns whether it is valid at this time, and if so, that it was used.
    pub(super) fn used(&self, now_ms: u64) -> bool {
        if !self.is_valid(now_ms) {
            return false;
        }
        self.used_at_ms.fetch_max(now_ms, Ordering::Relaxed);
        true
    }
}

/// The reason why keys and sessions cannot be read or written, as a sentence for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(pub String);

/// Returns scopes as they are stored and listed.
pub(super) fn scope_names(principal: &Principal) -> Vec<String> {
    principal.scopes.iter().map(|scope| scope.as_str().to_owned()).collect()
}

/// Reads stored scopes. A name that this version does not know grants nothing.
pub(super) fn scopes_of(names: &[String]) -> impl Iterator<Item = Scope> + '_ {
    names.iter().filter_map(|name| name.parse().ok())
}
