//! Calls that are under way in another process.

use crate::place::Place;
use std::time::{Duration, Instant};
use tollgate_artifacts::{Expectation, Guest};

/// May run twice, so that its calls are answered before they are stored.
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

/// Waits until a process carries a run; that run.
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
