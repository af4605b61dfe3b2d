//! Measures the capacity left for others while eight calls never end, and how those end.

use crate::at;
use crate::client::tollgate;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tollgate_artifacts::hostile;

const ENDLESS: u64 = 8;
/// The first id of the calls that never end.
const FIRST: u64 = 1_000_000;
const TIMEOUT_MS: f64 = 5_000.0;

/// Prints the remaining capacity, the delay of the calls' end, and their leftovers.
pub(crate) fn table(place: &Path) {
    crate::put(place, &hostile::SPIN_FOR_EVER);
    crate::put(place, &hostile::EAT_MEMORY);
    let limits = format!("[limits]\ntimeout_ms = {TIMEOUT_MS}\nfuel = 900_000_000_000\n");
    std::fs::write(place.join("tollgate.toml"), limits).unwrap();
    beside(place);
    cancelled(place);
    hog(place);
}

fn beside(place: &Path) {
    let mut client = tollgate(place);
    client.echo("x");
    let began = Instant::now();
    (FIRST..FIRST + ENDLESS).for_each(|id| client.begin(id, hostile::SPIN_FOR_EVER.name));
    let (mut echoes, mut lists) = (Vec::new(), Vec::new());
    while began.elapsed() < Duration::from_secs(4) {
        echoes.push(client.echo("x") / 1e3);
        lists.push(client.ask("tools/list", &json!({})) / 1e3);
    }
    println!(
        "under {ENDLESS} endless calls: echo {:.1} ms, tools/list {:.1} ms (p99 of {})",
        at(&mut echoes, 99),
        at(&mut lists, 99),
        echoes.len()
    );
    let mut late: Vec<f64> = (FIRST..FIRST + ENDLESS)
        .map(|id| {
            let line = client.answer(id);
            assert!(line.contains("timed_out"), "{line}");
            began.elapsed().as_secs_f64() * 1e3 - TIMEOUT_MS
        })
        .collect();
    println!("each ends as timed out, the last {:.0} ms after its limit", at(&mut late, 100));
    println!("at the end of input the process ends in {:.0} ms", client.leave());
    let mut client = tollgate(place);
    (FIRST..FIRST + ENDLESS).for_each(|id| client.begin(id, hostile::SPIN_FOR_EVER.name));
    client.echo("x");
    println!("and with {ENDLESS} endless calls under way in {:.0} ms", client.leave());
}

/// A cancelled call has no answer: the store records when it ended.
fn cancelled(place: &Path) {
    let mut took = Vec::new();
    let mut client = tollgate(place);
    for round in 0..5 {
        let first = FIRST + 100 * round;
        (first..first + ENDLESS).for_each(|id| client.begin(id, hostile::SPIN_FOR_EVER.name));
        client.echo("x");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as f64;
        client.cancel(first);
        std::thread::sleep(Duration::from_millis(500));
        took.push(newest_end(place) - now);
        (first + 1..first + ENDLESS).for_each(|id| client.cancel(id));
        std::thread::sleep(Duration::from_millis(500));
    }
    println!(
        "a cancelled call under that load ends in {:.0} ms (worst of {})",
        at(&mut took, 100),
        took.len()
    );
}

/// Returns when the last cancelled run ended, in milliseconds since the Unix epoch.
fn newest_end(place: &Path) -> f64 {
    let store = rusqlite::Connection::open(place.join("data/tollgate.db")).unwrap();
    let newest = "SELECT max(updated_at_ms) FROM runs WHERE status = 'cancelled'";
    store.query_row(newest, [], |row| row.get(0)).unwrap()
}

fn hog(place: &Path) {
    let mut client = tollgate(place);
    client.echo("x");
    let before = client.resident_mib();
    for id in FIRST..FIRST + 3 {
        client.begin(id, hostile::EAT_MEMORY.name);
        let answer: Value = serde_json::from_str(&client.answer(id)).unwrap();
        assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "out_of_memory", "{answer}");
    }
    client.echo("x");
    println!(
        "resident: {before:.1} MiB before a tool that eats memory, {:.1} MiB after",
        client.resident_mib()
    );
}
