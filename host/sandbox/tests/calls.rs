//! Tests of a call's inputs, its reports, and the ways in which it is stopped.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use harness::{Bench, SLACK, anything, fault, returned, sandbox};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_agent::code::Code;
use tollgate_agent::outcome::{Outcome, ToolStatus};
use tollgate_artifacts::{Expectation, Guest, good, hostile};
use tollgate_sandbox::{Limits, ProgressStatus, Report, ReportSink, Sandbox, SandboxConfig};

/// Returns a test-specific guest.
fn guest(name: &'static str, source: &'static str) -> Guest {
    Guest { name, attack: "", limit: "", expects: Expectation::Succeeds, source }
}

#[tokio::test]
async fn an_echo_answers_and_its_use_is_counted() {
    let bench = Bench::load(&sandbox(), &good::ECHO).await.unwrap();
    let arguments = json!({"text": "söme wörds", "list": [1, 2.5, null, true, {"a": {}}]});
    let attempt = bench.call(arguments.clone()).await;
    assert!(attempt.usage.fuel > 0 && attempt.usage.fuel < 1_000_000, "{:?}", attempt.usage);
    assert!(attempt.usage.memory_bytes >= 64 * 1024);
    assert_eq!(attempt.usage.attempts, 1);
    assert_eq!(attempt.dropped_reports, 0);
    let result = returned(attempt).result;
    assert_eq!((&result.status, &*result.data), (&ToolStatus::Success, &arguments));
}

#[tokio::test]
async fn the_same_call_costs_the_same_fuel() {
    let bench = Bench::load(&sandbox(), &good::COMPUTES).await.unwrap();
    let first = bench.call(anything()).await.usage.fuel;
    assert_eq!(bench.call(anything()).await.usage.fuel, first);
}

#[tokio::test]
async fn s1_a_tool_reads_the_keys_that_it_declared() {
    let mut bench = Bench::load(&sandbox(), &good::ADDER).await.unwrap();
    assert_eq!(returned(bench.call(anything()).await).result.data, json!(0), "the initial value");
    bench.state.set("adder.total", json!(41));
    let output = returned(bench.call(anything()).await);
    assert_eq!(output.result.data, json!(41));
    assert_eq!((output.mutations[0].key.as_str(), &output.mutations[0].update), ("adder.total", &json!(1)));
}

/// The text of a value that a tool reads is part of what the host holds for its call.
#[tokio::test]
async fn z3_a_value_of_the_state_is_measured_before_it_is_written_as_text() {
    let mut bench = Bench::load(&sandbox(), &good::READS_STATE).await.unwrap();
    bench.state.set("reads-state.text", json!("x".repeat(12 << 20)));
    returned(bench.call(anything()).await);
    // The guest's copy fits into this, but not the host's beside it.
    bench.limits = Limits { memory_bytes: 16 << 20, host_memory_bytes: 1 << 20, ..Limits::default() };
    assert_eq!(fault(bench.call(anything()).await).code, Code::OutOfMemory);
    bench.limits = Limits { memory_bytes: 16 << 20, host_memory_bytes: 16 << 20, ..Limits::default() };
    returned(bench.call(anything()).await);
    // Longer than one crossing.
    bench.state.set("reads-state.text", json!("x".repeat(17 << 20)));
    assert_eq!(fault(bench.call(anything()).await).code, Code::TooLarge);
}

/// The state that a tool is shown stays in the host's memory during the call.
#[tokio::test]
async fn z3_the_state_that_a_tool_is_shown_is_charged_to_its_call() {
    const KEYS: usize = 40;
    let key = |n| {
        json!({"key": format!("shown.k{n}"), "read": true, "write": false, "defines":
            {"initial": "0", "reducer": "replace", "scope": "thread", "persistent": true}})
    };
    let descriptor = json!({"state": (0..KEYS).map(key).collect::<Vec<_>>()});
    let source = format!(";; Is shown much.\n;;\n;; descriptor: {descriptor}\n");
    let mut bench = Bench::load(&sandbox(), &guest("shown", source.leak())).await.unwrap();
    for n in 0..KEYS {
        bench.state.set(&format!("shown.k{n}"), json!("x".repeat(60_000)));
    }
    // The guest's copy fits into this, but not the host's beside it.
    bench.limits = Limits { memory_bytes: 4 << 20, host_memory_bytes: 0, ..Limits::default() };
    assert_eq!(fault(bench.call(anything()).await).code, Code::OutOfMemory);
    bench.limits = Limits { memory_bytes: 4 << 20, host_memory_bytes: 4 << 20, ..Limits::default() };
    returned(bench.call(anything()).await);
}

