//! Runs all hostile guests at random for a long time, together with good tools: no good call
//! fails, none is delayed beyond its fair share, and nothing is left behind.
//!
//! The fair share is measured in the same process, alternating with the attacks: the same good
//! calls run beside the same number of neighbours that only compute. Hostile guests may delay
//! them no more than those do, except for a factor that allows for other work on the machine.
//!
//! `scripts/soak` makes a hundred thousand calls. The regular test makes two thousand.

mod lane;
mod lateness;
pub(crate) mod left_behind;

use crate::rig::{Loaded, Rig};
use lane::{Cast, Done, Lane, Part};
use lateness::Lateness;
use left_behind::Footprint;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of lanes with good calls: few, so that they are a minority.
const GOOD_LANES: u64 = 2;
/// The number of their neighbours: four for each of two cores.
const NEIGHBOURS: u64 = 8;
/// The number of alternations between attacks and neighbours that only compute.
const ROUNDS: u64 = 6;
/// The number of rounds before memory must stop growing: the memory that the allocator keeps
/// between blocks in use grows until every attack was made beside every other.
const SETTLING: u64 = 3;

/// Returns a number set by `scripts/soak`, or the default for every change.
fn scale(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs an ignored test in a separate process whose allocator has one arena and returns large
/// blocks immediately. Otherwise the allocator would keep each thread's peak between blocks in
/// use, which could not be distinguished from a leak.
pub(crate) fn in_a_measured_process(test: &str) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--ignored", "--exact", test, "--nocapture"]).env("MALLOC_ARENA_MAX", "1");
    process.env("MALLOC_MMAP_THRESHOLD_", "65536").env("MALLOC_TRIM_THRESHOLD_", "131072");
    assert!(process.status().unwrap().success());
}

#[test]
fn hostile_neighbours_cost_good_calls_their_fair_share_and_leave_nothing_behind() {
    in_a_measured_process("soak::a_soak");
}

#[test]
#[ignore = "the test above starts it"]
fn a_soak() {
    let calls = scale("TOLLGATE_SOAK_CALLS", 2_000);
    let seed = scale("TOLLGATE_SOAK_SEED", u64::from(std::process::id()));
    println!("{calls} calls, seed {seed}: TOLLGATE_SOAK_SEED={seed} scripts/soak {calls}");
    let rig = Rig::new();
    let cast = Arc::new(Cast::load(&rig));
    // Warms up the pool, the allocator, threads and caches.
    let mut lateness = Lateness::default();
    round(&rig, &cast, calls / ROUNDS, seed, &mut Lateness::default());
    let mut before = Footprint::by(&rig);
    for number in 1..=ROUNDS {
        round(&rig, &cast, calls / ROUNDS, seed + number, &mut lateness);
        let held = Footprint::by(&rig);
        held.print(&format!("round {number}"));
        if number <= SETTLING {
            before = before.settling_at(&held);
        }
    }
    lateness.print();
    before.print("before");
    Footprint::once_at_rest(&rig, &before).print("after");
    lateness.check();
}

/// Makes good calls beside neighbours that compute, then beside attacks; `calls` in total.
fn round(rig: &Rig, cast: &Arc<Cast>, calls: u64, seed: u64, lateness: &mut Lateness) {
    lateness.fair.extend(part(rig, cast, Part::Fair, calls / 4, seed).good);
    let done = part(rig, cast, Part::Hostile, calls - calls / 4, !seed);
    lateness.attacks += done.others;
    lateness.hostile.extend(done.good);
    lateness.hold(done.held);
}

/// Runs all lanes until together they have made `calls` calls.
fn part(rig: &Rig, cast: &Arc<Cast>, part: Part, calls: u64, seed: u64) -> Done {
    let left = Arc::new(AtomicU64::new(calls));
    let lanes: Vec<_> = (0..GOOD_LANES + NEIGHBOURS)
        .map(|number| {
            let part = if number < GOOD_LANES { Part::Good } else { part };
            let lane = Lane::new(part, cast, rig.sandbox(), seed.wrapping_mul(31).wrapping_add(number));
            let left = Arc::clone(&left);
            let another = move || {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            };
            rig.runtime().spawn(lane.run(another))
        })
        .collect();
    let mut all = Done::default();
    for lane in lanes {
        let done = rig.runtime().block_on(lane).unwrap();
        assert!(done.problems.is_empty(), "{:#?}", done.problems);
        all.add(done);
    }
    all
}
