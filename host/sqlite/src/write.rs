//! Writing the rows of one transaction.

use super::job::{Job, JobResult, PreparedChange, PreparedCommit};
use super::process::Process;
use super::recent_keys::RecentKeys;
use super::sizes::{Bytes, Sizes};
use super::state;
use super::thread_cache::ThreadCache;
use super::{audit, inbox};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;
use tollgate_agent::run::RunSpec;
use tollgate_agent::state::StateChange;
use tollgate_store::rules::{WrittenKeys, label, last_call_failed, sizes_fit, status_after};
use tollgate_store::{CommitError, CommitReceipt, ComponentFile, PendingValues, VolatileValues};

/// The parts of the store that follow its commits.
pub(super) struct SharedParts {
    pub(super) cache: Arc<ThreadCache>,
    pub(super) process: Arc<Process>,
    pub(super) sizes: Arc<Sizes>,
    /// The values of keys that do not persist.
    pub(super) volatile: Arc<VolatileValues>,
}

/// The number of other commits' changes whose keys are held in memory at once.
const CHANGES_AT_ONCE: usize = 256;

/// The jobs of a transaction that was committed.
pub(super) struct WrittenGroup {
    /// The result of each job.
    pub(super) results: Vec<JobResult>,
    /// The sizes of the stored records, each with its thread.
    pub(super) sizes: Vec<(Arc<str>, Bytes)>,
}

/// Writes these jobs in the transaction and commits it. A rejected commit does not affect the
/// others: its rows are written only after all its checks pass. An SQLite error rolls back
/// everything.
pub(super) fn write_group(
    transaction: Transaction<'_>,
    shared: &SharedParts,
    recent: &mut RecentKeys,
    jobs: &[Job],
) -> rusqlite::Result<WrittenGroup> {
    let process = &*shared.process;
    recent.check_version(shared.cache.begin_writing(&transaction)?);
    let (mut results, mut sizes) = (Vec::with_capacity(jobs.len()), Vec::new());
    for job in jobs {
        results.push(match job {
            Job::Commit(prepared, _) | Job::Deferred(prepared) => {
                write_commit(&transaction, process, recent, prepared, &mut sizes)?
            }
            Job::Flush(_) => Ok(CommitReceipt::default()),
            Job::Note(records, _) => {
                records.iter().try_for_each(|record| audit::write(&transaction, record, None))?;
                Ok(CommitReceipt::default())
            }
            Job::Change(prepared, _) => write_alone(&transaction, recent, prepared)?,
            Job::Other(statements, _) => {
                statements(&transaction, process)?;
                Ok(CommitReceipt::default())
            }
        });
    }
    Bytes::write_components(&transaction, sizes.iter().map(|(_, bytes)| bytes))?;
    let stored = jobs.iter().zip(&results).filter(|(_, result)| result.is_ok());
    let pending = shared.volatile.lock_all(stored.flat_map(|(job, _)| job.changes()));
    transaction.commit()?;
    pending.into_iter().for_each(PendingValues::set);
    Ok(WrittenGroup { results, sizes })
}

fn write_commit(
    connection: &Connection,
    process: &Process,
    recent: &mut RecentKeys,
    prepared: &PreparedCommit,
    sizes: &mut Vec<(Arc<str>, Bytes)>,
) -> rusqlite::Result<JobResult> {
    let commit = &prepared.commit;
    let thread = ThreadRow::find(connection, &commit.thread_id)?;
    let run_before = match run_before(connection, process, prepared, &thread)? {
        Ok(run_before) => run_before,
        Err(refused) => return Ok(Err(refused)),
    };
    let Some(moved) = missed(connection, recent, &thread, prepared)? else {
        return Ok(Err(CommitError::Conflict(thread.revision)));
    };
    let (events, rows) = match prepared.moved(moved) {
        Ok(written) => written,
        Err(why) => return Ok(Err(why.into())),
    };
    let bytes = prepared.sizes(&rows);
    let thread = thread.id_with_record(connection, &commit.thread_id, bytes.all)?;
    let run = write_run(connection, process, &run_before, thread, prepared)?;
    let before = checksum_before(connection, run, commit.after())?;
    let (sums, mut values) = (prepared.sums(&rows, moved, before.as_deref()), prepared.values.iter());
    let mut insert = connection.prepare_cached(
        "INSERT INTO events (id, at_ms, body, checksum) VALUES ((?1 << 32) | ?2, ?3, ?4, ?5)",
    )?;
    for ((numbered, body), sum) in events.iter().zip(&*rows).zip(&*sums) {
        let number = numbered.number;
        insert.execute(params![run, number.cast_signed(), commit.at_ms().cast_signed(), body, sum])?;
        if let Some(change) = numbered.event.change() {
            let body = ChangeBody::OfEvent { run, number };
            write_change(connection, recent, thread, change, &mut values, body)?;
        }
    }
    for record in &commit.audit {
        audit::write(connection, record, record.charged_bytes())?;
    }
    for component in &commit.components {
        let read = prepared.components.iter().find(|(digest, _)| *digest == component.digest);
        refer_to_component(connection, run, component, read.map(|(_, bytes)| bytes.as_slice()))?;
    }
    inbox::consume(connection, commit)?;
    write_messages(connection, thread, &prepared.rows.messages)?;
    sizes.push((Arc::clone(&commit.thread_id), bytes));
    Ok(Ok(CommitReceipt { moved }))
}

