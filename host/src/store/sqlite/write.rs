//! Writing: the rows of one transaction.

use super::audit;
use super::known::Known;
use super::process::Process;
use super::read::changes_since;
use super::writer::{Job, Prepared};
use crate::store::summary::{label, status_after};
use crate::store::{CommitError, ComponentFile};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tollgate_agent::run::RunSpec;
use tollgate_agent::state::{KeyScope, StateChange};

/// Writes these within the transaction, and commits it. A commit that is refused leaves the others alone: nothing of it is
/// written before it is known that all of it may be. An error of SQLite undoes all.
pub(super) fn write_group(
    transaction: Transaction<'_>,
    known: &Known,
    process: &Process,
    jobs: &[Job],
) -> rusqlite::Result<Vec<Result<(), CommitError>>> {
    known.begin_writing(&transaction)?;
    let mut written = Vec::with_capacity(jobs.len());
    for job in jobs {
        written.push(match job {
            Job::Commit(prepared, _) => write_commit(&transaction, process, prepared)?,
            Job::Follow(prepared) => {
                // Calls go on meanwhile: each is spared a wait for all of the group.
                std::thread::yield_now();
                write_commit(&transaction, process, prepared)?
            }
            Job::Flush(_) => Ok(()),
            Job::Note(records, _) => {
                records.iter().try_for_each(|record| audit::write(&transaction, record))?;
                Ok(())
            }
            Job::Change(thread_id, change, _) => write_alone(&transaction, thread_id, change)?,
        });
    }
    transaction.commit()?;
    Ok(written)
}

fn write_commit(
    connection: &Connection,
    process: &Process,
    prepared: &Prepared,
) -> rusqlite::Result<Result<(), CommitError>> {
    let commit = &prepared.commit;
    let rows = match prepared.rows() {
        Ok(rows) => rows,
        Err(why) => return Ok(Err(why.into())),
    };
    let thread = ThreadRow::find(connection, &commit.thread_id)?;
    let standing = match standing(connection, process, prepared, &thread)? {
        Ok(standing) => standing,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Some(missed) = missed(connection, &thread, prepared.changes().next())? {
        return Ok(Err(missed));
    }
    let thread = thread.id_or_insert(connection, &commit.thread_id)?;
    let run = write_run(connection, process, &standing, thread, prepared)?;
    let mut insert =
        connection.prepare_cached("INSERT INTO events (id, at_ms, body) VALUES ((?1 << 32) | ?2, ?3, ?4)")?;
    for (numbered, body) in commit.events.iter().zip(&rows.events) {
        let number = numbered.number;
        insert.execute(params![run, number.cast_signed(), commit.at_ms.cast_signed(), body])?;
        if let Some(change) = numbered.event.change() {
            write_change(connection, thread, change, Some((run, number)))?;
        }
    }
    for record in &commit.audit {
        audit::write(connection, record)?;
    }
    for component in &commit.components {
        keep(connection, run, component)?;
    }
    write_messages(connection, thread, &rows.messages)?;
    Ok(Ok(()))
}

/// A thread as the store knows it.
#[derive(Default)]
struct ThreadRow {
    /// None of a thread that nobody wrote to.
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

    fn id_or_insert(&self, connection: &Connection, thread_id: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        connection.prepare_cached("INSERT INTO threads (thread_id) VALUES (?1)")?.execute([thread_id])?;
        Ok(connection.last_insert_rowid())
    }
}

/// What came in between, where a change was built on an older state.
fn missed(
    connection: &Connection,
    thread: &ThreadRow,
    first: Option<&StateChange>,
) -> rusqlite::Result<Option<CommitError>> {
    let Some(first) = first.filter(|first| first.revision != thread.revision + 1) else { return Ok(None) };
    let base = first.revision.saturating_sub(1);
    let changes = thread.id.map(|id| changes_since(connection, id, base, usize::MAX)).transpose()?;
    Ok(Some(CommitError::Conflict(changes.unwrap_or_default())))
}

/// A run before the commit.
enum Standing<'a> {
    /// This is its first.
    New(&'a RunSpec),
    /// It has this row.
    Known(i64),
}

/// How the run stands, where the commit may be written.
fn standing<'a>(
    connection: &Connection,
    process: &Process,
    prepared: &'a Prepared,
    thread: &ThreadRow,
) -> rusqlite::Result<Result<Standing<'a>, CommitError>> {
    let commit = &prepared.commit;
    let find = "SELECT id, events, owner, status FROM runs WHERE run_id = ?1";
    let found = connection
        .prepare_cached(find)?
        .query_row([commit.run_id.as_ref()], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, String>(3)?,
            ))
        })
        .optional()?;
    if let Some((id, events, owner, status)) = found {
        let carried_elsewhere =
            status == "running" && owner != process.id() && process.is_carried(&owner, &commit.run_id);
        let advanced = events.cast_unsigned() != commit.after || carried_elsewhere;
        return Ok(if advanced { Err(CommitError::Advanced) } else { Ok(Standing::Known(id)) });
    }
    let Some(spec) = prepared.begins() else { return Ok(Err(CommitError::Advanced)) };
    if let (Some(thread), "prompt") = (thread.id, label(spec).0)
        && let Some(other) = at_work(connection, process, thread)?
    {
        return Ok(Err(CommitError::Busy(other)));
    }
    Ok(Ok(Standing::New(spec)))
}

