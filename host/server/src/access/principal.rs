//! The principal of a request.

use crate::problem::Problem;
use crate::scope::Scope;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::collections::BTreeSet;

/// The maximum length of a principal's name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The principal of a request. Several keys may share a name, so that a key can be replaced without
/// losing its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name; threads and runs belong to it.
    pub name: String,
    /// The scopes of the credential.
    pub scopes: BTreeSet<Scope>,
    /// The agents it may use, as patterns with `*`; all if empty.
    pub agents: Vec<String>,
    /// The tools it may call, as patterns with `*`; all if empty.
    pub tools: Vec<String>,
    /// Whether the credential is a key rather than a session.
    pub has_key: bool,
}

impl Principal {
    /// Creates a principal with these scopes, for all agents and tools.
    #[must_use]
    pub fn new(name: impl Into<String>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        let scopes = scopes.into_iter().collect();
        Self { name: name.into(), scopes, agents: Vec::new(), tools: Vec::new(), has_key: false }
    }

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

    /// Returns whether the credential may use the agent.
    #[must_use]
    pub fn may_use_agent(&self, agent_id: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|pattern| matches(pattern, agent_id))
    }

    /// Returns whether the credential may call the tool.
    #[must_use]
    pub fn may_use_tool(&self, tool_name: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|pattern| matches(pattern, tool_name))
    }
}

/// A text is not the name of a principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a name; use at most {MAX_NAME_BYTES} letters, digits, `.`, `_`, `-` and `@`, beginning with a letter \
     or digit",
    tollgate_agent::text::clean(.0, 80)
)]
pub struct InvalidName(String);

/// Checks the name of a principal. It begins the ids of the principal's threads, so it contains no
/// slash.
///
/// # Errors
/// The name is empty, too long, or has other characters than letters, digits, `.`, `_`, `-` and
/// `@`.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte))
        && name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if fits {
        return Ok(());
    }
    Err(InvalidName(name.to_owned()))
}

/// Returns whether a name matches a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Extracts the principal that the authentication middleware put into the request before any
/// handler runs.
impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Principal>().cloned().ok_or_else(Problem::unauthenticated)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, is) in [
            ("find_*", "find_file", true),
            ("find_*", "find", false),
            ("*_file", "find_file", true),
            ("f*d*e", "find_file", true),
            ("f*x*e", "find_file", false),
            ("a*a", "a", false),
            ("find", "find_file", false),
            ("*", "anything", true),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn names_and_scopes_are_checked() {
        assert!(check_name("ada@example.com").is_ok());
        for wrong in ["", "a/b", "-a", "ä", "a b", &"a".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
        assert_eq!("decide_any".parse::<Scope>().unwrap(), Scope::DecideAny);
        assert!("admin".parse::<Scope>().is_err());
    }
}
