//! Writing: the rows of one transaction.

use super::audit;
use super::process::Process;
use super::read::changes_since;
use super::writer::{Job, Prepared};
use crate::store::summary::{label, status_after};
use crate::store::{Commit, CommitError, ComponentFile, change_of};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tollgate_agent::run::Event;
use tollgate_agent::state::{KeyScope, StateChange};

/// One transaction. A commit that is refused leaves the others alone; an error of
/// SQLite undoes all.
pub(super) fn write_group(
    connection: &mut Connection,
    process: &Process,
    jobs: &[Job],
) -> rusqlite::Result<Vec<Result<(), CommitError>>> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut written = Vec::with_capacity(jobs.len());
    for job in jobs {
        let savepoint = transaction.savepoint()?;
        let result = match job {
            Job::Commit(prepared, _) | Job::Follow(prepared) => write_commit(&savepoint, process, prepared)?,
            Job::Flush(_) => Ok(()),
            Job::Note(records, _) => {
                records.iter().try_for_each(|record| audit::write(&savepoint, record))?;
                Ok(())
            }
            Job::Change(thread_id, change, _) => write_alone(&savepoint, thread_id, change)?,
        };
        if result.is_ok() {
            savepoint.commit()?;
        }
        written.push(result);
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
    let (thread, revision) = thread_row(connection, &commit.thread_id)?;
    let run = match run_row(connection, process, commit, thread)? {
        Ok(run) => run,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Some(missed) = missed(connection, (thread, revision), commit.changes().next())? {
        return Ok(Err(missed));
    }
    let mut insert =
        connection.prepare_cached("INSERT INTO events (run, number, at_ms, body) VALUES (?1, ?2, ?3, ?4)")?;
    for ((number, body), event) in (commit.after + 1..).zip(&prepared.events).zip(&commit.events) {
        insert.execute(params![run, number.cast_signed(), commit.at_ms.cast_signed(), body])?;
        if let Some(change) = change_of(event) {
            write_change(connection, thread, change, Some((run, number)))?;
        }
    }
    for record in &commit.audit {
        audit::write(connection, record)?;
    }
    for component in &commit.components {
        keep(connection, run, component)?;
    }
    write_messages(connection, thread, &prepared.messages)?;
    update_run(connection, process, run, commit)?;
    Ok(Ok(()))
}

/// What came in between, where a change was built on an older state.
fn missed(
    connection: &Connection,
    (thread, revision): (i64, u64),
    first: Option<&StateChange>,
) -> rusqlite::Result<Option<CommitError>> {
    match first.filter(|first| first.revision != revision + 1) {
        None => Ok(None),
        Some(first) => {
            let missed = changes_since(connection, thread, first.revision.saturating_sub(1), usize::MAX)?;
            Ok(Some(CommitError::Conflict(missed)))
        }
    }
}

fn thread_row(connection: &Connection, thread_id: &str) -> rusqlite::Result<(i64, u64)> {
    let find = "SELECT id, revision FROM threads WHERE thread_id = ?1";
    let found = connection
        .prepare_cached(find)?
        .query_row([thread_id], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))
        .optional()?;
    if let Some(row) = found {
        return Ok(row);
    }
    connection.prepare_cached("INSERT INTO threads (thread_id) VALUES (?1)")?.execute([thread_id])?;
    Ok((connection.last_insert_rowid(), 0))
}

/// The run's row, new where this is its first commit.
fn run_row(
    connection: &Connection,
    process: &Process,
    commit: &Commit,
    thread: i64,
) -> rusqlite::Result<Result<i64, CommitError>> {
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
        if events.cast_unsigned() != commit.after || carried_elsewhere {
            return Ok(Err(CommitError::Advanced));
        }
        process.take_up(&commit.run_id);
        return Ok(Ok(id));
    }
    let Some(Event::RunStarted { spec }) = commit.events.first().filter(|_| commit.after == 0) else {
        return Ok(Err(CommitError::Advanced));
    };
    let (kind, title) = label(spec);
    if kind == "prompt"
        && let Some(other) = at_work(connection, process, thread)?
    {
        return Ok(Err(CommitError::Busy(other)));
    }
    connection
        .prepare_cached(
            "INSERT INTO runs (run_id, thread, agent_id, kind, title, status, owner, events, started_at_ms, updated_at_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, 'running', ?6, 0, ?7, ?7)",
        )?
        .execute(params![
            commit.run_id.as_ref(),
            thread,
            spec.identity.agent_id,
            kind,
            title,
            process.id(),
            commit.at_ms.cast_signed()
        ])?;
    Ok(Ok(connection.last_insert_rowid()))
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
        connection.prepare_cached("INSERT INTO messages (thread, position, body) VALUES (?1, ?2, ?3)")?;
    for (position, body) in (known..).zip(messages) {
        insert.execute(params![thread, position, body])?;
    }
    connection
        .prepare_cached("UPDATE threads SET messages = messages + ?2 WHERE id = ?1")?
        .execute(params![thread, i64::try_from(messages.len()).unwrap_or(i64::MAX)])?;
    Ok(())
}

fn update_run(connection: &Connection, process: &Process, run: i64, commit: &Commit) -> rusqlite::Result<()> {
    let status = commit.events.iter().rev().find_map(status_after).unwrap_or("running");
    let events = commit.after + commit.events.len() as u64;
    connection
        .prepare_cached(
            "UPDATE runs SET status = ?2, owner = ?3, events = ?4, updated_at_ms = ?5 WHERE id = ?1",
        )?
        .execute(params![run, status, process.id(), events.cast_signed(), commit.at_ms.cast_signed()])?;
    Ok(())
}

/// A change that belongs to no run.
fn write_alone(
    connection: &Connection,
    thread_id: &str,
    change: &StateChange,
) -> rusqlite::Result<Result<(), CommitError>> {
    let (thread, revision) = thread_row(connection, thread_id)?;
    if let Some(missed) = missed(connection, (thread, revision), Some(change))? {
        return Ok(Err(missed));
    }
    write_change(connection, thread, change, None)?;
    Ok(Ok(()))
}
