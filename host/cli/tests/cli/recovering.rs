//! Tests of the program's messages after it was killed, and of how an interrupted run continues.

use crate::at_work::{LOOKS, until_one_runs};
use crate::cancelling::send;
use crate::place::{Place, Said};
use crate::terminal::on_terminal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use tollgate::store::SqliteStore;
use tollgate_artifacts::{Expectation, Guest, good, hostile};

const CONFIG: &str =
    "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n[limits]\ntimeout_ms = 120_000\n";
const ASKS_AND_SLEEPS: &str = "[[turn]]\ncalls = [{ name = \"suspends\" }, { name = \"sleep-for-ever\" }]\n";
const ENDS: &str = "[[turn]]\ntext = \"It is decided.\"\n";

/// Returns a place, and a run on the thread `t` that was killed while one of its calls asked a
/// person and another ran.
fn killed() -> (Place, String) {
    let place = Place::new().with_tools(&[good::SUSPENDS, hostile::SLEEP_FOR_EVER]).with_config(CONFIG);
    place.write("turns.toml", ASKS_AND_SLEEPS);
    let run = killed_at(&place, "call_suspended");
    (place, run)
}

/// Starts a run on the thread `t`, kills it at the first event of this type, and returns its id. The next
/// turn of the model ends the run.
fn killed_at(place: &Place, event_type: &str) -> String {
    let mut command = place.program(&["run", "--json", "--thread", "t", "Go."]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut run = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let Ok(event) = serde_json::from_str::<Value>(&line.unwrap()) else { break };
        if event["type"] == event_type {
            run = event["run_id"].as_str().unwrap().to_owned();
            send("-KILL", child.id());
        }
    }
    child.wait().unwrap();
    place.write("turns.toml", ENDS);
    run
}

/// A tool that may run twice, and sleeps until it is stopped.
const SLEEPS: Guest = Guest {
    name: "sleeps",
    attack: "",
    limit: "",
    expects: Expectation::Code("timed_out"),
    source: r#";; Sleeps, and may run twice.
;;
;; descriptor: {"tools": [{"execution": {"idempotent": true}}]}
;; imports: wasi:clocks/monotonic-clock wasi:io/poll

(import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration"
  (func $subscribe (param i64) (result i32)))
(import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))
(func $execute (param $call i32) (result i32)
  (call $block (call $subscribe (i64.const 3600000000000)))
  (global.get $returns))
"#,
};

/// Returns a place, and a run on the thread `t` that was killed while its call ran.
fn killed_while_it_sleeps() -> (Place, String) {
    // Runs keep the limits with which they began.
    let place = Place::new().with_tools(&[SLEEPS]).with_config(&CONFIG.replace("120_000", "300"));
    place.write("turns.toml", "[[turn]]\ncalls = [{ name = \"sleeps\" }]\n");
    let run = killed_at(&place, "call_started");
    (place, run)
}

#[test]
fn w6_a_call_that_runs_again_is_named_when_its_run_is_resumed() {
    let (place, run) = killed_while_it_sleeps();
    let resumed = place.type_in(&["resume", &run]).ends_with(0).answers("It is decided.");
    resumed.says("the process had ended; `sleeps` runs again (attempt ");
}

#[test]
fn w7_a_message_says_which_interrupted_run_it_finished() {
    let (place, run) = killed_while_it_sleeps();
    place.write("turns.toml", format!("{ENDS}{ENDS}"));
    let next = place.type_in(&["run", "--thread", "t", "And now?"]).ends_with(0);
    next.says(&format!("finished the interrupted run {}: completed", &run[28..]));
}

fn status(place: &Place) -> Value {
    place.type_in(&["runs", "--json"]).json()[0]["status"].clone()
}

#[test]
fn w7_a_message_after_a_crash_stops_at_the_question_that_nobody_has_seen() {
    let (place, run) = killed();
    let shown = place.type_in(&["show", &run]).ends_with(0).answers("Shall I?");
    shown.answers(&format!("resume {}", &run[28..]));
    let stopped = place.type_in(&["run", "--thread", "t", "And now?"]).ends_with(3);
    stopped.says("was interrupted").says("Shall I?").says("the message was not sent");
    let waiting = place.type_in(&["runs", "--status", "waiting", "--json"]).json();
    assert_eq!(waiting[0]["run_id"], run.as_str());
    let record = place.type_in(&["show", &run, "--json"]).stdout;
    assert!(!record.contains("superseded") && !record.contains("And now?"), "{record}");
    // A person who has seen the question may leave it unanswered.
    place.type_in(&["run", "--thread", "t", "And now?"]).ends_with(0).answers("It is decided.");
}

