//! Removing runs with all their rows: each in one short transaction, unless it has very many of them.

use crate::audit;
use crate::connect::{Busy, int8, params, query};
use crate::database::Database;
use crate::prepared_commit::ROW_BYTES;
use crate::read::are_large;
use crate::write::Batch;
use std::collections::BTreeMap;
use tokio_postgres::{Error, Row};
use tokio_util::sync::CancellationToken;
use tollgate_agent::json;
use tollgate_agent::run::Event;
use tollgate_store::rules::{RecordedCharges, aside, serialize};
use tollgate_store::{PruneReport, StoreError};

/// The number of rows that one statement removes.
pub(crate) const ROWS_AT_ONCE: i64 = 1_000;
/// The maximum length of the events that are removed together with their run, in bytes.
const BYTES_AT_ONCE: u64 = 8 << 20;
/// The number of a run's events that are read at once, and their length in bytes. A single event may be longer.
const EVENTS_READ: i64 = 500;
const BYTES_READ: i64 = 1 << 20;
/// The beginnings of the names of settings by which the next call finds what an interrupted one has left: events whose
/// run was removed, and threads whose runs were.
pub(crate) const REST_OF_RUN: &str = "pruned run ";
pub(crate) const PRUNED_THREAD: &str = "pruned thread ";

/// Reads the next events of a run.
const READ: &str = "SELECT number, body FROM (
        SELECT number, body, row_number() OVER by_number AS position,
            sum(octet_length(body)) OVER by_number AS bytes FROM events WHERE run = $1 AND number > $2
        WINDOW by_number AS (ORDER BY number ROWS UNBOUNDED PRECEDING) ORDER BY number LIMIT $3) AS page
    WHERE position = 1 OR bytes <= $4 ORDER BY number";
/// Gives changes bodies of their own, so that they do not depend on events. They remain changes of their run: if the
/// operation is stopped, the run may stay.
const KEEP_CHANGES: &str = "UPDATE changes SET body = x.body
    FROM unnest($3, $4) AS x(revision, body)
    WHERE changes.thread = $1 AND changes.revision = x.revision AND changes.run = $2";
/// Locks a run that may be removed.
const LOCK: &str = "SELECT 1 FROM runs
    WHERE id = $1 AND status NOT IN ('running', 'waiting') AND updated_at_ms < $2 FOR UPDATE";
const MARK: &str = "INSERT INTO settings (name, value) VALUES ($1, '') ON CONFLICT DO NOTHING";
const TAKE_OFF_THREAD: &str =
    "UPDATE threads SET record_bytes = greatest(0, record_bytes - $2) WHERE id = $1";
