//! Tests of calls that another process is running.

use crate::place::Place;
use std::time::{Duration, Instant};
use tollgate_artifacts::{Expectation, Guest};

/// A tool that may run twice, so that its calls are answered before they are stored.
pub(crate) const LOOKS: Guest = Guest {
    name: "looks",
    attack: "",
    limit: "",
    expects: Expectation::Succeeds,
    source: r#";; May run twice.
;;
;; descriptor: {"tools": [{"execution": {"idempotent": true}}]}
;; returns: {"ok": {"result": {"data": "1"}}}
"#,
};

/// Waits until a process drives a run other than these, and returns the run. A process that starts
/// drives interrupted calls for a moment, to end them.
pub(crate) fn until_one_runs(place: &Place, known: &[String]) -> String {
    let began = Instant::now();
    loop {
        let running = place.type_in(&["runs", "--status", "running", "--json"]).json();
        let at_work = running.as_array().unwrap().iter().filter(|run| run["at_work"] == true);
        let mut at_work = at_work.map(|run| run["run_id"].as_str().unwrap().to_owned());
        if let Some(run) = at_work.find(|run| !known.contains(run)) {
            return run;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}
