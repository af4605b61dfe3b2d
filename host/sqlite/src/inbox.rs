//! Commands to runs, and the runs that wait for a process.

use super::process::{Process, acquire};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;
use std::sync::Arc;
use tollgate_agent::run::Event;
use tollgate_store::{ClaimedRun, Commit, RunCommand, SentCommand};

/// Stores a command, unless the run has one with this id. Returns whether the run is open; `None`
/// if there is no such run.
pub(super) fn send(
    connection: &Connection,
    run_id: &str,
    id: &str,
    command: &RunCommand,
) -> rusqlite::Result<Option<bool>> {
    let find = "SELECT status IN ('running', 'waiting') FROM runs WHERE run_id = ?1";
    let is_open = connection.prepare_cached(find)?.query_row([run_id], |row| row.get(0)).optional()?;
    if is_open != Some(true) {
        return Ok(is_open);
    }
    let body = serde_json::to_string(command).unwrap_or_default();
    connection
        .prepare_cached("INSERT OR IGNORE INTO inbox (run_id, id, body) VALUES (?1, ?2, ?3)")?
        .execute(params![run_id, id, body])?;
    Ok(Some(true))
}

/// Returns the commands to a run, oldest first.
pub(super) fn commands(connection: &Connection, run_id: &str) -> rusqlite::Result<Vec<SentCommand>> {
    let mut find =
        connection.prepare_cached("SELECT id, body FROM inbox WHERE run_id = ?1 ORDER BY number")?;
    let rows = find.query_map([run_id], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    rows.map(|row| {
        let (id, body) = row?;
        let command = serde_json::from_str(&body).map_err(|e| {
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, e.into())
        })?;
        Ok(SentCommand { id: Arc::from(id), command })
    })
    .collect()
}

/// Returns those of the runs that have commands.
pub(super) fn runs_with_commands(
    connection: &Connection,
    runs: &[Arc<str>],
) -> rusqlite::Result<Vec<Arc<str>>> {
    let mut find = connection.prepare_cached("SELECT DISTINCT run_id FROM inbox")?;
    let found = find.query_map([], |row| row.get::<_, String>(0))?;
    let found = found.collect::<rusqlite::Result<HashSet<String>>>()?;
    Ok(runs.iter().filter(|run| found.contains(&***run)).cloned().collect())
}

/// Removes a command that cannot be carried out.
pub(super) fn withdraw(connection: &Connection, run_id: &str, id: &str) -> rusqlite::Result<()> {
    let delete = "DELETE FROM inbox WHERE run_id = ?1 AND id = ?2";
    connection.prepare_cached(delete)?.execute([run_id, id]).map(drop)
}

/// Removes the commands that a commit carries out; those of a run that ended, all of them.
pub(super) fn consume(connection: &Connection, commit: &Commit) -> rusqlite::Result<()> {
    let ended = commit.events().iter().any(|event| matches!(event.event, Event::RunFinished { .. }));
    if ended && commit.after() > 0 {
        let delete = "DELETE FROM inbox WHERE run_id = ?1";
        return connection.prepare_cached(delete)?.execute([commit.run_id().as_ref()]).map(drop);
    }
    commit.carries_out.iter().try_for_each(|id| withdraw(connection, commit.run_id(), id))
}

/// Acquires up to `limit` runs that no living process drives and that can go on: interrupted and
/// queued ones, and waiting ones with a command. Of one thread, only the oldest open run.
pub(super) fn claim(
    connection: &Connection,
    process: &Process,
    agents: &[String],
    limit: usize,
) -> rusqlite::Result<Vec<ClaimedRun>> {
    let mut find = connection.prepare_cached(
        "SELECT r.run_id, r.agent_id, r.kind, r.owner, r.status, r.epoch, r.events FROM runs r
         WHERE r.status <> 'completed' AND r.kind <> 'child'
            AND (r.status = 'running'
                OR r.status = 'waiting' AND EXISTS (SELECT 1 FROM inbox i WHERE i.run_id = r.run_id))
            AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.thread = r.thread AND o.id < r.id AND o.kind = 'prompt'
                AND r.kind = 'prompt' AND o.status IN ('running', 'waiting'))
         ORDER BY r.id",
    )?;
    let mut rows = find.query([])?;
    let mut claimed = Vec::new();
    while let Some(row) = rows.next()? {
        if claimed.len() >= limit {
            break;
        }
        let run_id: String = row.get(0)?;
        let (agent, kind): (String, String) = (row.get(1)?, row.get(2)?);
        let (owner, status): (String, String) = (row.get(3)?, row.get(4)?);
        let is_driven = match status.as_str() {
            "running" => process.is_driven_by(&owner, &run_id, row.get(5)?),
            // A waiting run that this process has acquired, and has not committed to yet.
            _ => process.holds(&run_id),
        };
        if is_driven || (kind == "prompt" && !agents.contains(&agent)) {
            continue;
        }
        let events = row.get::<_, i64>(6)?.cast_unsigned();
        if let Ok(epoch) = acquire(connection, process, &run_id, events)? {
            claimed.push(ClaimedRun { run_id: Arc::from(run_id), epoch, read: None });
        }
    }
    Ok(claimed)
}
