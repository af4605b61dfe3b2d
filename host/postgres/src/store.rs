//! The store that hosts share: [`Store`] on the pooled connections, with this host's membership and
//! its hints to others.

use crate::commit::rests;
use crate::config::PostgresConfig;
use crate::connect::{Busy, PAUSE, check_lease, find, params, pool, single, to_its_end};
use crate::conversations::{Conversations, KnownConversation};
use crate::database::{Database, READ_PATIENCE};
use crate::hints::HintExchange;
use crate::inbox::ClaimStart;
use crate::member::{self, HostDescription, HostRow, Member};
use crate::prepared_commit::PreparedCommit;
use crate::read::FoundThread;
use crate::record_sizes::RecordSizes;
use crate::schema::{self, MigrationReport, SchemaState};
use crate::settings::check_copied;
use crate::turns::{self, Turn};
use crate::{audit, inbox, read};
use async_trait::async_trait;
use futures::stream::{self, StreamExt as _};
use std::cmp::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio_postgres::Client;
use tollgate_agent::run::{RunSpec, StoredEvent, Thread};
use tollgate_agent::state::StateChange;
use tollgate_store::rules::{CommitRows, serialize, spec_of};
use tollgate_store::{
    AuditFilter, AuditRecord, AuditStore, ClaimedRun, Commit, CommitError, CommitReceipt, ComponentStore,
    CoordinationStore, DamagedRun, EventPage, Hint, Hints, KeyFilter, PageLimit, QueueTurn, Record,
    RunCommand, RunFilter, RunStore, RunSummary, SentCommand, StateRead, StateStore, StoreError, ThreadRead,
    ThreadSize, ToolHealth, VerifyReport, VolatileValues,
};
use uuid::Uuid;

/// The number of records that are read at once to check them.
const READ_AT_ONCE: usize = 8;

/// A store in a PostgreSQL database. Everything that a client received survives the process, and
/// other hosts continue its runs.
pub struct PostgresStore {
    database: Arc<Database>,
    member: Member,
    hints: HintExchange,
    claim_start: Arc<ClaimStart>,
}

impl PostgresStore {
    /// Connects to the database. The process becomes a host, which renews a lease, when it first
    /// drives a run.
    ///
    /// # Errors
    /// The database cannot be reached or used, or a copy into it has not finished: the message names
    /// the cause and the remedy.
    pub async fn connect(config: PostgresConfig) -> Result<Self, StoreError> {
        let client = single(&config, &config.server, |_| {}).await?;
        schema::check(&client, &config).await?;
        check_copied(&client, &config.address()).await?;
        Self::on(client, config).await
    }

    /// Creates the store on a database whose schema was checked.
    pub(crate) async fn on(client: Client, config: PostgresConfig) -> Result<Self, StoreError> {
        check_lease(&client, &config).await?;
        let database = Arc::new(Database {
            pool: pool(&config)?,
            preparation: Arc::default(),
            address: config.address(),
            limits: config.limits,
            patience: config.lease.max(READ_PATIENCE),
            begin: format!(
                "BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = {}",
                config.lease.as_millis() / 2
            ),
            kept: Mutex::default(),
            tails: Mutex::default(),
            volatile: VolatileValues::default(),
            sizes: RecordSizes::default(),
            large: Arc::new(Semaphore::new(config.connections)),
            conversations: Conversations::default(),
        });
        let claim_start = Arc::<ClaimStart>::default();
        let starts = Arc::clone(&claim_start);
        let hints = HintExchange::start(&config, &database.preparation, move || starts.reset());
        let member = Member::new(config, client, hints.freed(), hints.lapse());
        Ok(Self { database, member, hints, claim_start })
    }

    /// Creates the schema or migrates it to this version.
    ///
    /// # Errors
    /// The database cannot be reached, has another program's tables, or the role may not create
    /// tables.
    pub async fn migrate(config: &PostgresConfig) -> Result<MigrationReport, StoreError> {
        schema::migrate(config).await
    }

    /// Returns the SQL of the whole schema.
    #[must_use]
    pub fn schema_sql() -> String {
        schema::sql()
    }

    /// Returns the SQL that grants a role the privileges that hosts need.
    #[must_use]
    pub fn grants_sql(role: &str) -> String {
        schema::grants(role)
    }

    /// Checks the server and its schema without registering a host.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect), except that an old or missing schema is not an error.
    pub async fn check(config: &PostgresConfig) -> Result<SchemaState, StoreError> {
        let client = single(config, &config.server, |_| {}).await?;
        schema::state(&client, config).await
    }