/// Returns the checksum of the event that the run's next events follow.
fn checksum_before(connection: &Connection, run: i64, after: u64) -> rusqlite::Result<Option<Vec<u8>>> {
    if after == 0 {
        return Ok(None);
    }
    let find = "SELECT checksum FROM events WHERE id = (?1 << 32) | ?2";
    let found = connection
        .prepare_cached(find)?
        .query_row(params![run, after.cast_signed()], |row| row.get::<_, Option<Vec<u8>>>(0))
        .optional()?;
    Ok(found.flatten())
}

/// A stored thread.
#[derive(Default)]
struct ThreadRow {
    /// `None` for a thread without writes.
    id: Option<i64>,
    revision: u64,
}

impl ThreadRow {
    fn find(connection: &Connection, thread_id: &str) -> rusqlite::Result<Self> {
        let find = "SELECT id, revision FROM threads WHERE thread_id = ?1";
        let found = connection
            .prepare_cached(find)?
            .query_row([thread_id], |row| {
                Ok(Self { id: Some(row.get(0)?), revision: row.get::<_, i64>(1)?.cast_unsigned() })
            })
            .optional()?;
        Ok(found.unwrap_or_default())
    }

    /// Returns the id of the row, to whose record these bytes are added. Inserts the row if it is missing.
    fn id_with_record(&self, connection: &Connection, thread_id: &str, bytes: u64) -> rusqlite::Result<i64> {
        let bytes = bytes.cast_signed();
        if let Some(id) = self.id {
            if bytes > 0 {
                connection
                    .prepare_cached("UPDATE threads SET record_bytes = record_bytes + ?2 WHERE id = ?1")?
                    .execute([id, bytes])?;
            }
            return Ok(id);
        }
        let insert = "INSERT INTO threads (thread_id, record_bytes) VALUES (?1, ?2)";
        connection.prepare_cached(insert)?.execute(params![thread_id, bytes])?;
        Ok(connection.last_insert_rowid())
    }
}

/// Returns the number of other commits' changes on which this commit must be rebased. `None` if
/// they conflict.
fn missed(
    connection: &Connection,
    recent: &RecentKeys,
    thread: &ThreadRow,
    prepared: &PreparedCommit,
) -> rusqlite::Result<Option<u64>> {
    let Some(first) = prepared.changes().next() else { return Ok(Some(0)) };
    let (base, now) = (first.revision.saturating_sub(1), thread.revision);
    let (Some(moved), Some(id)) = (now.checked_sub(base), thread.id) else {
        return Ok((base == now).then_some(0));
    };
    if moved == 0 {
        return Ok(Some(0));
    }
    let permits = |missed: &WrittenKeys| prepared.changes().all(|change| missed.permits(change));
    let fits = match recent.between(id, base, now) {
        Some(mut missed) => missed.all(permits),
        None => stored_changes_permit(connection, id, base, permits)?,
    };
    let limit = prepared.commit.thread_state_bytes;
    let stored = |owner: &str| state::sizes(connection, id, owner);
    Ok((fits && sizes_fit(prepared.changes(), limit, stored)?).then_some(moved))
}

