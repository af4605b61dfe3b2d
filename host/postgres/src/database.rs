//! The pooled connections, and the rules by which statements are sent again.

use crate::commit::{CommitFailure, Sender, commit, folded_changes, rests};
use crate::connect::{
    Busy, EXCHANGE, PAUSE, Params, exchange_of, explain_pool, find, int8, may_exist, no_answer, params,
    query, run,
};
use crate::conversations::Conversations;
use crate::error::{Failure, explain, failure};
use crate::hints::CommitHint;
use crate::preparation::Preparation;
use crate::prepared_commit::{PreparedCommit, Tail};
use crate::read::FoundClaims;
use crate::record_sizes::{RecordGrowth, RecordSizes};
use crate::{read, write};
use deadpool_postgres::Pool;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_postgres::{Error, Row};
use tollgate_agent::state::StateChange;
use tollgate_store::rules::{CommitRows, aside, serialize};
use tollgate_store::{
    ClaimedRun, Commit, CommitError, CommitReceipt, KeyFilter, StoreError, StoreLimits, VolatileValues,
    volatile_updates,
};
use uuid::Uuid;

/// How long a read is repeated on new connections before it fails.
pub(crate) const READ_PATIENCE: Duration = Duration::from_secs(10);
/// The number of rows over which the size of one component is spread, so that concurrent commits
/// rarely wait for the same row.
const SHARDS: i16 = 16;

/// The database of one host.
pub(crate) struct Database {
    pub(crate) pool: Pool,
    /// Whether its statements are prepared.
    pub(crate) preparation: Arc<Preparation>,
    pub(crate) address: String,
    pub(crate) limits: StoreLimits,
    /// How long a commit whose answer was lost is sent again.
    pub(crate) patience: Duration,
    /// The statements that begin a transaction. With them, the server ends a transaction of a process
    /// that stalls, such as a stopped one, so its locks do not keep others from taking over its runs.
    pub(crate) begin: String,
    /// The components whose bytes the database has, by digest, and when this host saw them there.
    pub(crate) kept: Mutex<HashMap<Arc<str>, Instant>>,
    /// The last events of the runs that this host drives, by run id; `None` for a run that it has
    /// acquired and not read yet.
    pub(crate) tails: Mutex<HashMap<Arc<str>, Option<Tail>>>,
    pub(crate) volatile: VolatileValues,
    pub(crate) sizes: RecordSizes,
    /// The places of large commits. Each waits on a thread that may block for work on another such thread, so they
    /// must never take all of these threads.
    pub(crate) large: Arc<Semaphore>,
    /// The conversations that were read last.
    pub(crate) conversations: Conversations,
}

impl Database {
    /// Returns a pooled connection.
    pub(crate) async fn client(&self) -> Result<Busy, StoreError> {
        match self.pool.get().await {
            Ok(object) => Ok(Busy::new(object, Arc::clone(&self.preparation))),
            Err(why) => Err(explain_pool(&self.address, why)),
        }
    }

