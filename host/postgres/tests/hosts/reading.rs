//! The parts of a conversation that a host reads again.

use crate::cluster::cluster;
use crate::proxy::Proxy;
use crate::{commit, prompt, started, until, until_locked};
use std::sync::Arc;
use std::time::Duration;
use tollgate::store::{CoordinationStore, RunCommand, RunStore, StateStore};
use tollgate_agent::message::Message;
use tollgate_agent::run::Event;
use tollgate_agent::state::{KeyUpdate, StateChange};
use tollgate_postgres::{PostgresConfig, PostgresStore};

fn said(number: usize) -> Message {
    Message::User(format!("{number:04} {}", "said ".repeat(50)))
}

async fn add(behind: &tokio_postgres::Client, numbers: std::ops::Range<usize>) {
    let insert = "INSERT INTO messages (thread, position, body) SELECT 't', $1 + n - 1, body
        FROM unnest($2::text[]) WITH ORDINALITY AS x(body, n)";
    let from = i64::try_from(numbers.start).unwrap();
    let bodies: Vec<String> = numbers.map(|number| serde_json::to_string(&said(number)).unwrap()).collect();
    behind.execute(insert, &[&from, &bodies]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_conversation_that_was_read_only_new_messages_are_read() {
    let database = cluster().database().await;
    let proxy = Proxy::start(cluster().socket()).await;
    let config = PostgresConfig::new(&proxy.url(&database.name)).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    let behind = database.client().await;
    behind.batch_execute("INSERT INTO threads (id) VALUES ('t')").await.unwrap();
    add(&behind, 0..2_000).await;
    let whole = |count: usize| Arc::new((0..count).map(said).collect::<Vec<_>>());
    let first = store.thread("t").await.unwrap().messages;
    assert_eq!(first, whole(2_000));
    add(&behind, 2_000..2_020).await;
    let new_bytes = store.thread_size("t").await.unwrap().message_bytes;
    assert!((20 * 250..20 * 300).contains(&new_bytes), "{new_bytes}");
    let before = proxy.answered();
    assert_eq!(store.thread("t").await.unwrap().messages, whole(2_020));
    let read = proxy.answered() - before;
    assert!(read <= 2 * new_bytes, "{read} bytes were read of {new_bytes} new ones");
    assert_eq!(first.len(), 2_000, "what was read before does not change");
    // The database went back in time, and another message was added there.
    behind.batch_execute("DELETE FROM messages WHERE position >= 2000").await.unwrap();
    assert_eq!(store.thread("t").await.unwrap().messages, whole(2_000));
    behind.batch_execute("DELETE FROM messages WHERE position >= 1999").await.unwrap();
    add(&behind, 2_000..2_001).await;
    behind.batch_execute("UPDATE messages SET position = 1999 WHERE position = 2000").await.unwrap();
    let messages = store.thread("t").await.unwrap().messages;
    assert_eq!((messages.len(), messages.last()), (2_000, Some(&said(2_000))));
    behind.batch_execute("DELETE FROM messages; DELETE FROM threads").await.unwrap();
    assert!(store.thread("t").await.unwrap().messages.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_reads_small_runs_with_their_threads_and_commands() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    for (run, text) in [("r1", 10), ("r2", 100_000), ("r3", 10)] {
        let mut queued = commit(run, 0, 0, vec![started(run, prompt())]);
        (queued.thread_id, queued.queued) = (run.into(), true);
        queued.messages = vec![Message::User("x".repeat(text))];
        store.commit(queued).await.unwrap();
    }
    let updates = [KeyUpdate::restored("kit.count", serde_json::json!(3))].into();
    store.change("r1", StateChange { revision: 1, updates }).await.unwrap();
    store.send("r1", "c", RunCommand::Cancel("enough".to_owned())).await.unwrap();
    let behind = database.client().await;
    behind.batch_execute("UPDATE events SET body = body || ' ' WHERE run = 'r3'").await.unwrap();
    let claimed = store.claim(&["a".to_owned()], 9).await.unwrap();
    let ids: Vec<&str> = claimed.iter().map(|run| &*run.run_id).collect();
    assert_eq!(ids, ["r1", "r2", "r3"]);
    let read = claimed[0].read.as_ref().unwrap();
    let (events, thread) = (store.events("r1", 0).await.unwrap(), store.thread("r1").await.unwrap());
    assert_eq!(format!("{:?}", read.events), format!("{events:?}"));
    assert_eq!((read.events.len(), read.thread.messages.len(), read.commands.len()), (1, 1, 1));
    assert_eq!((&read.thread.messages, &read.thread.state), (&thread.messages, &thread.state));
    assert_eq!(read.commands, store.commands("r1").await.unwrap());
    assert!(claimed[1].read.is_none(), "its thread is long");
    assert!(claimed[2].read.is_none(), "its record was altered, which its driver reports");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_reads_a_mebibyte_at_most_and_no_long_conversation() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    let queue = async |run: &str, messages: Vec<Message>| {
        let mut queued = commit(run, 0, 0, vec![started(run, prompt())]);
        (queued.thread_id, queued.queued, queued.messages) = (run.into(), true, messages);
        store.commit(queued).await.unwrap();
    };
    queue("a", (0..101).map(|_| Message::User("x".to_owned())).collect()).await;
    for number in 0..20 {
        queue(&format!("b{number:02}"), vec![Message::User("x".repeat(60_000))]).await;
    }
    let claimed = store.claim(&["a".to_owned()], 30).await.unwrap();
    assert_eq!(claimed.len(), 21);
    assert!(claimed[0].read.is_none(), "it has many messages");
    let read = claimed.iter().filter(|run| run.read.is_some()).count();
    // 18 of these are more than a MiB.
    assert!((10..18).contains(&read), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_does_not_read_a_value_that_has_grown_since_it_was_measured() {
    let database = cluster().database().await;
    let (claims, changes) = (database.client().await, database.client().await);
    claims
        .batch_execute(
            "INSERT INTO threads (id, revision) VALUES ('t', 1);
             INSERT INTO state VALUES ('t', 'kit.text', '1');
             INSERT INTO runs VALUES ('r', 't', 'a', 'prompt', '', 'running', NULL, 0, 1, '', 0, 1, 1);
             INSERT INTO events VALUES ('r', 1, 1, '{}')",
        )
        .await
        .unwrap();
    let changing = async {
        while !changes.is_closed() {
            let change = "BEGIN; UPDATE threads SET revision = revision + 1;
                UPDATE state SET value = repeat('1', CASE WHEN random() < 0.5 THEN 1 ELSE 300000 END); COMMIT";
            changes.batch_execute(change).await.unwrap();
        }
    };
    let claiming = claims.batch_execute(
        "DO $$
         DECLARE
             bytes bigint;
             times_read bigint := 0;
         BEGIN
             FOR n IN 1..1000 LOOP
                 UPDATE runs SET owner = NULL;
                 SELECT octet_length(o_values::text) INTO bytes FROM claim_v2('h', '{a}', 1, '', 1000, 1000);
                 times_read := times_read + (bytes IS NOT NULL)::int;
                 ASSERT bytes IS NULL OR bytes <= 1000, 'a long value was read';
             END LOOP;
             ASSERT times_read > 0, 'nothing was read';
         END $$",
    );
    tokio::select! {
        claimed = claiming => claimed.unwrap(),
        () = changing => {}
    }
}

/// These are serialized and parsed on threads that may block, also if the runtime has only one other.
#[tokio::test]
async fn large_commits_are_read_back_whole() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    let long = "x".repeat(1 << 20);
    let mut first =
        commit("r", 1, 0, vec![started("r", prompt()), Event::MessageAdded { text: long.clone() }]);
    first.messages = vec![Message::User(long.clone())];
    let update = KeyUpdate::restored("k.long", long.clone().into());
    let change = Some(StateChange { revision: 1, updates: [update].into() });
    let second = commit("r", 1, 2, vec![Event::RunSeeded { change, messages: Vec::new() }]);
    let json = |event: &Event| serde_json::to_string(event).unwrap();
    let all = first.events().iter().chain(second.events().iter());
    let expected: Vec<String> = all.map(|numbered| json(&numbered.event)).collect();
    store.commit(first).await.unwrap();
    store.commit(second).await.unwrap();
    let read = store.events("r", 0).await.unwrap();
    assert!(read.iter().map(|numbered| json(&numbered.event)).eq(expected), "other events were read");
    assert_eq!(store.record("r").await.unwrap().damage, None);
    let thread = store.thread("t").await.unwrap();
    assert_eq!(*thread.messages, [Message::User(long.clone())]);
    assert_eq!(thread.state.get("k.long"), Some(&long.into()));
    assert_eq!(store.changes("t", 0, 10).await.unwrap().len(), 1);
}

/// Returns an event that sets a key that does not persist.
fn counted(revision: u64) -> Event {
    let update = KeyUpdate { persistent: false, ..KeyUpdate::restored("k.count", revision.into()) };
    Event::RunSeeded {
        change: Some(StateChange { revision, updates: [update].into() }),
        messages: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_does_not_persist_is_seen_with_its_commit() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt()), counted(1)])).await.unwrap();
    let behind = database.client().await;
    let mut committing = Box::pin(store.commit(commit("r", 1, 2, vec![counted(2)])));
    // Until the database has the commit, whose answer is not taken.
    let is_pending = loop {
        if futures::poll!(&mut committing).is_ready() {
            break false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        let revision: i64 = behind.query_one("SELECT revision FROM threads", &[]).await.unwrap().get(0);
        if revision == 2 {
            break true;
        }
    };
    let mut reading = Box::pin(store.thread("t"));
    let state = match tokio::time::timeout(Duration::from_millis(100), &mut reading).await {
        Ok(read) => read.unwrap().state,
        Err(_) => {
            if is_pending {
                committing.await.unwrap();
            }
            reading.await.unwrap().state
        }
    };
    assert_eq!((state.revision(), state.get("k.count")), (2, Some(&2.into())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_claim_is_given_up_can_be_claimed_again() {
    let database = cluster().database().await;
    let config = database.config().with_lease(Duration::from_secs(2)).unwrap();
    let store = Arc::new(PostgresStore::connect(config).await.unwrap());
    let mut queued = commit("r", 0, 0, vec![started("r", prompt())]);
    queued.queued = true;
    store.commit(queued).await.unwrap();
    let (holds, behind) = (database.client().await, database.client().await);
    holds.batch_execute("BEGIN; SELECT FROM threads FOR UPDATE").await.unwrap();
    let update = KeyUpdate { persistent: false, ..KeyUpdate::restored("k.count", 1.into()) };
    let changes = Arc::clone(&store);
    let changed = tokio::spawn(async move {
        changes.change("t", StateChange { revision: 1, updates: [update].into() }).await
    });
    until_locked("the change", &behind).await;
    // The claim waits for the values of the change, which do not persist.
    let agents = ["a".to_owned()];
    let given_up = tokio::time::timeout(Duration::from_millis(500), store.claim(&agents, 9)).await;
    assert!(given_up.is_err(), "{given_up:?}");
    let owned = "SELECT count(*) FROM runs WHERE owner IS NOT NULL";
    assert_eq!(behind.query_one(owned, &[]).await.unwrap().get::<_, i64>(0), 1);
    holds.batch_execute("COMMIT").await.unwrap();
    changed.await.unwrap().unwrap();
    let claimed = until("another claim", async || store.claim(&agents, 9).await.unwrap().pop()).await;
    assert_eq!(&*claimed.run_id, "r");
}
