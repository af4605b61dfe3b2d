//! Prepared statements, which the server parses and plans once for each connection.
//!
//! A connection pooler in transaction mode spreads the transactions of one connection over several sessions of the
//! server, and none of them knows the statements of the others. So statements are prepared only once a notification
//! of this host has arrived through the store's URL: such a pooler passes none on.
//!
//! If a statement reaches another session all the same, perhaps because the pooler's mode was changed, the server
//! refuses it, and from then on none is prepared. It is never another statement that is executed instead.
//! tokio-postgres names the statements of a process s0, s1, and so on, so another host may have prepared a statement
//! of the same name in that session. But prepared statements with the same number of parameters are the same, and the
//! server refuses one that comes with another number. A statement that a later version changes therefore needs a
//! number of its own, too.

use crate::connect::{Busy, Params, query};
use crate::{hints, inbox, read, write};
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Statement};

/// The statements that may be prepared: those that a run sends several times, or that its caller waits for. All of
/// them have different numbers of parameters.
const PREPARED: [&str; 6] =
    [hints::NOTIFY, read::THREAD, read::EVENTS, inbox::CLAIM, write::COMMIT, write::BEGIN_AND_COMMIT];

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

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && !self.was_refused.load(Ordering::Relaxed)
    }

    /// Ends preparation if this error of a prepared statement shows that the connection does not keep its session.
    /// The statement was not executed, and callers send it again as after a lost connection.
    fn check(&self, why: &Error) {
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

/// A query that is sent in one message: prepared, if the connection keeps its session.
pub(crate) struct ReadyQuery {
    sql: &'static str,
    params: Params,
    statement: Option<Statement>,
}

impl Busy {
    /// Prepares one of the [`PREPARED`] statements, unless this connection has prepared it already or does not keep
    /// its session.
    pub(crate) async fn ready(&self, sql: &'static str, params: Params) -> Result<ReadyQuery, Error> {
        debug_assert!(PREPARED.contains(&sql));
        if !self.preparation().is_on() {
            return Ok(ReadyQuery { sql, params, statement: None });
        }
        let types: Vec<Type> = params.iter().map(|(_, of)| of.clone()).collect();
        let prepared = self.object().prepare_typed_cached(sql, &types).await;
        let statement = prepared.inspect_err(|why| self.preparation().check(why))?;
        Ok(ReadyQuery { sql, params, statement: Some(statement) })
    }

    /// Sends a query that is ready. Statements whose futures are polled together are sent together, in order.
    pub(crate) fn send(&self, ready: ReadyQuery) -> BoxFuture<'_, Result<Vec<Row>, Error>> {
        Box::pin(async move {
            let ReadyQuery { sql, params, statement } = ready;
            let Some(statement) = statement else { return query(self, sql, params).await };
            let values: Vec<_> = params.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync)).collect();
            let found = self.query(&statement, &values).await;
            found.inspect_err(|why| self.preparation().check(why))
        })
    }

    /// Makes a query ready and sends it.
    pub(crate) fn query_prepared(
        &self,
        sql: &'static str,
        params: Params,
    ) -> BoxFuture<'_, Result<Vec<Row>, Error>> {
        Box::pin(async move { self.send(self.ready(sql, params).await?).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn prepared_statements_have_different_numbers_of_parameters() {
        let numbers: HashSet<usize> = PREPARED.iter().map(|sql| sql.matches('$').count()).collect();
        assert_eq!(numbers.len(), PREPARED.len());
    }
}
