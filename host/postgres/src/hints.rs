//! Hints between hosts, by LISTEN and NOTIFY: new events, commands and work. A hint may be lost, so
//! receivers are also told to look once a second.
//!
//! NOTIFY takes a lock of the whole database at commit, so it is never part of a run's commit.
//! The first is sent at once, right behind its commit, and those of the next few milliseconds as one statement.

use crate::config::PostgresConfig;
use crate::connect::{Busy, Params, params, query, run, single};
use crate::preparation::Preparation;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio_postgres::{Client, Error};
use tokio_util::sync::{CancellationToken, DropGuard};
use tollgate_store::{Hint, HintSender, Hints};
use uuid::Uuid;

const CHANNEL: &str = "tollgate";
/// Sends notifications.
pub(crate) const NOTIFY: &str = "SELECT pg_notify($1, x.payload) FROM unnest($2) AS x(payload)";
/// How long notifications are collected after others were sent, at least and at most.
const TOGETHER: Duration = Duration::from_millis(5);
const LONG_TOGETHER: Duration = Duration::from_millis(50);
/// How often receivers are woken to look, because a notification may have been lost.
const LOOK: Duration = Duration::from_secs(1);
/// How often the listening connection is checked, and made again after it broke.
const CHECK: Duration = Duration::from_secs(5);
/// How long a host waits for a notification of its own before it warns that none arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(2);
/// The warning about that.
const DEAF: &str = "no notifications arrive through a connection pooler: this host finds work and commands only when it \
    looks, once a second; set the store's listen_url to the server itself";
/// The maximum number of notifications in one statement. If there are more, a single one says that
/// anything may have changed.
const MAX_TOGETHER: usize = 200;

/// The hints that this host sends and receives. Dropping it ends its tasks.
pub(crate) struct HintExchange {
    this: Notifier,
    next: NextNotification,
    to_others: mpsc::UnboundedSender<Hint>,
    /// The receivers in this process.
    here: HintSender,
    /// Whether notifications arrive; `None` until that is known.
    hears: watch::Receiver<Option<bool>>,
    /// Whether a caller waits to be told that.
    is_asked: Arc<AtomicBool>,
    on_freed: Arc<dyn Fn() + Send + Sync>,
    _stop: DropGuard,
}

/// The listeners to the notifications of other hosts, and to whether any arrive.
struct Hearing {
    found: watch::Sender<Option<bool>>,
    is_asked: Arc<AtomicBool>,
    on_freed: Arc<dyn Fn() + Send + Sync>,
    /// Whether statements are prepared; `None` if notifications have a URL of their own, so that they show nothing
    /// about the other connections.
    preparation: Option<Arc<Preparation>>,
}

impl Hearing {
    /// Warns if no notifications arrive and no caller is about to.
    fn report(&self, is_heard: bool) {
        let is_told = self.is_asked.swap(false, Ordering::Relaxed);
        if !is_heard && !is_told && *self.found.borrow() != Some(false) {
            tracing::warn!("{DEAF}");
        }
        self.found.send_replace(Some(is_heard));
        if let Some(preparation) = &self.preparation {
            preparation.set_heard(is_heard);
        }
    }
}

impl HintExchange {
    /// Starts to listen, and to send what other hosts may want to know. `on_freed` is called when a run
    /// may have been released, on this host or another one.
    pub(crate) fn start(
        config: &PostgresConfig,
        preparation: &Arc<Preparation>,
        on_freed: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let (here, stop) = (HintSender::default(), CancellationToken::new());
        let (to_others, hints) = mpsc::unbounded_channel();
        let sender = Notifier(Uuid::now_v7().simple().to_string());
        let ((found, hears), is_asked) = (watch::channel(None), Arc::<AtomicBool>::default());
        let on_freed: Arc<dyn Fn() + Send + Sync> = Arc::new(on_freed);
        let hearing = Hearing {
            found,
            is_asked: Arc::clone(&is_asked),
            on_freed: Arc::clone(&on_freed),
            preparation: config.listen.is_none().then(|| Arc::clone(preparation)),
        };
        let listening = listen(config.clone(), here.clone(), sender.clone(), hearing);
        let next = NextNotification::default();
        let sending = send_all(config.clone(), hints, (sender.clone(), next.clone()));
        let (stopped, reminding) = (stop.clone(), remind(here.clone()));
        tokio::spawn(async move {
            stopped.run_until_cancelled(async { tokio::join!(listening, sending, reminding) }).await;
        });
        Self { this: sender, next, to_others, here, hears, is_asked, on_freed, _stop: stop.drop_guard() }
    }

