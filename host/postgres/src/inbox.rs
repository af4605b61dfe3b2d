//! Commands to runs, and the runs that wait for a host.

use crate::connect::{params, query, run};
use crate::error::{Failure, failure};
use crate::read::parse;
use std::sync::Arc;
use tokio_postgres::{Client, Error, Row};
use tollgate_store::{ClaimedRun, SentCommand, StoreError};

/// Stores a command, unless the run has one with this id. Returns whether the run is open; `None`
/// if there is no such run.
pub(crate) async fn send(client: &Client, run_id: &str, id: &str, body: &str) -> Result<Option<bool>, Error> {
    // The lock waits for a commit that may be ending the run.
    let sql = "WITH r AS (SELECT id FROM runs WHERE id = $1 AND status IN ('running', 'waiting') FOR SHARE)
        INSERT INTO inbox (run, id, body) SELECT r.id, $2, $3 FROM r ON CONFLICT DO NOTHING";
    let row = params![(run_id.to_owned(), TEXT), (id.to_owned(), TEXT), (body.to_owned(), TEXT)];
    let sent = run(client, sql, row).await? > 0;
    let sql = "SELECT status IN ('running', 'waiting') FROM runs WHERE id = $1";
    let found = query(client, sql, params![(run_id.to_owned(), TEXT)]).await?;
    Ok(found.first().map(|row| sent || row.get(0)))
}

/// Returns the commands to a run, oldest first.
pub(crate) async fn commands(
    client: &Client,
    run_id: &str,
) -> Result<Result<Vec<SentCommand>, StoreError>, Error> {
    let sql = "SELECT id, body FROM inbox WHERE run = $1 ORDER BY number";
    let rows = query(client, sql, params![(run_id.to_owned(), TEXT)]).await?;
    let read = |row: &Row| {
        Ok(SentCommand { id: Arc::from(row.get::<_, &str>(0)), command: parse("command", row.get(1))? })
    };
    Ok(rows.iter().map(read).collect())
}

/// Returns those of the runs that have commands.
pub(crate) async fn runs_with_commands(client: &Client, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, Error> {
    let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
    let sql = "SELECT DISTINCT run FROM inbox WHERE run = ANY($1)";
    let rows = query(client, sql, params![(runs, TEXT_ARRAY)]).await?;
    Ok(rows.iter().map(|row| Arc::from(row.get::<_, &str>(0))).collect())
}

/// Removes a command that cannot be carried out.
pub(crate) async fn withdraw(client: &Client, run_id: &str, id: &str) -> Result<(), Error> {
    let sql = "DELETE FROM inbox WHERE run = $1 AND id = $2";
    run(client, sql, params![(run_id.to_owned(), TEXT), (id.to_owned(), TEXT)]).await.map(drop)
}

/// The condition that a run may be driven: it is the oldest open prompt of its thread, and no host
/// drives a newer one, which a host may have begun whose clock is ahead.
macro_rules! next_of_thread {
    () => {
        "(r.kind <> 'prompt' OR NOT EXISTS (SELECT FROM runs o WHERE o.thread = r.thread AND o.id < r.id
                AND o.kind = 'prompt' AND o.status IN ('running', 'waiting'))
            AND NOT EXISTS (SELECT FROM runs o WHERE o.thread = r.thread
                AND o.kind = 'prompt' AND o.status = 'running' AND o.owner IS NOT NULL))"
    };
}

/// Claims up to `$3` runs: waiting ones with the oldest commands, then the oldest of those that were
/// queued or interrupted. The second list is read only as far as the first one leaves room.
const CLAIM: &str = concat!(
    "WITH commanded AS (SELECT r.id FROM inbox i JOIN runs r ON r.id = i.run
            WHERE r.status = 'waiting' AND r.owner IS NULL
            AND (r.kind = 'call' OR r.kind = 'prompt' AND r.agent = ANY($2)) AND ",
    next_of_thread!(),
    " ORDER BY i.number LIMIT $3 FOR UPDATE OF r SKIP LOCKED),
        unowned AS (SELECT r.id FROM runs r WHERE r.status = 'running' AND r.owner IS NULL
            AND (r.kind = 'call' OR r.kind = 'prompt' AND r.agent = ANY($2)) AND ",
    next_of_thread!(),
    " ORDER BY r.id LIMIT $3 FOR UPDATE SKIP LOCKED),
        chosen AS (SELECT id, row_number() OVER () AS place FROM
            (SELECT id FROM commanded UNION ALL SELECT id FROM unowned LIMIT $3) AS x),
        claimed AS (UPDATE runs SET owner = $1, epoch = epoch + 1 FROM chosen
            WHERE runs.id = chosen.id AND runs.owner IS NULL RETURNING runs.id, runs.epoch, chosen.place)
    SELECT id, epoch FROM claimed ORDER BY place"
);

/// Claims up to this many runs for this host.
pub(crate) async fn claim(
    client: &Client,
    host: &str,
    agents: &[String],
    limit: usize,
) -> Result<Vec<ClaimedRun>, Error> {
    let claim = async |limit: usize| {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let row = params![(host.to_owned(), TEXT), (agents.to_vec(), TEXT_ARRAY), (limit, INT8)];
        query(client, CLAIM, row).await
    };
    let is_taken =
        |claimed: &Result<Vec<Row>, Error>| matches!(claimed, Err(why) if failure(why) == Failure::Taken);
    let mut claimed = claim(limit).await;
    // Another run of one of the threads was begun at this moment. The others are not to wait for it.
    if limit > 1 && is_taken(&claimed) {
        claimed = claim(1).await;
    }
    if is_taken(&claimed) {
        return Ok(Vec::new());
    }
    let read = |row: &Row| ClaimedRun {
        run_id: Arc::from(row.get::<_, &str>(0)),
        epoch: row.get::<_, i64>(1).cast_unsigned(),
    };
    Ok(claimed?.iter().map(read).collect())
}
