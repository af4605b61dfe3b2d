//! One tool in many languages: `text-stats`, compiled from source by `tollgate build`, with the
//! same test cases for each. All give the same answers, byte for byte.
//!
//! Tests that need the toolchains are ignored by default: `scripts/test languages` installs the
//! toolchains and runs the tests.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod bounded;
mod built;
mod cancelled;
mod costs;
mod files;
mod frozen;
mod granted;
mod libraries;
mod load;
mod plain;
mod powers;
mod projects;
mod python;
mod tour;
mod typescript;
mod weather;

use built::{LANGUAGES, Language, compiled, serve};
use serde_json::{Value, json};
use tollgate::run::{LiveContent, LiveUpdate, RunHandle, RunUpdate};
use tollgate::{Agent, CallRequest, Host, RunEnd, RunRequest, ScriptedModel, ScriptedTurn};
use tollgate_agent::run::Decision;
use tollgate_sandbox::{Level, Report};

/// Calls every language with the same arguments, each on its own thread, and returns the answer
/// that all of them give.
async fn all_answer(host: &Host, thread: &str, arguments: &Value) -> String {
    all_answer_text(host, thread, &arguments.to_string()).await
}

/// Calls every language like [`all_answer`], with arguments that need not be JSON.
async fn all_answer_text(host: &Host, thread: &str, arguments: &str) -> String {
    let mut answers = Vec::new();
    for language in &LANGUAGES {
        answers.push(answer_of(host, language, thread, arguments).await);
    }
    all_equal(&answers, arguments)
}

/// Returns the single answer that all languages gave.
fn all_equal(answers: &[String], to: &str) -> String {
    for (language, answer) in LANGUAGES.iter().zip(answers) {
        let shown = to.chars().take(200).collect::<String>();
        assert_eq!(answer, &answers[0], "{} answers otherwise: {shown}", language.name);
    }
    answers[0].clone()
}

/// Returns a tool's reports and the end of its call as JSON, without the tool's own name.
async fn answer_of(host: &Host, language: &Language, thread: &str, arguments: &str) -> String {
    let request =
        CallRequest::from_json(language.tool(), arguments).on_thread(format!("{thread}-{}", language.name));
    answer(host.start_call(request).await.unwrap(), language).await
}

