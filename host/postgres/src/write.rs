//! The rows of a commit: functions of the database for the row of a run that begins and for the rows that every
//! commit may have, and the statements beside them.

use crate::connect::{Busy, Params, params, run};
use crate::error::violates;
use crate::prepared_commit::PreparedCommit;
use crate::record_sizes::AddedSizes;
use crate::statements::ReadyQuery;
use futures::future::BoxFuture;
use tokio_postgres::Error;
use tollgate_agent::health::HealthSign;
use tollgate_agent::run::{Event, RunSpec, StoredEvent};
use tollgate_store::ToolHealth;
use tollgate_store::rules::{EventRow, label, last_call_failed, status_after};

/// The rows of an accepted commit.
pub(crate) struct WrittenRows<'a> {
    pub(crate) prepared: &'a PreparedCommit,
    pub(crate) events: &'a [StoredEvent],
    pub(crate) rows: &'a [EventRow],
    pub(crate) moved: u64,
    pub(crate) host: &'a str,
    pub(crate) shard: i16,
    /// The sizes that are added to those of the thread and of components.
    pub(crate) added: &'a AddedSizes,
    /// Whether the thread has a row.
    pub(crate) has_thread: bool,
    /// The values of the keys that the commit writes.
    pub(crate) values: Vec<(String, String)>,
    /// The health of tools, where the commit changes it.
    pub(crate) health: Vec<(String, Option<ToolHealth>)>,
}

/// Statements that are sent together, in order. If one fails, the server rejects the later ones,
/// and the last one, `COMMIT`, rolls back.
pub(crate) struct Batch<'a> {
    client: &'a Busy,
    sent: Vec<BoxFuture<'a, Result<u64, Error>>>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(client: &'a Busy) -> Self {
        Self { client, sent: Vec::with_capacity(8) }
    }

    pub(crate) fn push(&mut self, sql: &'a str, params: Params) {
        self.sent.push(run(self.client, sql, params));
    }

    pub(crate) async fn commit(mut self) -> Result<(), Error> {
        let client = self.client;
        self.sent.push(Box::pin(async move { client.batch_execute("COMMIT").await.map(|()| 0) }));
        // At most 30 futures are polled in order by `join_all`; there are about half as many.
        debug_assert!(self.sent.len() <= 30);
        futures::future::join_all(self.sent).await.into_iter().collect::<Result<Vec<u64>, _>>().map(drop)
    }
}

/// Adds the row of a thread if it is missing, and locks it in either case, also if it is removed meanwhile.
pub(crate) const LOCK_THREAD: &str = "INSERT INTO threads (id) VALUES ($1)
    ON CONFLICT (id) DO UPDATE SET revision = threads.revision WHERE false";

/// Calls the function of the database that writes the rows which every commit may have.
pub(crate) const COMMIT: &str = "SELECT commit_v2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
    $16, $17, $18, $19, $20, $21, $22, $23, $24)";

/// Calls the function of the database that adds the row of a run and, if it is missing, that of its thread. The
/// thread is locked before the run, as by every commit that locks both.
const BEGIN: &str = "SELECT begin_v1($1, $2, $3, $4, $5, $6, $7, $8)";

/// Calls [`BEGIN`], and then [`COMMIT`], in one transaction.
pub(crate) const BEGIN_AND_COMMIT: &str = "SELECT CASE WHEN begin_v1($25, $26, $27, $28, $29, $30, $31, $32) \
    THEN commit_v2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, \
    $22, $23, $24) END";

/// Writes the rows and commits. The thread and the run are locked.
pub(crate) async fn write(client: &Busy, written: WrittenRows<'_>) -> Result<(), Error> {
    let commit = &written.prepared.commit;
    let mut batch = Batch::new(client);
    if !written.has_thread {
        let sql = "INSERT INTO threads (id) VALUES ($1) ON CONFLICT DO NOTHING";
        batch.push(sql, params![(commit.thread_id.to_string(), TEXT)]);
    }
    if let Some(spec) = written.prepared.begins() {
        batch.push(BEGIN, run_row(&written, spec));
    }
    // The health of its tools is known.
    batch.push(COMMIT, call(&written, Vec::new()));
    push_state(&mut batch, &written);
    for (tool, health) in &written.health {
        batch.push(crate::audit::set_health(health), crate::audit::health_row(tool, health));
    }
    batch.commit().await
}

/// Returns whether a commit can be written at once: nothing that it writes depends on rows that must be
/// read first.
pub(crate) fn is_independent(prepared: &PreparedCommit) -> bool {
    let commit = &prepared.commit;
    let is_independent_of_health = match prepared.begins() {
        // Nothing could be undone if one of the tools turned out to have trapped.
        Some(_) => crate::audit::tools_of(&commit.audit).is_empty(),
        None => {
            commit.after() > 0
                && commit.audit.iter().all(|record| record.health_sign() != HealthSign::Trapped)
        }
    };
    is_independent_of_health && prepared.changes().next().is_none()
}

/// Returns the statement that writes the rows in a transaction of its own, without reading first.
pub(crate) fn at_once(written: &WrittenRows<'_>) -> (&'static str, Params) {
    match written.prepared.begins() {
        Some(spec) => {
            let mut values = call(written, Vec::new());
            values.extend(run_row(written, spec));
            (BEGIN_AND_COMMIT, values)
        }
        None => (COMMIT, call(written, crate::audit::tools_of(&written.prepared.commit.audit))),
    }
}

