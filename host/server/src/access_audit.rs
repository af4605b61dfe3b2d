//! The audit of keys and sign-ins.

use crate::access::KeySummary;
use crate::problem::Problem;
use crate::state::Shared;
use tollgate::store::{AuditKind, AuditRecord};

/// Returns the record of a key that was made on the command line.
#[must_use]
pub fn key_made(key: &KeySummary) -> AuditRecord {
    let scopes = key.scopes.join(",");
    AuditRecord::new(AuditKind::Key, "person", "made")
        .because(&format!("the key {} of {} with the scopes {scopes}", key.id, key.name))
}

/// Returns the record of a key that was revoked on the command line.
#[must_use]
pub fn key_revoked(id: &str) -> AuditRecord {
    AuditRecord::new(AuditKind::Key, "person", "revoked").because(&format!("the key {id}"))
}

/// Returns the record of a link to sign in as this principal.
#[must_use]
pub fn link_made(name: &str) -> AuditRecord {
    AuditRecord::new(AuditKind::SignIn, "person", "link_made").because(&format!("a link for {name}"))
}

/// Records that a session began.
pub(crate) async fn signed_in(state: &Shared, name: &str, id: &str) {
    let record = AuditRecord::new(AuditKind::SignIn, format!("person {name}"), "signed_in");
    record_audit(state, record.because(&format!("the session {id}"))).await;
}

/// Records that `by` ended a session of `name`.
pub(crate) async fn ended(state: &Shared, by: &str, id: &str, name: &str) {
    let record = AuditRecord::new(AuditKind::SignIn, format!("person {by}"), "session_ended");
    record_audit(state, record.because(&format!("the session {id} of {name}"))).await;
}

/// Ends a session of `name` and records that `by` did so. Returns whether it existed.
///
/// # Errors
/// The database of sessions cannot be written.
pub(crate) async fn end_session(state: &Shared, by: &str, id: &str, name: &str) -> Result<bool, Problem> {
    let (shared, session) = (Shared::clone(state), id.to_owned());
    let done = tokio::task::spawn_blocking(move || shared.access.end_session(&session)).await;
    let existed = done.map_err(|e| Problem::internal(&e))?.map_err(|e| Problem::internal(&e))?;
    if existed {
        ended(state, by, id, name).await;
    }
    Ok(existed)
}

/// Adds a record. Access does not depend on the store: a person may sign in to find out why it
/// fails.
async fn record_audit(state: &Shared, record: AuditRecord) {
    if let Err(e) = state.store().record_audit(vec![record]).await {
        tracing::error!("cannot record a sign-in in the audit: {e}");
    }
}
