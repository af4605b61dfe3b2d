//! Authentication: the key or cookie of a request, the middleware that admits keys and sessions, and
//! signing in and out.

mod middleware;
pub(crate) mod sign_in;
mod watch;

pub(crate) use middleware::authenticate;
pub(crate) use watch::look_for_changes;

use crate::access::Credential;
use axum::http::{HeaderMap, header};
use std::sync::Arc;

/// The maximum length of a credential, in bytes.
const MAX_CREDENTIAL_BYTES: usize = 200;

/// The credential of a request, for routes that list or end sessions.
#[derive(Debug, Clone)]
pub(crate) struct CredentialInUse(pub(crate) Arc<Credential>);

/// Returns the key of the only `Authorization` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && key.len() <= MAX_CREDENTIAL_BYTES).then_some(key)
}

/// Returns the value of a cookie. If it is sent twice, one of them may be planted, so neither
/// counts.
fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = sent.flat_map(|value| cookie::Cookie::split_parse(value.to_owned())).flatten();
    let found = cookies.find(|cookie| cookie.name() == name)?;
    let is_only = !cookies.any(|cookie| cookie.name() == name);
    (is_only && found.value().len() <= MAX_CREDENTIAL_BYTES).then(|| found.value().to_owned())
}