#[test]
fn w6_an_interrupted_run_is_resumed_and_decided() {
    let (place, run) = killed();
    let resumed = place.type_in(&["resume", &run]).ends_with(3);
    resumed.says("interrupted").says("Shall I?").says(&format!("decide {}", &run[28..]));
    assert_eq!(status(&place), "waiting");
    place.type_in(&["resume", &run]).ends_with(3).says("Shall I?");
    let decide = ["decide", &run, "call-1-1", "--resume", "{\"approved\": true}"];
    place.type_in(&decide).ends_with(0).answers("It is decided.");
    let next = place.type_in(&["run", "--thread", "t", "And now?"]).ends_with(0);
    assert!(!next.stderr.contains("finished the interrupted run"), "{}", next.stderr);
    place.type_in(&["resume", &run]).ends_with(0).says("has ended: completed");
    place.type_in(&["resume", "0000"]).ends_with(2).says("there is no run 0000");
}

#[test]
fn w1_on_a_terminal_a_resumed_run_asks_at_once() {
    let (place, run) = killed();
    place.write("typed", "{\"approved\": true}\n");
    let typed = std::fs::File::open(place.path().join("typed")).unwrap();
    let output = on_terminal(&format!("resume {run}"))
        .current_dir(place.path())
        .env("TOLLGATE_DATA", place.path().join("data"))
        .stdin(Stdio::from(typed))
        .output()
        .expect("`script`, of util-linux, gives programs a terminal");
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{screen}");
    for words in ["Shall I?", "It is decided."] {
        assert!(screen.contains(words), "{words:?} is not on the screen:\n{screen}");
    }
}

