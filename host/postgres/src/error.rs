//! The meaning of a database error for a caller and for an operator.

use tokio_postgres::error::SqlState;
use tollgate_store::{Remedy, StoreError, StoreErrorKind};

/// The words for a server that allows no writes.
pub(crate) const READ_ONLY: &str = "none of its servers accepts writes: each is a standby or read-only; name the \
    primary, or all servers separated by commas, in the store's url";

/// The consequence of a failed statement for a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection is gone or useless. The statement may have taken effect; the same commit id
    /// can be sent again on another connection.
    Lost,
    /// The transaction lost against another one and can be repeated at once.
    Repeat,
    /// Another run of the thread is driven.
    Taken,
    /// Repeating does not help.
    Final,
}

/// Classifies an error.
pub(crate) fn failure(error: &tokio_postgres::Error) -> Failure {
    let Some(code) = error.code() else {
        // Without a code, the error is not the server's: the connection broke, or it was never
        // made.
        return Failure::Lost;
    };
    if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
        return Failure::Repeat;
    }
    if violates(error, "runs_driven") {
        return Failure::Taken;
    }
    let gone = [
        // The server became a standby, or was replaced by its standby.
        SqlState::READ_ONLY_SQL_TRANSACTION,
        // This host stalled in the middle of a transaction.
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::TOO_MANY_CONNECTIONS,
        // The session is not the one in which the statement was prepared.
        SqlState::UNDEFINED_PSTATEMENT,
        SqlState::DUPLICATE_PSTATEMENT,
    ];
    // Class 08 is about connections. Class 57 is about interventions, such as a restart of the server, a
    // cancellation, or a time limit that an administrator has set; 25P04 is another of these limits.
    let is_lost = |code: &str| code.starts_with("08") || code.starts_with("57") || code == "25P04";
    if gone.contains(code) || is_lost(code.code()) { Failure::Lost } else { Failure::Final }
}

/// Returns whether a row exists already that this unique index allows once.
pub(crate) fn violates(error: &tokio_postgres::Error, index: &str) -> bool {
    let constraint = error.as_db_error().and_then(|e| e.constraint());
    error.code() == Some(&SqlState::UNIQUE_VIOLATION) && constraint == Some(index)
}

/// Explains an error to an operator. `address` is the server's, without user and password.
pub(crate) fn explain(verb: &str, address: &str, error: &tokio_postgres::Error) -> StoreError {
    let (kind, why) = why(error);
    let is_denied = error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
    StoreError::new(kind, format!("cannot {verb} the store at {address}: {why}"))
        .with_remedy(is_denied.then_some(Remedy::GrantPrivileges))
}

fn why(error: &tokio_postgres::Error) -> (StoreErrorKind, String) {
    use StoreErrorKind::{Damaged, Full, Other, Unavailable, Unusable};
    use std::error::Error as _;
    let Some(db) = error.as_db_error() else {
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        // The text of tokio-postgres, which has no kind for it.
        let is_read_only = cause.contains("does not allow writes");
        // Likewise; rustls is asked only by a server that offers TLS.
        if cause.contains("server does not support TLS") {
            let words =
                "the server offers no TLS, which a connection to another machine needs; set ssl = on there";
            return (Unusable, words.to_owned());
        }
        let words = match cause.as_str() {
            _ if error.is_closed() => "the connection was lost; check the server and the network".to_owned(),
            _ if is_read_only => READ_ONLY.to_owned(),
            cause if cause.contains("certificate") => format!(
                "TLS failed: {cause}; name the certificate to trust as the store's ca, and the server as its certificate does"
            ),
            cause => format!("{cause}; check that the server runs and that the store's url names it"),
        };
        // Anything else, such as a failed TLS handshake or a value that does not convert, stays wrong.
        let is_io = error.source().is_some_and(|cause| cause.is::<std::io::Error>());
        let is_passing = error.is_closed() || is_io;
        return (if is_passing { Unavailable } else { Other }, words);
    };
    let (kind, words) = match db.code().code() {
        // The code is that of a wrong user.
        "28000" if db.message().contains("no encryption") => {
            (Unusable, "the server requires TLS; set the store's ca to the certificate to trust")
        }
        "28P01" | "28000" => (
            Unusable,
            "the server refused the user or the password; check the store's password_file or password_env",
        ),
        "3D000" => (Unusable, "the database does not exist; create it with `createdb`"),
        "42501" => {
            return (Unusable, format!("the role lacks a privilege ({})", clean(db.message())));
        }
        "42P01" => {
            let words = format!(
                "the schema is damaged ({}); restore the database from a backup",
                clean(db.message())
            );
            return (Unusable, words);
        }
        "53100" => (Full, "the server's disk is full; free some room there"),
        "53300" => (
            Unavailable,
            "the server has no free connection; raise max_connections, or lower the store's connections",
        ),
        "25006" => (Unavailable, READ_ONLY),
        "22021" => (Other, "an id contains a NUL character; use another id"),
        code => {
            let kind = match failure(error) {
                Failure::Lost | Failure::Repeat => Unavailable,
                Failure::Final if matches!(code, "XX001" | "XX002") => Damaged,
                Failure::Final | Failure::Taken => Other,
            };
            return (kind, format!("the server refused it (SQLSTATE {code}): {}", clean(db.message())));
        }
    };
    (kind, words.to_owned())
}

fn clean(text: &str) -> String {
    tollgate_agent::text::clean(text, 300)
}
