//! The queue of callers that wait for the same thread, across hosts: first come, first served.

use crate::connect::{params, query};
use std::time::Duration;
use tokio_postgres::{Client, Error};

/// How often a caller checks whether it is next.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// A place in the queue of one thread. Dropping it lets the next caller in.
pub(crate) struct Turn {
    pub(crate) id: i64,
    pub(crate) over: Box<dyn Fn(i64) + Send + Sync>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        (self.over)(self.id);
    }
}

/// Takes the last place in the queue of a thread, and returns its number.
pub(crate) async fn take(client: &Client, thread_id: &str, host: &str) -> Result<i64, Error> {
    let sql = "INSERT INTO turns (thread, host) VALUES ($1, $2) RETURNING id";
    let row = params![(thread_id.to_owned(), TEXT), (host.to_owned(), TEXT)];
    Ok(query(client, sql, row).await?.first().map_or(0, |row| row.get(0)))
}

/// Returns whether no living host has an earlier place, and whether this place still exists: it is
/// removed if the host is taken for dead.
pub(crate) async fn is_first(client: &Client, thread_id: &str, id: i64) -> Result<Option<bool>, Error> {
    let sql = "SELECT id FROM turns WHERE thread = $1 AND id <= $2 ORDER BY id";
    let rows = query(client, sql, params![(thread_id.to_owned(), TEXT), (id, INT8)]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    Ok(ids.last().filter(|last| **last == id).map(|_| ids.len() == 1))
}
