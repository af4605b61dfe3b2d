//! Removing runs and threads in parts, so that others write in between, however much one of them has recorded.

use super::sizes::Bytes;
use super::turns::Turns;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_agent::SmolStr;
use tollgate_agent::json;
use tollgate_agent::run::Event;
use tollgate_agent::state::StateChange;
use tollgate_store::PruneReport;
use tollgate_store::rules::{RecordedCharges, is_generated};

/// The number of a run's events that are removed at once, and their length in bytes. A single event may be longer.
const EVENTS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 1 << 20;
/// The number of a run's audit records that are removed at once.
const AUDIT_AT_ONCE: usize = 500;
/// The number of a thread's messages and changes that are removed at once. Each may have megabytes.
const ROWS_AT_ONCE: usize = 64;

/// A run that may be removed.
pub(super) struct RemovableRun {
    pub(super) id: i64,
    pub(super) thread: i64,
    /// The number of its events.
    pub(super) events: u64,
}

impl RemovableRun {
    /// Counts what would be removed.
    pub(super) fn count(&self, connection: &Connection, pruned: &mut PruneReport) -> rusqlite::Result<()> {
        let count = "SELECT (SELECT count(*) FROM events WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32),
            (SELECT count(*) FROM audit WHERE run_id = (SELECT run_id FROM runs WHERE id = ?1))";
        let (events, audit): (i64, i64) =
            connection.prepare_cached(count)?.query_row([self.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        pruned.runs += 1;
        pruned.events += events.cast_unsigned();
        pruned.audit += audit.cast_unsigned();
        Ok(())
    }
}

/// Removes runs, long ones in parts, each in a transaction. The last events go first. With the first of them, a
/// run loses its name: nothing finds the rest of it afterwards, except the next call that removes old runs.
#[derive(Default)]
pub(super) struct RunRemover {
    /// The long run that is being removed, and the components that its events were charged to.
    long: Option<(i64, RecordedCharges)>,
}

impl RunRemover {
    /// Removes a run with its audit records, or as much of it as fits into the turn. Returns whether nothing of it is
    /// left. Otherwise, [`read_charges`](Self::read_charges) comes before the next call.
    pub(super) fn remove(
        &self,
        connection: &Connection,
        run: &mut RemovableRun,
        pruned: &mut PruneReport,
        turns: &Turns<'_>,
    ) -> rusqlite::Result<bool> {
        while remove_audit(connection, run, pruned)? {
            if turns.is_used_up() {
                return Ok(false);
            }
        }
        loop {
            let end = RunEnd::read(connection, run.id)?;
            let own;
            let charges = match &self.long {
                Some((id, charges)) if *id == run.id => charges,
                _ if end.is_whole => {
                    own = end.charges();
                    &own
                }
                _ => return Ok(false),
            };
            end.remove(connection, run, charges)?;
            pruned.events += end.rows;
            if end.is_whole {
                break;
            }
            if turns.is_used_up() {
                return Ok(false);
            }
        }
        for delete in ["DELETE FROM run_components WHERE run = ?1", "DELETE FROM runs WHERE id = ?1"] {
            connection.prepare_cached(delete)?.execute([run.id])?;
        }
        pruned.runs += 1;
        Ok(true)
    }

    /// Reads which components the events of a long run were charged to. This reads the whole record, so no
    /// transaction may keep others from writing. If the operation is cancelled, it reads no more.
    pub(super) fn read_charges(
        &mut self,
        connection: &Connection,
        run: i64,
        turns: &Turns<'_>,
    ) -> rusqlite::Result<()> {
        if self.long.as_ref().is_some_and(|(known, _)| *known == run) {
            return Ok(());
        }
        let mut find = connection.prepare_cached(
            "SELECT body FROM events WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32 ORDER BY id",
        )?;
        let mut charges = RecordedCharges::default();
        let mut rows = find.query([run])?;
        while let Some(row) = rows.next()? {
            if turns.are_over() {
                return Ok(());
            }
            if let Some(event) = row.get_ref(0)?.as_str().ok().and_then(parsed) {
                charges.see(&event);
            }
        }
        self.long = Some((run, charges));
        Ok(())
    }
}

fn parsed(body: &str) -> Option<Event> {
    json::from_record(body).ok()
}

/// Removes some of a run's audit records, and gives their bytes back. Returns whether there may be more.
fn remove_audit(
    connection: &Connection,
    run: &RemovableRun,
    pruned: &mut PruneReport,
) -> rusqlite::Result<bool> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM audit WHERE id IN (SELECT id FROM audit
            WHERE run_id = (SELECT run_id FROM runs WHERE id = ?1) LIMIT ?2) RETURNING component_id, bytes",
    )?;
    let (mut bytes, mut removed) = (Bytes::default(), 0);
    let mut rows = delete.query(params![run.id, i64::try_from(AUDIT_AT_ONCE).unwrap_or(i64::MAX)])?;
    while let Some(row) = rows.next()? {
        removed += 1;
        if let Some(length) = row.get::<_, Option<i64>>(1)? {
            let component: Option<String> = row.get(0)?;
            bytes.add(usize::try_from(length).unwrap_or_default(), component.map(SmolStr::from).as_ref());
        }
    }
    bytes.take_off(connection, run.thread)?;
    pruned.audit += removed as u64;
    Ok(removed == AUDIT_AT_ONCE)
}

