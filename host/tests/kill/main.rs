//! Tests of processes that are killed while they drive runs. Whatever the moment, the next process
//! continues, nothing that was reported is taken back, and no call that may not run twice does so.
//!
//! These tests start their own binary as the program to kill (`program.rs`). It is killed by a
//! store that ends its process right before or after a commit (`moment.rs`), or from outside at any
//! moment. `scripts/kill` runs them on a larger scale.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "../invariants/mod.rs"]
mod invariants;
mod moment;
mod place;
mod program;
mod script;
mod verdict;
#[allow(dead_code, reason = "writes are not counted here")]
#[path = "../watched/mod.rs"]
mod watched;

use moment::Moment;
use place::{Place, Started};
use program::BESIDE;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use verdict::Verdict;

/// The number of parallel stories: they wait for disks and timers most of the time.
const AT_ONCE: usize = 4;
/// More starts than this mean that a story does not end.
const MAX_STARTS: usize = 40;
/// The most commits of a story; the last moment is one that is never reached.
const MAX_COMMITS: u64 = 200;

/// Returns a number that `scripts/kill` sets, or a default that is enough for each change.
fn scale(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs the story in processes that are killed at these moments, and in a last one that is not.
fn tell(moments: &[Moment]) -> (Place, usize) {
    let place = Place::new();
    let mut killed = 0;
    for moment in moments {
        match place.start(Some(*moment)).wait() {
            Started::Done => break,
            Started::Killed => killed += 1,
        }
    }
    for _ in 0..MAX_STARTS {
        if place.start(None).wait() == Started::Done {
            return (place, killed);
        }
    }
    panic!("after {moments:?} the story does not come to its end in {MAX_STARTS} starts");
}

/// Calls `work` with 0, 1, 2 and so on from several threads, until one call returns that it was the
/// last.
fn each_until_last(work: impl Fn(u64) -> bool + Sync) {
    let (next, last) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > last.load(Ordering::Relaxed) {
                        return;
                    }
                    if work(number) {
                        last.fetch_min(number, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

#[test]
fn a_process_may_be_killed_before_and_after_every_commit() {
    let (commits, interrupted) = (AtomicU64::new(0), AtomicU64::new(0));
    each_until_last(|number| {
        let commit = number / 2 + 1;
        assert!(commit < MAX_COMMITS, "the story has no end");
        let moment = if number % 2 == 0 { Moment::Before(commit) } else { Moment::After(commit) };
        let (place, killed) = tell(&[moment]);
        let verdict = Verdict::of(&place, &format!("{moment:?}"));
        interrupted.fetch_add(verdict.interrupted, Ordering::Relaxed);
        if killed > 0 {
            commits.fetch_max(commit, Ordering::Relaxed);
        }
        killed == 0
    });
    let (commits, interrupted) = (commits.into_inner(), interrupted.into_inner());
    println!("killed before and after each of {commits} commits; {interrupted} calls were interrupted");
    assert!(commits >= 15, "only {commits} commits: the story is too short to mean anything");
    assert!(interrupted > 0, "no call was ever under way");
}

/// The process that recovers is killed, too.
#[test]
fn a_process_may_be_killed_while_it_recovers() {
    let depth = scale("TOLLGATE_KILL_PAIRS", 2);
    let starts = scale("TOLLGATE_KILL_PAIRS_FROM", 6);
    each_until_last(|number| {
        let (first, second) = (number / depth + 1, number % depth + 1);
        let moments = [Moment::After(2 * first), Moment::Before(second), Moment::After(second)];
        let (place, killed) = tell(&moments);
        Verdict::of(&place, &format!("{moments:?}"));
        killed == 0 || first >= starts
    });
}

#[test]
fn a_process_may_be_killed_at_any_moment() {
    let seed = scale("TOLLGATE_KILL_SEED", u64::from(std::process::id()));
    let stories = scale("TOLLGATE_KILL_STORIES", 16);
    println!("TOLLGATE_KILL_SEED={seed}");
    let random = Mutex::new(seed);
    let (kills, interrupted) = (AtomicU64::new(0), AtomicU64::new(0));
    each_until_last(|number| {
        let place = Place::new();
        for start in 0.. {
            assert!(start < MAX_STARTS, "story {number} of seed {seed} does not come to its end");
            let process = place.start(None);
            // An undisturbed story takes about a second.
            if start < 4 {
                let wait = next_random(&random) % 1_000_000;
                std::thread::sleep(Duration::from_micros(wait));
                process.kill();
            }
            match process.wait() {
                Started::Done => break,
                Started::Killed => kills.fetch_add(1, Ordering::Relaxed),
            };
        }
        let verdict = Verdict::of(&place, &format!("story {number} of seed {seed}"));
        interrupted.fetch_add(verdict.interrupted, Ordering::Relaxed);
        number + 1 >= stories
    });
    let (kills, interrupted) = (kills.into_inner(), interrupted.into_inner());
    println!("{stories} stories, {kills} kills, {interrupted} calls were interrupted");
    assert!(kills > 0, "nothing was killed");
}

/// A call that may not run twice has an active child next to a question to a person.
#[test]
fn w2_d8_a_run_that_was_killed_beside_a_question_waits_for_its_answer() {
    let killed = AtomicU64::new(0);
    each_until_last(|number| {
        let commit = number / 2 + 1;
        assert!(commit < MAX_COMMITS, "the story has no end");
        let moment = if number % 2 == 0 { Moment::Before(commit) } else { Moment::After(commit) };
        let place = Place::new();
        let was_killed = place.start_thread(BESIDE, Some(moment)).wait() == Started::Killed;
        let goes_on = was_killed && place.start_thread(BESIDE, None).wait() != Started::Done;
        assert!(!goes_on, "{moment:?}: nothing disturbed it, and it did not end");
        Verdict::of_beside(&place, &format!("{moment:?}"));
        killed.fetch_add(u64::from(was_killed), Ordering::Relaxed);
        !was_killed
    });
    assert!(killed.into_inner() >= 10, "the story is too short to mean anything");
}

/// Each process that continues has another version of the component.
#[test]
fn s4_what_a_call_returned_counts_though_its_tool_was_upgraded_after_a_crash() {
    let stories = scale("TOLLGATE_KILL_UPGRADES", 16);
    let returned = AtomicU64::new(0);
    each_until_last(|number| {
        let place = Place::new();
        let moment = Moment::After(number + 1);
        for start in 0.. {
            assert!(start < MAX_STARTS, "{moment:?}: the story does not come to its end");
            if place.start(Some(moment).filter(|_| start == 0)).wait() == Started::Done {
                break;
            }
            place.upgrade();
        }
        returned.fetch_add(Verdict::of_upgraded(&place, &format!("{moment:?}")), Ordering::Relaxed);
        number + 1 >= stories
    });
    assert!(returned.into_inner() > 0, "no call had returned before its turn");
}

#[test]
fn s9_a_writer_that_is_stopped_for_a_while_loses_and_doubles_nothing() {
    let place = Place::new();
    let stops = scale("TOLLGATE_KILL_STOPS", 5);
    let each = 5 * stops as usize;
    let (stopped, other) = (place.start_adding(each), place.start_adding(each));
    for _ in 0..stops {
        std::thread::sleep(Duration::from_millis(40));
        stopped.signal("-STOP");
        std::thread::sleep(Duration::from_millis(100));
        stopped.signal("-CONT");
    }
    assert_eq!((stopped.wait(), other.wait()), (Started::Done, Started::Done));
    Verdict::of_adding(&place, 2 * each..=2 * each);
}

#[test]
fn s9_four_processes_commit_to_one_thread_and_nothing_is_lost_or_doubled() {
    const PROCESSES: usize = 4;
    let place = Place::new();
    let each = scale("TOLLGATE_KILL_ADDS", 25) as usize;
    let processes: Vec<_> = (0..PROCESSES).map(|_| place.start_adding(each)).collect();
    for process in processes {
        assert_eq!(process.wait(), Started::Done);
    }
    Verdict::of_adding(&place, PROCESSES * each..=PROCESSES * each);
}

/// The killed process may have committed once more than it has reported.
#[test]
fn s9_a_writer_that_is_killed_beside_others_leaves_each_commit_that_it_reported() {
    let place = Place::new();
    let each = scale("TOLLGATE_KILL_ADDS", 25) as usize;
    let processes: Vec<_> = (0..3).map(|_| place.start_adding(each)).collect();
    let killed = place.start_adding(usize::MAX);
    let others = processes.into_iter().map(|process| assert_eq!(process.wait(), Started::Done)).count();
    while place.added(&killed) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill();
    let id = killed.id();
    assert_eq!(killed.wait(), Started::Killed);
    let reported = others * each + place.added_by(id);
    Verdict::of_adding(&place, reported..=reported + 1);
}

/// A linear congruential generator by Knuth. It is good enough to choose moments, and repeatable
/// with the same seed.
fn next_random(state: &Mutex<u64>) -> u64 {
    let mut state = state.lock().unwrap();
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}
