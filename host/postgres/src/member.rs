//! This host as a member of the database: its row, its renewals, and the takeover of the runs of
//! hosts that are gone.

use crate::config::PostgresConfig;
use crate::connect::{EXCHANGE, Params, no_answer, params, query, run, single};
use crate::error::explain;
use crate::lease::{OwnLease, Watcher, interval, longest_exchange};
use crate::renewal::{RELEASE_DEAD, RENEW, RenewalRows};
use crate::schema::check_privileges;
use crate::settings::unfinished_copy;
use crate::turns::Turn;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio_postgres::{Client, Row};
use tokio_util::sync::{CancellationToken, DropGuard};
use tollgate_store::{StoreError, StoreErrorKind};
use uuid::Uuid;

/// A host that uses the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostRow {
    /// Its id, which is new at every start.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// `up`, `late` if its lease has run out and others are about to take over its runs, or `dead`.
    pub state: String,
    /// The agents whose queued runs it claims.
    pub agents: Vec<String>,
    /// The agents that it does not serve, and why, one sentence each.
    pub unserved: Vec<String>,
    /// The tools that it serves, each as `NAME DIGEST`.
    pub tools: Vec<String>,
    /// A digest of the configuration of its agents; empty if it has not named any.
    pub config: String,
    /// The number of runs that it drives.
    pub runs: u64,
    /// When it registered, in milliseconds since the Unix epoch, by the database's clock.
    pub started_at_ms: u64,
    /// The time until its lease ends, in milliseconds; negative if it has ended.
    pub lease_left_ms: i64,
    /// Whether it is the host that asked.
    pub is_this: bool,
}

/// A host's description of itself for the other hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostDescription {
    /// The agents that it does not serve, and why, one sentence each.
    pub unserved: Vec<String>,
    /// The tools that it serves, each as `NAME DIGEST`.
    pub tools: Vec<String>,
    /// A digest of the configuration of its agents.
    pub config: String,
}

/// A note for the task that renews the lease.
enum Note {
    /// The driver of this run stopped.
    Release { run_id: String, epoch: u64 },
    /// A turn in a thread's queue is over.
    TurnOver(i64),
    /// Reply once all earlier notes are written.
    Flush(oneshot::Sender<()>),
    /// Register this host, and reply with the result.
    Join(oneshot::Sender<Result<(), StoreError>>),
}

/// This host's membership. Dropping it ends its task.
pub(crate) struct Member {
    shared: Arc<SharedState>,
    notes: mpsc::UnboundedSender<Note>,
    joined: OnceCell<()>,
    stop: CancellationToken,
    _stopped: DropGuard,
}

/// The state that callers share with the task.
struct SharedState {
    /// The id of this host; empty until it registers.
    id: Mutex<Arc<str>>,
    lease: Mutex<OwnLease>,
    /// The runs that this process drives, with their latest epochs. A run that the database says it owns,
    /// and that is not here, is released: the answer to its acquisition was lost.
    driven: Mutex<HashMap<String, u64>>,
    /// The places in the queues of threads that this process has. Others of its places are given up: the answer
    /// that named them was lost.
    turns: Mutex<HashSet<i64>>,
    /// The agents that this host serves.
    agents: Mutex<Vec<String>>,
    served: Mutex<HostDescription>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time by a clock that also counts while the machine sleeps.
fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

impl Member {
    /// Starts the task of this host. It registers when it [joins](Self::ensure_registered).
    pub(crate) fn new(
        config: PostgresConfig,
        client: Client,
        on_freed: impl Fn() + Send + Sync + 'static,
        on_lapse: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(SharedState {
            id: Mutex::new(Arc::from("")),
            lease: Mutex::new(OwnLease::new(config.lease)),
            driven: Mutex::default(),
            turns: Mutex::default(),
            agents: Mutex::default(),
            served: Mutex::default(),
        });
        let on_lapse: Arc<dyn Fn() + Send + Sync> = Arc::new(on_lapse);
        let keeper = Keeper {
            watcher: Watcher::new(config.lease),
            config,
            shared: Arc::clone(&shared),
            client: Some(client),
            unknown: HashSet::new(),
            unknown_turns: HashSet::new(),
            is_failing: false,
            on_freed: Box::new(on_freed),
            on_lapse: Arc::clone(&on_lapse),
        };
        let (notes, noted) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let (watched, every) = (Arc::clone(&shared), interval(keeper.config.lease) / 2);
        let watching = stop.clone();
        tokio::spawn(
            async move { watching.run_until_cancelled(watch_lease(watched, every, on_lapse)).await },
        );
        tokio::spawn(keeper.keep(noted, stop.clone()));
        Self { shared, notes, joined: OnceCell::new(), stop: stop.clone(), _stopped: stop.drop_guard() }
    }