    /// Runs a query that changes nothing, or that may be repeated. Repeats it on a new connection
    /// if the connection was lost.
    pub(crate) async fn read<T, F>(&self, ask: impl Fn(Busy) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + READ_PATIENCE;
        loop {
            let failed = match self.client().await {
                Err(why) => why,
                Ok(client) => match tokio::time::timeout(EXCHANGE, ask(client)).await {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(why)) if failure(&why) == Failure::Final => {
                        return Err(explain("read", &self.address, &why));
                    }
                    Ok(Err(why)) => explain("read", &self.address, &why),
                    Err(_) => no_answer(&self.address),
                },
            };
            if Instant::now() >= until {
                return Err(failed);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Runs a query that may be repeated, and returns its rows.
    pub(crate) async fn rows(&self, sql: &str, values: impl Fn() -> Params) -> Result<Vec<Row>, StoreError> {
        self.read(|client| {
            let values = values();
            async move {
                let rows = find(&client, sql, values).await?;
                client.finish();
                Ok(rows)
            }
        })
        .await
    }

    /// Runs a statement that may be repeated, and returns the number of rows that it changed.
    pub(crate) async fn send(&self, sql: &str, values: impl Fn() -> Params) -> Result<u64, StoreError> {
        self.read(|client| {
            let values = values();
            async move {
                let changed = run(&client, sql, values).await?;
                client.finish();
                Ok(changed)
            }
        })
        .await
    }

    /// Stores a commit.
    pub(crate) async fn store(
        &self,
        prepared: &PreparedCommit,
        (host, hint): (Arc<str>, Arc<CommitHint>),
    ) -> Result<CommitReceipt, CommitError> {
        let volatile = volatile_updates(prepared.changes());
        let pending = self.volatile.lock(&prepared.commit.thread_id, volatile).await;
        let tail = self.forget_tail(prepared.commit.run_id());
        let added = self.sizes.add(growth(prepared), &self.limits);
        let sender = Sender { host, begin: self.begin.clone(), shard: shard(), added, tail, hint };
        let committed = self.send_commit(prepared, &sender).await;
        match &committed {
            Ok(_) => {
                self.sizes.stored(sender.added);
                if let Some(pending) = pending {
                    pending.set();
                }
            }
            Err(_) => self.sizes.refused(&sender.added),
        }
        committed
    }

    /// Serializes and sends a large commit on a thread that may block, and to its end.
    pub(crate) async fn store_aside(
        self: Arc<Self>,
        commit: Commit,
        (host, hint): (Arc<str>, Arc<CommitHint>),
    ) -> Result<CommitReceipt, CommitError> {
        let (place, runtime) = (Arc::clone(&self.large).acquire_owned().await, Handle::current());
        let stored = aside(true, move || {
            let _place = place;
            let rows = CommitRows::of(&commit)?;
            let prepared = PreparedCommit::new(commit, rows)?;
            Ok(runtime.block_on(self.store(&prepared, (host, hint))))
        });
        stored.await?
    }

    /// Sends a commit until its result is known, with the same id each time.
    async fn send_commit(
        &self,
        prepared: &PreparedCommit,
        sender: &Sender,
    ) -> Result<CommitReceipt, CommitError> {
        let exchange = exchange_of(prepared.rows.bytes() as u64);
        let until = Instant::now() + self.patience.max(exchange);
        loop {
            let client = self.client().await;
            let failed = match client {
                Err(why) => why,
                Ok(client) => match tokio::time::timeout(exchange, commit(client, prepared, sender)).await {
                    Ok(Ok((committed, tail))) => {
                        self.keep_tail(prepared, tail);
                        return Ok(committed);
                    }
                    Ok(Err(CommitFailure::Refused(why))) => return Err(why),
                    Ok(Err(CommitFailure::Database(why))) => match failure(&why) {
                        Failure::Final => return Err(explain("write to", &self.address, &why).into()),
                        Failure::Taken => return Err(self.taken(&prepared.commit.thread_id).await),
                        Failure::Repeat => continue,
                        Failure::Lost => explain("write to", &self.address, &why),
                    },
                    Err(_) => no_answer(&self.address),
                },
            };
            if Instant::now() >= until {
                let words = format!("{failed}; it is unknown whether the last records were stored");
                return Err(StoreError::new(failed.kind(), words).into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Keeps the last event of a run for its next commit, unless the run has ended or waits.
    fn keep_tail(&self, prepared: &PreparedCommit, tail: Option<Tail>) {
        let commit = &prepared.commit;
        if let Some(tail) = tail.filter(|_| !commit.queued && !rests(commit.events())) {
            self.tails().insert(Arc::clone(commit.run_id()), Some(tail));
        }
    }

    /// Keeps the last event of a run that this host has acquired, when it reads the run.
    pub(crate) fn await_tail(&self, run_id: &str) {
        self.tails().insert(Arc::from(run_id), None);
    }

    /// Keeps the last event of a run as it was read, if it is awaited. No other host adds events to the
    /// run before it raises the epoch, and then a commit of this one is refused.
    pub(crate) fn see_tail(&self, run_id: &str, read: Option<Tail>) {
        if let Some(tail) = self.tails().get_mut(run_id).filter(|tail| tail.is_none()) {
            *tail = read;
        }
    }

    /// Returns the last event of a run that this host drives, which is kept no longer.
    pub(crate) fn forget_tail(&self, run_id: &str) -> Option<Tail> {
        self.tails().remove(run_id).flatten()
    }

    fn tails(&self) -> MutexGuard<'_, HashMap<Arc<str>, Option<Tail>>> {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the error for a thread on which another prompt's run is driven.
    pub(crate) async fn taken(&self, thread_id: &str) -> CommitError {
        let sql = "SELECT id FROM runs WHERE thread = $1 AND kind = 'prompt' AND status = 'running'
            AND owner IS NOT NULL LIMIT 1";
        let other = self.read(|client| async move {
            let rows = query(&client, sql, params![(thread_id.to_owned(), TEXT)]).await?;
            client.finish();
            Ok(rows.first().map_or_else(String::new, |row| row.get(0)))
        });
        other.await.map_or_else(CommitError::Failed, CommitError::Busy)
    }

    /// Writes a change that belongs to no run. It must be based on the current state.
    pub(crate) async fn change(
        &self,
        thread_id: &Arc<str>,
        change: &StateChange,
        id: &str,
    ) -> Result<(), CommitError> {
        let body = serialize(change)?;
        let pending = self.volatile.lock(thread_id, volatile_updates(std::iter::once(change))).await;
        self.until_stored(|client| change_once(client, &self.begin, thread_id, change, (&body, id))).await?;
        if let Some(pending) = pending {
            pending.set();
        }
        Ok(())
    }

    /// Sends what belongs to no run until its result is known. It has an id, by which a sending whose
    /// answer was lost is recognized.
    pub(crate) async fn until_stored<F>(&self, send: impl Fn(Busy) -> F) -> Result<(), CommitError>
    where
        F: Future<Output = Result<(), CommitFailure>>,
    {
        let until = Instant::now() + self.patience;
        loop {
            let failed = match self.client().await {
                Err(why) => why,
                Ok(client) => match tokio::time::timeout(EXCHANGE, send(client)).await {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(CommitFailure::Refused(why))) => return Err(why),
                    Ok(Err(CommitFailure::Database(why))) => match failure(&why) {
                        Failure::Repeat => continue,
                        Failure::Lost => explain("write to", &self.address, &why),
                        _ => return Err(explain("write to", &self.address, &why).into()),
                    },
                    Err(_) => no_answer(&self.address),
                },
            };
            if Instant::now() >= until {
                return Err(failed.into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Acquires a run without an owner, or of this host, if it has this many events. Returns its new
    /// epoch, and its events with whether it is free or about to be: its owner was just released, or has a
    /// lease that has run out. `None` if there is no such run.
    pub(crate) async fn acquire(
        &self,
        run_id: &str,
        host: &str,
        known: u64,
    ) -> Result<(Option<u64>, Option<(u64, bool)>), StoreError> {
        if !may_exist(run_id) {
            return Ok((None, None));
        }
        let sql = "UPDATE runs SET owner = $2, epoch = epoch + 1
            WHERE id = $1 AND (owner IS NULL OR owner = $2) AND events = $3 RETURNING epoch";
        let found = "SELECT events, owner IS NULL OR NOT EXISTS (SELECT FROM hosts h
                WHERE h.id = owner AND h.state = 'up' AND h.lease_until > clock_timestamp())
            FROM runs WHERE id = $1";
        self.read(|client| {
            let row = params![(run_id.to_owned(), TEXT), (host.to_owned(), TEXT), (int8(known), INT8)];
            async move {
                let (acquired, is_busy) = match query(&client, sql, row).await {
                    // Another run of the thread is driven.
                    Err(why) if failure(&why) == Failure::Taken => (Vec::new(), true),
                    rows => (rows?, false),
                };
                let found = query(&client, found, params![(run_id.to_owned(), TEXT)]).await?;
                client.finish();
                let epoch = acquired.first().map(|row| row.get::<_, i64>(0).cast_unsigned());
                let found = found
                    .first()
                    .map(|row| (row.get::<_, i64>(0).cast_unsigned(), row.get::<_, bool>(1) && !is_busy));
                Ok((epoch, found))
            }
        })
        .await
    }

    /// Keeps what was read with the claims of runs, and returns the runs for their drivers.
    pub(crate) async fn keep_found(&self, claimed: FoundClaims) -> Vec<ClaimedRun> {
        let mut runs = Vec::with_capacity(claimed.len());
        for (mut run, found) in claimed {
            self.await_tail(&run.run_id);
            if let (Some(read), Some(found)) = (&mut run.read, found) {
                self.see_tail(&run.run_id, found.tail);
                self.conversations.keep(&found.thread_id, found.known);
                self.sizes.keep_thread(&found.thread_id, found.record_bytes);
                let state = &mut read.thread.state;
                self.volatile.recall(&found.thread_id, &KeyFilter::All, state).await;
            }
            runs.push(run);
        }
        runs
    }

    /// Checks the sizes of the records of a thread, of those that a component caused, and of those of the threads
    /// of a principal.
    ///
    /// # Errors
    /// One of them has reached its limit, or they cannot be read.
    pub(crate) async fn check_sizes(
        &self,
        thread_id: Option<&str>,
        component_id: Option<&str>,
        principal: Option<&str>,
    ) -> Result<(), StoreError> {
        let (of_thread, of_component) = match self.sizes.known(thread_id, component_id) {
            Some(known) => known,
            None => self.record_bytes(thread_id, component_id).await?,
        };
        if let Some(id) = component_id {
            self.limits.check_component(id, of_component)?;
        }
        if let Some(id) = thread_id {
            self.limits.check_thread(id, of_thread)?;
        }
        let Some(principal) = principal else { return Ok(()) };
        let of_principal = match self.sizes.known_principal(principal) {
            Some(known) => known,
            None => self.principal_bytes(principal).await?,
        };
        self.limits.check_principal(principal, of_principal)
    }

    /// Reads the size of the records of the threads of a principal, in bytes.
    async fn principal_bytes(&self, principal: &str) -> Result<u64, StoreError> {
        // `0` is the character after the slash, and the ids are ordered by their bytes.
        let sql = "SELECT coalesce(sum(record_bytes), 0)::int8 FROM threads WHERE id >= $1 AND id < $2";
        let ends = || params![(format!("{principal}/"), TEXT), (format!("{principal}0"), TEXT)];
        let rows = self.rows(sql, ends).await?;
        let bytes = rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned());
        Ok(self.sizes.keep_principal(principal, bytes))
    }

    /// Reads the size of the records of a thread, and of those that a component caused, in bytes.
    async fn record_bytes(
        &self,
        thread_id: Option<&str>,
        component_id: Option<&str>,
    ) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT coalesce((SELECT record_bytes FROM threads WHERE id = $1), 0),
            (SELECT coalesce(sum(record_bytes), 0)::int8 FROM component_sizes WHERE component_id = $2)";
        // The server would refuse both because of one that cannot exist.
        let ids = [thread_id, component_id].map(|id| id.filter(|id| may_exist(id)).map(str::to_owned));
        let rows = self.rows(sql, || params![(ids[0].clone(), TEXT), (ids[1].clone(), TEXT)]).await?;
        let bytes = |at| rows.first().map_or(0, |row| row.get::<_, i64>(at).cast_unsigned());
        let of_thread = thread_id.map_or(0, |id| self.sizes.keep_thread(id, bytes(0)));
        let of_component = component_id.map_or(0, |id| self.sizes.keep_component(id, bytes(1)));
        Ok((of_thread, of_component))
    }

    /// Writes the sizes of threads and components that no commit has written. They are sent once, because they would
    /// be added again each time. If those of threads cannot be written, those of components are sent all the same.
    ///
    /// # Errors
    /// It is unknown whether all of them were written.
    pub(crate) async fn write_sizes(&self) -> Result<(), StoreError> {
        let (threads, components) = self.sizes.take_unwritten();
        // The rows are locked in one order.
        let of_threads = "WITH x AS (SELECT t.id, x.bytes FROM unnest($1, $2) AS x(id, bytes)
                JOIN threads t ON t.id = x.id ORDER BY t.id FOR UPDATE OF t)
            UPDATE threads SET record_bytes = record_bytes + x.bytes FROM x WHERE threads.id = x.id";
        let of_components = "INSERT INTO component_sizes (component_id, shard, record_bytes)
            SELECT x.id, $3, x.bytes FROM unnest($1, $2) WITH ORDINALITY AS x(id, bytes, n) ORDER BY x.n
            ON CONFLICT (component_id, shard) DO UPDATE
                SET record_bytes = component_sizes.record_bytes + excluded.record_bytes";
        let threads = self.add_sizes(of_threads, threads, Vec::new()).await;
        let components = self.add_sizes(of_components, components, params![(shard(), INT2)]).await;
        threads.and(components)
    }

    /// Adds these sizes with a statement whose first parameters are their ids and bytes.
    async fn add_sizes(
        &self,
        sql: &str,
        sizes: BTreeMap<String, u64>,
        more: Params,
    ) -> Result<(), StoreError> {
        if sizes.is_empty() {
            return Ok(());
        }
        let (ids, bytes): (Vec<String>, Vec<i64>) =
            sizes.into_iter().map(|(id, bytes)| (id, int8(bytes))).unzip();
        let mut row = params![(ids, TEXT_ARRAY), (bytes, INT8_ARRAY)];
        row.extend(more);
        let client = self.client().await?;
        let written = tokio::time::timeout(EXCHANGE, run(&client, sql, row)).await;
        written
            .map_err(|_| no_answer(&self.address))?
            .map_err(|why| explain("write to", &self.address, &why))?;
        client.finish();
        Ok(())
    }
}

/// Writes a change in one transaction of two exchanges: one that locks and reads, one that writes.
async fn change_once(
    client: Busy,
    begin: &str,
    thread_id: &str,
    change: &StateChange,
    (body, id): (&str, &str),
) -> Result<(), CommitFailure> {
    let thread = || params![(thread_id.to_owned(), TEXT)];
    let revision = int8(change.revision);
    let keys: Vec<String> = change.updates.iter().map(|update| update.key.to_string()).collect();
    let (begun, inserted, row, known, values) = futures::join!(
        client.batch_execute(begin),
        run(&client, write::LOCK_THREAD, thread()),
        query(&client, "SELECT revision FROM threads WHERE id = $1 FOR UPDATE", thread()),
        query(
            &client,
            "SELECT id FROM changes WHERE thread = $1 AND revision = $2",
            params![(thread_id.to_owned(), TEXT), (revision, INT8)]
        ),
        query(
            &client,
            "SELECT key, value FROM state WHERE thread = $1 AND key = ANY($2)",
            params![(thread_id.to_owned(), TEXT), (keys, TEXT_ARRAY)]
        )
    );
    begun?;
    inserted?;
    let (row, known, values) = (row?, known?, values?);
    if known.first().is_some_and(|row| row.get::<_, Option<&str>>(0) == Some(id)) {
        // An earlier attempt was stored, but its answer was lost.
        client.roll_back().await;
        return Ok(());
    }
    let current = row.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned());
    if change.revision != current + 1 {
        client.roll_back().await;
        return Err(CommitError::Conflict(current).into());
    }
    let (before, _) = read::values(values).await?;
    let values = folded_changes(std::iter::once(change), before);
    let row = params![
        (thread_id.to_owned(), TEXT),
        (revision, INT8),
        (body.to_owned(), TEXT),
        (id.to_owned(), TEXT)
    ];
    let (inserted, set, updated, ended) = futures::join!(
        run(&client, "INSERT INTO changes (thread, revision, body, id) VALUES ($1, $2, $3, $4)", row),
        run(&client, write::SET_STATE, write::state_rows(thread_id, &values)),
        run(
            &client,
            "UPDATE threads SET revision = $2 WHERE id = $1",
            params![(thread_id.to_owned(), TEXT), (revision, INT8)]
        ),
        client.batch_execute("COMMIT")
    );
    inserted?;
    set?;
    updated?;
    ended?;
    client.finish();
    Ok(())
}

/// Returns the sizes that a commit adds.
fn growth(prepared: &PreparedCommit) -> RecordGrowth {
    RecordGrowth {
        thread: (prepared.commit.thread_id.to_string(), prepared.record_bytes()),
        writes_thread: prepared.begins().is_some()
            || prepared.changes().next().is_some()
            || !prepared.rows.messages.is_empty(),
        components: prepared.component_bytes(),
        rests: rests(prepared.commit.events()),
    }
}

/// Returns a random row for the size of a component.
fn shard() -> i16 {
    i16::try_from(Uuid::now_v7().as_u128() % u128::from(SHARDS.unsigned_abs())).unwrap_or_default()
}
