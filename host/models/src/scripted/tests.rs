#![allow(clippy::unwrap_used)]

use super::answers::Answers;
use super::*;
use crate::{FaultKind, RetryPolicy, RetryingModel};
use serde_json::json;
use std::sync::Arc;
use tollgate_agent::message::{Answer, Finish};

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages: Arc::new(messages), ..ModelRequest::default() }
}

fn user(text: &str) -> Message {
    Message::User(text.to_owned())
}

fn answer(tool_name: &str, content: &str) -> Message {
    Message::Answer(Answer {
        call_id: "c1".into(),
        tool_name: tool_name.into(),
        content: content.into(),
        is_error: false,
        images: Vec::new(),
    })
}

async fn play(model: &dyn Model, messages: Vec<Message>) -> (Result<ModelReply, ModelFault>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let reply = model.reply(request(messages), &mut |delta| deltas.push(delta)).await;
    (reply, deltas)
}

fn in_file(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

#[tokio::test]
async fn a_file_of_turns_is_played_word_by_word() {
    let (_dir, path) = in_file(
        "tour.toml",
        r#"
        name = "tour"
        [[turn]]
        expect = "How long"
        reasoning = "I should count."
        text = "Let me count."
        calls = [{ name = "word_count", arguments = { path = "README.md" } }, { name = "outline", id = "x7" }]
        finish = "length"
        usage = { input_tokens = 7, output_tokens = 3 }
        [[turn]]
        text = "It has {{word_count/words}} words."
        "#,
    );
    let model = ScriptedModel::open(&path).unwrap();
    assert_eq!(model.name(), "tour");

    let (reply, deltas) = play(&model, vec![user("How long is it?")]).await;
    let reply = reply.unwrap();
    assert_eq!(reply.finish, Finish::Length);
    assert_eq!(reply.usage.total(), 10);
    assert_eq!(reply.message.calls[0].arguments, r#"{"path":"README.md"}"#);
    assert_eq!((reply.message.calls[1].id.as_str(), reply.message.calls[1].arguments.as_str()), ("x7", "{}"));
    assert_eq!(
        deltas,
        [
            Delta::Reasoning("I ".into()),
            Delta::Reasoning("should ".into()),
            Delta::Reasoning("count.".into()),
            Delta::Text("Let ".into()),
            Delta::Text("me ".into()),
            Delta::Text("count.".into()),
        ]
    );

    let (reply, _) =
        play(&model, vec![user("How long is it?"), answer("word_count", r#"{"words":1234}"#)]).await;
    assert_eq!(reply.unwrap().message.text, "It has 1234 words.");
}

#[tokio::test]
async fn a_json_recording_says_the_same() {
    let (_dir, path) =
        in_file("tour.JSON", r#"{"turn":[{"text":"hello","calls":[{"name":"t","arguments":"{broken"}]}]}"#);
    let (reply, _) = play(&ScriptedModel::open(&path).unwrap(), vec![user("hi")]).await;
    let message = reply.unwrap().message;
    assert_eq!((message.text.as_str(), message.calls[0].arguments.as_str()), ("hello", "{broken"));
}

#[tokio::test]
async fn answers_are_found_by_tool_number_and_pointer() {
    let messages = vec![
        answer("count", r#"{"words":1}"#),
        answer("count", "Counted.\n{\"words\":2,\"top\":[\"a\",\"b\"]}"),
        answer("outline", "# Title"),
    ];
    let filled = |text: &str| Answers::of(&messages).fill(text);
    assert_eq!(filled("{{count/words}} {{count#1/words}} {{count/top/1}}").unwrap(), "2 1 b");
    assert_eq!(
        filled("{{last}}, {{ outline }}, {{count/top}}, {{").unwrap(),
        r##"# Title, # Title, ["a","b"], {{"##
    );
    assert_eq!(
        Answers::of(&messages)
            .fill_value(&json!({"n": "{{count/words}}", "s": ["n={{count/words}}"]}))
            .unwrap(),
        json!({"n": 2, "s": ["n=2"]})
    );
    assert_eq!(
        filled("{{sum/x}}").unwrap_err(),
        "refers to {{sum/x}}, but the answers so far are of count, count, outline."
    );
    assert!(filled("{{count/pages}}").unwrap_err().contains("there is no /pages in that answer"));
    assert!(filled("{{outline/x}}").unwrap_err().contains("is not JSON: # Title"));
    assert!(filled("{{count#0}}").is_err() && filled("{{count#3}}").is_err());
}

#[tokio::test]
async fn a_recording_that_no_longer_fits_says_so() {
    let model = ScriptedModel::new(vec![ScriptedTurn::text("yes").expecting("two words")]).named("tour");
    let (reply, deltas) = play(&model, vec![answer("count", "three words")]).await;
    let fault = reply.unwrap_err();
    assert_eq!(fault.kind(), FaultKind::Permanent);
    assert_eq!(
        fault.message(),
        "Turn 1 of the recording `tour` expects \"two words\" in the last message, which reads \
         \"three words\". Record that turn again, or take out its `expect`."
    );
    assert!(deltas.is_empty());
}

#[tokio::test]
async fn a_recording_that_runs_out_says_so() {
    let model = ScriptedModel::new(vec![ScriptedTurn::text("one")]);
    assert!(play(&model, vec![user("hi")]).await.0.is_ok());
    let fault = play(&model, vec![user("hi")]).await.0.unwrap_err();
    assert_eq!(
        fault.message(),
        "The recording `recorded` has 1 turns, but turn 2 was requested. Add a turn to it, or make fewer requests."
    );
}

#[test]
fn files_that_are_no_recordings_are_refused_with_their_place() {
    let refused = |name, text| {
        let (_dir, path) = in_file(name, text);
        ScriptedModel::open(&path).unwrap_err().to_string()
    };
    let typo = refused("a.toml", "[[turn]]\ntxet = \"typo\"");
    assert!(typo.contains("txet") && typo.trim_end() == typo, "{typo:?}");
    assert!(refused("a.toml", "name = \"nothing\"").contains("contains no turns"));
    assert!(refused("a.json", "{").contains("line 1"));
    let missing = ScriptedModel::open(Path::new("no/such/file.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("the recording no/such/file.toml cannot be read"), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn a6_a_broken_attempt_is_declared_void_and_asked_again() {
    let turns = vec![
        ScriptedTurn::fault(ModelFault::transient("overloaded", Some(Duration::from_secs(3))))
            .with_text("Half"),
        ScriptedTurn::text("Whole"),
    ];
    let model = RetryingModel::new(ScriptedModel::new(turns), RetryPolicy::default());
    let began = tokio::time::Instant::now();
    let (reply, deltas) = play(&model, vec![user("hi")]).await;
    assert_eq!(reply.unwrap().message.text, "Whole");
    assert!(began.elapsed() >= Duration::from_secs(3));
    let [Delta::Text(half), Delta::Restarted { attempt: 2, pause, reason, .. }, Delta::Text(whole)] =
        deltas.as_slice()
    else {
        unreachable!("{deltas:?}");
    };
    assert_eq!((half.as_str(), whole.as_str(), reason.as_str()), ("Half", "Whole", "overloaded"));
    assert!(*pause >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a6_a_permanent_fault_ends_at_once_with_the_providers_words() {
    let turns = vec![ScriptedTurn::fault(ModelFault::permanent("no such key")), ScriptedTurn::text("never")];
    let model = RetryingModel::new(ScriptedModel::new(turns), RetryPolicy::default());
    let (reply, deltas) = play(&model, vec![user("hi")]).await;
    assert_eq!(reply.unwrap_err().message(), "no such key");
    assert!(deltas.is_empty());
}
