#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;

fn openai_calls(deltas: &[serde_json::Value]) -> Vec<(String, String, String)> {
    let mut frames = Frames::default();
    for delta in deltas {
        let frame = json!({"choices": [{"delta": {"tool_calls": [delta]}}]});
        let _ = frames.read(Provider::Openai, &frame.to_string());
    }
    assert_eq!(frames.fault(), None);
    let calls = frames.calls.into_iter();
    calls.map(|call| (call.id, call.name, call.arguments)).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn pieces_of_interleaved_calls_find_each_other_by_index() {
    let calls = openai_calls(&[
        json!({"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}}),
        json!({"index": 1, "id": "b", "function": {"name": "two", "arguments": "{"}}),
        json!({"index": 0, "function": {"arguments": "{\"x\""}}),
        json!({"index": 1, "id": null, "function": {"name": null, "arguments": "}"}}),
        json!({"index": 0, "function": {"arguments": ":1}"}}),
    ]);
    assert_eq!(calls, [call("a", "one", "{\"x\":1}"), call("b", "two", "{}")]);
}

#[test]
fn calls_that_share_one_index_are_told_apart_by_their_ids() {
    let calls = openai_calls(&[
        json!({"index": 0, "id": "a", "function": {"name": "one", "arguments": "{}"}}),
        json!({"index": 0, "id": "b", "function": {"name": "one", "arguments": "{}"}}),
    ]);
    assert_eq!(calls, [call("a", "one", "{}"), call("b", "one", "{}")]);
}

#[test]
fn l8_calls_without_an_index_or_an_id_are_still_calls() {
    let calls = openai_calls(&[
        json!({"function": {"name": "one", "arguments": "{\"x\""}}),
        json!({"function": {"arguments": ":1}"}}),
        json!({"function": {"name": "two", "arguments": {"y": 2}}}),
    ]);
    assert_eq!(calls, [call("", "one", "{\"x\":1}"), call("", "two", "{\"y\":2}")]);
}

#[test]
fn l8_a_repeated_id_with_an_index_of_its_own_is_a_call_of_its_own() {
    let calls = openai_calls(&[
        json!({"index": 0, "id": "a", "function": {"name": "one", "arguments": "{}"}}),
        json!({"index": 1, "id": "a", "function": {"name": "one", "arguments": "{}"}}),
    ]);
    assert_eq!(calls, [call("a", "one", "{}"), call("a", "one", "{}")]);
}

#[test]
fn a_huge_index_costs_nothing() {
    let calls = openai_calls(&[
        json!({"index": u64::MAX, "id": "a", "function": {"name": "one", "arguments": "{}"}}),
    ]);
    assert_eq!(calls.len(), 1);
}

#[test]
fn l9_arguments_that_are_objects_are_kept_word_for_word() {
    let mut frames = Frames::default();
    let _ = frames.read(
        Provider::Ollama,
        r#"{"message":{"tool_calls":[{"function":{"name":"t","arguments":{"b":1.10,"a":1,"a":2}}}]},"done":true}"#,
    );
    assert_eq!(frames.calls[0].arguments, r#"{"b":1.10,"a":1,"a":2}"#);
    assert!(frames.are_whole());
}

#[test]
fn a_reply_that_never_ends_is_bounded() {
    let mut frames = Frames::default();
    let frame = format!("{{\"choices\":[],\"pad\":\"{}\"}}", "x".repeat(1 << 20));
    for _ in 0..40 {
        let _ = frames.read(Provider::Openai, &frame);
    }
    assert!(frames.fault().unwrap().message().contains("bytes"));
}

#[test]
fn a_prompt_that_was_blocked_is_a_whole_reply() {
    let mut frames = Frames::default();
    let _ = frames.read(Provider::Gemini, r#"{"promptFeedback":{"blockReason":"OTHER"}}"#);
    assert_eq!(frames.finish.as_deref(), Some("SAFETY"));
}

#[test]
fn a_reply_of_too_many_calls_is_a_fault_that_stays() {
    let call = json!({"id": "a", "function": {"name": "one", "arguments": {}}});
    let calls: Vec<_> = (0..8_000).map(|_| call.clone()).collect();
    let numbered: Vec<_> = (0..8_000)
        .map(|index| json!({"index": index, "id": "a", "function": {"name": "one", "arguments": "{}"}}))
        .collect();
    let parts: Vec<_> = (0..8_000).map(|_| json!({"functionCall": {"name": "one", "args": {}}})).collect();
    for (provider, frame) in [
        (Provider::Openai, json!({"choices": [{"delta": {"tool_calls": numbered}}]})),
        (Provider::Ollama, json!({"message": {"tool_calls": calls}, "done": true})),
        (Provider::Gemini, json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})),
    ] {
        let mut frames = Frames::default();
        let _ = frames.read(provider, &frame.to_string());
        let fault = frames.fault().unwrap();
        assert!(fault.to_string().contains("more than 1024 calls"), "{fault}");
        assert_eq!(fault.kind(), crate::FaultKind::Permanent);
        assert!(frames.calls.len() <= MAX_REPLY_CALLS && !frames.are_whole());
    }
    let mut frames = Frames::default();
    for index in 0..2_000 {
        let block = json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "tool_use", "id": "a", "name": "one", "input": {}}});
        let _ = frames.read(Provider::Anthropic, &block.to_string());
    }
    assert!(frames.fault().is_some() && frames.calls.len() <= MAX_REPLY_CALLS);
}

