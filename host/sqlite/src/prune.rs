//! Removing old data: completed runs with their events, audit records, and components without
//! runs.
//!
//! Threads keep their state and their conversation, except for generated threads of which no run
//! and no state is left. A change whose run is removed keeps only its
//! update. The changes before the oldest remaining run are merged into one, so that the remaining
//! runs can still be replayed.

use super::explain::explain;
use super::joined_changes::join_all;
use super::process;
use super::read::runs_event;
use super::remove::{RemovableRun, RunRemover, forget_if_empty, remove_forgotten};
use super::turns::Turns;
use super::{SqliteStore, lock, open, reserve, store_files};
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::Event;
use tollgate_store::{BlockingRun, PruneOptions, PruneReport, StoreError, StoreErrorKind};

/// The number of runs removed in one transaction, so that others get their turn to write.
const RUNS_AT_ONCE: i64 = 100;
/// The number of pages in the log from which on it is moved into the database.
const LOG_PAGES: i64 = 64;
/// The number of pages that are moved at once while the file is shortened. Each changes a few others,
/// so a step takes less than the reserve.
const PAGES_AT_ONCE: u64 = 128;
/// The value of `auto_vacuum` for a file that can be shortened in steps.
const INCREMENTAL: u64 = 2;
/// Moves the log into the database and empties it.
const TRUNCATE: &str = "PRAGMA wal_checkpoint(TRUNCATE)";
/// The maximum number of blocking runs that are named.
const MAX_NAMED: i64 = 20;

impl SqliteStore {
    /// Removes old completed runs and audit records. Runs that are running or waiting stay, and
    /// so do their children.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn prune(directory: &Path, pruning: PruneOptions) -> Result<PruneReport, StoreError> {
        Self::prune_until(directory, pruning, &CancellationToken::new())
    }

    /// Like [`prune`](SqliteStore::prune), until the token is cancelled. The next call removes the rest.
    ///
    /// # Errors
    /// Same as [`prune`](Self::prune).
    pub fn prune_until(
        directory: &Path,
        pruning: PruneOptions,
        stop: &CancellationToken,
    ) -> Result<PruneReport, StoreError> {
        let directory = &store_files::without_links(directory)?;
        let mut pruned = PruneReport { dry_run: pruning.dry_run, ..PruneReport::default() };
        let before = size_of(directory);
        if reserve::is_needed(directory) {
            reserve::release(directory);
        }
        match Self::prune_in(directory, pruning, stop, &mut pruned) {
            // Such as a quota, which the free space of the disk does not show.
            Err(why) if why.kind() == StoreErrorKind::Full && reserve::release(directory) => {
                Self::prune_in(directory, pruning, stop, &mut pruned)?;
            }
            done => done?,
        }
        reserve::keep(directory);
        if !pruned.dry_run && !stop.is_cancelled() {
            pruned.freed_bytes = before.saturating_sub(size_of(directory));
        }
        Ok(pruned)
    }

    /// Adds what was removed to `pruned`, even if it fails later.
    fn prune_in(
        directory: &Path,
        pruning: PruneOptions,
        stop: &CancellationToken,
        pruned: &mut PruneReport,
    ) -> Result<(), StoreError> {
        let PruneOptions { before_ms, dry_run, give_back: gives_back } = pruning;
        let (file, mut connection) = open::prepare(directory)?;
        let failed = |e: rusqlite::Error| explain("prune", &file, &e);
        keep_log_small(&connection).map_err(failed)?;
        pruned.held_back = held_back(&connection, before_ms).map_err(failed)?;
        let kept_since = kept_since(&connection, before_ms).map_err(failed)?;
        let mut turns = Turns::new(stop);
        let mut changed =
            remove_old(&mut connection, before_ms, &kept_since, pruned, &mut turns).map_err(failed)?;
        if !dry_run && !turns.are_over() {
            remove_forgotten(&connection, &mut turns).map_err(failed)?;
            changed.extend(left_unjoined(&connection).map_err(failed)?);
        }
        join_all(&mut connection, changed, &mut turns).map_err(failed)?;
        prune_audit(&connection, before_ms, pruned, &mut turns).map_err(failed)?;
        prune_components(&connection, pruned, &mut turns).map_err(failed)?;
        if !dry_run && !turns.are_over() {
            pruned.processes = process::sweep_in(directory);
            if gives_back {
                // While this is held, no other process can open the store.
                let _turn = lock::take_turn(directory)?;
                pruned.is_in_use = process::any_lives(directory);
                if !pruned.is_in_use {
                    pruned.lacks_room = !give_back(&connection, directory).map_err(failed)?;
                    open::allow_checkpoint(&connection);
                    drop(connection);
                }
            }
        }
        Ok(())
    }
}

