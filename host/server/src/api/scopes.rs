//! The scopes of the document's operations, which the server enforces. A route that the document
//! does not describe is refused.

use super::protocols::KEY;
use crate::access::Principal;
use crate::problem::Problem;
use crate::scope::Scope;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The alternatives of scopes of each operation, by path and method. An empty alternative admits
/// any credential.
#[derive(Debug)]
pub(super) struct RouteScopes(HashMap<String, HashMap<String, Vec<Vec<Scope>>>>);

impl RouteScopes {
    /// Reads the scopes from the document.
    pub(super) fn of(document: &Value) -> Self {
        let paths = document["paths"].as_object().cloned().unwrap_or_default();
        let mut scopes = HashMap::<_, HashMap<_, _>>::new();
        for (path, item) in &paths {
            for (method, operation) in item.as_object().into_iter().flatten() {
                let alternatives = operation["security"].as_array().into_iter().flatten();
                let alternatives: Vec<Vec<Scope>> = alternatives
                    .filter_map(|alternative| alternative.get(KEY)?.as_array())
                    .map(|names| names.iter().filter_map(|name| name.as_str()?.parse().ok()).collect())
                    .collect();
                scopes.entry(path.clone()).or_default().insert(method.to_ascii_uppercase(), alternatives);
            }
        }
        Self(scopes)
    }

    /// Checks that the principal has the scopes of one alternative.
    fn check(&self, method: &Method, path: &str, principal: &Principal) -> Result<(), Problem> {
        // A HEAD request is answered by the route of GET.
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let known = self.0.get(path).and_then(|methods| methods.get(method.as_str()));
        let alternatives = known.map(Vec::as_slice).unwrap_or_default();
        let missing = |scopes: &Vec<Scope>| scopes.iter().copied().find(|scope| !principal.has(*scope));
        if alternatives.iter().any(|scopes| missing(scopes).is_none()) {
            return Ok(());
        }
        match alternatives.iter().find_map(missing) {
            Some(scope) => Err(Problem::scope_missing(scope)),
            None => Err(Problem::not_found("path; /openapi.json lists them")),
        }
    }
}

/// Refuses requests without the scopes of their operation.
pub(super) async fn require_scopes(
    State(scopes): State<Arc<RouteScopes>>,
    request: Request,
    next: Next,
) -> Response {
    let extensions = request.extensions();
    let path = extensions.get().map(MatchedPath::as_str).unwrap_or_default();
    let checked = match extensions.get::<Principal>() {
        Some(principal) => scopes.check(request.method(), path, principal),
        None => Err(Problem::unauthenticated()),
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}
