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

/// Waits until a process drives a run, and returns the run.
pub(crate) fn until_one_runs(place: &Place) -> String {
    let began = Instant::now();
    loop {
        let running = place.type_in(&["runs", "--status", "running", "--json"]).json();
        let at_work = running.as_array().unwrap().iter().find(|run| run["at_work"] == true);
        if let Some(run) = at_work {
            return run["run_id"].as_str().unwrap().to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}