/// Sends the statement. Returns `false`, and writes nothing, if the run is not as the sender knows it, if there is
/// such a run already, perhaps by an earlier sending, if another prompt's run is driven on its thread, or if one of the
/// tools has trapped before. The error does not tell the second from the third: the server reports the first index
/// that it checks.
pub(crate) async fn write_at_once(client: &Busy, statement: ReadyQuery) -> Result<bool, Error> {
    match client.send(statement).await {
        Err(why) if violates(&why, "runs_pkey") || violates(&why, "runs_driven") => Ok(false),
        rows => Ok(rows?.first().is_some_and(|row| row.get(0))),
    }
}

/// Returns the parameters of [`BEGIN`].
fn run_row(written: &WrittenRows<'_>, spec: &RunSpec) -> Params {
    let commit = &written.prepared.commit;
    let (kind, title) = label(spec);
    params![
        (commit.run_id().to_string(), TEXT),
        (commit.thread_id.to_string(), TEXT),
        (spec.identity.agent_id.to_string(), TEXT),
        (kind, TEXT),
        (title, TEXT),
        (commit.epoch.cast_signed(), INT8),
        (commit.at_ms().cast_signed(), INT8),
        ((!commit.queued).then(|| written.host.to_owned()), TEXT),
    ]
}

/// Returns the parameters of [`COMMIT`].
fn call(written: &WrittenRows<'_>, healthy: Vec<String>) -> Params {
    let (prepared, commit) = (written.prepared, &written.prepared.commit);
    let mut newest_first = written.events.iter().rev().map(|numbered| &numbered.event);
    let status = newest_first.clone().find_map(status_after).unwrap_or("running");
    let of_a_call =
        if status == "completed" && last_call_failed(newest_first.by_ref()) { "failed" } else { status };
    let owner = (status == "running" && !commit.queued).then(|| written.host.to_owned());
    let numbers: Vec<i64> = written.rows.iter().map(|row| row.number.cast_signed()).collect();
    let bodies: Vec<String> = written.rows.iter().map(|row| row.body.clone()).collect();
    let sums: Vec<Option<Vec<u8>>> = written.rows.iter().map(|row| row.checksum.clone()).collect();
    let mut changes = written.events.iter().filter_map(|numbered| numbered.event.change());
    let revision = changes.next_back().map(|change| change.revision.cast_signed());
    let (ids, bytes): (Vec<String>, Vec<i64>) =
        written.added.components.written.iter().map(|(id, bytes)| (id.clone(), bytes.cast_signed())).unzip();
    let digests: Vec<String> = commit.components.iter().map(|file| file.digest.to_string()).collect();
    let audit: Vec<Option<String>> = commit.audit.iter().flat_map(crate::audit::fields).collect();
    let carried_out: Vec<String> = commit.carries_out.iter().map(ToString::to_string).collect();
    let ends = written.events.iter().any(|numbered| matches!(numbered.event, Event::RunFinished { .. }));
    params![
        (commit.run_id().to_string(), TEXT),
        (commit.thread_id.to_string(), TEXT),
        (commit.epoch.cast_signed(), INT8),
        (commit.after().cast_signed(), INT8),
        (prepared.id.clone(), TEXT),
        (written.moved.cast_signed(), INT8),
        (commit.at_ms().cast_signed(), INT8),
        (owner, TEXT),
        (status, TEXT),
        (of_a_call, TEXT),
        (numbers, INT8_ARRAY),
        (bodies, TEXT_ARRAY),
        (sums, BYTEA_ARRAY),
        (revision, INT8),
        (prepared.rows.messages.clone(), TEXT_ARRAY),
        (written.added.thread.written_bytes().cast_signed(), INT8),
        (written.shard, INT2),
        (ids, TEXT_ARRAY),
        (bytes, INT8_ARRAY),
        (digests, TEXT_ARRAY),
        (audit, TEXT_ARRAY),
        (healthy, TEXT_ARRAY),
        (carried_out, TEXT_ARRAY),
        (ends, BOOL),
    ]
}

fn push_state(batch: &mut Batch<'_>, written: &WrittenRows<'_>) {
    let commit = &written.prepared.commit;
    let thread_id = commit.thread_id.to_string();
    let changed =
        written.events.iter().filter_map(|numbered| Some((numbered.event.change()?, numbered.number)));
    let (revisions, numbers): (Vec<i64>, Vec<i64>) =
        changed.map(|(change, number)| (change.revision.cast_signed(), number.cast_signed())).unzip();
    if !revisions.is_empty() {
        let sql = "INSERT INTO changes (thread, revision, run, number)
            SELECT $1, x.revision, $2, x.number FROM unnest($3, $4) AS x(revision, number)";
        batch.push(
            sql,
            params![
                (thread_id.clone(), TEXT),
                (commit.run_id().to_string(), TEXT),
                (revisions, INT8_ARRAY),
                (numbers, INT8_ARRAY),
            ],
        );
    }
    if !written.values.is_empty() {
        batch.push(SET_STATE, state_rows(&thread_id, &written.values));
    }
}

pub(crate) const SET_STATE: &str = "INSERT INTO state (thread, key, value)
    SELECT $1, x.key, x.value FROM unnest($2, $3) AS x(key, value)
    ON CONFLICT (thread, key) DO UPDATE SET value = excluded.value";

pub(crate) fn state_rows(thread_id: &str, values: &[(String, String)]) -> Params {
    let (keys, values): (Vec<String>, Vec<String>) = values.iter().cloned().unzip();
    params![(thread_id.to_owned(), TEXT), (keys, TEXT_ARRAY), (values, TEXT_ARRAY)]
}