/// Locks the rows of these components in the order of commits, and takes the bytes off one row after another.
const TAKE_OFF_COMPONENTS: &str = "WITH locked AS MATERIALIZED (
        SELECT component_id, shard, record_bytes FROM component_sizes WHERE component_id = ANY($1)
        ORDER BY component_id COLLATE \"C\", shard FOR UPDATE),
    taken AS (
        SELECT l.component_id, l.shard, greatest(0, least(l.record_bytes, x.bytes - coalesce(sum(l.record_bytes)
            OVER (PARTITION BY l.component_id ORDER BY l.shard ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            0)))::int8 AS bytes
        FROM locked l JOIN unnest($1, $2) AS x(id, bytes) ON x.id = l.component_id)
    UPDATE component_sizes AS c SET record_bytes = c.record_bytes - t.bytes FROM taken t
    WHERE c.component_id = t.component_id AND c.shard = t.shard AND t.bytes > 0";
/// Removes the last events of a removed run before a number. A later run of the same id has its own.
const REMOVE_REST: &str = "DELETE FROM events WHERE run = $1 AND NOT EXISTS (SELECT FROM runs WHERE id = $1)
    AND number IN (SELECT number FROM events WHERE run = $1 AND number < $2 ORDER BY number DESC LIMIT $3)
    RETURNING number";

/// A run that may be removed.
pub(crate) struct OldRun {
    pub(crate) id: String,
    pub(crate) thread: String,
    /// The number of its last event.
    pub(crate) events: i64,
    /// Whether it was copied from a data directory: its records were charged to no component, and its audit to no
    /// thread.
    pub(crate) is_copied: bool,
}

/// The parts of a run's record that matter for its removal.
#[derive(Default)]
struct OldRecord {
    /// The number of the last event that was read.
    last: i64,
    /// The number of events, and their size.
    events: u64,
    bytes: u64,
    charges: RecordedCharges,
    /// The sizes of the events of calls, by component.
    of_calls: BTreeMap<String, u64>,
    first: Option<Event>,
    /// Whether an event cannot be read. Such a run is removed like the others.
    is_damaged: bool,
}

/// The sizes that are given back to a thread and to components.
#[derive(Default)]
struct FreedSizes {
    thread: u64,
    components: BTreeMap<String, u64>,
}

/// The rows that one transaction removed.
enum Removal {
    /// None: another process has removed the run.
    Nothing,
    /// A number of audit records. The run has more.
    Audit(u64),
    /// The run, with the rest of its audit records.
    Run(u64),
}

impl Database {
    /// Removes a run that is over and old, and counts what it removed. Returns whether the run is gone. If the
    /// operation is stopped meanwhile, the next call removes the rest.
    pub(crate) async fn remove_run(
        &self,
        old: &OldRun,
        before_ms: u64,
        pruned: &mut PruneReport,
        stop: &CancellationToken,
    ) -> Result<bool, StoreError> {
        let Some(record) = self.read_old(old, stop).await? else { return Ok(false) };
        while !stop.is_cancelled() {
            match self.read(|client| remove_once(client, &self.begin, old, before_ms, &record)).await? {
                Removal::Nothing => return Ok(false),
                Removal::Audit(number) => pruned.audit += number,
                Removal::Run(number) => {
                    pruned.audit += number;
                    pruned.events += record.events;
                    pruned.runs += 1;
                    if record.is_long() {
                        self.remove_rest(&old.id, stop).await?;
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Reads a record in parts, and gives each of its changes a body of its own; `None` if the operation is stopped.
    async fn read_old(
        &self,
        old: &OldRun,
        stop: &CancellationToken,
    ) -> Result<Option<OldRecord>, StoreError> {
        let mut record = OldRecord::default();
        while !stop.is_cancelled() {
            let after = record.last;
            let next =
                || params![(old.id.clone(), TEXT), (after, INT8), (EVENTS_READ, INT8), (BYTES_READ, INT8)];
            let rows = self.rows(READ, next).await?;
            let is_last = rows.is_empty();
            let (read, changes) = aside(are_large(&rows), move || Ok(record.with(&rows))).await?;
            record = read;
            if !changes.is_empty() {
                let (revisions, bodies): (Vec<i64>, Vec<String>) = changes.into_iter().unzip();
                let row = || {
                    params![
                        (old.thread.clone(), TEXT),
                        (old.id.clone(), TEXT),
                        (revisions.clone(), INT8_ARRAY),
                        (bodies.clone(), TEXT_ARRAY)
                    ]
                };
                self.send(KEEP_CHANGES, row).await?;
            }
            if is_last || record.last >= old.events {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Removes the events that a removed run has left, the last ones first.
    pub(crate) async fn remove_rest(&self, run_id: &str, stop: &CancellationToken) -> Result<(), StoreError> {
        let mut before = i64::MAX;
        while !stop.is_cancelled() {
            let next = || params![(run_id.to_owned(), TEXT), (before, INT8), (ROWS_AT_ONCE, INT8)];
            let removed = self.rows(REMOVE_REST, next).await?;
            let Some(first) = removed.iter().map(|row| row.get::<_, i64>(0)).min() else {
                // Another process may be removing them.
                let sql = "DELETE FROM settings WHERE name = $1 AND (EXISTS (SELECT FROM runs WHERE id = $2)
                    OR NOT EXISTS (SELECT FROM events WHERE run = $2))";
                let row = || params![(format!("{REST_OF_RUN}{run_id}"), TEXT), (run_id.to_owned(), TEXT)];
                return self.send(sql, row).await.map(drop);
            };
            before = first;
        }
        Ok(())
    }
}

/// Removes the audit records of a run and, if none is left, the run itself. The thread is locked before the run, as by
/// commits, and the sizes of components, for which commits of other threads wait, are changed last.
async fn remove_once(
    client: Busy,
    begin: &str,
    old: &OldRun,
    before_ms: u64,
    record: &OldRecord,
) -> Result<Removal, Error> {
    let id = || params![(old.id.clone(), TEXT)];
    let lock_thread = "SELECT 1 FROM threads WHERE id = $1 FOR UPDATE";
    let remove_audit = audit::remove_of_run();
    let (begun, locked, found, audit) = futures::join!(
        client.batch_execute(begin),
        query(&client, lock_thread, params![(old.thread.clone(), TEXT)]),
        query(&client, LOCK, params![(old.id.clone(), TEXT), (int8(before_ms), INT8)]),
        query(&client, &remove_audit, params![(old.id.clone(), TEXT), (ROWS_AT_ONCE, INT8)])
    );
    begun?;
    locked?;
    let (found, audit) = (found?, audit?);
    if found.is_empty() {
        client.roll_back().await;
        return Ok(Removal::Nothing);
    }
    let mut freed = FreedSizes::default();
    if !old.is_copied {
        audit.iter().for_each(|row| freed.add_audit(row));
    }
    let has_more = audit.len() as u64 >= ROWS_AT_ONCE.unsigned_abs();
    let mut batch = Batch::new(&client);
    if !has_more {
        freed.add(record, old.is_copied);
        match record.is_long() {
            true => batch.push(MARK, params![(format!("{REST_OF_RUN}{}", old.id), TEXT)]),
            false => batch.push("DELETE FROM events WHERE run = $1", id()),
        }
        if record.is_damaged || int8(record.events) != old.events {
            // The changes of events that cannot be read or are missing.
            let sql = "DELETE FROM changes WHERE thread = $1 AND run = $2 AND body IS NULL";
            batch.push(sql, params![(old.thread.clone(), TEXT), (old.id.clone(), TEXT)]);
        }
        for sql in [
            "DELETE FROM run_components WHERE run = $1",
            "DELETE FROM inbox WHERE run = $1",
            "DELETE FROM runs WHERE id = $1",
        ] {
            batch.push(sql, id());
        }
        batch.push(MARK, params![(format!("{PRUNED_THREAD}{}", old.thread), TEXT)]);
    }
    freed.push(&mut batch, &old.thread);
    batch.commit().await?;
    client.finish();
    let number = audit.len() as u64;
    Ok(if has_more { Removal::Audit(number) } else { Removal::Run(number) })
}

impl OldRecord {
    /// Adds the next events. Returns the changes among them, each with its revision.
    fn with(mut self, rows: &[Row]) -> (Self, Vec<(i64, String)>) {
        let mut changes = Vec::new();
        for row in rows {
            let (number, body): (i64, &str) = (row.get(0), row.get(1));
            let bytes = body.len() as u64 + ROW_BYTES;
            self.last = number;
            self.events += 1;
            self.bytes += bytes;
            let event: Event = match json::from_record(body) {
                Ok(event) => event,
                Err(_) => {
                    self.is_damaged = true;
                    continue;
                }
            };
            self.charges.see(&event);
            if let Some(component) = self.charges.of(&event) {
                *self.of_calls.entry(component.to_string()).or_default() += bytes;
            }
            if let Some(change) = event.change()
                && let Ok(body) = serialize(change)
            {
                changes.push((int8(change.revision), body));
            }
            self.first.get_or_insert(event);
        }
        (self, changes)
    }

    /// Returns whether its events are removed after the run, in parts.
    fn is_long(&self) -> bool {
        int8(self.events) > ROWS_AT_ONCE || self.bytes > BYTES_AT_ONCE
    }
}

impl FreedSizes {
    /// Adds an audit record of a commit.
    fn add_audit(&mut self, row: &Row) {
        let Some(record) = audit::read_row(row).ok().filter(|_| row.get(audit::FIELDS)) else { return };
        let Some(length) = record.charged_bytes() else { return };
        let bytes = length as u64 + ROW_BYTES;
        self.thread += bytes;
        if let Some(component) = record.component_id {
            *self.components.entry(component.to_string()).or_default() += bytes;
        }
    }

    /// Adds the events of a run.
    fn add(&mut self, record: &OldRecord, is_copied: bool) {
        self.thread += record.bytes;
        if is_copied {
            return;
        }
        // A direct call causes its whole record.
        let direct = record.first.as_ref().and_then(|first| record.charges.of(first));
        let direct = direct.map(|component| BTreeMap::from([(component.to_string(), record.bytes)]));
        for (component, bytes) in direct.as_ref().unwrap_or(&record.of_calls) {
            *self.components.entry(component.clone()).or_default() += bytes;
        }
    }

    /// Takes them off the stored sizes.
    fn push(self, batch: &mut Batch<'_>, thread: &str) {
        if self.thread > 0 {
            batch.push(TAKE_OFF_THREAD, params![(thread.to_owned(), TEXT), (int8(self.thread), INT8)]);
        }
        if !self.components.is_empty() {
            let (ids, bytes): (Vec<String>, Vec<i64>) =
                self.components.into_iter().map(|(id, bytes)| (id, int8(bytes))).unzip();
            batch.push(TAKE_OFF_COMPONENTS, params![(ids, TEXT_ARRAY), (bytes, INT8_ARRAY)]);
        }
    }
}
