//! Each way in which the sandbox ends a guest, provoked by a guest that does nothing else. Some
//! reasons are recognized by wasmtime's messages; these tests notice when the messages change.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use harness::{Bench, anything, fault, returned, sandbox};
use serde_json::json;
use std::time::Duration;
use tollgate_agent::code::Code;
use tollgate_artifacts::{Expectation, Guest, HOSTILE, good};
use tollgate_sandbox::Limits;

/// The codes that the sandbox assigns, except those for a call that never ran.
const CODES: &[Code] = &[
    Code::OutOfFuel,
    Code::TimedOut,
    Code::OutOfMemory,
    Code::OutOfResources,
    Code::StackOverflow,
    Code::TooLarge,
    Code::MalformedOutput,
    Code::Trapped,
    Code::Exited,
];

/// Returns the code if the sandbox is expected to end the guest in a call.
fn code(guest: &Guest) -> Option<Code> {
    match guest.expects {
        Expectation::Code(text) => CODES.iter().copied().find(|code| code.as_str() == text),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ending_has_its_code_and_the_next_call_works() {
    let sandbox = sandbox();
    let echo = Bench::load(&sandbox, &good::ECHO).await.unwrap();
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    // Nothing is granted here, and a ticket's schema is compiled by the host, outside the
    // sandbox.
    let of_sandbox =
        HOSTILE.iter().filter(|guest| guest.powers().is_empty() && guest.name != "ticket-of-patterns");
    for (guest, code) in of_sandbox.filter_map(|guest| Some((guest, code(guest)?))) {
        let mut bench = Bench::load(&sandbox, guest).await.unwrap();
        bench.timeout = Duration::from_secs(30);
        if code == Code::TimedOut {
            bench.timeout = Duration::from_millis(200);
        }
        bench.limits = Limits { fuel: 1_000_000_000, ..Limits::default() };
        let fault = match bench.component.descriptor().tools[0].execution.validates {
            true => bench
                .component
                .validate_args(bench.tool(), bench.permit(json!({})).arguments())
                .await
                .unwrap_err(),
            false => fault(bench.call(json!({})).await),
        };
        if fault.code != code {
            wrong.push(format!("{}: {code} was expected, but: {fault:?}", guest.name));
        }
        seen.push(fault.code);
        assert_eq!(returned(echo.call(anything()).await).result.data, anything(), "after {}", guest.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unseen: Vec<_> = CODES.iter().filter(|code| !seen.contains(code)).collect();
    assert!(unseen.is_empty(), "no guest ends by {unseen:?}");
}

#[tokio::test]
async fn a_sealed_function_that_goes_too_far_refuses_the_component() {
    let sandbox = sandbox();
    let mut refused = 0;
    for guest in HOSTILE.iter().filter(|guest| guest.limit == "describe") {
        let Expectation::Refused(words) = guest.expects else { continue };
        let why = sandbox.load_bytes(guest.name, guest.bytes()).await.err().unwrap().to_string();
        assert!(why.contains(words), "{}: {why}", guest.name);
        refused += 1;
    }
    assert!(refused > 3);
}
