//! Commands to runs, and the runs that wait for a host.

use crate::connect::{Busy, PAUSE, find, may_exist, params, query, run};
use crate::error::{Failure, failure};
use crate::read::{self, FoundClaims, parse};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};
use tollgate_store::{SentCommand, StoreError};
use uuid::Uuid;

/// Stores a command, unless the run has one with this id. Returns whether the run is open, or was when an earlier
/// sending stored the command; `None` if there is no such run.
///
/// `transaction` is that of the last sending, which may have been committed although its answer was lost. The command
/// itself would not show that: it is removed as soon as a host has carried it out, and would then be stored again.
pub(crate) async fn send(
    client: Busy,
    begin: &str,
    (run_id, id, body): (&str, &str, &str),
    transaction: &Mutex<Option<String>>,
) -> Result<Option<bool>, Error> {
    if !may_exist(run_id) {
        client.finish();
        return Ok(None);
    }
    let last = transaction.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(last) = last
        && was_committed(&client, &last).await?
    {
        client.finish();
        return Ok(Some(true));
    }
    // The lock waits for a commit that may be ending the run.
    let insert =
        "WITH r AS (SELECT id FROM runs WHERE id = $1 AND status IN ('running', 'waiting') FOR SHARE)
        INSERT INTO inbox (run, id, body) SELECT r.id, $2, $3 FROM r ON CONFLICT DO NOTHING";
    let find = "SELECT status IN ('running', 'waiting'), pg_current_xact_id_if_assigned()::text
        FROM runs WHERE id = $1";
    let row = params![(run_id.to_owned(), TEXT), (id.to_owned(), TEXT), (body.to_owned(), TEXT)];
    let (begun, inserted, found) = futures::join!(
        client.batch_execute(begin),
        run(&client, insert, row),
        query(&client, find, params![(run_id.to_owned(), TEXT)])
    );
    begun?;
    let (is_new, found) = (inserted? > 0, found?);
    if !is_new {
        client.roll_back().await;
        return Ok(found.first().map(|row| row.get(0)));
    }
    *transaction.lock().unwrap_or_else(PoisonError::into_inner) = found.first().and_then(|row| row.get(1));
    client.batch_execute("COMMIT").await?;
    client.finish();
    Ok(Some(true))
}

/// Waits for the end of a transaction, and returns whether it was committed.
async fn was_committed(client: &Client, transaction: &str) -> Result<bool, Error> {
    loop {
        let sql = "SELECT pg_xact_status($1::xid8)";
        let rows = match query(client, sql, params![(transaction.to_owned(), TEXT)]).await {
            // It is in the future of this server, which has taken over from the one that was asked to commit it.
            Err(why) if why.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => return Ok(false),
            rows => rows?,
        };
        let status: Option<String> = rows.first().and_then(|row| row.get(0));
        match status.as_deref() {
            Some("in progress") => tokio::time::sleep(PAUSE).await,
            status => return Ok(status == Some("committed")),
        }
    }
}

/// Returns the commands to a run, oldest first.
pub(crate) async fn commands(
    client: &Client,
    run_id: &str,
) -> Result<Result<Vec<SentCommand>, StoreError>, Error> {
    let sql = "SELECT id, body FROM inbox WHERE run = $1 ORDER BY number";
    let rows = find(client, sql, params![(run_id.to_owned(), TEXT)]).await?;
    let read = |row: &Row| {
        Ok(SentCommand { id: Arc::from(row.get::<_, &str>(0)), command: parse("command", row.get(1))? })
    };
    Ok(rows.iter().map(read).collect())
}

