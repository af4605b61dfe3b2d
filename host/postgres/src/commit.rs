//! The commit: it checks what the caller knows, and writes all rows. It locks the row of the run, and before that the
//! row of the thread if it changes it.
//!
//! Most commits are one statement. One that changes state takes two exchanges with the server: the first locks and
//! reads; the second writes and commits. Between them, this module decides whether the commit is accepted, which no
//! statement could express: whether changes are moved behind others depends on their reducers. It also finds out why
//! a single statement wrote nothing.

use crate::connect::{Busy, int8, params, query, run};
use crate::hints::CommitHint;
use crate::prepared_commit::{PreparedCommit, Tail};
use crate::read::{self, changes_since};
use crate::record_sizes::AddedSizes;
use crate::write::{self, WrittenRows};
use futures::future::{self, Either, OptionFuture};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::run::Event;
use tollgate_agent::state::key::owner_of;
use tollgate_agent::state::{KeyScope, KeyUpdate, StateChange};
use tollgate_store::rules::{WrittenKeys, aside, label, sizes_fit};
use tollgate_store::{CommitError, CommitReceipt, StoreError, ToolHealth};

/// The number of other commits' changes held in memory at once: at first, because a change that
/// conflicts is often among the first and holds whole values, and at most.
const FIRST_CHANGES: usize = 16;
const CHANGES_AT_ONCE: usize = 256;
/// How long a commit that is stored waits for the answer to its notification. The notifications of all programs on the
/// server wait for each other.
const NOTIFIED_WITHIN: Duration = Duration::from_millis(500);

/// The reason why a commit was not stored: the database failed, or the commit is refused.
pub(crate) enum CommitFailure {
    Database(tokio_postgres::Error),
    Refused(CommitError),
}

impl From<tokio_postgres::Error> for CommitFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<CommitError> for CommitFailure {
    fn from(error: CommitError) -> Self {
        Self::Refused(error)
    }
}

impl From<StoreError> for CommitFailure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

/// A run before the commit.
struct RunRow {
    events: u64,
    epoch: u64,
    last_commit: String,
    last_moved: u64,
}

/// The rows that the first exchange read, under the locks of the thread and the run.
#[derive(Default)]
struct Before {
    /// `None` for a thread without a row.
    revision: Option<u64>,
    run: Option<RunRow>,
    /// The run of another prompt that is driven on the thread.
    driven: Option<String>,
    /// The values of the keys that the changes fold into, and whether they are large.
    values: (HashMap<String, Arc<serde_json::Value>>, bool),
    checksum: Option<Vec<u8>>,
    health: HashMap<String, ToolHealth>,
}

/// The sender of a commit.
pub(crate) struct Sender {
    /// The host that becomes the owner of a run that goes on.
    pub(crate) host: Arc<str>,
    /// The statements that begin a transaction.
    pub(crate) begin: String,
    /// The row to which the sizes of components are added.
    pub(crate) shard: i16,
    /// The sizes that the commit adds.
    pub(crate) added: AddedSizes,
    /// The event before the commit, if this host wrote it, or read it since it acquired the run.
    pub(crate) tail: Option<Tail>,
    /// Sent behind a commit of one statement, if it may be sent at once.
    pub(crate) hint: Arc<CommitHint>,
}

/// The result of a commit, and the last event of its run, unless an earlier sending was stored.
pub(crate) type StoredCommit = (CommitReceipt, Option<Tail>);

/// Sends the commit in a transaction.
pub(crate) async fn commit(
    client: Busy,
    prepared: &PreparedCommit,
    sender: &Sender,
) -> Result<StoredCommit, CommitFailure> {
    let client = match commit_unread(client, prepared, sender).await? {
        Ok(stored) => return Ok(stored),
        Err(client) => client,
    };
    match attempt(&client, prepared, sender).await {
        Ok(Ok((committed, tail))) => {
            client.finish();
            Ok((committed, tail))
        }
        Ok(Err(committed)) => {
            client.roll_back().await;
            Ok((committed, None))
        }
        Err(CommitFailure::Refused(why)) => {
            client.roll_back().await;
            Err(CommitFailure::Refused(why))
        }
        Err(why) => Err(why),
    }
}