/// The last events of a run.
struct RunEnd {
    /// The number of the first of them; 1 if these are all.
    first: u64,
    /// The number of rows.
    rows: u64,
    /// Those that can be read, the last one first.
    events: Vec<RecordedEvent>,
    /// Whether there are none before them.
    is_whole: bool,
}

struct RecordedEvent {
    event: Event,
    /// The length of the record.
    bytes: usize,
    /// Whether it was charged to a component, as all events have been since they have checksums.
    is_charged: bool,
}

impl RunEnd {
    fn read(connection: &Connection, run: i64) -> rusqlite::Result<Self> {
        let mut find = connection.prepare_cached(
            "SELECT number, body, checksum IS NOT NULL FROM events
             WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32 ORDER BY id DESC",
        )?;
        let mut end = Self { first: 1, rows: 0, events: Vec::new(), is_whole: true };
        let (mut lowest, mut all_bytes) = (1, 0);
        let mut rows = find.query([run])?;
        while let Some(row) = rows.next()? {
            if end.rows == EVENTS_AT_ONCE as u64 || all_bytes >= BYTES_AT_ONCE {
                (end.first, end.is_whole) = (lowest, false);
                break;
            }
            end.rows += 1;
            lowest = row.get::<_, i64>(0)?.cast_unsigned();
            let body = row.get_ref(1)?.as_bytes()?;
            all_bytes += body.len();
            // A run that cannot be read is removed like the others.
            if let Some(event) = std::str::from_utf8(body).ok().and_then(parsed) {
                end.events.push(RecordedEvent { event, bytes: body.len(), is_charged: row.get(2)? });
            }
        }
        Ok(end)
    }

    /// Returns the components that the events were charged to, if these are all.
    fn charges(&self) -> RecordedCharges {
        let mut charges = RecordedCharges::default();
        self.events.iter().rev().for_each(|recorded| charges.see(&recorded.event));
        charges
    }