/// Returns the size of the database and its log.
fn size_of(directory: &Path) -> u64 {
    let file = open::file_in(directory);
    let length = |file: &Path| std::fs::metadata(file).map(|metadata| metadata.len()).unwrap_or_default();
    length(&file) + length(&super::explain::sibling_path(&file, "-wal"))
}

/// Keeps the log small, because the disk may be full: pages that a transaction frees are not written
/// before it ends, and the log is moved into the database after each transaction.
fn keep_log_small(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_spill", false)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)
}

/// Returns, for each thread, when the first of its remaining runs began. A run that was active
/// then may have changed what that run read.
fn kept_since(connection: &Connection, before_ms: u64) -> rusqlite::Result<HashMap<i64, i64>> {
    let mut find = connection.prepare(
        "SELECT thread, min(started_at_ms) FROM runs
         WHERE status IN ('running', 'waiting') OR updated_at_ms >= ?1 GROUP BY thread",
    )?;
    find.query_map([before_ms.cast_signed()], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Returns the open runs that keep old ones from being removed, with the number of each.
///
/// The index of the open runs is that of all runs that are not completed, hence the second condition on the status.
fn held_back(connection: &Connection, before_ms: u64) -> rusqlite::Result<Vec<BlockingRun>> {
    let mut find = connection.prepare(
        "SELECT o.run_id, o.status, count(r.id) AS held FROM runs o JOIN runs r ON r.thread = o.thread
            AND r.status NOT IN ('running', 'waiting') AND r.updated_at_ms < ?1 AND r.updated_at_ms >= o.started_at_ms
         WHERE o.status IN ('running', 'waiting') AND o.status <> 'completed'
         GROUP BY o.id ORDER BY held DESC, o.id LIMIT ?2",
    )?;
    let rows = find.query_map(params![before_ms.cast_signed(), MAX_NAMED], |row| {
        let (run_id, status) = (row.get(0)?, row.get(1)?);
        Ok(BlockingRun { run_id, status, runs: row.get::<_, i64>(2)?.cast_unsigned() })
    })?;
    rows.collect()
}

/// Removes the old runs, and the threads that have nothing left. Returns the other threads of these runs.
fn remove_old(
    connection: &mut Connection,
    before_ms: u64,
    kept_since: &HashMap<i64, i64>,
    pruned: &mut PruneReport,
    turns: &mut Turns<'_>,
) -> rusqlite::Result<BTreeSet<i64>> {
    let dry_run = pruned.dry_run;
    let behavior = if dry_run { TransactionBehavior::Deferred } else { TransactionBehavior::Immediate };
    let (mut remover, mut changed, mut after) = (RunRemover::default(), BTreeSet::new(), 0);
    while !turns.are_over() {
        let transaction = connection.transaction_with_behavior(behavior)?;
        turns.begin_part();
        let (old, last) = old_runs(&transaction, before_ms, kept_since, after)?;
        let Some(last) = last else { break };
        after = last;
        let (mut threads, mut long) = (BTreeSet::new(), None);
        for mut run in old {
            if dry_run {
                run.count(&transaction, pruned)?;
                continue;
            }
            threads.insert(run.thread);
            let is_removed = remover.remove(&transaction, &mut run, pruned, turns)?;
            long = (!is_removed).then_some(run.id);
            if !is_removed || turns.is_used_up() {
                // The next transaction finds the rest again.
                after = if is_removed { run.id } else { run.id - 1 };
                break;
            }
        }
        let removes = !threads.is_empty();
        for thread in threads {
            match forget_if_empty(&transaction, thread, turns)? {
                true => drop(changed.remove(&thread)),
                false => drop(changed.insert(thread)),
            }
        }
        transaction.commit()?;
        if removes {
            turns.give();
        } else if !dry_run {
            turns.end_part();
        }
        if let Some(run) = long {
            remover.read_charges(connection, run, turns)?;
        }
    }
    Ok(changed)
}

/// Returns the threads without runs that have several changes, such as after an earlier call that was stopped.
fn left_unjoined(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut find = connection.prepare(
        "SELECT id FROM threads t WHERE NOT EXISTS (SELECT 1 FROM runs WHERE thread = t.id)
            AND EXISTS (SELECT 1 FROM changes WHERE thread = t.id AND revision < t.revision)",
    )?;
    find.query_map([], |row| row.get(0))?.collect()
}

/// Returns the next runs that may be removed, and the last one that was examined.
fn old_runs(
    connection: &Connection,
    before_ms: u64,
    kept_since: &HashMap<i64, i64>,
    after: i64,
) -> rusqlite::Result<(Vec<RemovableRun>, Option<i64>)> {
    let mut next = connection.prepare_cached(
        "SELECT r.id, r.thread, r.kind, r.status NOT IN ('running', 'waiting') AND r.updated_at_ms < ?1, r.updated_at_ms, r.events
         FROM runs r WHERE r.id > ?2 ORDER BY r.id LIMIT ?3",
    )?;
    let rows = next.query_map(params![before_ms.cast_signed(), after, RUNS_AT_ONCE], |row| {
        let events = row.get::<_, i64>(5)?.cast_unsigned();
        let old = RemovableRun { id: row.get(0)?, thread: row.get(1)?, events };
        let ended_ms = row.get::<_, i64>(4)?;
        let was_at_work = kept_since.get(&old.thread).is_some_and(|since| *since <= ended_ms);
        Ok((old, row.get::<_, String>(2)?, row.get::<_, bool>(3)? && !was_at_work))
    })?;
    let (mut old, mut last) = (Vec::new(), None);
    for row in rows {
        let (run, kind, may_go) = row?;
        last = Some(run.id);
        // A parent that continues reads the result of its child.
        if may_go && (kind != "child" || !has_open_parent(connection, run.id)?) {
            old.push(run);
        }
    }
    Ok((old, last))
}

fn has_open_parent(connection: &Connection, run: i64) -> rusqlite::Result<bool> {
    let Some(Event::RunStarted { spec }) = runs_event(connection, run, 1)? else { return Ok(false) };
    let Some(parent) = &spec.identity.parent_run_id else { return Ok(false) };
    let status = connection
        .prepare_cached("SELECT status FROM runs WHERE run_id = ?1")?
        .query_row([parent.as_str()], |row| row.get::<_, String>(0))
        .optional()?;
    Ok(matches!(status.as_deref(), Some("running" | "waiting")))
}

/// Removes old audit records. The newest record of each file stays, because the next load is
/// compared with it. The records of remaining runs stay too; those of others were removed with them.
fn prune_audit(
    connection: &Connection,
    before_ms: u64,
    pruned: &mut PruneReport,
    turns: &mut Turns<'_>,
) -> rusqlite::Result<()> {
    let old = "at_ms < ?1
        AND (file IS NULL OR id < (SELECT max(id) FROM audit newer WHERE newer.file = audit.file))
        AND (run_id IS NULL OR NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = audit.run_id))";
    let before_ms = before_ms.cast_signed();
    if pruned.dry_run {
        let count = format!("SELECT count(*) FROM audit WHERE {old}");
        let count: i64 = connection.query_row(&count, [before_ms], |row| row.get(0))?;
        pruned.audit += count.cast_unsigned();
        return Ok(());
    }
    let window = "SELECT max(id) FROM (SELECT id FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2)";
    let delete = format!("DELETE FROM audit WHERE id > ?2 AND id <= ?3 AND {old}");
    let mut after = 0;
    while !turns.are_over() {
        let last: Option<i64> =
            connection.prepare_cached(window)?.query_row([after, turns.rows()], |row| row.get(0))?;
        let Some(last) = last else { break };
        let removed = turns.write_part(connection, |connection| {
            connection.prepare_cached(&delete)?.execute([before_ms, after, last])
        })?;
        pruned.audit += removed as u64;
        after = last;
    }
    Ok(())
}

/// Removes components that no run refers to. They are normally removed with the last run that
/// did; this finds leftovers.
fn prune_components(
    connection: &Connection,
    pruned: &mut PruneReport,
    turns: &mut Turns<'_>,
) -> rusqlite::Result<()> {
    let unused = "SELECT id FROM components WHERE id NOT IN (SELECT component FROM run_components)";
    let unused: Vec<i64> = match pruned.dry_run {
        true => Vec::new(),
        false => connection.prepare(unused)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?,
    };
    for id in unused {
        if turns.are_over() {
            break;
        }
        // Another process may refer to it by now.
        let delete = "DELETE FROM components
            WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM run_components WHERE component = ?1)";
        turns.write_part(connection, |connection| connection.prepare_cached(delete)?.execute([id]))?;
    }
    let left = connection.query_row("SELECT count(*) FROM components", [], |row| row.get::<_, i64>(0))?;
    pruned.components_left = left.cast_unsigned();
    Ok(())
}

