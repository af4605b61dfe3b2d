//! Guests that compute leave the rest of the host alive.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use harness::{Bench, SLACK, anything, fault, returned, sandbox};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tollgate_agent::code::Code;
use tollgate_artifacts::{good, hostile};
use tollgate_sandbox::Limits;

const SPINNERS: usize = 8;
/// How long each of them may take.
const LIMIT: Duration = Duration::from_secs(8);

#[test]
fn t7_t2_an_echo_answers_while_more_guests_compute_than_there_are_cores() {
    let runtime = tollgate_sandbox::runtime().unwrap();
    let slowest = runtime.block_on(runtime.spawn(slowest_echo()));
    // Guests that held their thread until their time is over would make it as long as
    // that at least. On an idle machine it is some milliseconds.
    let slowest = slowest.unwrap();
    assert!(slowest < SLACK, "{slowest:?}");
}

#[test]
fn others_have_their_turn_on_the_only_thread_of_a_guest_that_computes_alone() {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).event_interval(1).global_queue_interval(1).enable_all();
    let runtime = runtime.build().unwrap();
    let turns = runtime.block_on(runtime.spawn(turns_beside_a_guest())).unwrap();
    // It computes for two seconds. One that always went first would leave one turn or two.
    assert!(turns > 20, "{turns}");
}

/// How often a task that is made, and then a timer, have their turn meanwhile.
async fn turns_beside_a_guest() -> u32 {
    let mut spinner = Bench::load(&sandbox(), &hostile::SPIN_FOR_EVER).await.unwrap();
    spinner.timeout = Duration::from_secs(2);
    spinner.limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let spinning = tokio::spawn(async move { fault(spinner.call(anything()).await).code });
    let mut turns = 0;
    while !spinning.is_finished() {
        tokio::spawn(async {}).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        turns += 1;
    }
    assert_eq!(spinning.await.unwrap(), Code::TimedOut);
    turns
}

async fn slowest_echo() -> Duration {
    let sandbox = sandbox();
    let mut spinner = Bench::load(&sandbox, &hostile::SPIN_FOR_EVER).await.unwrap();
    spinner.timeout = LIMIT;
    spinner.limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let spinner = Arc::new(spinner);
    let spinning: Vec<_> = (0..SPINNERS)
        .map(|_| {
            let spinner = Arc::clone(&spinner);
            tokio::spawn(async move {
                let began = Instant::now();
                (fault(spinner.call(anything()).await).code, began.elapsed())
            })
        })
        .collect();
    let echo = Bench::load(&sandbox, &good::ECHO).await.unwrap();
    let mut slowest = Duration::ZERO;
    while !spinning.iter().all(|guest| guest.is_finished()) {
        let began = Instant::now();
        returned(echo.call(anything()).await);
        slowest = slowest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for guest in spinning {
        let (code, took) = guest.await.unwrap();
        assert_eq!(code, Code::TimedOut);
        // T2: within a quarter of a second; the rest is for a busy machine.
        assert!(took < LIMIT + SLACK, "{took:?}");
    }
    slowest
}