/// Returns those of the runs that have commands.
pub(crate) async fn runs_with_commands(client: &Client, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, Error> {
    // The server would refuse the whole list.
    let runs = runs.iter().filter(|run| may_exist(run));
    let runs: Vec<String> = runs.map(ToString::to_string).collect();
    let sql = "SELECT DISTINCT run FROM inbox WHERE run = ANY($1)";
    let rows = query(client, sql, params![(runs, TEXT_ARRAY)]).await?;
    Ok(rows.iter().map(|row| Arc::from(row.get::<_, &str>(0))).collect())
}

/// Removes a command that cannot be carried out.
pub(crate) async fn withdraw(client: &Client, run_id: &str, id: &str) -> Result<(), Error> {
    if !may_exist(run_id) || !may_exist(id) {
        return Ok(());
    }
    let sql = "DELETE FROM inbox WHERE run = $1 AND id = $2";
    run(client, sql, params![(run_id.to_owned(), TEXT), (id.to_owned(), TEXT)]).await.map(drop)
}

/// Calls the function of the database that claims runs. [`read::claimed`] reads its columns.
pub(crate) const CLAIM: &str = "SELECT o_run, o_epoch, o_thread, o_last, o_numbers, o_times, o_bodies, o_checksums, \
    o_revision, o_record_bytes, o_messages, o_keys, o_values, o_command_ids, o_commands \
    FROM claim_v2($1, $2, $3, $4, $5, $6) ORDER BY o_place";
/// The maximum text that is read with a claim, for each run and together, in bytes.
const READ_BYTES: i64 = 64 * 1024;
const ALL_READ_BYTES: i64 = 1024 * 1024;

/// How often a host looks at all runs without an owner.
const LOOK_AT_ALL: Duration = Duration::from_secs(1);
/// How much older than the oldest known run one may be that was not visible yet, by its id.
const MARGIN_MS: u64 = 500;

/// The run from which a host begins to look for runs without an owner. While any transaction is open on
/// the server, the index keeps an entry of every run that was queued since it began. A host that began
/// with the first entry each time would read all of them each time.
#[derive(Default)]
pub(crate) struct ClaimStart(Mutex<StartState>);

#[derive(Default)]
struct StartState {
    from: String,
    /// When the host looked at all runs; `None` if it is to do so the next time.
    looked_at_all: Option<Instant>,
}

impl ClaimStart {
    fn lock(&self) -> MutexGuard<'_, StartState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next look begin with the oldest run: one may have been released.
    pub(crate) fn reset(&self) {
        self.lock().looked_at_all = None;
    }

    /// Returns the id from which to look now.
    pub(crate) fn next(&self) -> String {
        let mut state = self.lock();
        if state.looked_at_all.is_some_and(|at| at.elapsed() < LOOK_AT_ALL) {
            return state.from.clone();
        }
        state.looked_at_all = Some(Instant::now());
        String::new()
    }

    /// Records the oldest run that was found.
    fn found(&self, oldest: &str) {
        self.lock().from = shortly_before(oldest);
    }
}

/// Returns an id that is [`MARGIN_MS`] older; the first of all for an id that has no time.
fn shortly_before(id: &str) -> String {
    let id = Uuid::parse_str(id).ok().filter(|id| id.get_version_num() == 7);
    let Some(id) = id else { return String::new() };
    let ms = (id.as_u128() >> 80).saturating_sub(u128::from(MARGIN_MS));
    Uuid::from_u128(ms << 80).to_string()
}

/// Claims up to this many runs for this host, and reads small ones with their threads and commands.
pub(crate) async fn claim(
    client: &Busy,
    host: &str,
    agents: &[String],
    limit: usize,
    start: &ClaimStart,
) -> Result<Result<FoundClaims, StoreError>, Error> {
    let from = start.next();
    let claim = async |limit: usize| {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX - 1);
        let row = params![
            (host.to_owned(), TEXT),
            (agents.to_vec(), TEXT_ARRAY),
            (limit, INT8),
            (from.clone(), TEXT),
            (READ_BYTES, INT8),
            (ALL_READ_BYTES, INT8),
        ];
        let mut rows = client.query_prepared(CLAIM, row).await?;
        let oldest: Option<String> = rows.pop().and_then(|last| last.get(0));
        oldest.iter().for_each(|oldest| start.found(oldest));
        Ok::<_, Error>(rows)
    };
    let mut rows = Vec::new();
    match claim(limit).await {
        // Another run of one of the threads was begun at this moment. The others are not to wait for it.
        Err(why) if failure(&why) == Failure::Taken => {
            while rows.len() < limit {
                match claim(1).await {
                    Ok(one) if !one.is_empty() => rows.extend(one),
                    Err(why) if failure(&why) != Failure::Taken => return Err(why),
                    _ => break,
                }
            }
        }
        claimed => rows = claimed?,
    }
    Ok(read::claimed(rows).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_begins_shortly_before_the_oldest_run_and_once_a_second_with_the_first() {
        let start = ClaimStart::default();
        assert_eq!((start.next(), start.next()), (String::new(), String::new()));
        start.found("019ac1b2-0400-7abc-8def-0123456789ab");
        assert_eq!(start.next(), "019ac1b2-020c-0000-0000-000000000000", "500 ms before");
        start.found("a-run-of-a-test");
        assert_eq!(start.next(), "");
        start.found("019ac1b2-0400-7abc-8def-0123456789ab");
        start.reset();
        assert_eq!(start.next(), "");
        assert_ne!(start.next(), "");
    }
}