    /// Gives a hint to this host at once, and to the others soon.
    pub(crate) fn send(&self, hint: Hint) {
        self.here.send(hint.clone());
        // If the task is gone, the other hosts still poll.
        let _ = self.to_others.send(hint);
    }

    /// Returns the hint of a commit, before it is stored.
    pub(crate) fn of_commit(&self, hint: Hint) -> Arc<CommitHint> {
        let (text, next) = (self.this.write(&hint), self.next.clone());
        Arc::new(CommitHint { hint, text, next, is_sent: AtomicBool::new(false) })
    }

    /// Announces a stored commit like [`send`](Self::send), and only on this host if the others have its hint.
    pub(crate) fn committed(&self, of: &CommitHint) {
        match of.is_sent.load(Ordering::Relaxed) {
            true => self.here.send(of.hint.clone()),
            false => self.send(of.hint.clone()),
        }
    }

    /// Returns the hints of all hosts from now on.
    pub(crate) fn watch(&self) -> Hints {
        self.here.watch()
    }

    /// Returns the warning if no notifications arrive. It is then not logged as well.
    pub(crate) async fn warning(&self) -> Option<&'static str> {
        let mut hears = self.hears.clone();
        self.is_asked.store(hears.borrow().is_none(), Ordering::Relaxed);
        let known = tokio::time::timeout(ARRIVES_WITHIN * 2, hears.wait_for(Option::is_some)).await;
        if known.is_err() {
            // It is logged as soon as it is known.
            self.is_asked.store(false, Ordering::Relaxed);
        }
        matches!(known, Ok(Ok(hears)) if *hears == Some(false)).then_some(DEAF)
    }

    /// Returns a function that tells this process that its lease has lapsed.
    pub(crate) fn lapse(&self) -> impl Fn() + Send + Sync + 'static {
        let here = self.here.clone();
        move || here.send(Hint::Lapsed)
    }

    /// Returns a function that gives the hint that a run was released.
    pub(crate) fn freed(&self) -> impl Fn() + Send + Sync + 'static {
        let (here, to_others, on_freed) =
            (self.here.clone(), self.to_others.clone(), Arc::clone(&self.on_freed));
        move || {
            on_freed();
            here.send(Hint::Work);
            // It may be older than those that other hosts look for when they hear of work.
            let _ = to_others.send(Hint::Any);
        }
    }
}

/// The time of the next notification that is sent at once; `None` while some are about to be sent together.
#[derive(Clone)]
struct NextNotification(Arc<Mutex<Option<Instant>>>);

impl Default for NextNotification {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(Instant::now()))))
    }
}

impl NextNotification {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a notification may be sent at once. If so, the next ones are collected.
    fn begin(&self) -> bool {
        let (mut next, now) = (self.lock(), Instant::now());
        let may_begin = next.is_some_and(|next| next <= now);
        if may_begin {
            *next = Some(now + TOGETHER);
        }
        may_begin
    }

    /// Returns how long to collect notifications now. None is sent at once before the next
    /// [pause](Self::pause_for) has begun.
    fn collect(&self) -> Duration {
        self.lock().take().map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }

    /// Collects the notifications of this time.
    fn pause_for(&self, pause: Duration) {
        *self.lock() = Some(Instant::now() + pause);
    }
}

/// The hint of a commit. If no notification was sent just before, it is sent behind the commit on the same connection:
/// the server then notifies the others as soon as it has stored the commit.
pub(crate) struct CommitHint {
    hint: Hint,
    text: String,
    next: NextNotification,
    is_sent: AtomicBool,
}