    /// Registers this host unless it has registered, and returns its id.
    ///
    /// # Errors
    /// The database cannot be reached, or the store was closed.
    pub(crate) async fn ensure_registered(&self) -> Result<Arc<str>, StoreError> {
        let join = || async {
            let (reply, joined) = oneshot::channel();
            let gone = || StoreError::unavailable("the store was closed");
            self.notes.send(Note::Join(reply)).map_err(|_| gone())?;
            joined.await.map_err(|_| gone())?
        };
        self.joined.get_or_try_init(join).await?;
        Ok(self.id())
    }

    /// Stops renewing the lease, and writes the notes that are left.
    pub(crate) fn stop_renewing(&self) {
        self.stop.cancel();
    }

    /// Returns the id of this host. It changes if the host was declared dead.
    pub(crate) fn id(&self) -> Arc<str> {
        Arc::clone(&locked(&self.shared.id))
    }

    /// Returns whether this host may start something new: its lease was renewed recently.
    pub(crate) fn may_start(&self) -> bool {
        locked(&self.shared.lease).may_start(now())
    }

    /// Sets the agents that this host serves, for `tollgate hosts`.
    pub(crate) fn serve(&self, agents: &[String]) {
        *locked(&self.shared.agents) = agents.to_vec();
    }

    /// Sets this host's description for the others, from the next renewal on.
    pub(crate) fn describe(&self, served: HostDescription) {
        *locked(&self.shared.served) = served;
    }

    /// Records that this process drives a run in this epoch.
    pub(crate) fn record_driving(&self, run_id: &str, epoch: u64) {
        let mut driven = locked(&self.shared.driven);
        let latest = driven.entry(run_id.to_owned()).or_default();
        *latest = epoch.max(*latest);
    }

    /// Records that this process no longer drives a run in this epoch, which the database knows already.
    pub(crate) fn record_rest(&self, run_id: &str, epoch: u64) {
        let mut driven = locked(&self.shared.driven);
        if driven.get(run_id).is_some_and(|latest| *latest <= epoch) {
            driven.remove(run_id);
        }
    }

    /// Releases a run whose driver stopped.
    pub(crate) fn release(&self, run_id: &str, epoch: u64) {
        self.record_rest(run_id, epoch);
        // If the task is gone, the lease ends soon.
        let _ = self.notes.send(Note::Release { run_id: run_id.to_owned(), epoch });
    }

    /// Records a place in the queue of a thread, and returns it.
    pub(crate) fn record_turn(&self, id: i64) -> Turn {
        locked(&self.shared.turns).insert(id);
        let (shared, notes) = (Arc::clone(&self.shared), self.notes.clone());
        let over = Box::new(move |turn: i64| {
            locked(&shared.turns).remove(&turn);
            let _ = notes.send(Note::TurnOver(turn));
        });
        Turn { id, over }
    }