#[tokio::test]
async fn reports_arrive_bounded_and_clean() {
    let mut bench = Bench::load(&sandbox(), &good::REPORTS).await.unwrap();
    let attempt = bench.call(anything()).await;
    assert_eq!(attempt.dropped_reports, 0);
    let reports = bench.reports();
    assert_eq!(reports.len(), 4);
    assert!(reports.contains(&Report::Progress {
        status: ProgressStatus::Running,
        message: Some("halfway".into()),
        progress: Some(0.5),
    }));
    assert!(reports.contains(&Report::Output("halfway".into())));

    bench.limits = Limits { reports: 1, ..Limits::default() };
    assert_eq!(bench.call(anything()).await.dropped_reports, 3);
    bench.limits = Limits { report_bytes: 6, ..Limits::default() };
    assert_eq!(bench.call(anything()).await.dropped_reports, 4);
    bench.limits = Limits { reports_bytes: 8, ..Limits::default() };
    assert_eq!(bench.call(anything()).await.dropped_reports, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t2_t3_a_timeout_stops_computing_and_waiting() {
    let sandbox = sandbox();
    for guest in [&hostile::SPIN_FOR_EVER, &hostile::SLEEP_PAST_THE_DEADLINE, &hostile::SPIN_AT_START] {
        let Ok(mut bench) = Bench::load(&sandbox, guest).await else {
            assert_eq!(guest.name, "spin-at-start", "only that one spins when it is loaded");
            continue;
        };
        bench.timeout = Duration::from_millis(200);
        bench.limits = Limits { fuel: u64::MAX, ..Limits::default() };
        let began = Instant::now();
        let fault = fault(bench.call(anything()).await);
        assert_eq!(fault.code, Code::TimedOut, "{}: {fault:?}", guest.name);
        assert_eq!(fault.message, format!("Tool '{}' timed out after 200ms", bench.tool()));
        assert!(began.elapsed() < bench.timeout + SLACK, "{}: {:?}", guest.name, began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x1_a_cancelled_call_ends_after_its_grace() {
    let sandbox = sandbox();
    for guest in [&hostile::SPIN_FOR_EVER, &hostile::SLEEP_PAST_THE_DEADLINE] {
        let mut bench = Bench::load(&sandbox, guest).await.unwrap();
        // Nothing else ends it before the limit below.
        bench.timeout = Duration::from_secs(60);
        bench.limits = Limits { fuel: u64::MAX, ..Limits::default() };
        let cancel = bench.cancel.clone();
        let cancelled = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let at = Instant::now();
            cancel.cancel();
            at
        });
        assert_eq!(fault(bench.call(anything()).await).code, Code::Cancelled);
        let ended_after = cancelled.await.unwrap().elapsed();
        assert!(ended_after >= Duration::from_millis(60), "{}: {ended_after:?}", guest.name);
        assert!(ended_after < Duration::from_millis(100) + SLACK, "{}: {ended_after:?}", guest.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x1_during_the_grace_a_guest_is_told_and_may_end_by_itself() {
    let source = r#";; Asks until it is cancelled.

(import "tollgate:tool/call@0.1.0" "is-cancelled" (func $cancelled (result i32)))
(func $execute (param $call i32) (result i32)
  (loop $again (br_if $again (i32.eqz (call $cancelled))))
  (global.get $returns))
"#;
    let bench = Bench::load(&sandbox(), &guest("obedient", source)).await.unwrap();
    let cancel = bench.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    });
    assert!(returned(bench.call(anything()).await).result.is_success());
}

#[tokio::test]
async fn each_limit_is_the_calls_own_and_says_its_value() {
    let sandbox = sandbox();
    let tight = Limits { memory_bytes: 64 * 1024, ..Limits::default() };
    let mut bench = Bench::load(&sandbox, &good::ECHO).await.unwrap();
    bench.limits = tight;
    let memory = fault(bench.call(anything()).await);
    assert_eq!(memory.code, Code::OutOfMemory);
    assert!(memory.message.contains("memory_bytes = 65536"), "{}", memory.message);

    for (limits, code, words) in [
        (Limits { fuel: 10, ..Limits::default() }, Code::OutOfFuel, "fuel = 10."),
        (Limits { crossing_bytes: 20, ..Limits::default() }, Code::TooLarge, "crossing_bytes = 20."),
        (Limits { boundary_bytes: 20, ..Limits::default() }, Code::TooLarge, "boundary_bytes = 20."),
        (Limits { instances: 0, ..Limits::default() }, Code::OutOfResources, "instances = 0."),
        (Limits { memories: 0, ..Limits::default() }, Code::OutOfResources, "memories = 0."),
    ] {
        bench.limits = limits;
        let fault = fault(bench.call(anything()).await);
        assert_eq!(fault.code, code, "{fault:?}");
        assert!(fault.message.contains(words), "{}", fault.message);
        assert!(fault.message.ends_with("An operator can raise it."), "{}", fault.message);
    }
}

#[tokio::test]
async fn a_call_gets_no_more_than_the_ceiling() {
    let mut config = SandboxConfig { concurrent_calls: 4, ..SandboxConfig::default() };
    config.ceiling.fuel = 1_000_000;
    let sandbox = Sandbox::new(config).unwrap();
    let mut bench = Bench::load(&sandbox, &good::COMPUTES).await.unwrap();
    bench.limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let fault = fault(bench.call(anything()).await);
    assert_eq!(fault.code, Code::OutOfFuel);
    assert!(fault.message.contains("fuel = 1000000."), "{}", fault.message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_fit_wait_and_too_many_are_refused() {
    let config = SandboxConfig { concurrent_calls: 2, waiting_calls: 2, ..SandboxConfig::default() };
    let sandbox = Sandbox::new(config).unwrap();
    let bench = Bench::load(&sandbox, &good::WAITS).await.unwrap();
    let attempts = futures::future::join_all((0..6).map(|_| bench.call(anything()))).await;
    let codes: Vec<_> = attempts
        .into_iter()
        .map(|attempt| match attempt.outcome {
            tollgate_agent::outcome::Outcome::Returned(_) => "returned",
            tollgate_agent::outcome::Outcome::Faulted(fault) => {
                let detail = fault.detail.unwrap_or_default();
                assert!(detail.contains("concurrent_calls = 2, waiting_calls = 2"), "{detail}");
                fault.code.as_str()
            }
        })
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == "returned").count(), 4, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == "overloaded").count(), 2, "{codes:?}");
    returned(bench.call(anything()).await);
}

#[tokio::test]
async fn a_host_function_that_panics_fails_its_call_and_poisons_nothing() {
    struct Panics;
    impl ReportSink for Panics {
        fn offer(&self, report: Report) -> bool {
            panic!("cannot take {report:?}")
        }
    }
    let bench = Bench::load(&sandbox(), &good::REPORTS).await.unwrap();
    for _ in 0..20 {
        let fault = fault(bench.call_with(anything(), Arc::new(Panics)).await);
        assert_eq!(fault.code, Code::HostFailed);
        assert!(fault.detail.unwrap().contains("cannot take"));
    }
    assert!(returned(bench.call(anything()).await).result.is_success());
}

#[tokio::test]
async fn a_report_costs_its_guest_the_same_whether_anybody_listens_or_not() {
    for (guest, ends) in [(&good::REPORTS, None), (&hostile::LOG_INVALID_UTF8, Some(Code::Trapped))] {
        let bench = Bench::load(&sandbox(), guest).await.unwrap();
        let heard = bench.call(anything()).await;
        let unheard = bench.call_with(anything(), Arc::new(())).await;
        assert_eq!(heard.usage.fuel, unheard.usage.fuel, "{}", guest.name);
        for attempt in [heard, unheard] {
            let code = match attempt.outcome {
                Outcome::Returned(_) => None,
                Outcome::Faulted(fault) => Some(fault.code),
            };
            assert_eq!(code, ends, "{}", guest.name);
        }
    }
}

#[tokio::test]
async fn memory_can_come_from_the_system() {
    let config =
        SandboxConfig { allocation: tollgate_sandbox::Allocation::OnDemand, ..SandboxConfig::default() };
    let sandbox = Sandbox::new(config).unwrap();
    let bench = Bench::load(&sandbox, &good::ECHO).await.unwrap();
    assert_eq!(returned(bench.call(anything()).await).result.data, anything());
}

#[tokio::test]
async fn a_component_is_loaded_from_its_file_with_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = sandbox();
    let component = sandbox.load(good::WAITS.write_to(folder.path())).await.unwrap();
    assert_eq!(component.digest().len(), 64);
    assert!(component.name().ends_with("waits.wasm"));
    let imports: Vec<&str> = component.imports().iter().map(|import| import.interface.as_str()).collect();
    assert_eq!(imports, ["wasi:clocks/monotonic-clock@0.2.12", "wasi:io/poll@0.2.12"]);
    assert!(component.imports().iter().all(|import| import.power.is_none()));
}