/// Returns whether all stored changes after a revision permit the move. They are read page by
/// page, and only their keys if these are stored: a change may have megabytes.
fn stored_changes_permit(
    connection: &Connection,
    thread: i64,
    mut after: u64,
    permits: impl Fn(&WrittenKeys) -> bool,
) -> rusqlite::Result<bool> {
    loop {
        let page = state::keys_since(connection, thread, after, CHANGES_AT_ONCE)?;
        let Some(last) = page.last() else { return Ok(true) };
        after = last.revision();
        if !page.iter().all(&permits) {
            return Ok(false);
        }
    }
}

/// A run before the commit.
enum RunBefore<'a> {
    /// This is its first commit.
    New(&'a RunSpec),
    /// The run's row.
    Known(i64),
}

/// Returns the run before the commit, if the commit may be written.
fn run_before<'a>(
    connection: &Connection,
    process: &Process,
    prepared: &'a PreparedCommit,
    thread: &ThreadRow,
) -> rusqlite::Result<Result<RunBefore<'a>, CommitError>> {
    let commit = &prepared.commit;
    let find = "SELECT id, events, epoch FROM runs WHERE run_id = ?1";
    let found = connection
        .prepare_cached(find)?
        .query_row([commit.run_id().as_ref()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
        .optional()?;
    if let Some((id, events, epoch)) = found {
        return Ok(match events.cast_unsigned().cmp(&commit.after()) {
            _ if epoch.cast_unsigned() != commit.epoch => Err(CommitError::Fenced),
            Ordering::Equal => Ok(RunBefore::Known(id)),
            Ordering::Less => Err(CommitError::Behind),
            Ordering::Greater => Err(CommitError::Advanced),
        });
    }
    let Some(spec) = prepared.begins() else { return Ok(Err(CommitError::Advanced)) };
    if let (Some(thread), "prompt", false) = (thread.id, label(spec).0, commit.queued)
        && let Some(other) = at_work(connection, process, thread)?
    {
        return Ok(Err(CommitError::Busy(other)));
    }
    Ok(Ok(RunBefore::New(spec)))
}

/// Returns the prompt's run that a living process drives on this thread.
fn at_work(connection: &Connection, process: &Process, thread: i64) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare_cached(
        "SELECT run_id, owner, epoch FROM runs WHERE thread = ?1 AND kind = 'prompt' AND status = 'running'",
    )?;
    let rows = statement.query_map([thread], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
    })?;
    for row in rows {
        let (run_id, owner, epoch) = row?;
        if process.is_driven_by(&owner, &run_id, epoch) {
            return Ok(Some(run_id));
        }
    }
    Ok(None)
}

/// The record of a change: an event of a run, or the change itself as JSON.
enum ChangeBody<'a> {
    OfEvent { run: i64, number: u64 },
    Alone(&'a str),
}