/// The run of a prompt that a living process carries on this thread.
fn at_work(connection: &Connection, process: &Process, thread: i64) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare_cached(
        "SELECT run_id, owner FROM runs WHERE thread = ?1 AND kind = 'prompt' AND status = 'running'",
    )?;
    let rows =
        statement.query_map([thread], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    for row in rows {
        let (run_id, owner) = row?;
        if process.is_carried(&owner, &run_id) {
            return Ok(Some(run_id));
        }
    }
    Ok(None)
}

fn write_change(
    connection: &Connection,
    thread: i64,
    change: &StateChange,
    event: Option<(i64, u64)>,
) -> rusqlite::Result<()> {
    let (run, number) = event.unzip();
    let body = event.is_none().then(|| serde_json::to_string(change).unwrap_or_default());
    connection
        .prepare_cached(
            "INSERT INTO changes (thread, revision, run, number, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![thread, change.revision.cast_signed(), run, number.map(u64::cast_signed), body])?;
    for update in change.updates.iter().filter(|update| update.persistent && update.scope == KeyScope::Thread)
    {
        if let Some(value) = &update.value {
            connection
                .prepare_cached("INSERT OR REPLACE INTO state (thread, key, value) VALUES (?1, ?2, ?3)")?
                .execute(params![thread, update.key, value.to_string()])?;
        }
    }
    connection
        .prepare_cached("UPDATE threads SET revision = ?2 WHERE id = ?1")?
        .execute(params![thread, change.revision.cast_signed()])?;
    Ok(())
}

/// Notes that the run refers to a component, and keeps its bytes where that is the
/// first run that does. Bytes that cannot be had any more are not kept.
fn keep(connection: &Connection, run: i64, component: &ComponentFile) -> rusqlite::Result<()> {
    let known = connection
        .prepare_cached("SELECT id FROM components WHERE digest = ?1")?
        .query_row([component.digest.as_ref()], |row| row.get::<_, i64>(0))
        .optional()?;
    let id = match known {
        Some(id) => id,
        None => {
            let Some(bytes) = component.read() else { return Ok(()) };
            connection
                .prepare_cached("INSERT INTO components (digest, bytes) VALUES (?1, ?2)")?
                .execute(params![component.digest.as_ref(), bytes])?;
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

/// The row of the run as it stands after the commit.
fn write_run(
    connection: &Connection,
    process: &Process,
    standing: &Standing<'_>,
    thread: i64,
    prepared: &Prepared,
) -> rusqlite::Result<i64> {
    let commit = &prepared.commit;
    let newest_first = commit.events.iter().rev();
    let status = newest_first.map(|numbered| &numbered.event).find_map(status_after).unwrap_or("running");
    let events = (commit.after + commit.events.len() as u64).cast_signed();
    let (owner, at_ms) = (process.id(), commit.at_ms.cast_signed());
    match standing {
        Standing::Known(id) => {
            process.take_up(&commit.run_id);
            let update =
                "UPDATE runs SET status = ?2, owner = ?3, events = ?4, updated_at_ms = ?5 WHERE id = ?1";
            connection.prepare_cached(update)?.execute(params![id, status, owner, events, at_ms])?;
            Ok(*id)
        }
        Standing::New(spec) => {
            let (kind, title) = label(spec);
            let (run_id, agent_id) = (commit.run_id.as_ref(), spec.identity.agent_id.as_str());
            let insert = "INSERT INTO runs (run_id, thread, agent_id, kind, title, status, owner, events,
                 started_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)";
            connection
                .prepare_cached(insert)?
                .execute(params![run_id, thread, agent_id, kind, title, status, owner, events, at_ms])?;
            Ok(connection.last_insert_rowid())
        }
    }
}

/// A change that belongs to no run.
fn write_alone(
    connection: &Connection,
    thread_id: &str,
    change: &StateChange,
) -> rusqlite::Result<Result<(), CommitError>> {
    let thread = ThreadRow::find(connection, thread_id)?;
    if let Some(missed) = missed(connection, &thread, Some(change))? {
        return Ok(Err(missed));
    }
    let thread = thread.id_or_insert(connection, thread_id)?;
    write_change(connection, thread, change, None)?;
    Ok(Ok(()))
}
