//! A server whose disk is full.

use crate::cluster::cluster;
use crate::working::{Hosts, story, until_status};
use crate::{commit, prompt, started, step};
use tollgate::RunRequest;
use tollgate::store::{RunStore, StoreErrorKind};
use tollgate_postgres::PostgresStore;

/// Makes the server answer as it does without room for a row. `scripts/chaos` fills a real disk.
const FILL: &str = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE disk_full USING MESSAGE = 'could not extend file \"base/1/2\": No space left on device';
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION full_disk()";

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_has_words_of_its_own_and_loses_nothing() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let behind = database.client().await;
    behind.batch_execute(FILL).await.unwrap();
    let refused =
        tollgate::store::StoreError::from(store.commit(commit("r", 1, 1, vec![step(1)])).await.unwrap_err());
    assert_eq!(refused.kind(), StoreErrorKind::Full);
    assert!(refused.to_string().contains("the server's disk is full; free some room there"), "{refused}");
    assert_eq!(store.events("r", 0).await.unwrap().len(), 1);
    behind.batch_execute("DROP TRIGGER full_disk ON events").await.unwrap();
    store.commit(commit("r", 1, 1, vec![step(1)])).await.unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_full_disk_stopped_continues_when_there_is_room() {
    let hosts = Hosts::new().await;
    let (drives, _) = hosts.host().await;
    let behind = hosts.database.client().await;
    let handle = drives.run(RunRequest::new(story::AGENT, "Go.").on_thread("t").detached()).await.unwrap();
    let run_id = handle.run_id.clone();
    behind.batch_execute(FILL).await.unwrap();
    let stopped = handle.wait().await.unwrap_err();
    assert_eq!(stopped.kind(), StoreErrorKind::Full, "{stopped}");
    behind.batch_execute("DROP TRIGGER full_disk ON events").await.unwrap();
    let (_works, _stop) = hosts.working().await;
    until_status(&drives, &run_id, "completed").await;
    let record = drives.store().events(&run_id, 0).await.unwrap();
    assert!((1..).zip(&record).all(|(number, event)| event.number == number));
}
