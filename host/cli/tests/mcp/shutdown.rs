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
use tollgate_artifacts::hostile;

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
        until_one_runs(&place);
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
    until_one_runs(&place);
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
