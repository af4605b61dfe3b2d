//! All hostile guests at random, for long, with good tools among them: no good call
//! fails, none is later than its neighbours' fair share, and nothing stays behind.
//!
//! What is fair is measured, in the same process and in turn with the attacks: the
//! same good calls run beside as many neighbours that only compute. Hostile ones may
//! not hold them up by more than those do, save for a factor that leaves room for a
//! machine with other work.
//!
//! `scripts/soak` makes a hundred thousand calls. Among the tests it is two thousand.

mod lane;
mod lateness;
mod left_behind;

use crate::rig::{Loaded, Rig};
use lane::{Cast, Done, Lane, Part};
use lateness::Lateness;
use left_behind::Held;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of good calls: few, for they are to be a minority.
const GOOD_LANES: u64 = 2;
/// Of their neighbours: four for each of two cores.
const NEIGHBOURS: u64 = 8;
/// How often attacks and neighbours that only compute take turns.
const ROUNDS: u64 = 6;
/// How many of them pass before memory has to stay where it is: what the allocator keeps
/// between what is in use grows until every attack was made beside every other.
const SETTLING: u64 = 3;

/// A number that `scripts/soak` sets, or what is enough for every change.
fn scale(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// In a process of its own whose allocator has one arena, and hands large blocks back at
/// once. Otherwise it keeps what each thread needed at most, between what is still in use,
/// and nobody could tell that from a leak.
#[test]
fn hostile_neighbours_cost_good_calls_their_fair_share_and_leave_nothing_behind() {
    let mut soak = Command::new(std::env::current_exe().unwrap());
    soak.args(["--ignored", "--exact", "soak::a_soak", "--nocapture"]).env("MALLOC_ARENA_MAX", "1");
    soak.env("MALLOC_MMAP_THRESHOLD_", "65536").env("MALLOC_TRIM_THRESHOLD_", "131072");
    assert!(soak.status().unwrap().success());
}

#[test]
#[ignore = "the test above starts it"]
fn a_soak() {
    let calls = scale("TOLLGATE_SOAK_CALLS", 2_000);
    let seed = scale("TOLLGATE_SOAK_SEED", u64::from(std::process::id()));
    println!("{calls} calls, seed {seed}: TOLLGATE_SOAK_SEED={seed} scripts/soak {calls}");
    let rig = Rig::new();
    let cast = Arc::new(Cast::load(&rig));
    // Warms what stays warm: the pool, the allocator, threads, caches.
    let mut lateness = Lateness::default();
    round(&rig, &cast, calls / ROUNDS, seed, &mut Lateness::default());
    let mut before = Held::by(&rig);
    for number in 1..=ROUNDS {
        round(&rig, &cast, calls / ROUNDS, seed + number, &mut lateness);
        let held = Held::by(&rig);
        held.print(&format!("round {number}"));
        if number <= SETTLING {
            before = before.settling_at(&held);
        }
    }
    lateness.print();
    before.print("before");
    Held::once_at_rest(&rig, &before).print("after");
    lateness.check();
}

/// Good calls beside neighbours that compute, then beside attacks, in all so many.
fn round(rig: &Rig, cast: &Arc<Cast>, calls: u64, seed: u64, lateness: &mut Lateness) {
    lateness.fair.extend(part(rig, cast, Part::Fair, calls / 4, seed).good);
    let done = part(rig, cast, Part::Hostile, calls - calls / 4, !seed);
    lateness.attacks += done.others;
    lateness.hostile.extend(done.good);
    lateness.hold(done.held);
}

/// Runs all lanes until together they have made so many calls.
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