/// Stores the commit in one statement, without reading rows first. Returns the connection, and stores nothing, if what
/// it writes depends on such rows, or if the run is not as this host knows it.
async fn commit_unread(
    client: Busy,
    prepared: &PreparedCommit,
    sender: &Sender,
) -> Result<Result<StoredCommit, Busy>, CommitFailure> {
    if !write::is_independent(prepared) {
        return Ok(Err(client));
    }
    let begins = prepared.begins();
    let checksum_before = match (begins, &sender.tail) {
        // The first event has none before it.
        (Some(_), _) => None,
        (None, Some(tail)) if tail.number == prepared.commit.after() => tail.checksum.clone(),
        (None, _) => return Ok(Err(client)),
    };
    let (events, rows) = prepared.moved(0, checksum_before)?;
    let written = WrittenRows {
        prepared,
        events: &events,
        rows: &rows,
        moved: 0,
        host: &sender.host,
        shard: sender.shard,
        added: &sender.added,
        has_thread: true,
        values: Vec::new(),
        health: Vec::new(),
    };
    let (sql, values) = write::at_once(&written);
    // Before the notification is sent, which must not overtake it.
    let statement = client.ready(sql, values).await?;
    let (is_written, is_notified) = {
        let writing = pin!(write::write_at_once(&client, statement));
        let notifying = pin!(sender.hint.send_behind(&client));
        // Polled together, they are sent together, in this order.
        match future::select(writing, notifying).await {
            Either::Left((is_written, notifying)) => {
                (is_written?, tokio::time::timeout(NOTIFIED_WITHIN, notifying).await.ok())
            }
            Either::Right((is_notified, writing)) => (writing.await?, Some(is_notified)),
        }
    };
    let Some(tail) = Tail::of(&rows).filter(|_| is_written) else { return Ok(Err(client)) };
    if is_notified == Some(true) {
        sender.hint.set_sent();
    }
    if is_notified.is_some() {
        // Otherwise it is closed, so that nothing waits behind the notification.
        client.finish();
    }
    Ok(Ok((CommitReceipt { moved: 0 }, Some(tail))))
}

/// Returns the result in an inner error if it was stored before, in which case the transaction is
/// still open.
async fn attempt(
    client: &Busy,
    prepared: &PreparedCommit,
    sender: &Sender,
) -> Result<Result<StoredCommit, CommitReceipt>, CommitFailure> {
    let before = lock(client, prepared, &sender.begin).await?;
    let commit = &prepared.commit;
    if let Some(run) = &before.run {
        if run.last_commit == prepared.id {
            // An earlier sending was stored, and its answer was lost.
            return Ok(Err(CommitReceipt { moved: run.last_moved }));
        }
        if commit.queued && run.epoch != commit.epoch && has_begun(client, prepared).await? {
            // Likewise, and another host has claimed the run and continued it.
            return Ok(Err(CommitReceipt { moved: 0 }));
        }
        match run.events.cmp(&commit.after()) {
            // The database has lost the acquisition.
            _ if run.epoch < commit.epoch => return Err(CommitError::Behind.into()),
            _ if run.epoch != commit.epoch => return Err(CommitError::Fenced.into()),
            Ordering::Equal => {}
            Ordering::Less => return Err(CommitError::Behind.into()),
            Ordering::Greater => return Err(CommitError::Advanced.into()),
        }
    } else if prepared.begins().is_none() {
        // The run existed if the caller knows events of it.
        return Err(if commit.after() > 0 { CommitError::Behind } else { CommitError::Advanced }.into());
    }
    if let Some(other) = before.driven {
        return Err(CommitError::Busy(other).into());
    }
    let revision = before.revision.unwrap_or_default();
    let Some(moved) = missed(client, prepared, revision).await? else {
        return Err(CommitError::Conflict(revision).into());
    };
    let (events, rows) = prepared.moved(moved, before.checksum)?;
    let (values, are_large) = before.values;
    let folding = Arc::clone(&events);
    let values = aside(are_large, move || Ok(folded(&folding, values))).await?;
    let written = WrittenRows {
        prepared,
        events: &events,
        rows: &rows,
        moved,
        host: &sender.host,
        shard: sender.shard,
        added: &sender.added,
        has_thread: before.revision.is_some() || prepared.begins().is_some(),
        values,
        health: crate::audit::health_after(&commit.audit, before.health),
    };
    write::write(client, written).await?;
    Ok(Ok((CommitReceipt { moved }, Tail::of(&rows))))
}