    /// Removes them from the record. A change of the state gets a row of its own, and stays.
    fn remove(
        &self,
        connection: &Connection,
        run: &mut RemovableRun,
        charges: &RecordedCharges,
    ) -> rusqlite::Result<()> {
        let mut bytes = Bytes::default();
        for recorded in &self.events {
            bytes.add(recorded.bytes, charges.of(&recorded.event).filter(|_| recorded.is_charged));
            let Some(change) = recorded.event.change() else { continue };
            connection
                .prepare_cached(
                    "UPDATE changes SET run = NULL, number = NULL, body = ?3
                     WHERE thread = ?1 AND revision = ?2 AND run = ?4",
                )?
                .execute(params![run.thread, change.revision.cast_signed(), record(change), run.id])?;
        }
        bytes.take_off(connection, run.thread)?;
        let (first, left) = (self.first.cast_signed(), self.first - 1);
        if self.events.len() as u64 != run.events.saturating_sub(left) {
            // The changes of events that cannot be read or are missing. Finding them reads all changes of the thread.
            let rest = "DELETE FROM changes WHERE thread = ?1 AND run = ?2 AND number >= ?3";
            connection.prepare_cached(rest)?.execute([run.thread, run.id, first])?;
        }
        connection
            .prepare_cached("DELETE FROM events WHERE id >= (?1 << 32) + ?2 AND id < (?1 + 1) << 32")?
            .execute([run.id, first])?;
        // No text equals a blob. The audit records, which are found by the name, are gone already.
        connection
            .prepare_cached("UPDATE runs SET events = ?2, run_id = CAST(id AS BLOB) WHERE id = ?1")?
            .execute([run.id, left.cast_signed()])?;
        run.events = left;
        Ok(())
    }
}

fn record(change: &StateChange) -> String {
    serde_json::to_string(change).unwrap_or_default()
}