#[test]
fn an_event_that_is_too_long_is_a_fault_that_names_the_limit() {
    let long = json!({"choices": [{"delta": {"content": "x".repeat(MAX_EVENT_BYTES)}}]});
    let mut frames = Frames::default();
    let _ = frames.read(Provider::Openai, &long.to_string());
    let fault = frames.fault().unwrap();
    assert!(fault.to_string().contains("the limit for one event is 4194304"), "{fault}");
    assert_eq!(fault.kind(), crate::FaultKind::Permanent);
    assert!(frames.last_text.is_empty() && !frames.are_whole());
}

#[test]
fn a_long_reply_whose_events_arrive_in_parts_is_read_to_its_end() {
    let frame = json!({"choices": [{"delta": {"content": "word "}}]}).to_string();
    let mut frames = Frames::default();
    for _ in 0..2 * MAX_QUIET {
        assert_eq!(frames.read_piece(), Ok(()));
        assert_eq!(frames.read(Provider::Openai, &frame), Ok(()));
    }
    assert_eq!(frames.fault(), None);
    // Comments alone do not raise the limit.
    let mut frames = Frames::default();
    let refused =
        (0..=MAX_QUIET).find(|_| frames.read_piece().is_err() || frames.read(Provider::Openai, "").is_err());
    assert!(refused.is_some_and(|read| read >= MAX_QUIET / 2), "{refused:?}");
    let fault = frames.fault().unwrap();
    assert!(fault.to_string().contains("more than 16384 comments"), "{fault}");
}

#[test]
fn z3_an_event_of_tiny_values_is_not_parsed() {
    for data in [
        format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{}]}}}}]}}"#, "{},".repeat(1_000_000)),
        format!(r#"{{"choices":[{}{{}}]}}"#, "{},".repeat(1_000_000)),
        "[".repeat(2_000_000),
    ] {
        let mut frames = Frames::default();
        let fault = frames.read(Provider::Openai, &data).unwrap_err();
        assert!(fault.to_string().contains("bytes of memory"), "{fault}");
        assert_eq!(frames.fault(), Some(&fault));
    }
    // A long text takes little more than itself.
    let long = json!({"choices": [{"delta": {"content": "\n".repeat(MAX_EVENT_BYTES / 2 - 100)}}]});
    assert_eq!(Frames::default().read(Provider::Openai, &long.to_string()), Ok(()));
}