/// Returns whether the record of the run begins with the first event of the commit.
async fn has_begun(client: &Busy, prepared: &PreparedCommit) -> Result<bool, CommitFailure> {
    let sql = "SELECT checksum FROM events WHERE run = $1 AND number = 1";
    let stored = query(client, sql, params![(prepared.commit.run_id().to_string(), TEXT)]).await?;
    let stored: Option<Vec<u8>> = stored.first().and_then(|row| row.get(0));
    let (_, rows) = prepared.moved(0, None)?;
    Ok(rows.first().is_some_and(|first| first.checksum == stored))
}

/// Begins the transaction, locks the thread and then the run, and reads what the checks need.
async fn lock(client: &Busy, prepared: &PreparedCommit, begin: &str) -> Result<Before, CommitFailure> {
    let commit = &prepared.commit;
    let (run_id, thread_id) = (commit.run_id().to_string(), commit.thread_id.to_string());
    let begins = prepared.begins();
    let insert = OptionFuture::from(
        begins.map(|_| run(client, write::LOCK_THREAD, params![(thread_id.clone(), TEXT)])),
    );
    let thread = query(
        client,
        "SELECT revision FROM threads WHERE id = $1 FOR UPDATE",
        params![(thread_id.clone(), TEXT)],
    );
    let row = query(
        client,
        "SELECT events, epoch, last_commit, last_moved FROM runs WHERE id = $1 FOR UPDATE",
        params![(run_id.clone(), TEXT)],
    );
    let is_prompt = begins.is_some_and(|spec| label(spec).0 == "prompt");
    let driven = OptionFuture::from((is_prompt && !commit.queued).then(|| {
        let sql =
            "SELECT id FROM runs WHERE thread = $1 AND id <> $2 AND kind = 'prompt' AND status = 'running'
            AND owner IS NOT NULL LIMIT 1";
        query(client, sql, params![(thread_id.clone(), TEXT), (run_id.clone(), TEXT)])
    }));
    let keys = folded_keys(prepared);
    let values = OptionFuture::from((!keys.is_empty()).then(|| {
        let sql = "SELECT key, value FROM state WHERE thread = $1 AND key = ANY($2)";
        query(client, sql, params![(thread_id.clone(), TEXT), (keys, TEXT_ARRAY)])
    }));
    let checksum = OptionFuture::from((commit.after() > 0).then(|| {
        let sql = "SELECT checksum FROM events WHERE run = $1 AND number = $2";
        query(client, sql, params![(run_id.clone(), TEXT), (int8(commit.after()), INT8)])
    }));
    let tools = crate::audit::tools_of(&commit.audit);
    let health = OptionFuture::from((!tools.is_empty()).then(|| {
        let sql = "SELECT tool_name, component_id, digest, traps FROM tool_health WHERE tool_name = ANY($1)
            ORDER BY tool_name FOR UPDATE";
        query(client, sql, params![(tools, TEXT_ARRAY)])
    }));
    // Polled together, the statements are sent together, in this order.
    let (begun, inserted, thread, row, driven, values, checksum, health) =
        futures::join!(client.batch_execute(begin), insert, thread, row, driven, values, checksum, health);
    begun?;
    inserted.transpose()?;
    let (thread, row) = (thread?, row?);
    let number = |row: &tokio_postgres::Row, at: usize| row.get::<_, i64>(at).cast_unsigned();
    let mut before = Before {
        revision: thread.first().map(|row| number(row, 0)),
        run: row.first().map(|row| RunRow {
            events: number(row, 0),
            epoch: number(row, 1),
            last_commit: row.get(2),
            last_moved: number(row, 3),
        }),
        ..Before::default()
    };
    before.driven = driven.transpose()?.and_then(|rows| rows.first().map(|row| row.get(0)));
    before.values = read::values(values.transpose()?.unwrap_or_default()).await?;
    before.checksum = checksum.transpose()?.and_then(|rows| rows.first().and_then(|row| row.get(0)));
    for row in health.transpose()?.unwrap_or_default() {
        before.health.insert(row.get(0), crate::audit::read_health(&row));
    }
    Ok(before)
}

