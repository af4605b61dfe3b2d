//! Guests that compute leave the rest of the host responsive.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use harness::{Bench, SLACK, anything, fault, returned, sandbox};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tollgate_agent::code::Code;
use tollgate_artifacts::{Expectation, Guest, good, hostile};
use tollgate_sandbox::{Limits, Report, ReportSink, Sandbox, SandboxConfig};
use wasmtime::Engine;

const SPINNERS: usize = 8;
/// The time limit of each of them.
const LIMIT: Duration = Duration::from_secs(8);

#[test]
fn t7_t2_an_echo_answers_while_more_guests_compute_than_there_are_cores() {
    let runtime = tollgate_sandbox::runtime().unwrap();
    let slowest = runtime.block_on(runtime.spawn(slowest_echo()));
    // If guests held their thread until their deadline, this would be at least that long. On an
    // idle machine it is a few milliseconds.
    let slowest = slowest.unwrap();
    assert!(slowest < SLACK, "{slowest:?}");
}

#[test]
fn others_have_their_turn_on_the_only_thread_of_a_guest_that_computes_alone() {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).event_interval(1).global_queue_interval(1).enable_all();
    let runtime = runtime.build().unwrap();
    let turns = runtime.block_on(runtime.spawn(turns_beside_a_guest())).unwrap();
    // It computes for two seconds. If it always had priority, there would be only one or two
    // turns.
    assert!(turns > 20, "{turns}");
}

/// One tool is called more often than calls run at once, and never returns.
#[test]
fn t7_calls_of_one_tool_that_fill_the_host_do_not_keep_another_from_running() {
    let runtime = tollgate_sandbox::runtime().unwrap();
    runtime.block_on(runtime.spawn(echo_in_a_flood())).unwrap();
}

async fn echo_in_a_flood() {
    let sandbox =
        Sandbox::new(SandboxConfig { concurrent_calls: 4, waiting_calls: 8, ..SandboxConfig::default() });
    let sandbox = sandbox.unwrap();
    let mut spinner = Bench::load(&sandbox, &hostile::SPIN_FOR_EVER).await.unwrap();
    spinner.timeout = Duration::from_secs(60);
    spinner.limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let spinner = Arc::new(spinner);
    let spinning: Vec<_> = (0..20)
        .map(|_| {
            let spinner = Arc::clone(&spinner);
            tokio::spawn(async move { fault(spinner.call(anything()).await).code })
        })
        .collect();
    let echo = Bench::load(&sandbox, &good::ECHO).await.unwrap();
    // Calls that neither run nor may wait were refused.
    while spinning.iter().filter(|call| call.is_finished()).count() < 20 - 3 - 6 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..10 {
        returned(echo.call(anything()).await);
    }
    let occupancy = sandbox.occupancy();
    assert_eq!((occupancy.running_calls, occupancy.waiting_calls), (3, 6), "none of the flood has ended");
    spinner.cancel.cancel();
    for call in spinning {
        assert!(matches!(call.await.unwrap(), Code::Cancelled | Code::Overloaded));
    }
}

/// Reports a piece of output, and continues for a moment.
const TELLS_AND_GOES_ON: Guest = Guest {
    name: "tells-and-goes-on",
    attack: "",
    limit: "",
    expects: Expectation::Succeeds,
    source: r#"
        (import "tollgate:tool/call@0.1.0" "stream-output" (func $stream (param i32 i32)))
        (data (memory $memory) (i32.const 16) "halfway")
        (func $execute (param $call i32) (result i32)
          (local $left i32)
          (call $stream (i32.const 16) (i32.const 7))
          (local.set $left (i32.const 100))
          (loop $again
            (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
          (global.get $returns))"#,
};

/// A report sink that advances the clock that interrupts guests by this many ticks for each report.
struct Ticks(Engine, usize);

impl ReportSink for Ticks {
    fn offer(&self, _report: Report) -> bool {
        (0..self.1).for_each(|_| self.0.increment_epoch());
        true
    }
}

#[tokio::test]
async fn a_quick_call_does_not_give_way_to_others_for_the_one_tick_that_meets_it() {
    let sandbox = sandbox();
    let bench = Bench::load(&sandbox, &TELLS_AND_GOES_ON).await.unwrap();
    let mut done_at_once = 0;
    // The sandbox's own clock may tick meanwhile, too.
    for _ in 0..20 {
        let [one, two] = [1, 2].map(|ticks| Arc::new(Ticks(sandbox.engine().clone(), ticks)));
        done_at_once += usize::from(futures::poll!(pin!(bench.call_with(anything(), one))).is_ready());
        assert!(futures::poll!(pin!(bench.call_with(anything(), two))).is_pending());
    }
    assert!(done_at_once > 0);
}

/// Returns how often a new task followed by a timer completes meanwhile.
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
