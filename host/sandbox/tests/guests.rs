//! Every guest of the suite ends as its file says, one after the other in one
//! sandbox, and the sandbox goes on serving.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use harness::{Bench, anything, sandbox};
use std::time::Duration;
use tollgate_agent::code::Code;
use tollgate_agent::outcome::Outcome;
use tollgate_agent::state::change;
use tollgate_artifacts::{Expectation, GOOD, Guest, HOSTILE, good};
use tollgate_sandbox::{Limits, Sandbox};

/// What is judged after the sandbox, by those who know what was granted.
const JUDGED_LATER: &[Code] = &[Code::BadAction];

/// How a guest ended, in the words of its expectation.
async fn ending(sandbox: &Sandbox, guest: &Guest) -> String {
    let mut bench = match Bench::load(sandbox, guest).await {
        Ok(bench) => bench,
        Err(why) => return format!("refused: {why}"),
    };
    // Enough for every guest that ends by itself.
    bench.timeout = Duration::from_secs(5);
    bench.limits = Limits { fuel: 2_000_000_000, ..Limits::default() };
    if bench.component.descriptor().tools[0].execution.validates {
        let arguments = tollgate_agent::proposal::Arguments::from_value(anything());
        if let Err(fault) = bench.component.validate_args(bench.tool(), &arguments).await {
            return fault.code.to_string();
        }
    }
    match bench.call(anything()).await.outcome {
        Outcome::Faulted(fault) => fault.code.to_string(),
        Outcome::Returned(output) => {
            let permit = bench.permit(anything());
            let state = bench.state.snapshot();
            match change::propose(bench.catalog.keys(), &permit.tool().access, &state, &output.mutations) {
                Err(fault) => fault.code.to_string(),
                Ok(_) if output.result.is_error() => Code::ToolError.to_string(),
                Ok(_) => "succeeds".to_owned(),
            }
        }
    }
}

fn is_expected(guest: &Guest, ending: &str) -> bool {
    match guest.expects {
        Expectation::Succeeds => ending == "succeeds",
        Expectation::Code(code) if JUDGED_LATER.iter().any(|later| later.as_str() == code) => {
            ending == code || ending == "succeeds"
        }
        Expectation::Code(code) => ending == code,
        Expectation::Refused(words) => ending.starts_with("refused: ") && ending.contains(words),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_guest_ends_as_its_file_says() {
    let sandbox = sandbox();
    let echo = Bench::load(&sandbox, &good::ECHO).await.unwrap();
    let mut wrong = Vec::new();
    for guest in GOOD.iter().chain(HOSTILE) {
        let ending = ending(&sandbox, guest).await;
        if !is_expected(guest, &ending) {
            wrong.push(format!("{}: expects {}, but: {ending}", guest.name, guest.expects));
        }
        let answer = harness::returned(echo.call(anything()).await);
        assert_eq!(answer.result.data, anything(), "after {}", guest.name);
    }
    assert!(wrong.is_empty(), "{} guests:\n{}", wrong.len(), wrong.join("\n"));
}
