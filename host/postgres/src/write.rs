//! The second exchange of a commit: all rows, and the end of the transaction.

use crate::connect::{Busy, Params, params, run};
use crate::prepared::Prepared;
use futures::future::BoxFuture;
use tokio_postgres::Error;
use tollgate_agent::run::{Event, StoredEvent};
use tollgate_store::ToolHealth;
use tollgate_store::rules::{EventRow, label, last_call_failed, status_after};

/// The rows of an accepted commit.
pub(crate) struct Written<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) events: &'a [StoredEvent],
    pub(crate) rows: &'a [EventRow],
    pub(crate) moved: u64,
    pub(crate) host: &'a str,
    pub(crate) shard: i16,
    pub(crate) messages_before: u64,
    /// Whether the thread has a row.
    pub(crate) has_thread: bool,
    /// The values of the keys that the commit writes.
    pub(crate) values: Vec<(String, String)>,
    /// The health of tools, where the commit changes it.
    pub(crate) health: Vec<(String, Option<ToolHealth>)>,
}

/// Statements that are sent together, in order. If one fails, the server rejects the later ones,
/// and the last one, `COMMIT`, rolls back.
struct Batch<'a> {
    client: &'a Busy,
    sent: Vec<BoxFuture<'a, Result<u64, Error>>>,
}

impl<'a> Batch<'a> {
    fn push(&mut self, sql: &'a str, params: Params) {
        self.sent.push(run(self.client, sql, params));
    }

    async fn commit(mut self) -> Result<(), Error> {
        let client = self.client;
        self.sent.push(Box::pin(async move { client.batch_execute("COMMIT").await.map(|()| 0) }));
        // At most 30 futures are polled in order by `join_all`; there are about half as many.
        debug_assert!(self.sent.len() <= 30);
        futures::future::join_all(self.sent).await.into_iter().collect::<Result<Vec<u64>, _>>().map(drop)
    }
}

/// Writes the rows and commits.
pub(crate) async fn write(client: &Busy, written: Written<'_>) -> Result<(), Error> {
    let commit = &written.prepared.commit;
    let mut batch = Batch { client, sent: Vec::with_capacity(14) };
    if !written.has_thread {
        let sql = "INSERT INTO threads (id) VALUES ($1) ON CONFLICT DO NOTHING";
        batch.push(sql, params![(commit.thread_id.to_string(), TEXT)]);
    }
    push_run(&mut batch, &written);
    push_events(&mut batch, &written);
    push_state(&mut batch, &written);
    push_sizes(&mut batch, &written);
    if !commit.audit.is_empty() {
        batch.push(crate::audit::INSERT, crate::audit::rows(&commit.audit));
    }
    for (tool, health) in &written.health {
        batch.push(crate::audit::set_health(health), crate::audit::health_row(tool, health));
    }
    if !commit.components.is_empty() {
        let digests: Vec<String> = commit.components.iter().map(|file| file.digest.to_string()).collect();
        // A component whose file was gone has no bytes in the store.
        let sql = "INSERT INTO run_components (run, digest) SELECT $1, digest FROM components WHERE digest = ANY($2)
            ON CONFLICT DO NOTHING";
        batch.push(sql, params![(commit.run_id().to_string(), TEXT), (digests, TEXT_ARRAY)]);
    }
    push_inbox(&mut batch, &written);
    batch.commit().await
}

/// Removes the commands that the commit carries out; those of a run that ended, all of them.
fn push_inbox(batch: &mut Batch<'_>, written: &Written<'_>) {
    let commit = &written.prepared.commit;
    let ended = written.events.iter().any(|numbered| matches!(numbered.event, Event::RunFinished { .. }));
    let run_id = commit.run_id().to_string();
    if ended && commit.after() > 0 {
        batch.push("DELETE FROM inbox WHERE run = $1", params![(run_id, TEXT)]);
    } else if !commit.carries_out.is_empty() {
        let ids: Vec<String> = commit.carries_out.iter().map(ToString::to_string).collect();
        let sql = "DELETE FROM inbox WHERE run = $1 AND id = ANY($2)";
        batch.push(sql, params![(run_id, TEXT), (ids, TEXT_ARRAY)]);
    }
}

