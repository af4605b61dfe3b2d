//! Tests of signals that end the server, and of the processes of the servers that it uses.

use crate::at_work::{LOOKS, until_one_runs};
use crate::http::{Server, headers_of};
use crate::http_clients::spins;
use crate::place::Place;
use crate::raw::Raw;
use crate::remote::{TOOL, answers, scripted, server};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tollgate_artifacts::{good, hostile};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const LIMITS: &str = "[limits]\ntimeout_ms = 120_000\nfuel = 900_000_000_000\n";

/// Creates a place with this program's tools and a server `other`. The server ends neither with
/// its input nor on request, and it has started a process of its own.
fn with_stubborn_server() -> Place {
    let answering = server(TOOL, &answers(r#"{"content":[]}"#));
    let script = format!(
        "trap '' TERM HUP INT\necho $$ > leader\nsh -c 'trap \"\" TERM HUP INT; echo $$ > started; \
         while :; do sleep 0.2; done' &\n{answering}\nwhile :; do sleep 0.2; done\n"
    );
    let place = scripted(&script).with_tools(&[LOOKS, hostile::SPIN_FOR_EVER]);
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    place.with_config(&format!("{config}{LIMITS}"))
}

/// Returns the process whose id is in the file.
fn process(place: &Place, file: &str) -> String {
    let began = Instant::now();
    loop {
        let id = std::fs::read_to_string(place.path().join(file)).unwrap_or_default();
        if id.ends_with('\n') {
            return id.trim().to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "{file} is never written");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether the process is running and not just a zombie.
fn lives(id: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

fn until_gone(id: &str) {
    let began = Instant::now();
    while lives(id) {
        assert!(began.elapsed() < PATIENCE, "the process {id} is left behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the newest run of this tool.
fn run_of(place: &Place, tool: &str) -> Value {
    let runs = place.type_in(&["runs", "--limit", "100", "--json"]).ends_with(0).json();
    let found = runs.as_array().unwrap().iter().find(|run| run["title"] == tool);
    found.unwrap_or_else(|| panic!("{tool} is not in {runs}")).clone()
}

#[test]
fn x1_a_signal_cancels_calls_records_them_and_ends_the_servers() {
    for signal in ["-TERM", "-HUP", "-INT"] {
        let place = with_stubborn_server();
        let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
        let (leader, started) = (process(&place, "leader"), process(&place, "started"));
        raw.begin_asking(1, "tools/call", json!({"name": "spin-for-ever", "arguments": {}}));
        until_one_runs(&place, &[]);
        // The record of this call is deferred: it is answered before it is stored.
        raw.call("looks", json!({}));
        assert_eq!(raw.signalled(signal), 0, "{signal}");
        until_gone(&leader);
        until_gone(&started);
        assert_eq!(run_of(&place, "looks")["status"], "completed", "{signal}");
        assert_eq!(run_of(&place, "spin-for-ever")["status"], "cancelled", "{signal}");
    }
}

#[test]
fn a_server_and_what_it_started_are_killed_with_a_host_that_is_killed() {
    let place = with_stubborn_server();
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let (leader, started) = (process(&place, "leader"), process(&place, "started"));
    assert!(lives(&leader) && lives(&started));
    raw.kill();
    until_gone(&leader);
    until_gone(&started);
}

#[test]
fn x1_over_http_a_signal_cancels_what_runs_and_records_it() {
    let place = Place::new().with_tools(&[hostile::SPIN_FOR_EVER]).with_config(LIMITS);
    let mut server = Server::start(&place, &[]);
    let session = server.begin();
    let _spinning = server.open(&server.request(&headers_of(&session), &spins(1, 0)));
    until_one_runs(&place, &[]);
    assert_eq!(server.signalled("-TERM"), 0);
    assert_eq!(run_of(&place, "spin-for-ever")["status"], "cancelled");
}

/// Sends a signal to a program, and returns its exit code.
pub(crate) fn signalled(child: &mut Child, signal: &str) -> i32 {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| panic!("{signal} ended it: {status}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the server does not end");
}

/// Starts an idle server of the project, and counts to two beside it. Each call says the number before.
fn counting_beside_an_idle_server() -> (Place, Raw) {
    let place = Place::new().with_tools(&[good::ADDER]);
    let idle = Raw::begin(&place, "2025-11-25", json!({}));
    for count in ["0", "1"] {
        place.type_in(&COUNT).ends_with(0).answers(count);
    }
    (place, idle)
}

const COUNT: [&str; 4] = ["call", "adder", "--thread", "t"];

#[test]
fn s9_no_process_writes_beside_one_whose_files_are_gone() {
    for gone in [&["-shm"][..], &["-wal"], &["-wal", "-shm"]] {
        let (place, mut idle) = counting_beside_an_idle_server();
        let file = |ending: &str| place.path().join(format!("data/tollgate.db{ending}"));
        gone.iter().for_each(|ending| std::fs::remove_file(file(ending)).unwrap());
        let refused = place.type_in(&COUNT).ends_with(1);
        let refused = refused.says(&format!("lost {}", file(gone[0]).display()));
        refused.says("end every process that uses it, then start again");
        idle.leave();
        // Without the log, only what the database has is left.
        let count = if gone == ["-shm"] { "2" } else { "" };
        place.type_in(&COUNT).ends_with(0).answers(count);
        place.type_in(&["store", "verify"]).ends_with(0);
    }
}

#[test]
fn s9_a_process_that_ends_does_not_take_back_commits_that_it_could_not_see() {
    let (place, mut idle) = counting_beside_an_idle_server();
    let file = place.path().join("data/tollgate.db");
    std::fs::remove_file(place.path().join("data/tollgate.db-shm")).unwrap();
    // Another program does not notice. It makes an index of the log that the server does not see.
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("UPDATE runs SET title = 'changed'").unwrap();
    drop(other);
    idle.leave();
    let runs = place.type_in(&["runs", "--json"]).ends_with(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 2);
    assert!(runs.as_array().unwrap().iter().all(|run| run["title"] == "changed"), "{runs}");
}
