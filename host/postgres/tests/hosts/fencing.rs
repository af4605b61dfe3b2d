//! Fencing of late hosts, and commits whose answers are lost.

use crate::cluster::cluster;
use crate::proxy::{Mode, Proxy};
use crate::{PATIENCE, call, commit, prompt, started, step, until, until_locked};
use std::time::Duration;
use tollgate::store::{
    AuditFilter, AuditKind, AuditRecord, AuditStore, Commit, CommitError, CoordinationStore, RunCommand,
    RunFilter, RunStore, StateStore,
};
use tollgate_agent::message::Message;
use tollgate_agent::run::Event;
use tollgate_postgres::{PostgresConfig, PostgresStore};

const LEASE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn the_runs_of_a_host_that_is_gone_are_taken_over_and_it_is_fenced() {
    let database = cluster().database().await;
    let config = database.config().with_lease(LEASE).unwrap();
    let gone = PostgresStore::connect(config.clone()).await.unwrap();
    gone.commit(commit("r", 1, 0, vec![started("r", prompt()), step(1)])).await.unwrap();
    let other = PostgresStore::connect(config.clone()).await.unwrap();
    assert!(matches!(other.acquire("r", 2).await, Err(CommitError::Advanced)));
    // It stops renewing, as if it were killed, but another handle on its id could still write.
    let late = database.client().await;
    let owner: String = late.query_one("SELECT owner FROM runs", &[]).await.unwrap().get(0);
    assert_eq!(*owner, *gone.host_id());
    drop(gone);
    let epoch = until("the takeover", async || other.acquire("r", 2).await.ok()).await;
    assert!(epoch >= 3, "the takeover and the acquisition raise it: {epoch}");
    let late = PostgresStore::connect(config).await.unwrap();
    let refused = late.commit(commit("r", 1, 2, vec![step(2)])).await;
    assert!(matches!(refused, Err(CommitError::Fenced)), "{refused:?}");
    other.commit(commit("r", epoch, 2, vec![step(2)])).await.unwrap();
    assert_eq!(other.events("r", 0).await.unwrap().len(), 3);
    let hosts = other.hosts().await.unwrap();
    assert!(hosts.iter().any(|host| host.id == owner && host.state == "dead"), "{hosts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_host_that_was_taken_for_dead_is_fenced_and_starts_anew() {
    let database = cluster().database().await;
    let config = database.config().with_lease(LEASE).unwrap();
    let (store, other) = (
        PostgresStore::connect(config.clone()).await.unwrap(),
        PostgresStore::connect(config).await.unwrap(),
    );
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    other.admit(None, None, None).await.unwrap();
    let before = store.host_id();
    let behind = database.client().await;
    behind.execute("UPDATE hosts SET state = 'dead' WHERE id = $1", &[&&*before]).await.unwrap();
    // Either host releases its runs.
    until("the release", async || {
        let row = behind.query_one("SELECT owner IS NULL AND epoch > 1 FROM runs", &[]).await.unwrap();
        row.get::<_, bool>(0).then_some(())
    })
    .await;
    let refused = store.commit(commit("r", 1, 1, vec![step(1)])).await;
    assert!(matches!(refused, Err(CommitError::Fenced)), "{refused:?}");
    until("its new registration", async || (store.host_id() != before).then_some(())).await;
    store.admit(None, None, None).await.unwrap();
    let epoch = store.acquire("r", 1).await.unwrap();
    store.commit(commit("r", epoch, 1, vec![step(1)])).await.unwrap();
}

/// Adds a host that renewed its lease for the last time this many milliseconds ago, with a run.
async fn ghost(behind: &tokio_postgres::Client, left_ms: i64) {
    let sql = format!(
        "INSERT INTO hosts (id, name, version, state, lease_ms, lease_until)
            VALUES ('ghost', 'db-1', '1', 'up', greatest(1000, {left_ms}), clock_timestamp() + {left_ms} * interval '1 ms');
         INSERT INTO runs VALUES ('r', 't', 'a', 'prompt', '', 'running', 'ghost', 1, 1, '', 0, 0, 0)"
    );
    behind.batch_execute(&sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_just_begun_takes_over_the_run_of_a_silent_host() {
    let database = cluster().database().await;
    ghost(&database.client().await, -1).await;
    let store = PostgresStore::connect(database.config().with_lease(LEASE).unwrap()).await.unwrap();
    let run = store.runs(RunFilter::default()).await.unwrap().pop().unwrap();
    assert!(!run.is_driven, "its lease is over");
    assert_eq!(run.owner.map(|owner| (owner.id, owner.name)), Some(("ghost".to_owned(), "db-1".to_owned())));
    assert_eq!(store.hosts().await.unwrap()[0].state, "late");
    // It waits until the host is known to be gone, and fails at once while a lease is valid.
    assert_eq!(store.acquire("r", 1).await.unwrap(), 3);
    let database = cluster().database().await;
    ghost(&database.client().await, 600_000).await;
    let store = PostgresStore::connect(database.config().with_lease(LEASE).unwrap()).await.unwrap();
    assert!(store.runs(RunFilter::default()).await.unwrap()[0].is_driven);
    assert!(matches!(store.acquire("r", 1).await, Err(CommitError::Advanced)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_host_owns_without_driving_it_is_released() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config().with_lease(LEASE).unwrap()).await.unwrap();
    store.admit(None, None, None).await.unwrap();
    store.commit(commit("driven", 1, 0, vec![started("driven", prompt())])).await.unwrap();
    let behind = database.client().await;
    // As if the answer to its claim had been lost.
    let sql = format!(
        "INSERT INTO runs VALUES ('r', 'u', 'a', 'prompt', '', 'running', '{}', 1, 1, '', 0, 0, 0)",
        store.host_id()
    );
    behind.batch_execute(&sql).await.unwrap();
    until("the release", async || {
        let sql = "SELECT owner IS NULL FROM runs WHERE id = 'r'";
        behind.query_one(sql, &[]).await.unwrap().get::<_, bool>(0).then_some(())
    })
    .await;
    let driven = store.runs(RunFilter { run_id_prefix: Some("driven".into()), ..RunFilter::default() }).await;
    assert!(driven.unwrap()[0].is_driven, "that one is driven");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_database_cannot_keep_is_refused_and_asked_for_in_vain() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let late = Commit::new("r".into(), "t".into(), 1, u64::MAX, vec![step(1)]);
    let refused = store.commit(late).await.unwrap_err().to_string();
    assert!(refused.contains("a commit of the run r has a number above 9223372036854775807"), "{refused}");
    assert!(store.events("r", u64::MAX).await.unwrap().is_empty());
    assert!(matches!(store.acquire("r", u64::MAX).await, Err(CommitError::Behind)));
    let refused = store.commit(commit("n\0", 1, 0, vec![started("n\0", prompt())])).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("an id contains a NUL character; use another id"), "{refused}");
    // A release that the database refuses does not keep the next one.
    store.release("n\0", 1).await;
    store.release("r", 1).await;
    let behind = database.client().await;
    until("the release", async || {
        let sql = "SELECT owner IS NULL FROM runs WHERE id = 'r'";
        behind.query_one(sql, &[]).await.unwrap().get::<_, bool>(0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_turn_is_written_even_if_the_database_refused_it_once() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config().with_lease(LEASE).unwrap()).await.unwrap();
    let turn = store.queue("t").await.unwrap();
    let behind = database.client().await;
    behind
        .batch_execute(
            "CREATE SEQUENCE tried;
             CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM nextval('tried');
                RAISE EXCEPTION 'not now';
             END $$;
             CREATE TRIGGER refuse BEFORE DELETE ON turns FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await
        .unwrap();
    drop(turn);
    let holds = async |sql: &str| {
        until(sql, async || behind.query_one(sql, &[]).await.unwrap().get::<_, bool>(0).then_some(())).await;
    };
    holds("SELECT is_called FROM tried").await;
    behind.batch_execute("DROP TRIGGER refuse ON turns").await.unwrap();
    holds("SELECT count(*) = 0 FROM turns").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_in_a_queue_whose_answer_is_lost_holds_up_no_caller_for_long() {
    let database = cluster().database().await;
    let proxy = Proxy::start(cluster().socket()).await;
    let config = PostgresConfig::new(&proxy.url(&database.name)).unwrap().with_lease(LEASE).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    // It is registered, and has a connection in its pool.
    store.admit(Some("t"), None, None).await.unwrap();
    let behind = database.client().await;
    let places = async || {
        let sql = "SELECT count(*) FROM turns";
        behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    proxy.set(Mode::HoldAnswers);
    let losing = async {
        until("the place", async || (places().await == 1).then_some(())).await;
        proxy.set(Mode::Cut);
        tokio::time::sleep(Duration::from_millis(50)).await;
        proxy.set(Mode::Pass);
    };
    let (turn, ()) = tokio::join!(tokio::time::timeout(PATIENCE, store.queue("t")), losing);
    let turn = turn.expect("it is the caller's turn").unwrap();
    assert_eq!(places().await, 1, "the lost place was given up, and that of the caller was not");
    drop(turn);
    until("the end of the turn", async || (places().await == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_begun_under_a_dead_id_does_not_stay_without_a_driver() {
    let database = cluster().database().await;
    let config = database.config().with_lease(LEASE).unwrap();
    let other = PostgresStore::connect(config).await.unwrap();
    other.admit(None, None, None).await.unwrap();
    let behind = database.client().await;
    // As a host writes it that does not know yet that it was declared dead.
    behind
        .batch_execute(
            "INSERT INTO runs VALUES ('r', 't', 'a', 'prompt', '', 'running', 'nobody', 1, 1, '', 0, 0, 0)",
        )
        .await
        .unwrap();
    until("the release", async || other.acquire("r", 1).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_stored_once() {
    let database = cluster().database().await;
    let proxy = Proxy::start(cluster().socket()).await;
    let config = PostgresConfig::new(&proxy.url(&database.name)).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    for number in 1..=5 {
        proxy.set(Mode::LoseCommit);
        store.commit(commit("r", 1, number, vec![step(1)])).await.unwrap();
        until("the loss", async || (proxy.lost() >= number).then_some(())).await;
    }
    let numbers: Vec<u64> = store.events("r", 0).await.unwrap().iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    // The first commit of a run, and a change of state.
    proxy.set(Mode::LoseCommit);
    store.commit(commit("s", 1, 0, vec![started("s", call())])).await.unwrap();
    proxy.set(Mode::LoseCommit);
    let change = tollgate_agent::state::StateChange { revision: 1, updates: [].into() };
    store.change("u", change).await.unwrap();
    assert_eq!(store.thread("u").await.unwrap().state.revision(), 1);
    // A record of the audit.
    proxy.set(Mode::LoseCommit);
    store.record_audit(vec![AuditRecord::at(9, AuditKind::Grant, "person", "granted")]).await.unwrap();
    assert_eq!(store.audit(AuditFilter::default()).await.unwrap().len(), 1);
    assert_eq!(proxy.lost(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_begin_whose_answer_is_lost_is_not_taken_for_another_run_whatever_index_is_checked_first() {
    let database = cluster().database().await;
    // Now the server checks the index of driven runs before that of ids.
    database.client().await.batch_execute("REINDEX INDEX CONCURRENTLY runs_pkey").await.unwrap();
    let proxy = Proxy::start(cluster().socket()).await;
    let store =
        PostgresStore::connect(PostgresConfig::new(&proxy.url(&database.name)).unwrap()).await.unwrap();
    proxy.set(Mode::LoseCommit);
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    assert_eq!(proxy.lost(), 1);
    let other = store.commit(commit("s", 1, 0, vec![started("s", prompt())])).await;
    assert!(matches!(&other, Err(CommitError::Busy(run)) if run == "r"), "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_run_whose_answer_is_lost_is_stored_although_another_host_has_continued_it() {
    let database = cluster().database().await;
    let proxy = Proxy::start(cluster().socket()).await;
    let url = proxy.url(&database.name);
    // With a URL for notifications, it prepares no statement, for which it would wait before it sends the commit.
    let config = PostgresConfig::new(&url).unwrap().with_listen_url(&url).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    let other = PostgresStore::connect(database.config()).await.unwrap();
    // Both are registered, and the first one has a connection in its pool.
    store.admit(Some("t"), None, None).await.unwrap();
    other.admit(None, None, None).await.unwrap();
    let queued = |at_ms| {
        let mut queued = Commit::new("r".into(), "t".into(), 0, at_ms, vec![started("r", prompt())]);
        (queued.queued, queued.epoch) = (true, 0);
        queued
    };
    proxy.set(Mode::HoldAnswers);
    let continuing = async {
        let claimed = until("the run", async || {
            let claimed = other.claim(&["a".to_owned()], 1).await.unwrap();
            claimed.into_iter().next()
        })
        .await;
        other.commit(commit("r", claimed.epoch, 1, vec![step(1)])).await.unwrap();
        proxy.set(Mode::LoseCommit);
    };
    let (committed, ()) = tokio::join!(store.commit(queued(7)), continuing);
    committed.unwrap();
    assert_eq!(proxy.lost(), 1);
    assert_eq!(store.events("r", 0).await.unwrap().len(), 2);
    // One that begins otherwise was not.
    let refused = store.commit(queued(8)).await;
    assert!(matches!(refused, Err(CommitError::Fenced)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_transaction_the_server_ended_is_sent_again() {
    let database = cluster().database().await;
    let proxy = Proxy::start(cluster().socket()).await;
    let config = PostgresConfig::new(&proxy.url(&database.name)).unwrap().with_lease(LEASE).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    let begins = PostgresStore::connect(database.config()).await.unwrap();
    begins.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    // As if the process had been stopped in the middle of a commit of two exchanges, as one of a host is
    // that does not know the event before it.
    proxy.set(Mode::StallCommit);
    store.commit(commit("r", 1, 1, vec![step(1)])).await.unwrap();
    assert!(proxy.passes(), "the commit was not delayed");
    assert_eq!(store.events("r", 0).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_an_administrator_cancels_is_sent_again() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let (holds, behind) = (database.client().await, database.client().await);
    holds.batch_execute("BEGIN; SELECT FROM runs FOR UPDATE").await.unwrap();
    let cancelling = async {
        // A statement_timeout of the role has the same effect.
        let sql = "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until("the commit", async || {
            (behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0).then_some(())
        })
        .await;
        holds.batch_execute("COMMIT").await.unwrap();
    };
    let (committed, ()) = tokio::join!(store.commit(commit("r", 1, 1, vec![step(1)])), cancelling);
    committed.unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_does_not_wait_long_for_a_lock_whatever_the_commit() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let (holds, behind) = (database.client().await, database.client().await);
    // Two that waited for one row would wait one after the other.
    holds.batch_execute("INSERT INTO threads (id) VALUES ('u')").await.unwrap();
    holds.batch_execute("BEGIN; SELECT FROM threads FOR UPDATE; SELECT FROM runs FOR UPDATE").await.unwrap();
    let freeing = async {
        let sql = "SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: Vec<i32> = until("both commits", async || {
            let rows = behind.query(sql, &[]).await.unwrap();
            (rows.len() == 2).then(|| rows.iter().map(|row| row.get(0)).collect())
        })
        .await;
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)";
        until("the end of both statements", async || {
            (behind.query_one(sql, &[&waiting]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
        })
        .await;
        holds.batch_execute("COMMIT").await.unwrap();
    };
    let (next, mut first) =
        (commit("r", 1, 1, vec![step(1)]), commit("s", 1, 0, vec![started("s", prompt())]));
    first.thread_id = "u".into();
    let (next, first, ()) = tokio::join!(store.commit(next), store.commit(first), freeing);
    next.and(first).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_waits_while_another_host_takes_over_its_run_is_fenced() {
    let step_with = |messages: Vec<Message>| {
        let mut next = commit("r", 1, 1, vec![step(1)]);
        next.messages = messages;
        next
    };
    // The second one also changes the row of the thread, before it waits for that of the run.
    for next in [step_with(Vec::new()), step_with(vec![Message::User("Go on.".to_owned())])] {
        let database = cluster().database().await;
        let store = PostgresStore::connect(database.config()).await.unwrap();
        store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
        let (takes, behind) = (database.client().await, database.client().await);
        let sql = "SELECT record_bytes + revision + messages + (SELECT count(*) FROM events) FROM threads";
        let rows = async || behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
        let before = rows().await;
        takes.batch_execute("BEGIN; UPDATE runs SET epoch = 2").await.unwrap();
        let taking = async {
            // It has found the run as its host knows it.
            until_locked("the commit", &behind).await;
            takes.batch_execute("COMMIT").await.unwrap();
        };
        let (refused, ()) = tokio::join!(store.commit(next), taking);
        assert!(matches!(refused, Err(CommitError::Fenced)), "{refused:?}");
        assert_eq!(rows().await, before, "nothing was written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_changes_nothing_of_its_thread_does_not_wait_for_it_and_is_counted_later() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let (holds, behind) = (database.client().await, database.client().await);
    let counted =
        async || -> i64 { behind.query_one("SELECT record_bytes FROM threads", &[]).await.unwrap().get(0) };
    let first = counted().await;
    assert!(first > 0);
    holds.batch_execute("BEGIN; SELECT FROM threads FOR UPDATE").await.unwrap();
    store.commit(commit("r", 1, 1, vec![step(1)])).await.unwrap();
    holds.batch_execute("COMMIT").await.unwrap();
    assert_eq!(counted().await, first, "the run goes on");
    store.commit(commit("r", 1, 2, vec![step(2)])).await.unwrap();
    // A host that ends counts what it has not counted yet, and so does a run that comes to rest.
    store.close().await.unwrap();
    let next = counted().await;
    assert!(next >= first + 2 * 64, "{first} {next}");
    let other = PostgresStore::connect(database.config()).await.unwrap();
    let epoch = other.acquire("r", 3).await.unwrap();
    other.commit(commit("r", epoch, 3, vec![Event::RunWaiting])).await.unwrap();
    assert!(counted().await > next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_or_stands_still_delays_a_commit_and_loses_nothing() {
    let database = cluster().database().await;
    let proxy = Proxy::start(cluster().socket()).await;
    let config = PostgresConfig::new(&proxy.url(&database.name)).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    for (number, mode) in [(1, Mode::Cut), (2, Mode::Hold), (3, Mode::Cut)] {
        proxy.set(mode);
        let healing = async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            proxy.set(Mode::Pass);
        };
        let (committed, ()) = tokio::join!(store.commit(commit("r", 1, number, vec![step(1)])), healing);
        committed.unwrap();
    }
    end_connections(&database.client().await).await;
    store.commit(commit("r", 1, 4, vec![Event::RunWaiting])).await.unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len(), 5);
    assert!(!store.runs(RunFilter::default()).await.unwrap()[0].is_driven);
}

/// Ends all other connections to the database.
async fn end_connections(behind: &tokio_postgres::Client) {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid()";
    behind.batch_execute(sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_takes_long_to_connect_renews_its_lease_late_and_not_never() {
    let database = cluster().database().await;
    let proxy = Proxy::start(cluster().socket()).await;
    let config = PostgresConfig::new(&proxy.url(&database.name)).unwrap().with_lease(LEASE).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    store.admit(None, None, None).await.unwrap();
    let behind = database.client().await;
    let renewals =
        async || -> i64 { behind.query_one("SELECT max(renewals) FROM hosts", &[]).await.unwrap().get(0) };
    proxy.set(Mode::SlowConnect);
    end_connections(&behind).await;
    let before = renewals().await;
    until("a renewal", async || (renewals().await > before).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_connections_are_all_busy_keeps_its_lease() {
    let database = cluster().database().await;
    let config = database.config().with_lease(LEASE).unwrap();
    let store = PostgresStore::connect(config.clone().with_connections(2).unwrap()).await.unwrap();
    let other = PostgresStore::connect(config).await.unwrap();
    other.admit(None, None, None).await.unwrap();
    for run in ["r", "s"] {
        let mut first = commit(run, 1, 0, vec![started(run, prompt())]);
        first.thread_id = run.into();
        store.commit(first).await.unwrap();
    }
    let (id, behind) = (store.host_id(), database.client().await);
    behind.batch_execute("BEGIN; SELECT FROM runs FOR UPDATE").await.unwrap();
    let next = |run: &str| {
        let mut next = commit(run, 1, 1, vec![step(1)]);
        next.thread_id = run.into();
        store.commit(next)
    };
    let freeing = async {
        tokio::time::sleep(LEASE * 3 / 2).await;
        behind.batch_execute("COMMIT").await.unwrap();
    };
    let (r, s, ()) = tokio::join!(next("r"), next("s"), freeing);
    r.and(s).unwrap();
    assert_eq!(store.host_id(), id);
    let up = other.hosts().await.unwrap().into_iter().filter(|host| host.state == "up");
    assert_eq!(up.count(), 2, "no host was taken for dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_the_database_has_lost_are_noticed() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt()), step(1)])).await.unwrap();
    let behind = database.client().await;
    // As after a failover without synchronous replication.
    behind.batch_execute("DELETE FROM events WHERE number = 2; UPDATE runs SET events = 1").await.unwrap();
    let refused = store.commit(commit("r", 1, 2, vec![step(2)])).await;
    assert!(matches!(refused, Err(CommitError::Behind)), "{refused:?}");
    // The acquisition is lost, too.
    let epoch = store.acquire("r", 1).await.unwrap();
    store.commit(commit("r", epoch, 1, vec![step(1)])).await.unwrap();
    let lose = "DELETE FROM events WHERE number = 2; UPDATE runs SET events = 1, epoch = 1, last_commit = ''";
    behind.batch_execute(lose).await.unwrap();
    let refused = store.commit(commit("r", epoch, 2, vec![step(2)])).await;
    assert!(matches!(refused, Err(CommitError::Behind)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_altered_by_hand_is_named() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt()), step(1), step(2)])).await.unwrap();
    let behind = database.client().await;
    behind.batch_execute("UPDATE events SET body = replace(body, '1', '3') WHERE number = 2").await.unwrap();
    let damaged = store.events("r", 0).await.unwrap_err().to_string();
    assert!(damaged.contains("the record of run r is damaged (event 2"), "{damaged}");
    let record = store.record("r").await.unwrap();
    assert!(record.damage.is_some() && record.events.len() == 3);
    let verified = store.verify().await.unwrap();
    assert_eq!((verified.runs, verified.damaged.len()), (1, 1), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_thread_has_one_driven_run_of_a_prompt() {
    let database = cluster().database().await;
    let (store, other) = (
        PostgresStore::connect(database.config()).await.unwrap(),
        PostgresStore::connect(database.config()).await.unwrap(),
    );
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let refused = other.commit(commit("s", 1, 0, vec![started("s", prompt())])).await;
    assert!(matches!(&refused, Err(CommitError::Busy(run)) if run == "r"), "{refused:?}");
    // At the same moment, exactly one of several begins.
    store.commit(commit("r", 1, 1, vec![Event::RunWaiting])).await.unwrap();
    let begin = async |store: &PostgresStore, run: &str| {
        store.commit(commit(run, 1, 0, vec![started(run, prompt())])).await.is_ok()
    };
    let (a, b) = tokio::join!(begin(&store, "x"), begin(&other, "y"));
    assert!(a != b, "{a} {b}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_on_which_a_newer_run_is_driven_does_not_hold_up_others() {
    let database = cluster().database().await;
    let (store, other) = (
        PostgresStore::connect(database.config()).await.unwrap(),
        PostgresStore::connect(database.config()).await.unwrap(),
    );
    let on = |thread: &str, run: &str, rest: &[Event]| {
        let events = [&[started(run, prompt())], rest].concat();
        Commit::new(run.into(), thread.into(), 0, 7, events)
    };
    let cancel = || RunCommand::Cancel("no longer needed".to_owned());
    for (thread, run) in [("t", "r1"), ("v", "r4")] {
        store.commit(on(thread, run, &[Event::RunWaiting])).await.unwrap();
        store.send(run, "c", cancel()).await.unwrap();
    }
    for (thread, run) in [("w", "r2"), ("u", "r3")] {
        let mut queued = on(thread, run, &[]);
        (queued.queued, queued.epoch) = (true, 0);
        store.commit(queued).await.unwrap();
    }
    // The clock of this host is ahead, so its runs have newer ids than those that wait.
    store.commit(on("t", "r8", &[])).await.unwrap();
    store.commit(on("w", "r9", &[])).await.unwrap();
    let claimed = other.claim(&["a".to_owned()], 9).await.unwrap();
    let claimed: Vec<&str> = claimed.iter().map(|run| &*run.run_id).collect();
    assert_eq!(claimed, ["r4", "r3"], "the threads t and w are busy");
}