async fn answer(call: RunHandle, language: &Language) -> String {
    let (end, mut reports) = attended(call).await;
    for report in &mut reports {
        // The log line differs from call to call; see `every_language_is_told_whose_call_it_is`.
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

/// Returns the end of a run, and the reports of its tools until then.
async fn attended(mut run: RunHandle) -> (RunEnd, Vec<Report>) {
    let mut reports = Vec::new();
    while let Some(told) = run.events.next().await {
        if let RunUpdate::Live(LiveUpdate { piece: LiveContent::CallReport { report, .. }, .. }) = told {
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
        // A whole number is an integer in every notation that a model may use.
        json!({"text": "b a b a", "rounds": 2.0, "top": 1e0}),
        json!({"text": long}),
    ];
    for (at, case) in cases.iter().enumerate() {
        let answer = all_answer(&host, &format!("same-{at}"), case).await;
        println!("{}", &answer.chars().take(120).collect::<String>());
        if at == 0 {
            assert_eq!(serde_json::from_str::<Value>(&answer).unwrap(), whole_answer());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_fails_in_the_same_words() {
    let host = serve(compiled().path(), "").await;
    let own = r#"[{"result":{"status":"error","data":{"error":{"code":"empty_text","message":"There is no text to measure."}},"message":"There is no text to measure."}},[]]"#;
    let fault = r#"[{"fault":{"code":"tool_failed","message":"Tool 'TOOL' failed: The text holds a NUL character."}},[]]"#;
    for (case, said) in [(json!({"text": ""}), own), (json!({"text": "nul\u{0}"}), fault)] {
        assert_eq!(all_answer(&host, "failed", &case).await, said, "{case}");
    }
}

/// Returns the complete outcome of the first case, including reports.
fn whole_answer() -> Value {
    let log = "call call-1, attempt 1: agent direct, run RUN, thread THREAD";
    let data = json!({
        "bytes": 29,
        "characters": 29,
        "words": 6,
        "lines": 1,
        "top": [{"word": "three", "count": 3}, {"word": "two", "count": 2}, {"word": "one", "count": 1}],
        "seen": 0,
    });
    let reports = json!([
        {"log": {"level": "debug", "message": log}},
        {"progress": {"status": "running", "message": "measuring", "progress": 0.0}},
        {"output": "3 three\n"},
        {"output": "2 two\n"},
        {"output": "1 one\n"},
        {"progress": {"status": "done", "message": "measured 6 words", "progress": 1.0}},
    ]);
    json!([{"result": {"status": "success", "data": data}}, reports])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_takes_some_megabytes() {
    let host = serve(compiled().path(), "").await;
    // 2,000 words of 500 letters, in 2 MB.
    let text = format!("{} ", "ä".repeat(500)).repeat(2_000);
    let answer = all_answer(&host, "large", &json!({"text": text, "top": 1})).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let data = &answer[0]["result"]["data"];
    assert_eq!((&data["bytes"], &data["words"]), (&json!(2_002_000), &json!(2_000)));
    assert_eq!((&data["characters"], &data["top"][0]["count"]), (&json!(1_002_000), &json!(2_000)));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_refuses_bad_arguments_in_the_same_words() {
    let host = serve(compiled().path(), "").await;
    for (case, said) in refusals() {
        let answer = all_answer_text(&host, "refused", case).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let fault = &answer[0]["fault"];
        assert_eq!(fault["code"], "invalid_arguments", "{case}: {answer}");
        let unfit = "The arguments of 'TOOL' do not fit its schema:\n";
        let unread = "The arguments are not acceptable JSON: ";
        let message = fault["message"].as_str().unwrap();
        let words = message.strip_prefix(unfit).or_else(|| message.strip_prefix(unread));
        assert_eq!(words, Some(said), "{case}: {message}");
    }
}

/// Returns bad arguments, with the message that every language gives for them.
fn refusals() -> [(&'static str, &'static str); 19] {
    [
        ("{}", r#"- (whole value): "text" is a required property"#),
        (r#"{"text": 1}"#, r#"- /text: 1 is not of type "string""#),
        (r#"{"text": null}"#, r#"- /text: null is not of type "string""#),
        (r#"{"text": ["a"]}"#, r#"- /text: ["a"] is not of type "string""#),
        (r#"{"text": "a", "top": -1}"#, "- /top: -1 is less than the minimum of 0"),
        (r#"{"text": "a", "top": 21}"#, "- /top: 21 is greater than the maximum of 20"),
        (r#"{"text": "a", "top": 1.5}"#, r#"- /top: 1.5 is not of type "integer""#),
        (r#"{"text": "a", "top": "3"}"#, r#"- /top: "3" is not of type "integer""#),
        (r#"{"text": "a", "top": null}"#, r#"- /top: null is not of type "integer""#),
        (r#"{"text": "a", "rounds": 0}"#, "- /rounds: 0 is less than the minimum of 1"),
        (
            r#"{"text": "a", "rounds": 1000000001}"#,
            "- /rounds: 1000000001 is greater than the maximum of 1000000000",
        ),
        (
            r#"{"text": "a", "rounds": 18446744073709551616}"#,
            r#"the number 18446744073709551616 does not survive a round trip; send it as a string or with fewer digits. Sent: {"text": "a", "rounds": 18446744073709551616}"#,
        ),
        (r#"{"text": "a", "confirm": "yes"}"#, r#"- /confirm: "yes" is not of type "boolean""#),
        (
            r#"{"text": "a", "more": 1}"#,
            "- (whole value): Additional properties are not allowed ('more' was unexpected)\nIts arguments: `confirm`, `rounds`, `text`, `top`",
        ),
        (
            r#"{"top": 30, "rounds": 0, "confirm": 1, "more": true, "else": false}"#,
            "- (whole value): \"text\" is a required property\n- /top: 30 is greater than the maximum of 20\n- /rounds: 0 is less than the minimum of 1\n- /confirm: 1 is not of type \"boolean\"\n- (whole value): Additional properties are not allowed ('more', 'else' were unexpected)\nIts arguments: `confirm`, `rounds`, `text`, `top`",
        ),
        (
            r#"{"text": "a", "text": "b"}"#,
            r#"the key "text" is repeated at line 1 column 20. Sent: {"text": "a", "text": "b"}"#,
        ),
        (r#"["a"]"#, r#"- (whole value): ["a"] is not of type "object""#),
        (r#""a""#, r#"- (whole value): "a" is not of type "object""#),
        (r#"{"text": "a""#, r#"EOF while parsing an object at line 1 column 12. Sent: {"text": "a""#),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_is_told_whose_call_it_is() {
    let (toolbox, _) = built::load(compiled().path(), "").await;
    // A long text without single-byte characters, which must not be cut to fit.
    let thread = "€".repeat(150);
    for language in &LANGUAGES {
        let turn = ScriptedTurn::calls([(language.tool(), json!({"text": "a b"}))]);
        let model = ScriptedModel::new(vec![turn, ScriptedTurn::text("Done.")]);
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
            let end = host.call(CallRequest::from_json(language.tool(), arguments)).await.unwrap();
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
