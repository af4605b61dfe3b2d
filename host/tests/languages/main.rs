//! One tool in many languages: `text-stats`, compiled from source by `tollgate
//! build`, and the same cases put to each. What one answers, all answer, to the byte.
//!
//! What needs the toolchains is ignored elsewhere: `scripts/test languages` installs
//! them and runs it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod bounded;
mod built;
mod frozen;
mod load;
mod projects;
mod typescript;

use built::{LANGUAGES, Language, compiled, serve};
use serde_json::{Value, json};
use tollgate::run::{Piece, RunHandle, Told, Transient};
use tollgate::{Agent, CallRequest, Host, Recorded, RunEnd, RunRequest, Turn};
use tollgate_agent::run::Decision;
use tollgate_sandbox::{Level, Report};

/// Puts the same arguments to every language on one thread of its own, and returns
/// what all of them answer.
async fn all_answer(host: &Host, thread: &str, arguments: &Value) -> String {
    all_answer_text(host, thread, &arguments.to_string()).await
}

/// The same, with arguments that need not be JSON.
async fn all_answer_text(host: &Host, thread: &str, arguments: &str) -> String {
    let mut answers = Vec::new();
    for language in &LANGUAGES {
        answers.push(answer_of(host, language, thread, arguments).await);
    }
    all_equal(&answers, arguments)
}

/// The one answer that all languages gave.
fn all_equal(answers: &[String], to: &str) -> String {
    for (language, answer) in LANGUAGES.iter().zip(answers) {
        let shown = to.chars().take(200).collect::<String>();
        assert_eq!(answer, &answers[0], "{} answers otherwise: {shown}", language.name);
    }
    answers[0].clone()
}

/// What a tool reports and how its call ends, as JSON without the tool's own name.
async fn answer_of(host: &Host, language: &Language, thread: &str, arguments: &str) -> String {
    let request =
        CallRequest::new(language.tool(), arguments).on_thread(format!("{thread}-{}", language.name));
    answer(host.start_call(request).await.unwrap(), language).await
}

async fn answer(call: RunHandle, language: &Language) -> String {
    let (end, mut reports) = attended(call).await;
    for report in &mut reports {
        // What differs from call to call; see `every_language_is_told_whose_call_it_is`.
        if let Report::Log { message, .. } = report {
            *message = message.replace(&*end.run_id, "RUN").replace(&*end.thread_id, "THREAD");
        }
    }
    let answer = match end.last_call {
        Some(finished) => json!([finished.end, reports]),
        None => json!([end.waiting[0].ticket, reports]),
    };
    answer.to_string().replace(&language.tool(), "TOOL")
}

