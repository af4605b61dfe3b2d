//! Which process drives a run.

use super::process::Process;
use rusqlite::{Connection, OptionalExtension, params};
use std::cmp::Ordering;
use tollgate_store::{CommitError, StoreError};

/// Takes over a run for this process, unless another living process drives it.
pub(super) fn acquire(
    connection: &Connection,
    process: &Process,
    run_id: &str,
    known: u64,
) -> rusqlite::Result<Result<u64, CommitError>> {
    let find = "SELECT id, owner, status, epoch, events FROM runs WHERE run_id = ?1";
    let found = connection
        .prepare_cached(find)?
        .query_row([run_id], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, i64>(4)?,
            ))
        })
        .optional()?;
    let Some((id, owner, status, epoch, events)) = found else {
        return Ok(Err(StoreError::unknown_run(run_id).into()));
    };
    if status == "running" && owner != process.id() && process.is_driven_by(&owner, run_id, epoch) {
        return Ok(Err(CommitError::Advanced));
    }
    match events.cast_unsigned().cmp(&known) {
        Ordering::Equal => {}
        Ordering::Greater => return Ok(Err(CommitError::Advanced)),
        Ordering::Less => return Ok(Err(CommitError::Behind)),
    }
    process.take_up(run_id, process.releases());
    process.hold(run_id);
    connection.prepare_cached("UPDATE runs SET owner = ?2, epoch = ?3 WHERE id = ?1")?.execute(params![
        id,
        process.id(),
        epoch + 1
    ])?;
    Ok(Ok((epoch + 1).cast_unsigned()))
}