    /// Checks that the role has the privileges that hosts need. A host also checks them when it
    /// registers.
    ///
    /// # Errors
    /// The role lacks one, or the database cannot be read.
    pub async fn check_privileges(&self) -> Result<(), StoreError> {
        let client = self.database.client().await?;
        schema::check_privileges(&client, &self.database.address).await?;
        client.finish();
        Ok(())
    }

    /// Sets this host's description for the others.
    pub fn describe(&self, served: HostDescription) {
        self.member.describe(served);
    }

    /// Returns the properties of the server and its role under which less is guaranteed, one
    /// sentence each.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn warnings(&self) -> Result<Vec<String>, StoreError> {
        let warnings = self.database.read(|client| async move {
            let warnings = schema::warnings(&client).await?;
            client.finish();
            Ok(warnings)
        });
        let mut warnings = warnings.await?;
        warnings.extend(self.hints.warning().await.map(str::to_owned));
        Ok(warnings)
    }

    /// Checks the record of every run: its numbers, and the checksums of its events.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verify(&self) -> Result<VerifyReport, StoreError> {
        let mut verified = VerifyReport::default();
        let mut last = String::new();
        loop {
            let after = last.as_str();
            let sql = "SELECT id FROM runs WHERE id > $1 ORDER BY id LIMIT 500";
            let rows = self.database.rows(sql, || params![(after.to_owned(), TEXT)]).await?;
            let runs: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let Some(newest) = runs.last() else { return Ok(verified) };
            last.clone_from(newest);
            let reading = stream::iter(runs).map(|run_id| async move {
                let record = self.record(&run_id).await?;
                Ok::<_, StoreError>((
                    run_id,
                    record.events.len() as u64,
                    record.without_checksum,
                    record.damage,
                ))
            });
            let mut read = reading.buffered(READ_AT_ONCE);
            while let Some(run) = read.next().await {
                let (run_id, events, without_checksum, damage) = run?;
                verified.runs += 1;
                verified.events += events;
                verified.without_checksum += without_checksum;
                verified.damaged.extend(damage.map(|problem| DamagedRun { run_id, problem }));
            }
        }
    }

    /// Returns the id of this host; empty until it first drives a run. It changes if other hosts
    /// declare this one dead.
    #[must_use]
    pub fn host_id(&self) -> Arc<str> {
        self.member.id()
    }

    /// Returns the hosts that use the database, newest first, including dead ones of the last day.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn hosts(&self) -> Result<Vec<HostRow>, StoreError> {
        let me = self.member.id();
        self.database
            .read(|client| {
                let me = Arc::clone(&me);
                async move {
                    let hosts = member::hosts(&client, &me).await?;
                    client.finish();
                    Ok(hosts)
                }
            })
            .await
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the database's address for messages, without the password.
    pub(crate) fn address(&self) -> &str {
        &self.database.address
    }

    /// Returns a pooled connection.
    pub(crate) async fn client(&self) -> Result<Busy, StoreError> {
        self.database.client().await
    }
}

#[async_trait]
impl RunStore for PostgresStore {
    async fn commit(&self, commit: Commit) -> Result<CommitReceipt, CommitError> {
        let (run_id, epoch) = (Arc::clone(commit.run_id()), commit.epoch);
        let events = Arc::clone(commit.events());
        self.database.keep(&commit.components).await?;
        let queued = commit.queued;
        let prepared = match CommitRows::small(&commit)? {
            Some(rows) => Ok(PreparedCommit::new(commit, rows)?),
            None => Err(commit),
        };
        if !queued {
            self.member.record_driving(&run_id, epoch);
        }
        let (database, host) = (Arc::clone(&self.database), self.member.ensure_registered().await?);
        let hint = self.hints.of_commit(if queued { Hint::Work } else { Hint::Events(Arc::clone(&run_id)) });
        let sender = (host, Arc::clone(&hint));
        let committed = match prepared {
            Ok(prepared) => to_its_end(async move { database.store(&prepared, sender).await }).await,
            Err(large) => database.store_aside(large, sender).await,
        };
        if rests(&events) || matches!(committed, Err(CommitError::Fenced)) {
            self.member.record_rest(&run_id, epoch);
        }
        let committed = committed?;
        self.hints.committed(&hint);
        Ok(committed)
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
        self.database.read(|client| read::events(client, run_id, after)).await?
    }

