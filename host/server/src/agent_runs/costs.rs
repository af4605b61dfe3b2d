//! Measures what encoding costs for each event, beside the native stream in the same run:
//! `scripts/bench protocols`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use super::Encode;
use super::fixture::{self, Recording, encode};
use crate::sse::{StreamOptions, event};
use serde_json::json;
use std::time::{Duration, Instant};
use tollgate::{RunUpdate, ScriptedTurn};

/// How often the whole run is encoded.
const ROUNDS: usize = 300;
/// The turns of the run, and the words of each.
const TURNS: (usize, usize) = (6, 60);

/// Records a run with much text and some calls.
pub(crate) async fn long() -> Recording {
    let text = vec!["word"; TURNS.1].join(" ");
    let call = |_| ScriptedTurn::calls([("count", json!({"text": text}))]).with_text(text.clone());
    let turns = (1..TURNS.0).map(call).chain([ScriptedTurn::text(text.clone())]).collect();
    fixture::record(turns, |_| unreachable!("nothing waits")).await
}

/// Prints the median times of one update, natively and in a protocol whose events `write` turns into
/// their data, which is framed as a server-sent event. The two take turns, so that both have the same neighbours on the machine.
pub(crate) fn report<E: Encode>(
    name: &str,
    updates: &[RunUpdate],
    mut encoder: impl FnMut() -> E,
    write: impl Fn(&E::Wire) -> String,
) {
    let (mut native, mut ours, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for update in updates {
            bytes += event(update, StreamOptions { children: true }).map_or(0, |event| event.len());
        }
        native.push(began.elapsed());
        let began = Instant::now();
        let framed = |wire: &E::Wire| format!("data: {}\n\n", write(wire)).len();
        bytes += encode(&mut encoder(), updates).iter().map(framed).sum::<usize>();
        ours.push(began.elapsed());
    }
    let each = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[ROUNDS / 2].as_secs_f64() * 1e6 / f64::from(u32::try_from(updates.len()).unwrap())
    };
    let (native, ours) = (each(&mut native), each(&mut ours));
    println!("| {name} | {native:.1} us | {ours:.1} us | {:.1} us |", ours - native);
    assert!(bytes > 0);
}