    /// Waits until all releases are written.
    pub(crate) async fn flush(&self) {
        let (reply, done) = oneshot::channel();
        if self.notes.send(Note::Flush(reply)).is_ok() {
            let _ = done.await;
        }
    }
}

/// Reports each time that the lease runs out. A task of its own, because the one that renews may be
/// waiting for the database.
async fn watch_lease(shared: Arc<SharedState>, every: Duration, on_lapse: Arc<dyn Fn() + Send + Sync>) {
    let (mut was_over, mut pause) = (false, every);
    loop {
        tokio::time::sleep(pause).await;
        let left = locked(&shared.lease).left(now());
        let is_over = left == Some(Duration::ZERO);
        if is_over && !was_over {
            tracing::warn!("the lease has run out; this host stops its runs, which continue on any host");
            on_lapse();
        }
        was_over = is_over;
        // Others may take over as soon as it is over, so it is noticed at that moment.
        pause = left.filter(|_| !is_over).map_or(every, |left| left.min(every));
    }
}

/// The task that renews the lease.
struct Keeper {
    config: PostgresConfig,
    shared: Arc<SharedState>,
    /// The connection; `None` if it failed and has yet to be made again.
    client: Option<Client>,
    watcher: Watcher,
    /// Runs that the database says this host owns and that it did not drive at the last look.
    unknown: HashSet<String>,
    /// Likewise, its places in queues without a caller.
    unknown_turns: HashSet<i64>,
    /// Whether no statement was answered since the last failure.
    is_failing: bool,
    /// Called when runs were released.
    on_freed: Box<dyn Fn() + Send + Sync>,
    /// Called when this host was declared dead.
    on_lapse: Arc<dyn Fn() + Send + Sync>,
}

impl Keeper {
    /// Renews the lease and writes notes until it is stopped.
    async fn keep(mut self, mut noted: mpsc::UnboundedReceiver<Note>, stop: CancellationToken) {
        let every = interval(self.config.lease);
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Notes stay here until they are written: the database may be unreachable for a while.
        let mut pending: Vec<Note> = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    while let Ok(note) = noted.try_recv() {
                        pending.push(note);
                    }
                    let _ = tokio::time::timeout(every, self.write(&mut pending)).await;
                    return;
                }
                _ = ticks.tick() => {
                    if locked(&self.shared.id).is_empty() {
                        continue;
                    }
                    let renewed = self.renew().await;
                    self.report(renewed);
                }
                note = noted.recv() => {
                    let Some(note) = note else { return };
                    pending.push(note);
                    while let Ok(note) = noted.try_recv() {
                        pending.push(note);
                    }
                }
            }
            let written = self.write(&mut pending).await;
            self.report(written);
        }
    }

    /// Logs the first of several failures in a row.
    fn report(&mut self, done: Result<(), StoreError>) {
        if let Err(why) = done
            && !std::mem::replace(&mut self.is_failing, true)
        {
            tracing::warn!("{why}");
        }
    }

    /// Makes a new connection if the last one failed. This has a time limit of its own, which does not
    /// depend on the lease: a host that takes long to connect renews late, and not never.
    async fn connect(&mut self) -> Result<(), StoreError> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.client = Some(single(&self.config, &self.config.server, |_| {}).await?);
        }
        Ok(())
    }

    /// Sends a statement. Gives up a connection that fails or does not answer in time.
    async fn ask(&mut self, sql: &str, params: Params) -> Result<Vec<Row>, StoreError> {
        self.connect().await?;
        let address = self.config.address();
        let Some(client) = self.client.take() else { return Err(no_answer(&address)) };
        let longest = longest_exchange(self.config.lease);
        match tokio::time::timeout(longest, query(&client, sql, params)).await {
            Ok(Ok(rows)) => {
                (self.client, self.is_failing) = (Some(client), false);
                Ok(rows)
            }
            Ok(Err(why)) => Err(explain("renew the lease in", &address, &why)),
            Err(_) => Err(StoreError::unavailable(format!("the store at {address} does not answer"))),
        }
    }

    /// Registers this host under a new id.
    async fn register(&mut self) -> Result<(), StoreError> {
        let id = Uuid::now_v7().to_string();
        let (name, lease) = (self.config.name.clone(), self.lease_ms());
        let mut row = self.row(&id, lease);
        row.extend(params![(name, TEXT), (env!("CARGO_PKG_VERSION"), TEXT)]);
        self.connect().await?;
        // The lease counts from before the statement is sent, so this host never believes it longer
        // than the others do.
        let (sent, address) = (now(), self.config.address());
        let Some(client) = self.client.take() else { return Err(no_answer(&address)) };
        let sql = "INSERT INTO hosts (id, lease_ms, agents, unserved, tools, config, name, version, state, lease_until)
            SELECT $1, $2, $3, $4, $5, $6, $7, $8, 'up', clock_timestamp() + $2 * interval '1 ms'
            WHERE NOT EXISTS (SELECT FROM settings WHERE name = 'copy')";
        let registering = async {
            check_privileges(&client, &address).await?;
            run(&client, sql, row).await.map_err(|e| explain("register in", &address, &e))
        };
        let registered = tokio::time::timeout(EXCHANGE, registering).await;
        if registered.map_err(|_| no_answer(&address))?? == 0 {
            return Err(unfinished_copy(&address));
        }
        self.client = Some(client);
        *locked(&self.shared.id) = Arc::from(id.as_str());
        locked(&self.shared.lease).record_renewal(sent);
        Ok(())
    }

    fn lease_ms(&self) -> i64 {
        i64::try_from(self.config.lease.as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the parameters of a statement that writes this host's row, from `$1` to `$6`.
    fn row(&self, id: &str, lease: i64) -> Params {
        let HostDescription { unserved, tools, config } = locked(&self.shared.served).clone();
        let agents = locked(&self.shared.agents).clone();
        params![
            (id.to_owned(), TEXT),
            (lease, INT8),
            (agents, TEXT_ARRAY),
            (unserved, TEXT_ARRAY),
            (tools, TEXT_ARRAY),
            (config, TEXT)
        ]
    }

    /// Renews the lease, and takes care of hosts that are gone and of runs that no one drives.
    async fn renew(&mut self) -> Result<(), StoreError> {
        let (id, lease) = (Arc::clone(&locked(&self.shared.id)), self.lease_ms());
        self.connect().await?;
        let sent = now();
        let looked = RenewalRows::read(&self.ask(&RENEW, self.row(&id, lease)).await?);
        if looked.is_renewed {
            locked(&self.shared.lease).record_renewal(sent);
        } else {
            tracing::warn!(
                "other hosts considered this one dead; its runs were taken over, and it joins them again"
            );
            locked(&self.shared.lease).lost();
            locked(&self.shared.driven).clear();
            (self.on_lapse)();
            self.register().await?;
        }
        self.look_after_others(&looked).await?;
        self.give_up_turns(&looked.turns).await?;
        self.reconcile(looked.owned).await
    }

    /// Declares silent hosts dead, and releases the runs of dead ones.
    async fn look_after_others(&mut self, looked: &RenewalRows) -> Result<(), StoreError> {
        let (mut is_left, until) = (looked.is_left, self.next_renewal());
        for silent in self.watcher.see(now(), &looked.others) {
            if now() >= until {
                break;
            }
            // Nothing happens if it has renewed, or another host was faster.
            let sql = "UPDATE hosts SET state = 'dead' WHERE id = $1 AND renewals = $2 AND state = 'up' RETURNING id";
            let declared = self.ask(sql, params![(silent.id.clone(), TEXT), (silent.renewals, INT8)]).await?;
            if !declared.is_empty() {
                tracing::warn!("the host {} is gone; its runs are taken over", silent.id);
                is_left = true;
            }
        }
        if !is_left {
            return Ok(());
        }
        let freed = self.ask(&RELEASE_DEAD, Vec::new()).await?;
        if freed.first().is_some_and(|row| row.get::<_, i64>(0) > 0) {
            (self.on_freed)();
        }
        Ok(())
    }

    /// Releases runs that this host owns without driving them. One look is not enough: a run may
    /// just be starting.
    async fn reconcile(&mut self, owned: Vec<(String, i64)>) -> Result<(), StoreError> {
        let driven = locked(&self.shared.driven).clone();
        let unknown: Vec<_> = owned.into_iter().filter(|(run_id, _)| !driven.contains_key(run_id)).collect();
        let (still, new): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|(run_id, _)| self.unknown.contains(run_id));
        self.unknown = new.into_iter().map(|(run_id, _)| run_id).collect();
        let until = self.next_renewal();
        for (run_id, epoch) in still {
            if now() >= until {
                break;
            }
            self.release(run_id, epoch).await?;
        }
        Ok(())
    }

    /// Gives up places in queues that have no caller. As for runs, one look is not enough.
    async fn give_up_turns(&mut self, turns: &[i64]) -> Result<(), StoreError> {
        let unknown: HashSet<i64> = {
            let known = locked(&self.shared.turns);
            turns.iter().copied().filter(|turn| !known.contains(turn)).collect()
        };
        let left: Vec<i64> = unknown.intersection(&self.unknown_turns).copied().collect();
        self.unknown_turns = unknown;
        if left.is_empty() {
            return Ok(());
        }
        self.ask("DELETE FROM turns WHERE id = ANY($1)", params![(left, INT8_ARRAY)]).await.map(drop)
    }

    /// Releases a run unless its driver has changed.
    async fn release(&mut self, run_id: String, epoch: i64) -> Result<(), StoreError> {
        let me = locked(&self.shared.id).to_string();
        let sql = "UPDATE runs SET owner = NULL WHERE id = $1 AND epoch = $2 AND owner = $3";
        self.ask(sql, params![(run_id, TEXT), (epoch, INT8), (me, TEXT)]).await?;
        (self.on_freed)();
        Ok(())
    }

    /// Returns the time at which a series of statements stops, so that it does not delay the renewal of the
    /// lease. The rest of it follows the renewal.
    fn next_renewal(&self) -> Duration {
        now() + interval(self.config.lease)
    }

    /// Writes notes in their order, until the lease must be renewed. Those that were not written stay in
    /// `pending`.
    async fn write(&mut self, pending: &mut Vec<Note>) -> Result<(), StoreError> {
        let (until, end_turn) = (self.next_renewal(), "DELETE FROM turns WHERE id = $1");
        while let Some(note) = pending.first() {
            if now() >= until {
                break;
            }
            let written = match note {
                Note::Release { run_id, epoch } => self.release(run_id.clone(), epoch.cast_signed()).await,
                Note::TurnOver(turn) => self.ask(end_turn, params![(*turn, INT8)]).await.map(drop),
                Note::Join(_) | Note::Flush(_) => Ok(()),
            };
            match written {
                // Refused for good, like an id that the database cannot hold. Later notes do not wait for it.
                // The end of a turn is always written, because callers of other hosts wait for it.
                Err(why) if why.kind() == StoreErrorKind::Other && matches!(note, Note::Release { .. }) => {
                    tracing::warn!("{why}");
                }
                written => written?,
            }
            match pending.remove(0) {
                Note::Join(reply) => {
                    let joined = self.register().await;
                    let has_joined = joined.is_ok();
                    let _ = reply.send(joined);
                    if has_joined {
                        // The sooner the others are seen, the sooner a silent one is known to be gone.
                        self.renew().await?;
                    }
                }
                Note::Flush(reply) => drop(reply.send(())),
                Note::Release { .. } | Note::TurnOver(_) => {}
            }
        }
        Ok(())
    }
}

