//! Every promise of the sandbox is attacked: by a hostile guest whose file names it, or by a test
//! listed here.

use std::collections::BTreeSet;
use std::path::Path;

use tollgate_artifacts::HOSTILE;
use tollgate_sandbox::{Limits, Power};

/// Evidence that a promise holds.
enum Shown {
    /// Hostile guests with this `limit`.
    By(&'static str),
    /// A test: its file, from the top of the repository, and its name.
    In(&'static str, &'static str),
}
use Shown::{By, In};

const EGRESS: &str = "host/sandbox/src/egress/tests/mod.rs";
const UPLOADS: &str = "host/sandbox/src/egress/tests/uploads.rs";
const REPORTS: Shown = By("activity, progress, log, streamed output");

/// The evidence for each limit of a call.
const LIMITS: &[(&str, Shown)] = &[
    ("fuel", By("instructions")),
    ("memory_bytes", By("memory")),
    ("host_memory_bytes", By("host memory")),
    ("json_nodes", By("JSON nodes")),
    ("table_elements", By("table elements")),
    ("instances", By("instances, memories")),
    ("tables", By("tables")),
    ("memories", By("memories")),
    ("handles", By("handles")),
    ("listings", By("listings")),
    ("open_files", By("open files")),
    ("crossing_bytes", By("bytes across the boundary")),
    ("boundary_bytes", By("bytes across the boundary")),
    ("console_bytes", By("standard output and error")),
    ("reports", REPORTS),
    ("report_bytes", REPORTS),
    ("reports_bytes", REPORTS),
    ("random_bytes", By("random bytes asked at once")),
    ("http_requests", In(EGRESS, "more_requests_than_the_limit_are_refused")),
    ("http_exchanges", In(UPLOADS, "z6_a_call_has_so_many_exchanges_in_progress_and_no_more")),
    ("http_body_bytes", In(EGRESS, "bodies_are_bounded_both_ways")),
    ("written_bytes", By("written bytes")),
];

/// Returns the test that shows that a power is absent unless it was granted, and goes no further.
fn of_power(power: Power) -> Shown {
    match power {
        Power::Files => By("files"),
        Power::Http => By("HTTP"),
        Power::Sockets => By("powers"),
        Power::Settings => {
            In("host/tests/powers/main.rs", "the_weather_comes_from_the_api_that_the_setting_names")
        }
        Power::Delegates => In("host/sandbox/tests/delegating.rs", "an_agent_that_was_not_granted_is_noted"),
    }
}

/// The other promises, beside limits and powers.
const OTHERS: &[&str] = &[
    "ABI",
    "JSON",
    "JSON depth",
    "actions",
    "describe",
    "description",
    "descriptor",
    "exit",
    "exports",
    "file",
    "growth of the record",
    "header fields, 16 KiB",
    "imports",
    "loading",
    "mutations",
    "names",
    "paths",
    "questions to people",
    "result seen by the model",
    "schemas",
    "stack",
    "state",
    "traps",
    "wall time",
    "what a person reads",
    "what the host stamps",
    "what the model reads",
];

fn attacked() -> BTreeSet<&'static str> {
    HOSTILE.iter().map(|guest| guest.limit).collect()
}

fn is_shown(promise: &str, shown: &Shown) {
    match shown {
        By(limit) => {
            assert!(attacked().contains(limit), "{promise}: no hostile guest has the limit `{limit}`")
        }
        In(file, test) => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
            let text =
                std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{promise}: {file}: {why}"));
            assert!(text.contains(&format!("fn {test}(")), "{promise}: {file} has no test `{test}`");
        }
    }
}

#[test]
fn there_is_an_attack_for_every_limit() {
    let limits = serde_json::to_value(Limits::default()).unwrap();
    let there: BTreeSet<&str> = limits.as_object().unwrap().keys().map(String::as_str).collect();
    let listed: BTreeSet<&str> = LIMITS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, there, "say here what attacks each limit");
    LIMITS.iter().for_each(|(name, shown)| is_shown(name, shown));
}

#[test]
fn there_is_an_attack_for_every_power() {
    for power in [Power::Files, Power::Http, Power::Sockets, Power::Settings, Power::Delegates] {
        is_shown(power.as_str(), &of_power(power));
    }
}

#[test]
fn there_is_an_attack_for_every_other_promise_and_no_guest_attacks_an_unknown_one() {
    OTHERS.iter().for_each(|promise| is_shown(promise, &By(promise)));
    let powers = [Power::Files, Power::Http, Power::Sockets].map(of_power);
    let named = LIMITS.iter().map(|(_, shown)| shown).chain(&powers).filter_map(|shown| match shown {
        By(limit) => Some(*limit),
        In(..) => None,
    });
    let known: BTreeSet<&str> = named.chain(OTHERS.iter().copied()).collect();
    assert_eq!(attacked().difference(&known).collect::<Vec<_>>(), [] as [&&str; 0]);
}