fn write_change<'v>(
    connection: &Connection,
    recent: &mut RecentKeys,
    thread: i64,
    change: &StateChange,
    values: &mut impl Iterator<Item = &'v String>,
    body: ChangeBody<'_>,
) -> rusqlite::Result<()> {
    let (run, number, body) = match body {
        ChangeBody::OfEvent { run, number } => (Some(run), Some(number.cast_signed()), None),
        ChangeBody::Alone(body) => (None, None, Some(body)),
    };
    let (revision, keys) = (change.revision.cast_signed(), WrittenKeys::of(change).text());
    connection
        .prepare_cached(
            "INSERT INTO changes (thread, revision, run, number, keys, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![thread, revision, run, number, keys, body])?;
    state::write(connection, thread, change, values)?;
    recent.push(thread, change);
    connection
        .prepare_cached("UPDATE threads SET revision = ?2 WHERE id = ?1")?
        .execute(params![thread, change.revision.cast_signed()])?;
    Ok(())
}

/// Records that the run refers to a component. Stores the bytes if this is the first such run and
/// they are still available. `read` are the bytes, if they were read already.
fn refer_to_component(
    connection: &Connection,
    run: i64,
    component: &ComponentFile,
    read: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let known = connection
        .prepare_cached("SELECT id FROM components WHERE digest = ?1")?
        .query_row([component.digest.as_ref()], |row| row.get::<_, i64>(0))
        .optional()?;
    let id = match known {
        Some(id) => id,
        None => {
            // They are read here only if they could not be read before, or were removed from the store since.
            let read = read.map(Cow::Borrowed).or_else(|| component.read().map(Cow::Owned));
            let Some(bytes) = read else { return Ok(()) };
            connection
                .prepare_cached("INSERT INTO components (digest, bytes) VALUES (?1, ?2)")?
                .execute(params![component.digest.as_ref(), &*bytes])?;
            connection.last_insert_rowid()
        }
    };
    connection
        .prepare_cached("INSERT OR IGNORE INTO run_components (run, component) VALUES (?1, ?2)")?
        .execute(params![run, id])?;
    Ok(())
}

fn write_messages(connection: &Connection, thread: i64, messages: &[String]) -> rusqlite::Result<()> {
    if messages.is_empty() {
        return Ok(());
    }
    let known: i64 = connection
        .prepare_cached("SELECT messages FROM threads WHERE id = ?1")?
        .query_row([thread], |row| row.get(0))?;
    let mut insert =
        connection.prepare_cached("INSERT INTO messages (id, body) VALUES ((?1 << 32) | ?2, ?3)")?;
    for (position, body) in (known..).zip(messages) {
        insert.execute(params![thread, position, body])?;
    }
    connection
        .prepare_cached("UPDATE threads SET messages = messages + ?2 WHERE id = ?1")?
        .execute(params![thread, i64::try_from(messages.len()).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// Writes the run's row as it is after the commit.
fn write_run(
    connection: &Connection,
    process: &Process,
    run_before: &RunBefore<'_>,
    thread: i64,
    prepared: &PreparedCommit,
) -> rusqlite::Result<i64> {
    let commit = &prepared.commit;
    let mut newest_first = commit.events().iter().rev().map(|numbered| &numbered.event);
    let status = newest_first.clone().find_map(status_after).unwrap_or("running");
    let of_a_call =
        if status == "completed" && last_call_failed(newest_first.by_ref()) { "failed" } else { status };
    let events = (commit.after() + commit.events().len() as u64).cast_signed();
    // A queued run has no owner, like one whose process is gone.
    let (owner, at_ms) = (if commit.queued { "" } else { process.id() }, commit.at_ms().cast_signed());
    let epoch = commit.epoch.cast_signed();
    match run_before {
        RunBefore::Known(id) => {
            process.take_up(commit.run_id(), prepared.releases);
            let update =
                "UPDATE runs SET status = CASE kind WHEN 'call' THEN ?6 ELSE ?2 END, owner = ?3, events = ?4,
                 updated_at_ms = ?5 WHERE id = ?1";
            connection
                .prepare_cached(update)?
                .execute(params![id, status, owner, events, at_ms, of_a_call])?;
            Ok(*id)
        }
        RunBefore::New(spec) => {
            let (kind, title) = label(spec);
            let status = if kind == "call" { of_a_call } else { status };
            let (run_id, agent_id) = (commit.run_id().as_ref(), spec.identity.agent_id.as_str());
            let insert = "INSERT INTO runs (run_id, thread, agent_id, kind, title, status, owner, events,
                 started_at_ms, updated_at_ms, epoch, principal)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11)";
            let principal = commit.thread_id.split_once('/').map(|(principal, _)| principal);
            connection.prepare_cached(insert)?.execute(params![
                run_id, thread, agent_id, kind, title, status, owner, events, at_ms, epoch, principal
            ])?;
            Ok(connection.last_insert_rowid())
        }
    }
}

/// Writes a change that belongs to no run. It must be based on the current state.
fn write_alone(
    connection: &Connection,
    recent: &mut RecentKeys,
    prepared: &PreparedChange,
) -> rusqlite::Result<JobResult> {
    let thread = ThreadRow::find(connection, &prepared.thread_id)?;
    if prepared.change.revision != thread.revision + 1 {
        return Ok(Err(CommitError::Conflict(thread.revision)));
    }
    let thread = thread.id_with_record(connection, &prepared.thread_id, 0)?;
    let (mut values, body) = (prepared.values.iter(), ChangeBody::Alone(&prepared.body));
    write_change(connection, recent, thread, &prepared.change, &mut values, body)?;
    Ok(Ok(CommitReceipt::default()))
}
