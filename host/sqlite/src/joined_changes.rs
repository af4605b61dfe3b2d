//! Merging the first changes of threads whose runs were removed, in parts.
//!
//! The changes are read and merged while others write. The merged change then takes the place of the last of
//! them, and those before it are removed few at a time. Until they are gone, they lead to the same state: the
//! merged change sets the values of all keys that they wrote.

use super::state::changes_since;
use super::turns::Turns;
use rusqlite::{Connection, TransactionBehavior, params};
use std::collections::BTreeSet;
use tollgate_store::rules::{JoinedChange, WrittenKeys};

/// Merges the first changes of these threads. Others write in between, and while the changes are read.
pub(super) fn join_all(
    connection: &mut Connection,
    threads: BTreeSet<i64>,
    turns: &mut Turns<'_>,
) -> rusqlite::Result<()> {
    let mut threads = threads.into_iter().peekable();
    while threads.peek().is_some() && !turns.are_over() {
        let mut joined = Vec::new();
        for thread in threads.by_ref() {
            joined.extend(JoinedChanges::read(connection, thread)?);
            if turns.is_used_up() {
                break;
            }
        }
        let mut long = Vec::new();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        turns.begin_part();
        for changes in joined {
            if changes.write(&transaction)?
                && remove_joined(&transaction, changes.thread, changes.last, turns.rows())?
            {
                long.push((changes.thread, changes.last));
            }
        }
        transaction.commit()?;
        turns.give();
        for (thread, last) in long {
            let mut has_more = true;
            while has_more && !turns.are_over() {
                let rows = turns.rows();
                has_more = turns
                    .write_part(connection, |connection| remove_joined(connection, thread, last, rows))?;
            }
        }
    }
    Ok(())
}

/// All changes of a thread before the first one of a remaining run, as one change.
struct JoinedChanges {
    thread: i64,
    /// The revision of the last one.
    last: i64,
    /// The joined change as JSON, and its keys.
    body: String,
    keys: String,
}

impl JoinedChanges {
    /// Reads them; `None` if there is at most one. An open run continues from the state it knew, and needs every
    /// change since. No run changes them once its own are removed, so no transaction has to keep others from
    /// writing.
    fn read(connection: &Connection, thread: i64) -> rusqlite::Result<Option<Self>> {
        let open =
            "SELECT EXISTS (SELECT 1 FROM runs WHERE thread = ?1 AND status IN ('running', 'waiting'))";
        if connection.prepare_cached(open)?.query_row([thread], |row| row.get(0))? {
            return Ok(None);
        }
        let count = "SELECT count(*), max(revision) FROM changes WHERE thread = ?1 AND revision <
            coalesce((SELECT min(revision) FROM changes WHERE thread = ?1 AND run IS NOT NULL), 1 << 62)";
        let (number, last): (i64, Option<i64>) =
            connection.prepare_cached(count)?.query_row([thread], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some(last) = last.filter(|_| number > 1) else { return Ok(None) };
        let mut joined = JoinedChange::default();
        let mut known = 0;
        while known < last.cast_unsigned() {
            let changes = changes_since(connection, thread, known, 64)?;
            let Some(newest) = changes.last() else { break };
            known = newest.revision;
            let first = changes.iter().filter(|change| change.revision <= last.cast_unsigned());
            first.for_each(|change| joined.add(change));
        }
        let joined = joined.finish(last.cast_unsigned());
        let body = serde_json::to_string(&joined).unwrap_or_default();
        Ok(Some(Self { thread, last, body, keys: WrittenKeys::of(&joined).text() }))
    }

    /// Writes them in place of the last one, which makes those before it needless. Returns `false` if another
    /// process has removed it, or if a run of the thread is open by now.
    fn write(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let update = "UPDATE changes SET keys = ?4, body = ?3 WHERE thread = ?1 AND revision = ?2
            AND NOT EXISTS (SELECT 1 FROM runs WHERE thread = ?1 AND status IN ('running', 'waiting'))";
        let mut update = connection.prepare_cached(update)?;
        Ok(update.execute(params![self.thread, self.last, self.body, self.keys])? > 0)
    }
}

/// Removes the first of the changes that are part of the one with this revision, at most this many. Returns
/// whether there may be more.
fn remove_joined(connection: &Connection, thread: i64, joined: i64, limit: i64) -> rusqlite::Result<bool> {
    let delete = "DELETE FROM changes WHERE id IN
        (SELECT id FROM changes WHERE thread = ?1 AND revision < ?2 ORDER BY revision LIMIT ?3)";
    let removed = connection.prepare_cached(delete)?.execute([thread, joined, limit])?;
    Ok(removed == usize::try_from(limit).unwrap_or_default())
}