/// Ends this host's membership at shutdown: releases its runs, so that no other host has to wait
/// for the end of the lease.
pub(crate) async fn leave(client: &Client, host: &str) -> Result<(), tokio_postgres::Error> {
    let id = || params![(host.to_owned(), TEXT)];
    run(client, "UPDATE runs SET owner = NULL, epoch = epoch + 1 WHERE owner = $1", id()).await?;
    run(client, "DELETE FROM turns WHERE host = $1", id()).await?;
    run(client, "DELETE FROM hosts WHERE id = $1", id()).await.map(drop)
}

/// Returns all hosts, the newest first.
pub(crate) async fn hosts(client: &Client, me: &str) -> Result<Vec<HostRow>, tokio_postgres::Error> {
    let sql = "SELECT h.id, h.name, h.version,
            CASE WHEN h.state = 'up' AND h.lease_until <= clock_timestamp() THEN 'late' ELSE h.state END, h.agents,
            (SELECT count(*) FROM runs r WHERE r.owner = h.id),
            (extract(epoch FROM h.started_at) * 1000)::int8,
            (extract(epoch FROM h.lease_until - clock_timestamp()) * 1000)::int8, h.unserved, h.tools, h.config
        FROM hosts h ORDER BY h.id DESC";
    let rows = query(client, sql, Vec::new()).await?;
    let read = |row: &Row| {
        let id: String = row.get(0);
        HostRow {
            is_this: id == me,
            id,
            name: row.get(1),
            version: row.get(2),
            state: row.get(3),
            agents: row.get(4),
            runs: row.get::<_, i64>(5).cast_unsigned(),
            started_at_ms: row.get::<_, i64>(6).cast_unsigned(),
            lease_left_ms: row.get(7),
            unserved: row.get(8),
            tools: row.get(9),
            config: row.get(10),
        }
    };
    Ok(rows.iter().map(read).collect())
}