    async fn events_page(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<EventPage, StoreError> {
        let (page, tail) =
            self.database.read(|client| read::events_page(client, run_id, after, limit)).await??;
        self.database.see_tail(run_id, tail);
        Ok(page)
    }

    async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
        let first = PageLimit { events: 1, bytes: u64::MAX };
        Ok(spec_of(&self.events_page(run_id, 0, first).await?.events))
    }

    async fn record_bytes(&self, run_id: &str) -> Result<u64, StoreError> {
        self.database.read(|client| read::record_bytes(client, run_id)).await
    }

    async fn record(&self, run_id: &str) -> Result<Record, StoreError> {
        self.database.read(|client| read::record(client, run_id)).await?
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.database
            .read(|client| {
                let (sql, values) = read::listing(&filter);
                async move {
                    let rows = find(&client, &sql, values).await?;
                    client.finish();
                    Ok(rows.iter().map(read::summary).collect())
                }
            })
            .await
    }

    async fn admit(
        &self,
        thread_id: Option<&str>,
        component_id: Option<&str>,
        principal: Option<&str>,
    ) -> Result<(), StoreError> {
        self.member.ensure_registered().await?;
        // A short interruption delays a call instead of failing it. If it lasts, others have taken
        // over the run by the time the call could begin.
        let until = Instant::now() + self.database.patience;
        while !self.member.may_start() {
            if Instant::now() >= until {
                return Err(StoreError::unavailable(format!(
                    "the lease in the store at {} could not be renewed in time; nothing new begins until it is",
                    self.database.address
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.database.check_sizes(thread_id, component_id, principal).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.member.flush().await;
        Ok(())
    }
}

#[async_trait]
impl StateStore for PostgresStore {
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        match self.thread_within(thread_id, u64::MAX).await? {
            ThreadRead::Thread(thread) => Ok(thread),
            ThreadRead::Larger(_) => Err(StoreError::other("the thread is larger than any limit")),
        }
    }

    async fn thread_within(&self, thread_id: &str, max_bytes: u64) -> Result<ThreadRead, StoreError> {
        let database = &self.database;
        let mut known = database.conversations.get(thread_id);
        loop {
            let reading = database.read(|client| read::thread(client, thread_id, known.clone(), max_bytes));
            match reading.await?? {
                FoundThread::Read(mut thread, known, bytes) => {
                    database.conversations.keep(thread_id, known);
                    database.sizes.keep_thread(thread_id, bytes);
                    database.volatile.recall(thread_id, &KeyFilter::All, &mut thread.state).await;
                    return Ok(ThreadRead::Thread(thread));
                }
                FoundThread::Larger(size) => return Ok(ThreadRead::Larger(size)),
                FoundThread::Other => known = KnownConversation::default(),
            }
        }
    }

    async fn thread_size(&self, thread_id: &str) -> Result<ThreadSize, StoreError> {
        let known = self.database.conversations.get(thread_id).messages.len();
        self.database.read(|client| read::thread_size(client, thread_id, known)).await
    }

    async fn state(
        &self,
        thread_id: &str,
        wanted: &KeyFilter,
        max_bytes: u64,
    ) -> Result<StateRead, StoreError> {
        let mut found =
            self.database.read(|client| read::state(client, thread_id, wanted, max_bytes)).await??;
        if let StateRead::State(state) = &mut found {
            self.database.volatile.recall(thread_id, wanted, state).await;
        }
        Ok(found)
    }

    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        self.database
            .read(|client| async move {
                let changes = read::changes_since(&client, thread_id, after, limit).await?;
                client.finish();
                Ok(changes)
            })
            .await?
    }

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        let (database, id) = (Arc::clone(&self.database), Uuid::now_v7().to_string());
        let thread_id = Arc::<str>::from(thread_id);
        to_its_end(async move { database.change(&thread_id, &change, &id).await }).await
    }
}

#[async_trait]
impl AuditStore for PostgresStore {
    async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let database = Arc::clone(&self.database);
        to_its_end(async move { database.record_audit(&records).await }).await
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        let rows = self.database.read(|client| {
            let (sql, values) = audit::listing(&filter);
            async move {
                let rows = find(&client, &sql, values).await?;
                client.finish();
                Ok(rows)
            }
        });
        rows.await?.iter().map(audit::read_row).collect()
    }

    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        let sql =
            "SELECT tool_name, component_id, digest, traps FROM tool_health ORDER BY tool_name COLLATE \"C\"";
        Ok(self.database.rows(sql, Vec::new).await?.iter().map(audit::read_health).collect())
    }
}

#[async_trait]
impl ComponentStore for PostgresStore {
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.database.component(digest).await
    }

    fn archives(&self) -> bool {
        true
    }
}

