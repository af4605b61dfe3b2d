//! Tests of the agent loop: turns, limits, and replies that are cut off.

use crate::world::{World, done, faults, reply, stopped};
use tollgate_agent::code::Code;
use tollgate_agent::limit_places::LimitPlaces;
use tollgate_agent::message::{Finish, Message, ModelReply, TokenUsage};
use tollgate_agent::run::{Effect, RunLimits, RunStatus};

fn limits(change: impl FnOnce(&mut RunLimits)) -> World {
    let mut limits = RunLimits::default();
    change(&mut limits);
    World::asked(limits)
}

#[test]
fn a1_a_turn_without_calls_is_the_answer() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.end("a", done("A"));
    world.say("It is done.");
    assert_eq!((world.status(), world.final_text()), (&RunStatus::Completed, "It is done."));
    assert_eq!(world.run.usage().steps, 2);
}

#[test]
fn a2_model_turns_end_the_run_and_a_final_text_at_the_last_is_an_answer() {
    for answers in [true, false] {
        let mut world = limits(|l| l.model_turns = 2);
        world.reply_as(reply("Let me see.", &[("a", "act", "{}")], Finish::Stop));
        world.pass_gates();
        world.end("a", done("A"));
        if answers {
            world.say("Done.");
            assert_eq!((world.status(), world.final_text()), (&RunStatus::Completed, "Done."));
        } else {
            world.reply(&[("b", "act", "{}")]);
            world.end("b", done("B"));
            assert_eq!((world.status(), world.final_text()), (&stopped("model_turns"), "Let me see."));
        }
    }
}

#[test]
fn a2_tool_calls_beyond_the_limit_are_answered_and_not_run() {
    let mut world = limits(|l| l.tool_calls = 2);
    world.reply(&[("a", "act", "{}")]);
    world.end("a", done("A"));
    world.reply(&[("b", "act", "{}"), ("c", "act", "{}")]);
    assert_eq!(world.status(), &stopped("tool_calls"));
    assert_eq!((world.code("b"), world.code("c")), (Some(Code::NotRun), Some(Code::NotRun)));
    assert_eq!(world.answers().len(), 3);
}

#[test]
fn a2_tokens_count_this_turns_reply_too() {
    let mut world = limits(|l| l.tokens = Some(100));
    let mut costly = reply("", &[("a", "nowhere", "{}")], Finish::Stop);
    costly.usage = TokenUsage { input_tokens: 90, output_tokens: 10 };
    world.reply_as(costly);
    assert_eq!(world.status(), &stopped("tokens"));
}

#[test]
fn a2_a_named_tool_ends_the_run_once_it_succeeds() {
    let mut world = limits(|l| l.stop_on_tools = vec!["act".to_owned()]);
    world.reply(&[("a", "act", "{}"), ("b", "look", "{}")]);
    world.end("a", faults(Code::Trapped));
    world.end("b", done("B"));
    world.reply(&[("c", "act", "{}")]);
    world.end("c", done("C"));
    assert_eq!(world.status(), &stopped("stop_on_tools"));
}

#[test]
fn a2_a_text_ends_the_run_and_calls_beside_it_are_not_run() {
    let mut world = limits(|l| l.stop_on_texts = vec!["GIVE UP".to_owned()]);
    world.reply_as(reply("I GIVE UP.", &[("a", "act", "{}")], Finish::Stop));
    assert_eq!((world.status(), world.code("a")), (&stopped("stop_on_texts"), Some(Code::NotRun)));
    let mut world = limits(|l| l.stop_on_texts = vec!["GIVE UP".to_owned()]);
    world.reply_as(reply("I GIVE UP", &[], Finish::Length));
    assert_eq!(world.status(), &RunStatus::Completed);
}

