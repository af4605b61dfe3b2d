//! Whether a host prepares its statements, which the server then parses and plans once for each connection.
//!
//! A connection pooler in transaction mode spreads the transactions of one connection over several sessions of the
//! server, and none of them knows the statements of the others. So statements are prepared only once a notification
//! of this host has arrived through the store's URL: such a pooler passes none on.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// The warning that statements are no longer prepared.
const REFUSED: &str = "statements are no longer prepared: the store's url leads to a connection pooler in transaction \
    mode; set the store's listen_url to the server itself";

/// Whether the statements of this host are prepared.
#[derive(Default)]
pub(crate) struct Preparation {
    /// Whether connections seem to keep their sessions.
    is_on: AtomicBool,
    /// Whether one turned out not to.
    was_refused: AtomicBool,
}

impl Preparation {
    /// Records whether a notification of this host has arrived through the URL of its connections.
    pub(crate) fn set_heard(&self, is_heard: bool) {
        self.is_on.store(is_heard, Ordering::Relaxed);
    }

    /// Returns whether statements are prepared.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && !self.was_refused.load(Ordering::Relaxed)
    }

    /// Ends preparation if this error of a prepared statement shows that the connection does not keep its session.
    /// The statement was not executed, and callers send it again as after a lost connection.
    pub(crate) fn check(&self, why: &Error) {
        if is_of_other_session(why) && !self.was_refused.swap(true, Ordering::Relaxed) {
            tracing::warn!("{REFUSED}");
        }
    }
}

/// Returns whether the server has no prepared statement of this name, has one already, or has another one.
fn is_of_other_session(why: &Error) -> bool {
    let codes =
        [SqlState::UNDEFINED_PSTATEMENT, SqlState::DUPLICATE_PSTATEMENT, SqlState::PROTOCOL_VIOLATION];
    // A pooler that closes a connection sends the last code as well, with a fatal error.
    why.as_db_error()
        .is_some_and(|db| db.parsed_severity() == Some(Severity::Error) && codes.contains(db.code()))
}