/// Returns the keys of the thread that the changes fold into.
fn folded_keys(prepared: &PreparedCommit) -> Vec<String> {
    let folded = |update: &&KeyUpdate| is_kept(update) && update.fold.is_some();
    let updates = prepared.changes().flat_map(|change| change.updates.iter()).filter(folded);
    let mut keys: Vec<String> = updates.map(|update| update.key.to_string()).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn is_kept(update: &KeyUpdate) -> bool {
    update.persistent && update.scope == KeyScope::Thread
}

/// Returns the values of all keys that the changes write.
pub(crate) fn folded_changes<'a>(
    changes: impl Iterator<Item = &'a StateChange>,
    mut values: HashMap<String, Arc<serde_json::Value>>,
) -> Vec<(String, String)> {
    let mut written: Vec<String> = Vec::new();
    for update in changes.flat_map(|change| change.updates.iter()).filter(|update| is_kept(update)) {
        let key = update.key.to_string();
        if let Some(value) = update.folded(values.remove(&key)) {
            values.insert(key.clone(), value);
            written.push(key);
        }
    }
    written.sort();
    written.dedup();
    written.into_iter().filter_map(|key| values.get(&key).map(|value| (key, value.to_string()))).collect()
}

fn folded(
    events: &[tollgate_agent::run::StoredEvent],
    values: HashMap<String, Arc<serde_json::Value>>,
) -> Vec<(String, String)> {
    folded_changes(events.iter().filter_map(|numbered| numbered.event.change()), values)
}

/// Returns the number of other commits' changes that this commit must be moved behind. `None` if
/// they conflict.
async fn missed(client: &Busy, prepared: &PreparedCommit, now: u64) -> Result<Option<u64>, CommitFailure> {
    let Some(first) = prepared.changes().next() else { return Ok(Some(0)) };
    let base = first.revision.saturating_sub(1);
    let Some(moved) = now.checked_sub(base) else { return Ok(None) };
    if moved == 0 {
        return Ok(Some(0));
    }
    let thread_id = prepared.commit.thread_id.to_string();
    let (mut after, mut limit) = (base, FIRST_CHANGES);
    while after < now {
        let page = changes_since(client, &thread_id, after, limit).await??;
        limit = CHANGES_AT_ONCE.min(limit * 4);
        let Some(last) = page.last() else { return Ok(None) };
        after = last.revision;
        let permits = |missed: &WrittenKeys| prepared.changes().all(|change| missed.permits(change));
        if !page.iter().map(WrittenKeys::of).all(|missed| permits(&missed)) {
            return Ok(None);
        }
    }
    let sizes = sizes(client, &thread_id, prepared).await?;
    let limit = prepared.commit.thread_state_bytes;
    let stored = |owner: &str| Ok::<_, StoreError>(sizes.get(owner).cloned().unwrap_or_default());
    Ok(sizes_fit(prepared.changes(), limit, stored)?.then_some(moved))
}

/// Returns the sizes of the values of all owners that the changes write to, by owner and key.
async fn sizes(
    client: &Busy,
    thread_id: &str,
    prepared: &PreparedCommit,
) -> Result<HashMap<String, HashMap<String, usize>>, CommitFailure> {
    let updates = prepared.changes().flat_map(|change| change.updates.iter());
    let mut owners: Vec<String> = updates.map(|update| owner_of(&update.key).to_owned()).collect();
    owners.sort();
    owners.dedup();
    let sql =
        "SELECT key, octet_length(value) FROM state WHERE thread = $1 AND split_part(key, '.', 1) = ANY($2)";
    let rows = query(client, sql, params![(thread_id.to_owned(), TEXT), (owners, TEXT_ARRAY)]).await?;
    let mut sizes: HashMap<String, HashMap<String, usize>> = HashMap::new();
    for row in rows {
        let (key, bytes): (String, i32) = (row.get(0), row.get(1));
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        sizes.entry(owner_of(&key).to_owned()).or_default().insert(key, bytes);
    }
    Ok(sizes)
}

/// Returns whether the events end the driving of the run: it has ended, or waits for a person.
pub(crate) fn rests(events: &[tollgate_agent::run::StoredEvent]) -> bool {
    let last = events.last().map(|numbered| &numbered.event);
    matches!(last, Some(Event::RunWaiting | Event::RunFinished { .. }))
}
