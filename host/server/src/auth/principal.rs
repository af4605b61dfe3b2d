//! The principal of a request.

use crate::problem::Problem;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::collections::BTreeSet;

/// A right of a key or a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Call tools, start runs, see and cancel own runs.
    Use,
    /// Answer questions of own runs.
    Decide,
    /// See and answer every question.
    DecideAny,
    /// See the runs, audit and usage of everyone.
    Read,
    /// Cancel and recover others' runs, enable tools, end sessions.
    Operate,
    /// Read `/metrics`.
    Metrics,
}

impl Scope {
    /// Returns the scope's name in configuration, on the command line and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Use => "use",
            Scope::Decide => "decide",
            Scope::DecideAny => "decide_any",
            Scope::Read => "read",
            Scope::Operate => "operate",
            Scope::Metrics => "metrics",
        }
    }
}

/// The sender of a request. Several keys may share a name, so that a key can be replaced without
/// losing its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name; threads and runs belong to it.
    pub name: String,
    /// The rights of the credential.
    pub scopes: BTreeSet<Scope>,
    /// The agents it may use, as patterns with `*`; all if empty.
    pub agents: Vec<String>,
    /// The tools it may call, as patterns with `*`; all if empty.
    pub tools: Vec<String>,
}

impl Principal {
    /// Returns whether the credential has a scope.
    #[must_use]
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Requires a scope.
    ///
    /// # Errors
    /// The credential lacks it: 403 with the scope's name.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.has(scope) { Ok(()) } else { Err(Problem::scope_missing(scope)) }
    }
}

/// Extracts the principal that the authentication middleware put into the request before any
/// handler runs.
impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Principal>().cloned().ok_or_else(Problem::unauthenticated)
    }
}
