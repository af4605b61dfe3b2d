//! Replaying an attempt with its recorded inputs.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)]

mod harness;

use harness::{Bench, anything, returned, sandbox};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_agent::recorded_inputs::{MAX_READINGS, Reading, RecordedInputs};
use tollgate_artifacts::{good, hostile};
use tollgate_sandbox::{FileAccess, FileGrant, Grants};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_from_the_world_is_played_back() {
    let mut bench = Bench::load(&sandbox(), &good::DICE).await.unwrap();
    let first = bench.call(anything()).await;
    let taken = first.taken.clone().unwrap();
    assert!(taken.seed.is_some() && taken.beyond_record().is_none(), "{taken:?}");
    assert!(taken.readings.contains(&(Reading::Ready(vec![0]), 1)), "{taken:?}");
    let other = bench.call(anything()).await;
    assert_ne!(other.taken.as_ref().unwrap().seed, taken.seed);

    bench.replay = Some(Arc::clone(&taken));
    let mut quickest = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        let again = bench.call(anything()).await;
        quickest = quickest.min(began.elapsed());
        assert_eq!((again.taken.as_ref(), again.usage.fuel), (Some(&taken), first.usage.fuel));
        assert_eq!(again.outcome, first.outcome);
    }
    // The guest waits for 20 ms.
    assert!(quickest < Duration::from_millis(20), "a replay waits for nothing");
    assert_ne!(returned(first), returned(other));
}

/// An approval is for what a component says of itself, so it says the same on every machine and day.
#[tokio::test(flavor = "multi_thread")]
async fn d1_a_component_describes_itself_the_same_each_time() {
    let describe = async || {
        let bench = Bench::load(&sandbox(), &hostile::DESCRIBE_BY_THE_CLOCK).await.unwrap();
        bench.component.descriptor().tools[0].description.clone()
    };
    let first = describe().await;
    for _ in 0..20 {
        assert_eq!(describe().await, first);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_takes_nothing_has_nothing_noted() {
    let bench = Bench::load(&sandbox(), &good::ECHO).await.unwrap();
    assert_eq!(bench.call(anything()).await.taken, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn readings_are_kept_up_to_a_bound() {
    let bench = Bench::load(&sandbox(), &good::WATCHES_THE_CLOCK).await.unwrap();
    let taken = bench.call(anything()).await.taken.unwrap();
    assert_eq!(taken.readings.len(), MAX_READINGS);
    assert_eq!(taken.lost_readings, 4_000 - MAX_READINGS as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_given_no_directories() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let mut bench = Bench::load(&sandbox(), &good::COUNTS_DIRECTORIES).await.unwrap();
    assert_eq!(bench.call(anything()).await.taken, None, "it was granted none");
    bench.grants =
        Grants::default().with_files(FileGrant::open(&path, "/data", FileAccess::ReadWrite).unwrap());
    let attempt = bench.call(anything()).await;
    assert_eq!(attempt.taken.as_ref().unwrap().powers, ["files"]);
    assert_eq!(returned(attempt).result.data, 1);
    bench.replay = Some(Arc::new(RecordedInputs::default()));
    let again = bench.call(anything()).await;
    assert_eq!(again.taken.as_ref().unwrap().powers, ["files"]);
    assert_eq!(returned(again).result.data, 0);
}