/// Kills the program in the middle of a direct call of a tool that sleeps. Returns the call's run, which
/// is none of these.
fn killed_call(place: &Place, known: &[String]) -> String {
    let mut command = place.program(&["call", "sleep-for-ever", "--thread", "t"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run = until_one_runs(place, known);
    send("-KILL", child.id());
    child.wait().unwrap();
    run
}

#[test]
fn a9_a_direct_call_that_is_killed_is_in_the_record_as_interrupted() {
    let place = Place::new().with_tools(&[hostile::SLEEP_FOR_EVER]).with_config(CONFIG);
    let run = killed_call(&place, &[]);
    place.type_in(&["runs"]).ends_with(0).answers("interrupted");
    place.type_in(&["runs", "--status", "interrupted"]).ends_with(0).answers(&run[28..]);
    let ended = place.type_in(&["resume", &run, "--json"]).ends_with(1).json();
    assert_eq!(ended["error"]["code"], "interrupted", "{ended}");
    let none = place.type_in(&["runs", "--status", "interrupted", "--json"]).ends_with(0).json();
    assert_eq!(none, serde_json::json!([]));
    assert_eq!(status(&place), "failed");
}

#[test]
fn a9_the_next_start_ends_direct_calls_that_were_killed_and_no_others() {
    let place =
        Place::new().with_tools(&[hostile::SLEEP_FOR_EVER, good::SUSPENDS, LOOKS]).with_config(CONFIG);
    place.type_in(&["call", "suspends"]).ends_with(3);
    let first = killed_call(&place, &[]);
    let second = killed_call(&place, std::slice::from_ref(&first));
    let killed = [first, second];
    let mut command = place.program(&["call", "sleep-for-ever"]);
    let mut lives = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let open = |status: &str| place.type_in(&["runs", "--status", status, "--json"]).json();
    let kept = until_one_runs(&place, &killed);
    place.type_in(&["call", "looks"]).ends_with(0).answers("1");

    for run in &killed {
        let shown = place.type_in(&["show", run, "--json"]).ends_with(0).stdout;
        let ended = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ended = ended.into_iter().find(|event| event["type"] == "call_finished");
        let fault = &ended.unwrap_or_else(|| panic!("{run} is open: {shown}"))["end"]["fault"];
        assert_eq!(fault["code"], "interrupted", "{shown}");
        assert!(fault["message"].as_str().unwrap().contains("It may have taken effect"), "{fault}");
    }
    let (running, waiting) = (open("running"), open("waiting"));
    assert_eq!((running.as_array().unwrap().len(), waiting.as_array().unwrap().len()), (1, 1));
    assert_eq!(running[0]["run_id"], kept.as_str(), "another process carries it");
    let audit = place.type_in(&["audit", "--json"]).ends_with(0).stdout;
    assert_eq!(audit.matches("\"interrupted\"").count(), 2, "{audit}");
    lives.kill().unwrap();
    lives.wait().unwrap();
}

/// Runs a command with a limit on the size of files that is reached when the store writes. The
/// signal that the kernel sends then ends a program that does not handle it.
fn on_a_full_disk(place: &Place, kib: u64, command: &str) -> Said {
    let program = env!("CARGO_BIN_EXE_tollgate");
    let typed = format!("ulimit -f {kib}; exec env --default-signal=XFSZ {program} {command}");
    let mut shell = assert_cmd::Command::new("bash");
    shell.args(["-c", &typed]).current_dir(place.path());
    for (name, value) in place.program(&[]).get_envs() {
        value.map(|value| shell.env(name, value));
    }
    Said::of(&shell.assert())
}

/// Whatever room is left, the answer says whether the tool has run. `scripts/kill` tries more levels.
#[test]
fn a9_on_a_disk_with_any_room_the_answer_says_whether_the_tool_has_run() {
    let levels = std::env::var("TOLLGATE_KILL_DISKS").ok().and_then(|levels| levels.parse().ok());
    let granted =
        "[grants.appends]\nfiles = [{ host = \"ran\", guest = \"/ran\", access = \"read-write\" }]\n";
    let place = Place::new().with_tools(&[good::APPENDS]).with_config(granted);
    std::fs::create_dir(place.path().join("ran")).unwrap();
    let _held = SqliteStore::open(&place.path().join("data")).unwrap();
    place.type_in(&["call", "appends", r#"{"p": "warm"}"#]).ends_with(0);
    let mut kinds = std::collections::BTreeSet::new();
    for level in 0..levels.unwrap_or(6_u64) {
        let log = std::fs::metadata(place.path().join("data/tollgate.db-wal")).unwrap().len();
        // From too little for anything to enough for everything.
        let room = log.max(32 << 10).div_ceil(1024) + level * 240 / levels.unwrap_or(6).max(1);
        let said = on_a_full_disk(&place, room, &format!(r#"call appends '{{"p": "at{level}"}}'"#));
        let ran = std::fs::metadata(place.path().join(format!("ran/at{level}"))).map_or(0, |file| file.len());
        let (kind, expected) = match said.code {
            0 => ("done", 1),
            _ if said.stderr.contains("do not repeat it") => ("lost", 1),
            _ => ("refused", 0),
        };
        assert_eq!(ran, expected, "{room} KiB: {said:?}");
        kinds.insert(kind);
    }
    assert!(kinds.contains("refused") && kinds.contains("done"), "{kinds:?}");
}

#[test]
fn a9_on_a_full_disk_nothing_is_called_that_cannot_be_recorded() {
    let granted =
        "[grants.appends]\nfiles = [{ host = \"ran\", guest = \"/ran\", access = \"read-write\" }]\n";
    let place = Place::new().with_tools(&[good::APPENDS, LOOKS]).with_config(granted);
    std::fs::create_dir(place.path().join("ran")).unwrap();
    let bytes =
        |file: &str| std::fs::metadata(place.path().join("ran").join(file)).map_or(0, |file| file.len());
    // While it is open, the store's log is only appended to.
    let _held = SqliteStore::open(&place.path().join("data")).unwrap();
    place.type_in(&["call", "appends", r#"{"p": "warm"}"#]).ends_with(0);
    place.type_in(&["call", "looks"]).ends_with(0);
    assert_eq!(bytes("warm"), 1);

    let refused = on_a_full_disk(&place, 36, r#"call appends '{"p": "full"}'"#).ends_with(1);
    let refused = refused.says("nothing was run");
    assert!(!refused.stderr.contains("again"), "{}", refused.stderr);
    assert_eq!(bytes("full"), 0, "it was answered with an error, and has not run");

    on_a_full_disk(&place, 36, "call looks").ends_with(1).says("is not recorded").answers("1");
}
