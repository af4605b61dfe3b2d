//! The statements that a host sends, as the server counts them and what they read.

use crate::cluster::cluster;
use crate::{prompt, started, step, until};
use std::time::{Duration, Instant};
use tokio_postgres::AsyncMessage;
use tollgate::store::{
    AuditFilter, AuditKind, AuditRecord, AuditStore, Commit, CoordinationStore, KeyFilter, PageLimit,
    RunCommand, RunFilter, RunStore, StateChange, StateStore,
};
use tollgate_agent::run::Event;
use tollgate_postgres::PostgresStore;

fn on(run: &str, after: u64, event: Event) -> Commit {
    Commit::new(run.into(), run.into(), after, 7, vec![event])
}

async fn queue(store: &PostgresStore, run: &str) {
    let mut queued = on(run, 0, started(run, prompt()));
    (queued.queued, queued.epoch) = (true, 0);
    store.commit(queued).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_one_statement_and_so_are_a_claim_of_many_runs_and_reading_a_thread() {
    let database = cluster().database().await;
    database.count_statements().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.admit(None, None, None).await.unwrap();
    let before = database.statements_on_records().await;
    store.commit(on("r", 0, started("r", prompt()))).await.unwrap();
    assert_eq!(database.statements_on_records().await - before, 1, "the first one");
    let before = database.statements_on_records().await;
    for number in 1..=20 {
        store.commit(on("r", number, step(1))).await.unwrap();
    }
    assert_eq!(database.statements_on_records().await - before, 20);
    for number in 0..20 {
        queue(&store, &format!("q{number:02}")).await;
    }
    let before = database.statements_on_records().await;
    let claimed = store.claim(&["a".to_owned()], 20).await.unwrap();
    assert_eq!((claimed.len(), database.statements_on_records().await - before), (20, 1));
    // The claim has read the event from which the next commit continues.
    let before = database.statements_on_records().await;
    assert_eq!(claimed[6].read.as_ref().unwrap().events.len(), 1);
    let mut next = on("q06", 1, step(1));
    next.epoch = claimed[6].epoch;
    store.commit(next).await.unwrap();
    assert_eq!(database.statements_on_records().await - before, 1);
    // So has reading a run that was acquired.
    let epoch = store.acquire("q07", 1).await.unwrap();
    let page = store.events_page("q07", 0, PageLimit { events: 9, bytes: 9_999 }).await.unwrap();
    assert_eq!(page.events.len(), 1);
    let before = database.statements_on_records().await;
    let mut next = on("q07", 1, step(1));
    next.epoch = epoch;
    store.commit(next).await.unwrap();
    assert_eq!(database.statements_on_records().await - before, 1);
    let before = database.statements_on_records().await;
    store.thread("r").await.unwrap();
    assert_eq!(database.statements_on_records().await - before, 1);
    assert!(store.record("q07").await.unwrap().damage.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_notification_of_a_commit_is_sent_behind_it_on_its_connection() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(on("r", 0, started("r", prompt()))).await.unwrap();
    let behind = database.client().await;
    // Those for the lease and for notifications of others, and one of the pool.
    until("no other connections", async || {
        let sql = "SELECT count(*), count(*) FILTER (WHERE query ~ 'pg_notify') FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let row = behind.query_one(sql, &[]).await.unwrap();
        ((row.get::<_, i64>(0), row.get::<_, i64>(1)) == (3, 1)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_stored_does_not_wait_long_for_its_notification() {
    let database = cluster().database().await;
    // As if another program's notification waited for its own commit.
    let slow = format!(
        "CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(30)';
         ALTER DATABASE {} SET search_path = public, pg_catalog",
        database.name
    );
    database.client().await.batch_execute(&slow).await.unwrap();
    let store = PostgresStore::connect(database.config()).await.unwrap();
    let began = Instant::now();
    store.commit(on("r", 0, started("r", prompt()))).await.unwrap();
    store.commit(on("r", 1, step(1))).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(store.events("r", 0).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_hosts_hear_again_of_a_commit_that_could_not_be_stored_at_once() {
    let database = cluster().database().await;
    let (listens, mut connection) =
        tokio_postgres::connect(&cluster().url(&database.name), tokio_postgres::NoTls).await.unwrap();
    let (heard, mut notifications) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message
                && notification.payload().ends_with(":er")
                && heard.send(()).is_err()
            {
                break;
            }
        }
    });
    listens.batch_execute("LISTEN tollgate").await.unwrap();
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(on("r", 0, started("r", prompt()))).await.unwrap();
    let mut is_heard =
        async || tokio::time::timeout(Duration::from_secs(10), notifications.recv()).await.is_ok();
    assert!(is_heard().await);
    // The tool has trapped before, so its health must be read first.
    let trapped = "INSERT INTO tool_health VALUES ('echo', 'kit', 'd', 1)";
    database.client().await.batch_execute(trapped).await.unwrap();
    // After this time, a notification is sent behind its commit again.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut next = on("r", 1, step(1));
    let called = AuditRecord::at(9, AuditKind::Call, "agent a", "success").of_tool("echo");
    next.audit = vec![called.of_component("kit", None)];
    store.commit(next).await.unwrap();
    assert!(is_heard().await && is_heard().await, "one when it could not be stored, and one when it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_stays_open_does_not_make_each_claim_read_all_runs_since_it_began() {
    let database = cluster().database().await;
    database.count_statements().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    let (open, behind) = (database.client().await, database.client().await);
    open.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM runs").await.unwrap();
    // They were queued and have ended since. Those that are neighbors in the index are not on the same page.
    behind
        .batch_execute(
            "INSERT INTO runs SELECT '01900000-0000-7000-8000-' || substr(md5(n::text), 1, 12), 't', 'a', 'prompt', '',
                'running', NULL, 1, 1, '', 0, n, n FROM generate_series(1, 2000) n;
             UPDATE runs SET status = 'completed'; ANALYZE runs",
        )
        .await
        .unwrap();
    let read = async || {
        let sql = "SELECT sum(shared_blks_hit)::int8 FROM pg_stat_statements WHERE query ~ 'claim_v2'
            AND query !~ 'pg_stat'";
        behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let mut last = 0;
    let mut claims = Vec::new();
    // Once a second, a claim begins with the oldest run.
    while claims.len() < 20 && claims.iter().all(|blocks| *blocks > 1_000) {
        queue(&store, &uuid::Uuid::now_v7().to_string()).await;
        assert_eq!(store.claim(&["a".to_owned()], 9).await.unwrap().len(), 1);
        let all = read().await;
        claims.push(all - std::mem::replace(&mut last, all));
    }
    assert!(claims[0] > 1_000, "the server has removed the old rows: {claims:?}");
    assert!(claims.len() < 20, "each claim reads all of them: {claims:?}");
}

/// The rows of each large table.
const ROWS: i64 = 5_000;

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_reads_a_large_table_whole() {
    let database = cluster().database().await;
    let behind = database.client().await;
    let fill = large_tables();
    database.client().await.batch_execute(&fill).await.unwrap();
    let read = async || {
        // A process of the server reports what it has read at the latest when it ends.
        until("the end of all connections", async || {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                AND pid <> pg_backend_pid()";
            (behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
        })
        .await;
        let sql =
            "SELECT relname::text, (seq_tup_read + coalesce(idx_tup_fetch, 0))::int8 FROM pg_stat_user_tables
            ORDER BY relname";
        let rows = database.client().await.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(String, i64)>>()
    };
    let before = read().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    work_on_runs(&store).await;
    list(&store).await;
    store.hosts().await.unwrap();
    store.close().await.unwrap();
    drop(store);
    for ((table, before), (_, after)) in before.into_iter().zip(read().await) {
        assert!(after - before < ROWS, "{} rows of {table} were read", after - before);
    }
}

/// Returns the statements that fill the large tables.
fn large_tables() -> String {
    format!(
        "INSERT INTO threads (id) SELECT 'old' || n FROM generate_series(1, {ROWS}) n;
         INSERT INTO runs SELECT '01900000-0000-7000-8000-' || lpad(n::text, 12, '0'),
            CASE WHEN n * 2 < {ROWS} THEN 'ada/old' ELSE 'old' END || n, 'a' || n % 1000,
            CASE n % 1000 WHEN 1 THEN 'child' ELSE 'prompt' END, '', 'completed', NULL, 1, 2, '', 0, n, n
            FROM generate_series(1, {ROWS}) n;
         INSERT INTO events SELECT r.id, n, n, '{{}}' FROM runs r, generate_series(1, 2) n;
         INSERT INTO messages SELECT id, n, '{{}}' FROM threads, generate_series(0, 1) n;
         INSERT INTO changes (thread, revision, body) SELECT id, 1, '{{}}' FROM threads;
         INSERT INTO state SELECT id, 'k.x', '1' FROM threads;
         INSERT INTO audit (at_ms, kind, who, decision, tool_name, run_id, component_id, power)
            SELECT n, CASE n % 1000 WHEN 1 THEN 'denial' ELSE 'call' END, 'host',
                CASE n % 1000 WHEN 2 THEN 'denied' ELSE 'success' END, 't' || n % 1000, 'old' || n,
                'kit' || n % 1000, CASE n % 1000 WHEN 3 THEN 'http' END FROM generate_series(1, {ROWS}) n;
         ANALYZE"
    )
}

/// Commits, claims, releases and reads runs.
async fn work_on_runs(store: &PostgresStore) {
    store.admit(Some("r"), Some("kit"), Some("ada")).await.unwrap();
    store.commit(on("r", 0, started("r", prompt()))).await.unwrap();
    let mut noted = on("r", 1, step(1));
    noted.audit = vec![AuditRecord::at(9, AuditKind::Grant, "person", "granted")];
    store.commit(noted).await.unwrap();
    store.commit(on("r", 2, Event::RunWaiting)).await.unwrap();
    store.change("r", StateChange { revision: 1, updates: [].into() }).await.unwrap();
    queue(store, "q").await;
    store.send("r", "c", RunCommand::Cancel("enough".to_owned())).await.unwrap();
    let claimed = store.claim(&["a".to_owned()], 9).await.unwrap();
    assert_eq!(claimed.len(), 2, "{claimed:?}");
    assert_eq!(store.commands("r").await.unwrap().len(), 1);
    assert_eq!(store.runs_with_commands(&["r".into(), "q".into()]).await.unwrap().len(), 1);
    store.withdraw("r", "c").await.unwrap();
    for run in &claimed {
        store.release(&run.run_id, run.epoch).await;
    }
    store.flush().await.unwrap();
    let epoch = store.acquire("q", 1).await.unwrap();
    let mut ends = on("q", 1, Event::RunWaiting);
    ends.epoch = epoch;
    store.commit(ends).await.unwrap();
    drop(store.queue("r").await.unwrap());
    assert_eq!(store.events("r", 0).await.unwrap().len(), 3);
    assert_eq!(store.events_page("r", 1, PageLimit { events: 1, bytes: 99 }).await.unwrap().events.len(), 1);
    assert!(store.record_bytes("r").await.unwrap() > 0);
    assert!(store.record("r").await.unwrap().damage.is_none());
    store.thread_size("r").await.unwrap();
    assert_eq!(store.thread("r").await.unwrap().state.revision(), 1);
    store.state("r", &KeyFilter::All, 99).await.unwrap();
    assert_eq!(store.changes("r", 0, 9).await.unwrap().len(), 1);
    store.tool_health().await.unwrap();
}

/// Lists runs and the audit with each of their filters.
async fn list(store: &PostgresStore) {
    let wanted = || RunFilter { limit: 20, ..RunFilter::default() };
    let text = |text: &str| Some(text.to_owned());
    for (filter, found) in [
        (wanted(), 20),
        (RunFilter { thread_id: text("ada/old7"), ..wanted() }, 1),
        (RunFilter { status: text("running"), ..wanted() }, 0),
        (RunFilter { status: text("waiting"), kind: text("prompt"), ..wanted() }, 2),
        (RunFilter { status: text("waiting"), thread_id: text("r"), kind: text("prompt"), ..wanted() }, 1),
        (RunFilter { status: text("waiting"), kind: text("child"), ..wanted() }, 0),
        (RunFilter { kind: text("child"), ..wanted() }, 5),
        (RunFilter { run_id: text("r"), ..wanted() }, 1),
        (RunFilter { run_id_prefix: text("01900000-0000-7000-8000-00000000123"), ..wanted() }, 10),
        (RunFilter { short_id_prefix: text("0000123"), ..wanted() }, 10),
        (RunFilter { thread_prefix: text("ada/old123"), ..wanted() }, 11),
        (RunFilter { thread_prefix: text("ada/"), ..wanted() }, 20),
        (RunFilter { thread_prefix: text("ada/"), kind: text("prompt"), ..wanted() }, 20),
        (
            RunFilter {
                thread_prefix: text("ada/"),
                before: text("01900000-0000-7000-8000-000000002000"),
                ..wanted()
            },
            20,
        ),
        (RunFilter { agent_id: text("a7"), ..wanted() }, 5),
        (RunFilter { before: text("01900000-0000-7000-8000-000000000100"), ..wanted() }, 20),
    ] {
        assert_eq!(store.runs(filter.clone()).await.unwrap().len(), found, "{filter:?}");
    }
    for (filter, found) in [
        (AuditFilter { limit: 20, ..AuditFilter::default() }, 20),
        (AuditFilter { tool_name: text("t7"), ..AuditFilter::default() }, 5),
        (AuditFilter { run_id_prefix: text("old7"), ..AuditFilter::default() }, 100),
        (AuditFilter { component_id: text("kit7"), ..AuditFilter::default() }, 5),
        (AuditFilter { kind: Some(AuditKind::Denial), ..AuditFilter::default() }, 5),
        (AuditFilter { decision: text("denied"), ..AuditFilter::default() }, 5),
        (AuditFilter { power: text("http"), ..AuditFilter::default() }, 5),
        (AuditFilter { since_ms: 4_991, ..AuditFilter::default() }, 10),
    ] {
        assert_eq!(store.audit(filter.clone()).await.unwrap().len(), found, "{filter:?}");
    }
}