/// Returns freed space to the file system. Others continue meanwhile; if they write, the space is
/// reused for later records instead. If the disk has room, all remaining records are written anew, as
/// densely as possible. Otherwise they are moved in steps. Returns whether that was possible.
fn give_back(connection: &Connection, directory: &Path) -> rusqlite::Result<bool> {
    let used = number(connection, "page_count")?.saturating_sub(number(connection, "freelist_count")?);
    // Each page has a header in the log.
    let has_room = !reserve::is_below(directory, used * (number(connection, "page_size")? + 64));
    let moved = match has_room.then(|| write_anew(connection)) {
        // Such as a quota, which the free space of the disk does not show.
        Some(Err(e)) if is_full(&e) => move_in_steps(connection),
        Some(written) => written.map(|()| true),
        None => move_in_steps(connection),
    };
    match moved {
        Err(e) if is_full(&e) => Ok(false),
        // Another process writes.
        Err(e) => match e.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Ok(true),
            _ => Err(e),
        },
        moved => moved,
    }
}

fn write_anew(connection: &Connection) -> rusqlite::Result<()> {
    if number(connection, "auto_vacuum")? != INCREMENTAL {
        // From an earlier version; from now on, it can be shortened in steps.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    // All pages are written, which need not be in memory at once.
    connection.pragma_update(None, "cache_spill", true)?;
    let written = all_rows(connection, "VACUUM");
    connection.pragma_update(None, "cache_spill", false)?;
    written.and_then(|()| all_rows(connection, TRUNCATE))
}

/// Moves the last pages of the file to free places and shortens it, a few pages at a time, which
/// takes little room. Returns `false` for a file of an earlier version, which cannot be shortened
/// in this way.
fn move_in_steps(connection: &Connection) -> rusqlite::Result<bool> {
    if number(connection, "auto_vacuum")? != INCREMENTAL {
        return Ok(false);
    }
    let mut free = number(connection, "freelist_count")?;
    while free > 0 {
        all_rows(connection, &format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})"))?;
        all_rows(connection, TRUNCATE)?;
        let left = number(connection, "freelist_count")?;
        if left >= free {
            break;
        }
        free = left;
    }
    Ok(true)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<u64> {
    let pragma = format!("PRAGMA {pragma}");
    connection.query_row(&pragma, [], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
}

/// Runs a statement to its end: some do a part of their work for each row.
fn all_rows(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(statement)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn is_full(why: &rusqlite::Error) -> bool {
    why.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
    use std::time::Duration;

    /// Stores completed runs that began then.
    fn store_runs(connection: &Connection, number: i64, at_ms: i64) {
        connection.execute("INSERT OR IGNORE INTO threads (id, thread_id) VALUES (1, 't')", []).unwrap();
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
            INSERT INTO runs (run_id, thread, agent_id, kind, title, status, owner, events, started_at_ms, updated_at_ms)
            SELECT 'r' || i, 1, 'a', 'call', 'echo', 'completed', '', 0, ?2, ?2 FROM n";
        connection.execute(fill, [number, at_ms]).unwrap();
    }

    #[test]
    fn z8_looking_for_old_runs_lets_others_write() {
        let data = tempfile::tempdir().unwrap();
        let (file, mut connection) = open::prepare(data.path()).unwrap();
        store_runs(&connection, 10 * RUNS_AT_ONCE, 2_000);
        let (began, looks) = std::sync::mpsc::channel();
        let looking = std::thread::spawn(move || {
            // Each look at runs takes longer than a turn.
            let slow = move || {
                let _ = began.send(());
                std::thread::sleep(Duration::from_millis(5));
                false
            };
            connection.progress_handler(100, Some(slow)).unwrap();
            let (stop, mut pruned) = (CancellationToken::new(), PruneReport::default());
            let (kept, mut turns) = (HashMap::new(), Turns::new(&stop));
            remove_old(&mut connection, 1_000, &kept, &mut pruned, &mut turns).unwrap();
            pruned.runs
        });
        looks.recv().unwrap();
        let other = open::connect(&file).unwrap();
        other.execute("INSERT INTO threads (thread_id) VALUES ('other')", []).unwrap();
        assert!(!looking.is_finished(), "others wait until all runs were looked at");
        assert_eq!(looking.join().unwrap(), 0);
    }

    /// Leaves every tenth of these records, and the log empty.
    fn fill_and_remove(connection: &Connection) {
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
            INSERT INTO components (digest, bytes) SELECT 'digest' || i, zeroblob(3000 * (i % 7)) FROM n";
        connection.execute(fill, []).unwrap();
        connection.execute("DELETE FROM components WHERE id % 10 <> 0", []).unwrap();
        all_rows(connection, TRUNCATE).unwrap();
    }

    #[test]
    fn z8_a_store_is_shortened_in_steps_that_take_little_room() {
        let data = tempfile::tempdir().unwrap();
        let (_, mut connection) = open::prepare(data.path()).unwrap();
        keep_log_small(&connection).unwrap();
        fill_and_remove(&connection);
        let longest_log = Arc::new(AtomicI32::new(0));
        let longest = Arc::clone(&longest_log);
        let watch = move |_: &mut rusqlite::hooks::Wal, pages| {
            longest.fetch_max(pages, Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(watch)).unwrap();
        let (before, kept) = (size_of(data.path()), number(&connection, "page_count").unwrap());
        assert_eq!(move_in_steps(&connection), Ok(true));
        let pages = number(&connection, "page_count").unwrap();
        assert!(pages < kept / 4 && size_of(data.path()) < before / 4, "{pages} of {kept} pages");
        let longest = u64::from(longest_log.load(Relaxed).cast_unsigned());
        assert!(longest < 4 * PAGES_AT_ONCE, "{longest} pages in the log");
        let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }

    #[test]
    fn z8_a_store_of_an_earlier_version_is_shortened_in_steps_once_it_was_written_anew() {
        let data = tempfile::tempdir().unwrap();
        let earlier = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/store-0.1.0.db");
        std::fs::copy(earlier, open::file_in(data.path())).unwrap();
        let (_, connection) = open::prepare(data.path()).unwrap();
        assert_eq!(move_in_steps(&connection), Ok(false));
        assert_eq!(give_back(&connection, data.path()), Ok(true));
        fill_and_remove(&connection);
        let before = size_of(data.path());
        assert_eq!(move_in_steps(&connection), Ok(true));
        assert!(size_of(data.path()) < before / 4);
    }
}