/// Removes a thread without runs and state, unless it has a conversation and a name that someone gave it. Returns
/// whether it did. If the thread is long or the turn is used up, it loses its name, and
/// [`remove_forgotten`] removes it.
pub(super) fn forget_if_empty(
    connection: &Connection,
    thread: i64,
    turns: &Turns<'_>,
) -> rusqlite::Result<bool> {
    let empty = "SELECT thread_id, messages FROM threads WHERE id = ?1
        AND NOT EXISTS (SELECT 1 FROM runs WHERE thread = ?1)
        AND NOT EXISTS (SELECT 1 FROM state WHERE thread = ?1)";
    let empty: Option<(String, i64)> = connection
        .prepare_cached(empty)?
        .query_row([thread], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let is_forgotten = empty.is_some_and(|(thread_id, messages)| messages == 0 || is_generated(&thread_id));
    if is_forgotten && (turns.is_used_up() || !remove_rows(connection, thread)?) {
        // No text equals a blob: nothing finds the thread from now on, and its name may be used again.
        let forget = "UPDATE threads SET thread_id = CAST(id AS BLOB) WHERE id = ?1";
        connection.prepare_cached(forget)?.execute([thread])?;
    }
    Ok(is_forgotten)
}

/// Removes the threads that have lost their names, also those of an earlier call that was stopped.
pub(super) fn remove_forgotten(connection: &Connection, turns: &mut Turns<'_>) -> rusqlite::Result<()> {
    let remove_some = |connection: &Connection| {
        // Every blob is greater than every text.
        let next = "SELECT id FROM threads WHERE thread_id >= x'' LIMIT 1";
        let next = connection.prepare_cached(next)?.query_row([], |row| row.get::<_, i64>(0)).optional()?;
        next.map(|thread| remove_rows(connection, thread)).transpose()
    };
    while !turns.are_over() && turns.write_part(connection, remove_some)?.is_some() {}
    Ok(())
}

/// Removes some of a thread's rows, and the thread itself with the last of them. Returns whether it did.
fn remove_rows(connection: &Connection, thread: i64) -> rusqlite::Result<bool> {
    let most = i64::try_from(ROWS_AT_ONCE).unwrap_or(i64::MAX);
    let mut has_more = false;
    // References to the thread go first: changes of keys that do not persist remain.
    for delete in [
        "DELETE FROM changes WHERE id IN (SELECT id FROM changes WHERE thread = ?1 LIMIT ?2)",
        "DELETE FROM messages WHERE id IN
            (SELECT id FROM messages WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32 LIMIT ?2)",
    ] {
        has_more |= connection.prepare_cached(delete)?.execute([thread, most])? == ROWS_AT_ONCE;
    }
    if !has_more {
        connection.prepare_cached("DELETE FROM threads WHERE id = ?1")?.execute([thread])?;
    }
    Ok(!has_more)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{SqliteStore, open};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;
    use tollgate_agent::context::RunIdentity;
    use tollgate_agent::run::event::{CheckedCall, ToolVersion};
    use tollgate_agent::run::{AgentSpec, RunLimits, RunSpec, RunStatus, Task};
    use tollgate_store::{
        AuditKind, AuditRecord, Commit, CoordinationStore, CopySource, PruneOptions, RunFilter, RunStore,
        StateStore, Store,
    };

    const MESSAGES: usize = 1_200;
    const REFUSALS: usize = 1_100;

    /// Stores a direct call of a component, with a long record and many audit records.
    async fn store_long_call(store: &dyn Store, run: &str) {
        let task = Task::Call { tool_name: "echo".into(), arguments: "".into() };
        let (identity, agent, limits) = (RunIdentity::default(), AgentSpec::default(), RunLimits::default());
        let spec = RunSpec { identity, agent: agent.into(), limits, task, detached: false };
        let proposed = CheckedCall {
            call_id: "c".into(),
            tool_name: "echo".into(),
            owner: Some(ToolVersion { id: "kit".into(), version: "1".into() }),
            ..CheckedCall::default()
        };
        let mut events =
            vec![Event::RunStarted { spec: Arc::new(spec) }, Event::CallProposed(Arc::new(proposed))];
        events.extend((0..MESSAGES).map(|_| Event::MessageAdded { text: "x".repeat(2_000) }));
        events.push(Event::RunFinished {
            status: RunStatus::Completed,
            text: String::new(),
            usage: Box::default(),
        });
        let mut commit = Commit::new(run.into(), "t".into(), 0, 1, events);
        commit.charged = vec![Some("kit".into()); MESSAGES + 3];
        let refused =
            AuditRecord::at(1, AuditKind::Denial, "agent a", "not_granted").of_component("kit", None);
        commit.audit = vec![AuditRecord { run_id: Some(run.into()), ..refused }; REFUSALS];
        store.commit(commit).await.unwrap();
    }

    fn number(connection: &Connection, sql: &str) -> i64 {
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Returns the bytes that the thread and the component are charged for.
    fn charged(connection: &Connection) -> (i64, i64) {
        let thread = number(connection, "SELECT record_bytes FROM threads WHERE thread_id = 't'");
        (thread, number(connection, "SELECT record_bytes FROM component_sizes WHERE component_id = 'kit'"))
    }

    /// Returns a turn of which nothing is left.
    fn used_up(stop: &CancellationToken) -> Turns<'_> {
        let turns = Turns::new(stop);
        std::thread::sleep(Duration::from_millis(200));
        assert!(turns.is_used_up());
        turns
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn z8_a_long_run_is_removed_in_parts_and_gives_back_all_that_it_was_charged_for() {
        let data = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(data.path()).unwrap();
        store_long_call(&store, "r").await;
        let (_, connection) = open::prepare(data.path()).unwrap();
        let (thread, component) = charged(&connection);
        assert!(thread > 2_500_000 && component == thread, "{thread}, {component}");
        connection
            .execute_batch(
                "INSERT INTO components (id, digest, bytes) VALUES (1, 'd', x'00');
                 INSERT INTO run_components (run, component) VALUES (1, 1)",
            )
            .unwrap();
        let (mut remover, mut pruned) = (RunRemover::default(), PruneReport::default());
        let (stop, events) = (CancellationToken::new(), MESSAGES as u64 + 3);
        let turns = used_up(&stop);
        let mut run = RemovableRun { id: 1, thread: 1, events };
        let mut parts = 0;
        while !remover.remove(&connection, &mut run, &mut pruned, &turns).unwrap() {
            parts += 1;
            remover.read_charges(&connection, run.id, &turns).unwrap();
            // Once a part of its events is gone, the run is.
            let is_whole = run.events == events;
            let left = store.record("r").await.unwrap();
            assert_eq!((left.damage, left.events.len() as u64), (None, if is_whole { events } else { 0 }));
            for filter in [RunFilter::default(), RunFilter::one("r")] {
                assert_eq!(store.runs(filter).await.unwrap().len(), usize::from(is_whole));
            }
            assert_eq!(store.run_components().await.unwrap().len(), usize::from(is_whole));
            assert_eq!(store.verify().await.unwrap().runs, u64::from(is_whole));
            if !is_whole {
                assert!(store.acquire("r", run.events).await.is_err(), "nothing continues it");
            }
        }
        assert!(parts >= 4, "{parts} parts");
        assert_eq!(charged(&connection), (0, 0));
        assert_eq!((pruned.runs, pruned.events, pruned.audit), (1, events, REFUSALS as u64));
        assert!(store.runs(RunFilter::one("r")).await.unwrap().is_empty());
        assert_eq!(number(&connection, "SELECT count(*) FROM audit"), 0);

        store_long_call(&store, "s").await;
        let prune = |dry_run| {
            let pruning = PruneOptions { before_ms: 1_000, dry_run, give_back: false };
            tokio::task::block_in_place(|| SqliteStore::prune(data.path(), pruning).unwrap())
        };
        for pruned in [prune(true), prune(false)] {
            assert_eq!((pruned.runs, pruned.events, pruned.audit), (1, events, REFUSALS as u64));
        }
        assert_eq!(number(&connection, "SELECT count(*) FROM events"), 0);
        assert_eq!(number(&connection, "SELECT record_bytes FROM component_sizes"), 0);
    }

    /// Creates a thread without runs that has this name, and 200 messages and changes each.
    fn with_thread(directory: &Path, name: &str) -> Connection {
        let (_, connection) = open::prepare(directory).unwrap();
        let insert = "INSERT INTO threads (id, thread_id, messages) VALUES (1, ?1, 200)";
        connection.execute(insert, [name]).unwrap();
        let rows = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199)";
        for insert in [
            "INSERT INTO messages (id, body) SELECT (1 << 32) | i, '{}' FROM n",
            "INSERT INTO changes (thread, revision, body) SELECT 1, i + 1, '{}' FROM n",
        ] {
            connection.execute(&format!("{rows} {insert}"), []).unwrap();
        }
        connection
    }

    #[tokio::test]
    async fn z8_a_long_thread_is_gone_at_once_and_removed_in_parts() {
        let data = tempfile::tempdir().unwrap();
        let name = "ada/01890000-0000-7000-8000-000000000000";
        let connection = with_thread(data.path(), name);
        let stop = CancellationToken::new();
        assert!(forget_if_empty(&connection, 1, &Turns::new(&stop)).unwrap());
        let left = || {
            let count = "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM changes)";
            (number(&connection, count), number(&connection, "SELECT count(*) FROM threads"))
        };
        assert_eq!(left(), (400 - 2 * 64, 1), "a part of it");
        let store = SqliteStore::open(data.path()).unwrap();
        assert!(store.thread(name).await.unwrap().messages.is_empty());
        assert!(store.thread_ids().await.unwrap().is_empty());
        // Its name is free.
        connection.execute("INSERT INTO threads (thread_id) VALUES (?1)", [name]).unwrap();
        stop.cancel();
        remove_forgotten(&connection, &mut Turns::new(&stop)).unwrap();
        assert_eq!(left(), (400 - 2 * 64, 2));
        remove_forgotten(&connection, &mut Turns::new(&CancellationToken::new())).unwrap();
        assert_eq!(left(), (0, 1));
        assert_eq!(store.thread_ids().await.unwrap(), [name]);
    }

    #[test]
    fn z8_a_thread_is_left_for_the_next_turn_when_this_one_is_used_up() {
        let data = tempfile::tempdir().unwrap();
        let connection = with_thread(data.path(), "01890000-0000-7000-8000-000000000000");
        let stop = CancellationToken::new();
        assert!(forget_if_empty(&connection, 1, &used_up(&stop)).unwrap());
        assert_eq!(number(&connection, "SELECT count(*) FROM messages"), 200);
        assert_eq!(number(&connection, "SELECT count(*) FROM threads WHERE typeof(thread_id) = 'blob'"), 1);
    }
}