#[test]
fn a2_the_same_calls_again_and_again_end_the_run() {
    let mut world = limits(|l| l.identical_turns = 3);
    for (turn, arguments) in [(1, "{}"), (2, "{}"), (3, r#"{"x":1}"#), (4, "{}"), (5, "{}")] {
        let id = format!("c{turn}");
        world.reply(&[(&id, "act", arguments)]);
        world.end(&id, done("x"));
    }
    world.reply(&[("c6", "act", "{}")]);
    assert_eq!((world.status(), world.code("c6")), (&stopped("identical_turns"), Some(Code::NotRun)));
}

#[test]
fn a3_a_reply_that_was_cut_off_is_continued_twice() {
    static PLACES: LimitPlaces = LimitPlaces { model: "the settings", ..LimitPlaces::NONE };
    let mut world = World::asked(RunLimits::default());
    world.catalog.set_limit_places(&PLACES);
    for part in ["One, ", "two, ", "three"] {
        assert!(world.is_asking());
        world.reply_as(reply(part, &[], Finish::Length));
    }
    let RunStatus::Failed { error } = world.status() else { panic!("{:?}", world.status()) };
    assert!(error.contains("(finish reason: length)"), "{error}");
    assert!(error.contains("raise the model's `max_output_tokens` in the settings, or"), "{error}");
    assert_eq!(world.final_text(), "One, two, three", "what there is of the answer is kept");
    let notes = world.run.messages().iter().filter(|m| matches!(m, Message::Note(_))).count();
    assert_eq!((notes, world.run.usage().steps), (2, 1));
}

#[test]
fn a3_a_continued_reply_that_ends_completes_the_run() {
    let mut world = World::asked(RunLimits::default());
    world.reply_as(reply("One, ", &[], Finish::Length));
    world.reply_as(reply("two", &[], Finish::Stop));
    assert_eq!((world.status(), world.final_text()), (&RunStatus::Completed, "One, two"));
}

#[test]
fn a3_a_reply_that_is_withheld_or_empty_fails_the_run_with_its_reason() {
    for (text, finish, reason) in [
        ("", Finish::Filtered, "(finish reason: filtered)"),
        ("I was ab", Finish::Filtered, "(finish reason: filtered)"),
        (" \n", Finish::Stop, "(finish reason: stop)"),
    ] {
        let mut world = World::asked(RunLimits::default());
        world.reply_as(reply(text, &[], finish));
        let RunStatus::Failed { error } = world.status() else { panic!("{:?}", world.status()) };
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a3_a_call_that_was_cut_off_is_never_run() {
    for cut in ["", " ", r#"{"path": "/a"#, r#"{"n":1"#] {
        let mut world = World::asked(RunLimits::default());
        world.reply_as(reply("", &[("a", "act", "{}"), ("b", "act", cut)], Finish::Length));
        world.pass_gates();
        assert_eq!(world.running(), ["a"]);
        world.end("a", done("A"));
        assert!(world.answer("b").contains("cut off"), "{}", world.answer("b"));
    }
    let mut whole = World::asked(RunLimits::default());
    whole.reply_as(reply("", &[("a", "act", r#"{"n":1}"#)], Finish::Length));
    whole.pass_gates();
    assert_eq!(whole.running(), ["a"]);
}

#[test]
fn a4_arguments_that_are_not_json_are_quoted_and_count_as_a_turn() {
    let mut world = limits(|l| l.model_turns = 2);
    world.reply(&[("a", "act", "{path: 1}")]);
    let answer = world.answer("a");
    assert!(answer.contains("{path: 1}") && answer.contains("line 1 column 2"), "{answer}");
    world.reply(&[("b", "act", "[")]);
    assert_eq!(world.status(), &stopped("model_turns"));
}

#[test]
fn a_late_or_repeated_reply_is_dropped() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    let again =
        tollgate_agent::run::Input::Replied { ask: 1, reply: reply("Hm.", &[], Finish::Stop), hooked: None };
    assert_eq!(world.give(again.clone()).len(), 0);
    world.end("a", done("A"));
    assert_eq!(world.give(again).len(), 0);
    assert!(matches!(world.under_way.values().next(), Some(Effect::AskModel { ask: 2 })));
}

#[test]
fn a5_a_malformed_call_is_corrected_with_the_next_request_and_counts_as_a_turn() {
    let malformed =
        || ModelReply { correction: Some("Write it again.".to_owned()), ..reply("", &[], Finish::Stop) };
    let mut world = World::asked(RunLimits { model_turns: 2, ..RunLimits::default() });
    world.reply_as(malformed());
    assert!(world.is_asking());
    assert_eq!(world.run.messages().last(), Some(&Message::Note("Write it again.".to_owned())));
    world.reply_as(malformed());
    assert_eq!(world.status(), &stopped("model_turns"));
}

#[test]
fn a5_a_correction_beside_calls_is_read_after_their_answers() {
    let mut world = World::asked(RunLimits::default());
    let calls = reply("", &[("a", "act", "{}")], Finish::Stop);
    world.reply_as(ModelReply { correction: Some("Write it again.".to_owned()), ..calls });
    world.pass_gates();
    world.end("a", done("ok"));
    let last: Vec<_> = world.run.messages().iter().rev().take(2).collect();
    assert!(matches!(last[..], [Message::Note(_), Message::Answer(_)]), "{last:?}");
}
