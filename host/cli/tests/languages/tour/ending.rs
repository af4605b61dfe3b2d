//! Tests of the ways in which a call ends: answers, errors of each kind, questions, cancellation.

use super::{all_data, all_fault, all_tour, host, written};
use crate::built::LANGUAGES;
use crate::{all_equal, attended};
use serde_json::{Value, json};
use tollgate::run::{LiveContent, LiveUpdate, RunUpdate};
use tollgate::{CallRequest, Decision, Host, RunEnd, RunStatus};
use tollgate_sandbox::Report;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_ends_a_call_with_each_error() {
    let host = host().await;
    for (how, code) in [
        ("invalid-arguments", "tool_invalid_arguments"),
        ("execution-failed", "tool_failed"),
        ("denied", "tool_denied"),
        ("not-found", "tool_not_found"),
        ("internal", "tool_internal"),
    ] {
        let arguments = json!({"what": "fail", "how": how, "text": "Why, in wörds."});
        let (found, words) = all_fault(&host, "fail", &arguments).await;
        assert_eq!(found, code);
        // The model does not read the message of an internal error; the operator does.
        assert_eq!(words.contains("Why, in wörds."), how != "internal", "{words}");
        let (end, _) = all_tour(&host, "fail", &arguments).await;
        assert!(end.to_string().contains("Why, in wörds."), "{end}");
    }
    for (how, data) in
        [("plain", Value::Null), ("coded", json!({"error": {"code": "full", "message": "It is full."}}))]
    {
        let arguments = json!({"what": "error", "how": how, "text": "It is full."});
        let (end, _) = all_tour(&host, "error", &arguments).await;
        let result = &end["result"];
        assert_eq!(result["status"], "error");
        assert_eq!((&result["data"], &result["message"]), (&data, &json!("It is full.")));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_answers_with_words_beside_its_data_and_at_length() {
    let host = host().await;
    let (end, _) =
        all_tour(&host, "message", &json!({"what": "message", "text": "Three.", "count": 3})).await;
    let result = &end["result"];
    assert_eq!((&result["status"], &result["data"]), (&json!("success"), &json!({"count": 3})));
    assert_eq!(result["message"], "Three.");
    let data = all_data(&host, "big", &json!({"what": "big", "count": 300})).await;
    assert_eq!(data, "x".repeat(300 * 1024));
    assert_eq!(all_data(&host, "unknown", &json!({"what": "act", "how": "sing"})).await, "unknown");
}

/// Returns the question that all languages ask, and the result of one decision.
async fn decided(host: &Host, how: &str, value: &Value) -> (Value, Value) {
    let (mut tickets, mut answers) = (Vec::new(), Vec::new());
    for language in &LANGUAGES {
        let arguments = json!({"what": "suspend", "how": how, "text": "you", "words": ["a"], "count": 1});
        let end = host.call(CallRequest::from_json(language.tour(), arguments.to_string())).await.unwrap();
        tickets.push(serde_json::to_string(&end.waiting[0].ticket).unwrap());
        let target = end.waiting[0].call_id.as_str();
        let mut decision = Decision::resume(target, value.clone()).with_id("d1");
        decision.reason = (how != "plain").then(|| "Because.".to_owned());
        let (end, reports) = attended(host.decide(&end.run_id, decision).await.unwrap()).await;
        answers.push(written(language, &end, &reports));
    }
    let ticket = all_equal(&tickets, how);
    let answer: Value = serde_json::from_str(&all_equal(&answers, how)).unwrap();
    (serde_json::from_str(&ticket).unwrap(), answer[0]["result"]["data"].clone())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_suspends_and_goes_on_in_each_way() {
    let host = host().await;
    let asked = |how: &str| {
        json!({
            "action": "choose", "message": "Which one, you?", "parameters": {"words": ["a"], "count": 1},
            "response_schema": {"type": ["object", "string", "boolean"]},
            "resume_mode": how,
        })
    };
    let resumed = |text: &str, value: &Value| {
        json!({
            "text": text, "action": "choose", "message": "Which one, you?", "value": value,
            "reason": "Because.", "decision": "d1", "suspension": true, "decided": true,
        })
    };
    let replay = "replay-tool-call";
    let value = json!({"b": [1, "ä"], "a": null});
    assert_eq!(decided(&host, replay, &value).await, (asked(replay), resumed("you", &value)));

    let use_it = "use-decision-as-tool-result";
    assert_eq!(decided(&host, use_it, &json!("mine")).await, (asked(use_it), json!("mine")));

    let pass = "pass-decision-to-tool";
    let value = json!({"what": "suspend", "text": "others"});
    assert_eq!(decided(&host, pass, &value).await, (asked(pass), resumed("others", &value)));

    let (ticket, data) = decided(&host, "plain", &json!(true)).await;
    assert_eq!((&ticket["action"], &ticket["message"]), (&json!("confirm"), &json!("Go on with you?")));
    assert_eq!((&data["value"], &data["reason"]), (&json!(true), &Value::Null));
    assert_eq!((&data["action"], &data["message"]), (&json!("confirm"), &json!("Go on with you?")));
}

/// Cancels a call once it waits, and returns its end and its later reports.
async fn cancelled(host: &Host, tool: String) -> (RunEnd, Vec<Report>) {
    let request = CallRequest::from_json(tool, json!({"what": "cancel"}).to_string());
    let mut call = host.start_call(request).await.unwrap();
    let mut reports = Vec::new();
    while let Some(told) = call.events.next().await {
        if let RunUpdate::Live(LiveUpdate { piece: LiveContent::CallReport { report, .. }, .. }) = told {
            reports.push(report);
            call.cancel();
        }
    }
    (call.wait().await.unwrap(), reports)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_sees_itself_that_it_is_cancelled() {
    let host = host().await;
    for language in &LANGUAGES {
        // On a busy machine a guest may not check in time, and is then stopped without a report.
        let mut reports = Vec::new();
        for _ in 0..5 {
            let (end, told) = cancelled(&host, language.tour()).await;
            assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
            reports = told;
            if reports.len() > 1 {
                break;
            }
        }
        let told = json!([
            {"progress": {"status": "running", "message": "waiting", "progress": 0.0}},
            {"log": {"level": "info", "message": "saw the cancellation"}},
        ]);
        assert_eq!(json!(reports), told, "{}", language.name);
    }
}