fn push_run(batch: &mut Batch<'_>, written: &Written<'_>) {
    let (prepared, commit) = (written.prepared, &written.prepared.commit);
    let mut newest_first = written.events.iter().rev().map(|numbered| &numbered.event);
    let status = newest_first.clone().find_map(status_after).unwrap_or("running");
    let of_a_call =
        if status == "completed" && last_call_failed(newest_first.by_ref()) { "failed" } else { status };
    let owner = (status == "running" && !commit.queued).then(|| written.host.to_owned());
    let events = (commit.after() + written.events.len() as u64).cast_signed();
    let (run_id, at_ms) = (commit.run_id().to_string(), commit.at_ms().cast_signed());
    match prepared.begins() {
        Some(spec) => {
            let (kind, title) = label(spec);
            let status = if kind == "call" { of_a_call } else { status };
            let sql =
                "INSERT INTO runs (id, thread, agent, kind, title, status, owner, epoch, events, last_commit,
                    last_moved, started_at_ms, updated_at_ms)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)";
            batch.push(
                sql,
                params![
                    (run_id, TEXT),
                    (commit.thread_id.to_string(), TEXT),
                    (spec.identity.agent_id.to_string(), TEXT),
                    (kind, TEXT),
                    (title, TEXT),
                    (status, TEXT),
                    (owner, TEXT),
                    (commit.epoch.cast_signed(), INT8),
                    (events, INT8),
                    (prepared.id.clone(), TEXT),
                    (written.moved.cast_signed(), INT8),
                    (at_ms, INT8),
                ],
            );
        }
        None => {
            let sql =
                "UPDATE runs SET status = CASE kind WHEN 'call' THEN $8 ELSE $2 END, owner = $3, events = $4,
                    last_commit = $5, last_moved = $6, updated_at_ms = $7
                WHERE id = $1";
            batch.push(
                sql,
                params![
                    (run_id, TEXT),
                    (status, TEXT),
                    (owner, TEXT),
                    (events, INT8),
                    (prepared.id.clone(), TEXT),
                    (written.moved.cast_signed(), INT8),
                    (at_ms, INT8),
                    (of_a_call, TEXT),
                ],
            );
        }
    }
}

fn push_events(batch: &mut Batch<'_>, written: &Written<'_>) {
    let commit = &written.prepared.commit;
    let numbers: Vec<i64> = written.rows.iter().map(|row| row.number.cast_signed()).collect();
    let bodies: Vec<String> = written.rows.iter().map(|row| row.body.clone()).collect();
    let sums: Vec<Option<Vec<u8>>> = written.rows.iter().map(|row| row.checksum.clone()).collect();
    let sql = "INSERT INTO events (run, number, at_ms, body, checksum)
        SELECT $1, x.number, $2, x.body, x.sum FROM unnest($3, $4, $5) AS x(number, body, sum)";
    batch.push(
        sql,
        params![
            (commit.run_id().to_string(), TEXT),
            (commit.at_ms().cast_signed(), INT8),
            (numbers, INT8_ARRAY),
            (bodies, TEXT_ARRAY),
            (sums, BYTEA_ARRAY),
        ],
    );
}

fn push_state(batch: &mut Batch<'_>, written: &Written<'_>) {
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
    let messages = &written.prepared.messages;
    if !messages.is_empty() {
        let sql = "INSERT INTO messages (thread, position, body)
            SELECT $1, $2 + x.n - 1, x.body FROM unnest($3) WITH ORDINALITY AS x(body, n)";
        batch.push(
            sql,
            params![
                (thread_id, TEXT),
                (written.messages_before.cast_signed(), INT8),
                (messages.clone(), TEXT_ARRAY),
            ],
        );
    }
}

pub(crate) const SET_STATE: &str = "INSERT INTO state (thread, key, value)
    SELECT $1, x.key, x.value FROM unnest($2, $3) AS x(key, value)
    ON CONFLICT (thread, key) DO UPDATE SET value = excluded.value";

pub(crate) fn state_rows(thread_id: &str, values: &[(String, String)]) -> Params {
    let (keys, values): (Vec<String>, Vec<String>) = values.iter().cloned().unzip();
    params![(thread_id.to_owned(), TEXT), (keys, TEXT_ARRAY), (values, TEXT_ARRAY)]
}

fn push_sizes(batch: &mut Batch<'_>, written: &Written<'_>) {
    let commit = &written.prepared.commit;
    let (all, components) = written.prepared.sizes(written.rows);
    let mut changes = written.events.iter().filter_map(|numbered| numbered.event.change());
    let revision = changes.next_back().map(|change| change.revision.cast_signed());
    let sql = "UPDATE threads SET revision = coalesce($2, revision), messages = messages + $3,
        record_bytes = record_bytes + $4 WHERE id = $1";
    let messages = i64::try_from(written.prepared.messages.len()).unwrap_or(i64::MAX);
    batch.push(
        sql,
        params![
            (commit.thread_id.to_string(), TEXT),
            (revision, INT8),
            (messages, INT8),
            (all.cast_signed(), INT8),
        ],
    );
    if components.is_empty() {
        return;
    }
    let (ids, bytes): (Vec<String>, Vec<i64>) =
        components.into_iter().map(|(id, bytes)| (id, bytes.cast_signed())).unzip();
    let sql = "INSERT INTO component_sizes (component_id, shard, record_bytes)
        SELECT x.id, $1, x.bytes FROM unnest($2, $3) WITH ORDINALITY AS x(id, bytes, n) ORDER BY x.n
        ON CONFLICT (component_id, shard) DO UPDATE
            SET record_bytes = component_sizes.record_bytes + excluded.record_bytes";
    batch.push(sql, params![(written.shard, INT2), (ids, TEXT_ARRAY), (bytes, INT8_ARRAY)]);
}
