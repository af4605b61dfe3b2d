//! One tool in many languages: `text-stats`, compiled from source by `tollgate
//! build`, and the same cases put to each. What one answers, all answer, to the byte.
//!
//! What needs the toolchains is ignored elsewhere: `scripts/test languages` installs
//! them and runs it.

#![allow(clippy::unwrap_used, missing_docs)]

mod built;
mod frozen;
mod projects;

use built::{LANGUAGES, Language, Tools};
use serde_json::{Value, json};
use std::time::Duration;
use tollgate::run::{Piece, Told, Transient};
use tollgate::{CallRequest, Host};
use tollgate_agent::run::{CallEnd, Decision, DecisionAnswer, RunStatus};

/// Puts the same arguments to every language on one thread of its own, and returns
/// what all of them answer.
async fn all_answer(tools: &Tools, thread: &str, arguments: &Value) -> String {
    let mut answers = Vec::new();
    for language in &LANGUAGES {
        answers.push((language.name, answer_of(&tools.host, language, thread, arguments).await));
    }
    let (_, first) = &answers[0];
    for (language, answer) in &answers {
        assert_eq!(answer, first, "{language} answers {arguments} otherwise than {}", answers[0].0);
    }
    first.clone()
}

/// What a tool reports and how its call ends, as JSON without the tool's own name.
async fn answer_of(host: &Host, language: &Language, thread: &str, arguments: &Value) -> String {
    let request = CallRequest::new(language.tool(), arguments.to_string())
        .on_thread(format!("{thread}-{}", language.name));
    let mut call = host.start_call(request).await.unwrap();
    let mut reports = Vec::new();
    while let Some(told) = call.events.next().await {
        if let Told::Transient(Transient { piece: Piece::CallReport { report, .. }, .. }) = told {
            reports.push(report);
        }
    }
    let end = call.wait().await.unwrap();
    let answer = match end.last_call {
        Some(finished) => json!([finished.end, reports]),
        None => json!([end.waiting[0].ticket, reports]),
    };
    answer.to_string().replace(&language.tool(), "TOOL")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_answers_the_same() {
    let tools = Tools::build().await;
    let long = "wörd 😀 ".repeat(20_000);
    let cases = [
        json!({"text": "one two two three three three"}),
        json!({"text": "Grüezi Welt, grüezi 😀 hello Hello\nA", "top": 20}),
        json!({"text": "\u{1F1E8}\u{1F1ED} \u{0301}e ﬁ \u{10FFFF} \u{FFFD} \u{2028} < > & ' \" \\ / \t\u{7f}", "top": 20}),
        json!({"text": "a\u{a0}b \u{2003} c", "top": 20}),
        json!({"text": "\n\n", "top": 0}),
        json!({"text": " \r\n\u{b}\u{c}x"}),
        json!({"text": "b a b a", "rounds": 3}),
        json!({"text": long}),
        json!({"text": ""}),
        json!({"text": "nul\u{0}"}),
    ];
    for (at, case) in cases.iter().enumerate() {
        let answer = all_answer(&tools, &format!("same-{at}"), case).await;
        println!("{}", &answer.chars().take(120).collect::<String>());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_remembers() {
    let tools = Tools::build().await;
    let first = all_answer(&tools, "state", &json!({"text": "one two"})).await;
    let second = all_answer(&tools, "state", &json!({"text": "three"})).await;
    let third = all_answer(&tools, "state", &json!({"text": "three"})).await;
    assert!(first.contains(r#""seen":0"#), "{first}");
    assert!(second.contains(r#""seen":2"#), "{second}");
    assert!(third.contains(r#""seen":3"#), "{third}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_asks_and_goes_on() {
    let tools = Tools::build().await;
    for language in LANGUAGES {
        for (answer, expected) in [(json!(true), r#""words":2"#), (json!(false), "The person said no.")] {
            let arguments = json!({"text": "a b", "confirm": true}).to_string();
            let end = tools.host.call(CallRequest::new(language.tool(), arguments)).await.unwrap();
            let asked = &end.waiting[0];
            assert_eq!(asked.ticket.message, "Measure 3 bytes?", "{}", language.name);
            assert_eq!(asked.ticket.parameters, json!({"bytes": 3}), "{}", language.name);
            assert_eq!(
                asked.ticket.response_schema.as_ref().unwrap()["type"],
                "boolean",
                "{}",
                language.name
            );
            let decision = Decision {
                id: "d1".to_owned(),
                target: asked.call_id.to_string(),
                answer: DecisionAnswer::Resume(answer),
                reason: None,
                at_ms: 0,
            };
            let end = tools.host.decide(&end.run_id, decision).await.unwrap().wait().await.unwrap();
            let said = serde_json::to_string(&end.last_call.unwrap().end).unwrap();
            assert!(said.contains(expected), "{}: {said}", language.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_ends_at_its_limit_and_when_it_is_cancelled() {
    let tools = Tools::build().await;
    for language in LANGUAGES {
        let arguments = json!({"text": "a b ".repeat(1000), "rounds": 1_000_000_000}).to_string();
        let request = CallRequest::new(language.tool(), arguments.clone());
        let cancel = request.cancel.clone();
        let call = tokio::spawn({
            let host = tools.host.clone();
            async move { host.call(request).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
        let end = call.await.unwrap();
        assert!(
            matches!(end.status, Some(RunStatus::Cancelled { .. })),
            "{}: {:?}",
            language.name,
            end.status
        );
        let end = tools.limited.call(CallRequest::new(language.tool(), arguments)).await.unwrap();
        let CallEnd::Fault(fault) = end.last_call.unwrap().end else { panic!("{} went on", language.name) };
        assert_eq!(fault.code.as_str(), "out_of_fuel", "{}: {}", language.name, fault.message);
    }
}