impl CommitHint {
    /// Sends the notification if it may be sent at once, and returns whether it was sent. To be polled after the
    /// commit, which may turn out not to be stored.
    pub(crate) async fn send_behind(&self, client: &Busy) -> bool {
        self.next.begin()
            && client.query_prepared(NOTIFY, notification(vec![self.text.clone()])).await.is_ok()
    }

    /// Records that it was sent behind the commit, which is stored.
    pub(crate) fn set_sent(&self) {
        self.is_sent.store(true, Ordering::Relaxed);
    }
}

/// The sender of notifications. A process also hears its own, whose hints it has had already.
#[derive(Clone)]
struct Notifier(String);

impl Notifier {
    /// Returns the notification of a hint.
    fn write(&self, hint: &Hint) -> String {
        match hint {
            Hint::Events(run_id) => format!("{}:e{run_id}", self.0),
            Hint::Commands(run_id) => format!("{}:c{run_id}", self.0),
            Hint::Work => format!("{}:w", self.0),
            // A lapse concerns this process alone, and is never sent.
            Hint::Any | Hint::Lapsed => format!("{}:*", self.0),
        }
    }

    /// Returns a notification by which this process learns whether any arrive.
    fn probe(&self) -> String {
        format!("{}:?", self.0)
    }

    /// Returns the hint of another process; `None` if this one sent it. A notification of another
    /// version may mean anything.
    fn read(&self, text: &str) -> Option<Hint> {
        let hint = match text.split_once(':') {
            Some((sender, _)) if sender == self.0 => return None,
            Some((_, "?")) => return None,
            Some((_, hint)) => hint,
            None => "",
        };
        Some(match hint.split_at_checked(1) {
            Some(("e", run_id)) => Hint::Events(Arc::from(run_id)),
            Some(("c", run_id)) => Hint::Commands(Arc::from(run_id)),
            Some(("w", _)) => Hint::Work,
            _ => Hint::Any,
        })
    }
}

/// Passes on the hints of other hosts, and reconnects for as long as this host runs.
async fn listen(config: PostgresConfig, here: HintSender, this: Notifier, hearing: Hearing) {
    let server = config.listen.as_ref().unwrap_or(&config.server).clone();
    loop {
        let (receivers, this, probe) = (here.clone(), this.clone(), this.probe());
        let on_freed = Arc::clone(&hearing.on_freed);
        let arrived = Arc::<Notify>::default();
        let (arrives, expected) = (Arc::clone(&arrived), probe.clone());
        let on_notification = move |notification: tokio_postgres::Notification| {
            // Behind a pooler in transaction mode, another notification may arrive by chance: while this connection
            // happens to have a session that listens.
            if notification.payload() == expected {
                arrives.notify_one();
            }
            if let Some(hint) = this.read(notification.payload()) {
                if hint == Hint::Any {
                    on_freed();
                }
                receivers.send(hint);
            }
        };
        if let Ok(client) = single(&config, &server, on_notification).await
            && client.batch_execute(&format!("LISTEN {CHANNEL}")).await.is_ok()
        {
            // Something may have changed before this connection listened.
            here.send(Hint::Any);
            hear(&config, &probe, &arrived, &hearing).await;
            while answers(&client).await {
                tokio::time::sleep(CHECK).await;
            }
        }
        tokio::time::sleep(CHECK).await;
    }
}

/// Finds out whether notifications arrive: behind a connection pooler, they may not.
async fn hear(config: &PostgresConfig, probe: &str, arrived: &Notify, hearing: &Hearing) {
    // On another connection than the one that listens: the server answers a notification there itself.
    let Ok(client) = single(config, &config.server, |_| {}).await else { return };
    let notify = run(&client, "SELECT pg_notify($1, $2)", params![(CHANNEL, TEXT), (probe.to_owned(), TEXT)]);
    if !matches!(tokio::time::timeout(CHECK, notify).await, Ok(Ok(_))) {
        return;
    }
    let is_heard = tokio::time::timeout(ARRIVES_WITHIN, arrived.notified()).await.is_ok();
    hearing.report(is_heard);
}