#[async_trait]
impl CoordinationStore for PostgresStore {
    async fn acquire(&self, run_id: &str, known: u64) -> Result<u64, CommitError> {
        let me = self.member.ensure_registered().await?;
        let until = Instant::now() + self.database.patience;
        loop {
            let (acquired, found) = self.database.acquire(run_id, &me, known).await?;
            let (events, is_about_to_be_free) = found.ok_or_else(|| StoreError::unknown_run(run_id))?;
            if let Some(epoch) = acquired {
                self.member.record_driving(run_id, epoch);
                self.database.await_tail(run_id);
                return Ok(epoch);
            }
            match events.cmp(&known) {
                Ordering::Less => return Err(CommitError::Behind),
                // This host releases the runs of one whose lease has run out, at once or just now.
                Ordering::Equal if is_about_to_be_free && Instant::now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                _ => return Err(CommitError::Advanced),
            }
        }
    }

    async fn release(&self, run_id: &str, epoch: u64) {
        self.database.forget_tail(run_id);
        self.member.release(run_id, epoch);
    }

    async fn claim(&self, agents: &[String], limit: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        self.member.serve(agents);
        self.member.ensure_registered().await?;
        if !self.member.may_start() {
            return Ok(Vec::new());
        }
        let me = self.member.id();
        let claiming = self.database.read(|client| {
            let me = Arc::clone(&me);
            async move {
                let claimed = inbox::claim(&client, &me, agents, limit, &self.claim_start).await?;
                client.finish();
                Ok(claimed)
            }
        });
        // If the answer to an earlier sending was lost, or the caller is gone, the runs are released after a while.
        let claimed = self.database.keep_found(claiming.await??).await;
        for run in &claimed {
            self.member.record_driving(&run.run_id, run.epoch);
        }
        Ok(claimed)
    }

    async fn queue(&self, thread_id: &str) -> Result<QueueTurn, StoreError> {
        let mut turn: Option<Turn> = None;
        loop {
            let (me, id) = (self.member.ensure_registered().await?, turn.as_ref().map(|turn| turn.id));
            let looked = self.database.read(|client| {
                let me = Arc::clone(&me);
                async move {
                    let (id, first) = match id {
                        None => (turns::take(&client, thread_id, &me).await?, None),
                        Some(id) => (id, Some(turns::is_first(&client, thread_id, id).await?)),
                    };
                    client.finish();
                    Ok((id, first))
                }
            });
            match looked.await? {
                (id, None) => turn = Some(self.member.record_turn(id)),
                (_, Some(Some(true))) => return Ok(Box::new(turn)),
                (_, Some(Some(false))) => tokio::time::sleep(turns::LOOK).await,
                // This host was taken for dead; it queues again.
                (_, Some(None)) => turn = None,
            }
        }
    }

    async fn send(&self, run_id: &str, id: &str, command: RunCommand) -> Result<bool, StoreError> {
        let (body, transaction) = (serialize(&command)?, Mutex::default());
        let command = (run_id, id, body.as_str());
        let begin = &self.database.begin;
        let sent = self.database.read(|client| inbox::send(client, begin, command, &transaction));
        let sent = sent.await?.ok_or_else(|| StoreError::unknown_run(run_id))?;
        if sent {
            self.hints.send(Hint::Commands(Arc::from(run_id)));
        }
        Ok(sent)
    }

    async fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        self.database
            .read(|client| async move {
                let commands = inbox::commands(&client, run_id).await?;
                client.finish();
                Ok(commands)
            })
            .await?
    }

    async fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        self.database
            .read(|client| async move {
                let commanded = inbox::runs_with_commands(&client, runs).await?;
                client.finish();
                Ok(commanded)
            })
            .await
    }

    async fn withdraw(&self, run_id: &str, id: &str) -> Result<(), StoreError> {
        self.database
            .read(|client| async move {
                inbox::withdraw(&client, run_id, id).await?;
                client.finish();
                Ok(())
            })
            .await
    }

    fn watch(&self) -> Hints {
        self.hints.watch()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.member.flush().await;
        let me = self.member.id();
        if me.is_empty() {
            return Ok(());
        }
        self.member.stop_renewing();
        if let Err(why) = self.database.write_sizes().await {
            tracing::warn!("{why}");
        }
        self.database
            .read(|client| {
                let me = Arc::clone(&me);
                async move {
                    member::leave(&client, &me).await?;
                    client.finish();
                    Ok(())
                }
            })
            .await
    }
}
