//! Threads whose runs were removed: those that have nothing left go as well, and the first changes of the others are
//! joined into one.

use crate::connect::{Busy, int8, params, query, run};
use crate::database::Database;
use crate::read::changes_since;
use crate::remove::{PRUNED_THREAD, ROWS_AT_ONCE};
use crate::write::Batch;
use tokio_postgres::Error;
use tokio_util::sync::CancellationToken;
use tollgate_store::StoreError;
use tollgate_store::rules::{JoinedChange, is_generated, serialize};

/// The number of changes that are read at once.
const CHANGES_READ: usize = 64;

/// Finds what a thread still has. A statement of its own, so that it sees what was stored before the thread was locked.
const FIND_LEFT: &str =
    "SELECT EXISTS (SELECT FROM runs WHERE thread = $1) OR EXISTS (SELECT FROM state WHERE thread = $1)";
/// Finds the last of the changes before the first one of a remaining run, and their number. An open run continues from
/// the state that it knew, and needs every change since.
const FIND_CHANGES: &str = "SELECT count(*), coalesce(max(revision), 0) FROM changes WHERE thread = $1
    AND revision < coalesce((SELECT c.revision FROM changes c WHERE c.thread = $1
        AND EXISTS (SELECT FROM runs r WHERE r.id = c.run) ORDER BY c.revision LIMIT 1), 9223372036854775807)
    AND NOT EXISTS (SELECT FROM runs WHERE thread = $1 AND status IN ('running', 'waiting'))";
/// Writes the joined change in place of the last one, unless another process has removed that, or a run is open.
const WRITE_JOINED: &str = "UPDATE changes SET run = NULL, number = NULL, body = $3
    WHERE thread = $1 AND revision = $2 AND NOT EXISTS (SELECT FROM runs r WHERE r.id = changes.run)
    AND NOT EXISTS (SELECT FROM runs WHERE thread = $1 AND status IN ('running', 'waiting'))";
/// Removes the first changes of a thread before a revision.
const REMOVE_CHANGES: &str = "DELETE FROM changes WHERE thread = $1 AND revision IN
    (SELECT revision FROM changes WHERE thread = $1 AND revision < $2 ORDER BY revision LIMIT $3)";

/// The result of one transaction that removes a thread.
enum Forgetting {
    /// The thread stays.
    Kept,
    /// Some of its rows were removed. It has more.
    Part,
    /// The thread is gone.
    Whole,
}

impl Database {
    /// Removes a thread of which nothing is left that lasts, or joins the first changes of another one.
    pub(crate) async fn tidy_thread(&self, thread: &str, stop: &CancellationToken) -> Result<(), StoreError> {
        while !stop.is_cancelled() {
            match self.read(|client| forget_once(client, &self.begin, thread)).await? {
                Forgetting::Part => continue,
                Forgetting::Kept => self.join_changes(thread, stop).await?,
                Forgetting::Whole => {}
            }
            if stop.is_cancelled() {
                break;
            }
            let sql = "DELETE FROM settings WHERE name = $1";
            let mark = || params![(format!("{PRUNED_THREAD}{thread}"), TEXT)];
            return self.send(sql, mark).await.map(drop);
        }
        // The next call finds the thread by its mark.
        Ok(())
    }

    /// Joins the changes of a thread before the first one of a remaining run. The joined change takes the place of the
    /// last of them, and those before it are removed few at a time: until they are gone, they lead to the same state.
    async fn join_changes(&self, thread: &str, stop: &CancellationToken) -> Result<(), StoreError> {
        let found = self.rows(FIND_CHANGES, || params![(thread.to_owned(), TEXT)]).await?;
        let (number, last): (i64, i64) = found.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
        if number <= 1 {
            return Ok(());
        }
        let mut joined = JoinedChange::default();
        let mut known = 0;
        while known < last.cast_unsigned() {
            if stop.is_cancelled() {
                return Ok(());
            }
            let changes = self.read(|client| async move {
                let changes = changes_since(&client, thread, known, CHANGES_READ).await?;
                client.finish();
                Ok(changes)
            });
            let changes = changes.await??;
            let Some(newest) = changes.last() else { break };
            known = newest.revision;
            let first = changes.iter().filter(|change| change.revision <= last.cast_unsigned());
            first.for_each(|change| joined.add(change));
        }
        let body = serialize(&joined.finish(last.cast_unsigned()))?;
        let body = body.as_str();
        if !self.read(|client| write_joined(client, &self.begin, thread, last, body)).await? {
            return Ok(());
        }
        let row = || params![(thread.to_owned(), TEXT), (last, INT8), (ROWS_AT_ONCE, INT8)];
        while !stop.is_cancelled() && int8(self.send(REMOVE_CHANGES, row).await?) >= ROWS_AT_ONCE {}
        Ok(())
    }
}

/// Writes a joined change. Returns whether the changes before it may be removed.
async fn write_joined(client: Busy, begin: &str, thread: &str, last: i64, body: &str) -> Result<bool, Error> {
    let row = params![(thread.to_owned(), TEXT), (last, INT8), (body.to_owned(), TEXT)];
    let lock = "SELECT 1 FROM threads WHERE id = $1 FOR UPDATE";
    // No run begins on the thread while it is locked.
    let (begun, locked, written, ended) = futures::join!(
        client.batch_execute(begin),
        query(&client, lock, params![(thread.to_owned(), TEXT)]),
        run(&client, WRITE_JOINED, row),
        client.batch_execute("COMMIT")
    );
    begun?;
    locked?;
    let written = written?;
    ended?;
    client.finish();
    Ok(written > 0)
}

/// Removes a thread without runs and state, unless it has a conversation and a name that someone gave it. If it is
/// long, removes the end of its conversation: a run that begins meanwhile continues what is left.
async fn forget_once(client: Busy, begin: &str, thread: &str) -> Result<Forgetting, Error> {
    let id = || params![(thread.to_owned(), TEXT)];
    let (begun, found, left) = futures::join!(
        client.batch_execute(begin),
        query(&client, "SELECT messages FROM threads WHERE id = $1 FOR UPDATE", id()),
        query(&client, FIND_LEFT, id())
    );
    begun?;
    let (found, left) = (found?, left?);
    let Some(messages) = found.first().map(|row| row.get::<_, i64>(0)) else {
        client.roll_back().await;
        return Ok(Forgetting::Whole);
    };
    let has_more = left.first().is_some_and(|row| row.get(0));
    if has_more || messages > 0 && !is_generated(thread) {
        client.roll_back().await;
        return Ok(Forgetting::Kept);
    }
    let rest = (messages - ROWS_AT_ONCE).max(0);
    let changes = params![(thread.to_owned(), TEXT), (i64::MAX, INT8), (ROWS_AT_ONCE, INT8)];
    let is_long = int8(run(&client, REMOVE_CHANGES, changes).await?) >= ROWS_AT_ONCE || rest > 0;
    let row = || params![(thread.to_owned(), TEXT), (rest, INT8)];
    let mut batch = Batch::new(&client);
    batch.push("DELETE FROM messages WHERE thread = $1 AND position >= $2", row());
    match is_long {
        true => batch.push("UPDATE threads SET messages = $2 WHERE id = $1", row()),
        false => batch.push("DELETE FROM threads WHERE id = $1", id()),
    }
    batch.commit().await?;
    client.finish();
    Ok(if is_long { Forgetting::Part } else { Forgetting::Whole })
}