/// Gives the hint that anything may have changed, again and again.
async fn remind(here: HintSender) {
    loop {
        tokio::time::sleep(LOOK).await;
        here.send(Hint::Any);
    }
}

/// Returns whether a connection still answers.
async fn answers(client: &Client) -> bool {
    let asked = query(client, "SELECT 1", Vec::new());
    matches!(tokio::time::timeout(CHECK, asked).await, Ok(Ok(_)))
}

/// Returns how long notifications are collected after others, which took this long to send. They cost the server
/// about as much as a commit, and wake all hosts: a busy server gets fewer of them.
fn pause_after(sending: Duration) -> Duration {
    (sending * 4).clamp(TOGETHER, LONG_TOGETHER)
}

/// Sends hints to the other hosts: the first at once, and those of the next milliseconds together.
async fn send_all(
    config: PostgresConfig,
    mut hints: mpsc::UnboundedReceiver<Hint>,
    (this, next): (Notifier, NextNotification),
) {
    let mut client: Option<Client> = None;
    while let Some(first) = hints.recv().await {
        let pause = next.collect();
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let mut texts = BTreeSet::from([this.write(&first)]);
        while let Ok(hint) = hints.try_recv() {
            texts.insert(this.write(&hint));
        }
        // A payload has at most 8,000 bytes.
        let fits = texts.len() <= MAX_TOGETHER && texts.iter().all(|text| text.len() < 4_000);
        let texts: Vec<String> =
            if fits { texts.into_iter().collect() } else { vec![this.write(&Hint::Any)] };
        if client.as_ref().is_none_or(Client::is_closed) {
            client = single(&config, &config.server, |_| {}).await.ok();
        }
        let began = Instant::now();
        let is_sent = match &client {
            Some(connected) => {
                matches!(tokio::time::timeout(CHECK, notify(connected, texts)).await, Ok(Ok(())))
            }
            None => false,
        };
        if !is_sent {
            client = None;
        }
        next.pause_for(pause_after(began.elapsed()));
    }
}

/// Sends notifications in one statement.
async fn notify(client: &Client, texts: Vec<String>) -> Result<(), Error> {
    run(client, NOTIFY, notification(texts)).await.map(drop)
}

/// Returns the parameters of [`NOTIFY`].
fn notification(texts: Vec<String>) -> Params {
    params![(CHANNEL, TEXT), (texts, TEXT_ARRAY)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_gets_fewer_notifications() {
        let [idle, busy, hung] = [1, 3, 5_000].map(|ms| pause_after(Duration::from_millis(ms)));
        assert_eq!((idle, busy, hung), (TOGETHER, Duration::from_millis(12), LONG_TOGETHER));
    }

    #[test]
    fn one_notification_is_sent_at_once_and_the_next_ones_are_collected() {
        let next = NextNotification::default();
        assert!(next.begin());
        assert!(next.collect() <= TOGETHER);
        assert!(!next.begin(), "others are about to be sent");
        next.pause_for(CHECK);
        assert!(!next.begin(), "some were sent just now");
        next.pause_for(Duration::ZERO);
        assert!(next.begin());
    }

    #[test]
    fn a_hint_is_read_as_it_was_written_and_anything_else_means_that_anything_changed() {
        let (this, other) = (Notifier("this".to_owned()), Notifier("other".to_owned()));
        for hint in [Hint::Events(Arc::from("r:1")), Hint::Commands(Arc::from("e")), Hint::Work, Hint::Any] {
            assert_eq!(this.read(&other.write(&hint)), Some(hint.clone()));
            assert_eq!(this.read(&this.write(&hint)), None, "it has had it already");
        }
        assert_eq!(this.read(&other.probe()), None, "nothing has changed");
        for unknown in ["", "?x", "ä", "other:", "other:ä", "e1"] {
            assert_eq!(this.read(unknown), Some(Hint::Any), "{unknown}");
        }
    }
}