/// How a run left off, and what tools reported until then.
async fn attended(mut run: RunHandle) -> (RunEnd, Vec<Report>) {
    let mut reports = Vec::new();
    while let Some(told) = run.events.next().await {
        if let Told::Transient(Transient { piece: Piece::CallReport { report, .. }, .. }) = told {
            reports.push(report);
        }
    }
    (run.wait().await.unwrap(), reports)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_answers_the_same() {
    let host = serve(compiled().path(), "").await;
    let long = "wörd 😀 ".repeat(20_000);
    let cases = [
        json!({"text": "one two two three three three"}),
        json!({"text": "Grüezi Welt, grüezi 😀 hello Hello\nA", "top": 20}),
        json!({"text": "\u{1F1E8}\u{1F1ED} \u{0301}e ﬁ \u{10FFFF} \u{FFFD} \u{2028} < > & ' \" \\ / \t\u{7f}", "top": 20}),
        json!({"text": "a\u{a0}b \u{2003} c", "top": 20}),
        json!({"text": "\n\n", "top": 0}),
        json!({"text": " \r\n\u{b}\u{c}x"}),
        json!({"text": "b a b a", "rounds": 3}),
        // What is whole is an integer, however a model wrote it.
        json!({"text": "b a b a", "rounds": 2.0, "top": 1e0}),
        json!({"text": long}),
        json!({"text": ""}),
        json!({"text": "nul\u{0}"}),
    ];
    for (at, case) in cases.iter().enumerate() {
        let answer = all_answer(&host, &format!("same-{at}"), case).await;
        println!("{}", &answer.chars().take(120).collect::<String>());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_refuses_bad_arguments_in_the_same_words() {
    let host = serve(compiled().path(), "").await;
    let cases = [
        "{}",
        r#"{"text": 1}"#,
        r#"{"text": null}"#,
        r#"{"text": ["a"]}"#,
        r#"{"text": "a", "top": -1}"#,
        r#"{"text": "a", "top": 21}"#,
        r#"{"text": "a", "top": 1.5}"#,
        r#"{"text": "a", "top": "3"}"#,
        r#"{"text": "a", "top": null}"#,
        r#"{"text": "a", "rounds": 0}"#,
        r#"{"text": "a", "rounds": 1000000001}"#,
        r#"{"text": "a", "rounds": 18446744073709551616}"#,
        r#"{"text": "a", "confirm": "yes"}"#,
        r#"{"text": "a", "more": 1}"#,
        r#"{"top": 30, "rounds": 0, "confirm": 1, "more": true, "else": false}"#,
        r#"{"text": "a", "text": "b"}"#,
        r#"["a"]"#,
        r#""a""#,
        r#"{"text": "a""#,
    ];
    for case in cases {
        let answer = all_answer_text(&host, "refused", case).await;
        assert!(answer.contains(r#""code":"invalid_arguments""#), "{case}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_is_told_whose_call_it_is() {
    let (toolbox, _) = built::load(compiled().path(), "").await;
    // Long, and in no character of one byte: nobody may cut it to fit.
    let thread = "€".repeat(150);
    for language in &LANGUAGES {
        let turn = Turn::calls([(language.tool(), json!({"text": "a b"}))]);
        let model = Recorded::new(vec![turn, Turn::text("Done.")]);
        let agent = Agent::new("measurer", model).with_tools(["*"]);
        let host = Host::builder().toolbox(toolbox.clone()).agent(agent).build().unwrap();
        let request = RunRequest::new("measurer", "Measure it.").on_thread(&*thread);
        let (end, reports) = attended(host.run(request).await.unwrap()).await;
        let (run, call) = (&end.run_id, end.last_call.unwrap().call_id.clone());
        let message = format!("call {call}, attempt 1: agent measurer, run {run}, thread {thread}");
        assert_eq!(reports[0], Report::Log { level: Level::Debug, message }, "{}", language.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_remembers() {
    let host = serve(compiled().path(), "").await;
    let first = all_answer(&host, "state", &json!({"text": "one two"})).await;
    let second = all_answer(&host, "state", &json!({"text": "three"})).await;
    let third = all_answer(&host, "state", &json!({"text": "three"})).await;
    assert!(first.contains(r#""seen":0"#), "{first}");
    assert!(second.contains(r#""seen":2"#), "{second}");
    assert!(third.contains(r#""seen":3"#), "{third}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_asks_and_goes_on() {
    let host = serve(compiled().path(), "").await;
    for (decided, expected) in [(json!(true), r#""words":2"#), (json!(false), "The person said no.")] {
        let (mut tickets, mut answers) = (Vec::new(), Vec::new());
        for language in &LANGUAGES {
            let arguments = json!({"text": "a b", "confirm": true}).to_string();
            let end = host.call(CallRequest::new(language.tool(), arguments)).await.unwrap();
            let asked = &end.waiting[0];
            tickets.push(serde_json::to_string(&asked.ticket).unwrap());
            let decision = Decision::resume(asked.call_id.as_str(), decided.clone()).with_id("d1");
            answers.push(answer(host.decide(&end.run_id, decision).await.unwrap(), language).await);
        }
        let ticket: Value = serde_json::from_str(&all_equal(&tickets, "the ticket")).unwrap();
        assert_eq!((&ticket["action"], &ticket["message"]), (&json!("measure"), &json!("Measure 3 bytes?")));
        assert_eq!(ticket["parameters"], json!({"bytes": 3}));
        assert_eq!(ticket["response_schema"], json!({"type": "boolean"}));
        let answer = all_equal(&answers, "the decision");
        assert!(answer.contains(expected), "{answer}");
    }
}
