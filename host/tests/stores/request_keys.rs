//! The rules for the keys of requests. The tests of each of their stores include this file.
#![allow(clippy::unwrap_used)]

use tollgate::store::{RequestKeyStore, ReservedKey};

/// Checks two processes that share the keys.
pub(crate) async fn keys_of_requests_are_shared(one: &dyn RequestKeyStore, two: &dyn RequestKeyStore) {
    let (key, body) = ([1; 32], [2; 32]);
    let first = one.reserve(&key, &body, "run-1").await.unwrap();
    let at_ms = first.inserted_at_ms.unwrap();
    let known = ReservedKey { run_id: "run-1".to_owned(), body, inserted_at_ms: None };
    assert_eq!(two.reserve(&key, &[3; 32], "run-2").await.unwrap(), known);
    assert_eq!(one.reserve(&key, &body, "run-1").await.unwrap(), known, "also with the same id of a run");
    assert!(two.share(&key, "run-1").await.unwrap());
    one.release(&key, "run-1", at_ms).await.unwrap();
    let reserved = two.reserved(&key).await.unwrap();
    assert_eq!(reserved.as_deref(), Some("run-1"), "the other process may start it");
    two.redirect(&key, "run-3").await.unwrap();
    assert_eq!(one.reserved(&key).await.unwrap().as_deref(), Some("run-3"));
    // Without the other process, the key is free again.
    let key = [4; 32];
    let alone = one.reserve(&key, &body, "run-4").await.unwrap();
    one.release(&key, "run-4", alone.inserted_at_ms.unwrap()).await.unwrap();
    assert_eq!(two.reserved(&key).await.unwrap(), None);
    assert!(!two.share(&key, "run-4").await.unwrap());
    // Of requests that race, one inserts the row.
    let (key, both) = ([5; 32], [one, two]);
    let race =
        (0..8).map(|n| async move { both[n % 2].reserve(&key, &body, &format!("run-{n}")).await.unwrap() });
    let rows = futures::future::join_all(race).await;
    assert_eq!(rows.iter().filter(|row| row.inserted_at_ms.is_some()).count(), 1);
    assert!(rows.iter().all(|row| row.run_id == rows[0].run_id), "{rows:?}");
}
