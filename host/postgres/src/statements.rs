//! Prepared statements.
//!
//! If one reaches another session than the one that prepared it, perhaps because a pooler's mode was changed, the
//! server refuses it, and from then on none is [prepared](crate::preparation). It is never another statement that is
//! executed instead. tokio-postgres names the statements of a process s0, s1, and so on, so another host may have
//! prepared a statement of the same name in that session. But prepared statements with the same number of parameters
//! are the same, and the server refuses one that comes with another number. A statement that a later version changes
//! therefore needs a number of its own, too.

use crate::connect::{Busy, Params, query};
use futures::future::BoxFuture;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Statement};

/// A query that is sent in one message: prepared, if the connection keeps its session.
pub(crate) struct ReadyQuery {
    sql: &'static str,
    params: Params,
    statement: Option<Statement>,
}

impl Busy {
    /// Prepares a statement, unless this connection has prepared it already or does not keep its session. Only those
    /// are prepared that a run sends several times, or that its caller waits for.
    pub(crate) async fn ready(&self, sql: &'static str, params: Params) -> Result<ReadyQuery, Error> {
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
    use crate::{hints, inbox, read, write};
    use std::collections::HashSet;

    #[test]
    fn prepared_statements_have_different_numbers_of_parameters() {
        let prepared =
            [hints::NOTIFY, read::THREAD, read::EVENTS, inbox::CLAIM, write::COMMIT, write::BEGIN_AND_COMMIT];
        let numbers: HashSet<usize> = prepared.iter().map(|sql| sql.matches('$').count()).collect();
        assert_eq!(numbers.len(), prepared.len());
    }
}
