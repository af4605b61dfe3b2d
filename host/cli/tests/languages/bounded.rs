//! Tests that no language escapes the limits of a call: fuel, memory and time.

use crate::attended;
use crate::built::{LANGUAGES, Language, compiled, limits_of_each, serve};
use crate::costs::{Row, rows};
use serde_json::json;
use std::collections::BTreeMap;
use tollgate::{CallRequest, Host, RunEnd};
use tollgate_agent::run::CallEnd;
use tollgate_agent::run::event::FinishedCall;
use tollgate_sandbox::Report;

/// Returns the arguments of an endless computation: no tool completes this many rounds.
pub(crate) fn endless() -> String {
    json!({"text": "a b ".repeat(1000), "rounds": 1_000_000_000}).to_string()
}

fn code(end: RunEnd, language: &Language) -> String {
    match end.last_call.unwrap().end.clone() {
        CallEnd::Fault(fault) => fault.code.to_string(),
        CallEnd::Result(result) => panic!("{} went on: {}", language.name, result.data),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_ends_when_its_fuel_is_used_up() {
    let tools = compiled();
    let host = serve(tools.path(), "[limits]\nfuel = 1_000_000_000\n").await;
    for language in &LANGUAGES {
        let end = host.call(CallRequest::from_json(language.tool(), endless())).await.unwrap();
        assert_eq!(code(end, language), "out_of_fuel", "{}", language.name);
    }
}

/// Returns the memory of a small call in each language. The limits are then set just above it.
async fn small_calls(host: &Host) -> BTreeMap<&'static str, u64> {
    let mut memory = BTreeMap::new();
    for language in &LANGUAGES {
        let FinishedCall { end, usage, .. } = small_call(host, language).await;
        assert!(matches!(&end, CallEnd::Result(result) if result.is_success()), "{end:?}");
        memory.insert(language.name, usage.memory_bytes);
    }
    memory
}

async fn small_call(host: &Host, language: &Language) -> FinishedCall {
    let request = CallRequest::from_json(language.tool(), json!({"text": "one two"}).to_string());
    FinishedCall::clone(&host.call(request).await.unwrap().last_call.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_ends_at_its_memory() {
    let tools = compiled();
    let small = small_calls(&serve(tools.path(), "").await).await;
    let limits = |language: &Language| format!("memory_bytes = {}", small[language.name] + (1 << 20));
    let host = serve(tools.path(), &limits_of_each(limits)).await;
    small_calls(&host).await;
    let text: String = (0..100_000).map(|at| format!("w{at:06} ")).collect();
    for language in &LANGUAGES {
        let request = CallRequest::from_json(language.tool(), json!({"text": text}).to_string());
        assert_eq!(code(host.call(request).await.unwrap(), language), "out_of_memory", "{}", language.name);
        // The next caller has the full capacity again.
        let next = small_call(&host, language).await;
        assert_eq!(next.usage.memory_bytes, small[language.name], "{}", language.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_ends_at_its_time_and_is_told_which_attempt_is_the_next() {
    let tools = compiled();
    // One after the other, so that each reports something in every attempt.
    let limits = limits_of_each(|_| "timeout_ms = 2_000\nfuel = 1_000_000_000_000".to_owned());
    let host = serve(tools.path(), &limits).await;
    for language in &LANGUAGES {
        let request = CallRequest::from_json(language.tool(), endless());
        let (end, reports) = attended(host.start_call(request).await.unwrap()).await;
        assert_eq!(code(end, language), "timed_out", "{}", language.name);
        let lines = reports.iter().filter_map(|report| match report {
            Report::Log { message, .. } => message.split([',', ':']).nth(1),
            _ => None,
        });
        let attempts = [" attempt 1", " attempt 2", " attempt 3", " attempt 4"];
        assert_eq!(lines.collect::<Vec<_>>(), attempts, "{}", language.name);
    }
}

/// Returns the documented core instances, memories and tables of each language.
fn documented() -> Vec<[u32; 3]> {
    let counts = |row: Row| ["instances", "memories", "tables"].map(|column| row[column].parse().unwrap());
    rows().into_iter().map(counts).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_makes_as_many_instances_as_the_table_of_costs_says() {
    let tools = compiled();
    let rows = documented();
    assert_eq!(rows.len(), LANGUAGES.len());
    let of = |language: &Language| rows[LANGUAGES.iter().position(|l| l.name == language.name).unwrap()];
    let exact = limits_of_each(|language| {
        let [instances, memories, tables] = of(language);
        format!("instances = {instances}\nmemories = {memories}\ntables = {tables}")
    });
    small_calls(&serve(tools.path(), &exact).await).await;
    for (at, limit) in ["instances", "memories", "tables"].into_iter().enumerate() {
        // There must be at least one memory. A call without any reports nothing here.
        let fewer = |language: &Language| of(language)[at].saturating_sub(1).max(u32::from(at == 1));
        let limits = limits_of_each(|language| format!("{limit} = {}", fewer(language)));
        let host = serve(tools.path(), &limits).await;
        for language in LANGUAGES.iter().filter(|language| fewer(language) < of(language)[at]) {
            let CallEnd::Fault(fault) = small_call(&host, language).await.end else {
                panic!("{} needs fewer {limit}", language.name)
            };
            assert_eq!(fault.code.as_str(), "out_of_resources", "{}: {limit}", language.name);
        }
    }
}
