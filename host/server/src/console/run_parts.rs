//! The rows and meters of a run's page.

use super::layout;
use super::question::{answer_words, value_list};
use super::text;
use super::timeline::{CallRow, Kind, Row, Scale, Segment, Turn, WIDTH};
use super::viewer::Viewer;
use crate::sse::{has_instructions, hide_instructions};
use maud::{Markup, html};
use serde_json::Value;
use std::borrow::Cow;
use tollgate_agent::child::ChildStatus;
use tollgate_agent::gate::Verdict;
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::{CallEnd, RunStatus, StoredEvent};
use tollgate_agent::state::KeyUpdate;
use tollgate_agent::text::escaped_json;

/// The height of a bar, in the units of its width.
const HEIGHT: u64 = 14;
/// The maximum number of bytes of an argument or result among the details of a call.
const MAX_DETAIL_BYTES: usize = 1_200;

/// Renders the labels of the scale.
pub(super) fn axis(scale: &Scale) -> Markup {
    html! {
        div.axis #run-axis aria-hidden="true" {
            span { "Working time" @if !scale.folds.is_empty() { ", " (text::count(scale.folds.len() as u64, "wait")) " folded" } } div.ticks {
                @for at in 0..=4 {
                    @let x = WIDTH * at / 4;
                    span { @if !scale.folds.iter().any(|(from, to, _)| (*from..*to).contains(&x)) { (text::span(scale.working_ms(x))) } }
                }
            } span {}
        }
    }
}

/// Explains the kinds of segments.
pub(super) fn legend() -> Markup {
    html! {
        ul.legend aria-label="Segments" {
            @for (class, words) in [("thought", "model"), ("judged", "judged"), ("waited", "waited for a person"), ("ran", "ran"), ("lost", "failed attempt")] {
                li { svg.key viewBox="0 0 12 12" aria-hidden="true" { rect.(class) width="12" height="12" {} } (words) }
            }
        }
    }
}

/// The limits of one attempt of a call, as they are now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AttemptLimits {
    /// The maximum wall time in milliseconds.
    pub(super) timeout_ms: u64,
    /// The maximum fuel; `None` for tools that are not components.
    pub(super) fuel: Option<u64>,
    /// The maximum memory in bytes; `None` for tools that are not components.
    pub(super) memory_bytes: Option<u64>,
}

/// Renders a row of the timeline. `limits` are those of a call whose tool is served.
pub(super) fn row(
    row: &Row,
    limits: Option<AttemptLimits>,
    index: usize,
    scale: &Scale,
    now_ms: u64,
    run_id: &str,
) -> Markup {
    let id = format!("row-{index}");
    match row {
        Row::Message { text } => html! {
            li.message id=(id) { span.kind { "User" } p.text { (text::lines(text, 1_500)) } }
        },
        Row::Turn(turn) => turn_row(turn, &id, scale, now_ms),
        Row::Call(call) => call_row(call, limits, &id, scale, now_ms, run_id),
        Row::Note { words } => html! { li.note id=(id) { p { (text::line(words, 400)) } } },
        Row::End { status, text } => end_row(status, text, &id),
    }
}

fn turn_row(turn: &Turn, id: &str, scale: &Scale, now_ms: u64) -> Markup {
    let to_ms = turn.replied_ms.unwrap_or(now_ms).max(turn.began_ms);
    let took = to_ms - turn.began_ms;
    html! {
        li.turn id=(id) {
            span.name { "Turn " (turn.step) @if turn.replied_ms.is_none() { " " span.muted { "asking" } } }
            (bar(&[("thought", turn.began_ms, to_ms)], scale, &format!("model, {}", text::span(took))))
            span.took { (text::span(took)) }
            @if !turn.text.trim().is_empty() { p.text { (text::lines(turn.text.trim(), 4_000)) } }
            @if turn.tokens.total() > 0 || turn.has_reasoning || turn.model.is_some() {
                p.aside-words {
                    @if let Some(model) = &turn.model { (text::line(model, 100)) @if turn.tokens.total() > 0 { " · " } }
                    @if turn.tokens.total() > 0 { (text::amount(turn.tokens.input_tokens)) " tokens read, " (text::amount(turn.tokens.output_tokens)) " written" }
                    @if turn.has_reasoning { " · reasoned" }
                }
            }
        }
    }
}

fn call_row(
    call: &CallRow,
    limits: Option<AttemptLimits>,
    id: &str,
    scale: &Scale,
    now_ms: u64,
    run_id: &str,
) -> Markup {
    let segments = call.segments_until(now_ms);
    let waited: u64 = segments.iter().filter(|segment| segment.kind == Kind::Waited).map(length).sum();
    let worked: u64 = segments.iter().filter(|segment| segment.kind != Kind::Waited).map(length).sum();
    let spoken: Vec<String> = segments
        .iter()
        .map(|segment| format!("{} {}", segment.kind.words(), text::span(length(segment))))
        .collect();
    let drawn: Vec<_> =
        segments.iter().map(|segment| (segment.kind.class(), segment.from_ms, segment.to_ms)).collect();
    html! {
        li.call id=(id) {
            span.name { (sign(call)) span.tool { (text::line(&call.tool_name, 64)) } }
            (bar(&drawn, scale, &spoken.join(", ")))
            span.took {
                @if worked > 0 || waited == 0 { (text::span(worked)) }
                @if waited > 0 { span.waited { "waited " (text::span(waited)) } }
            }
            details {
                summary { (outcome_line(call)) }
                (details(call, limits, run_id))
            }
        }
    }
}

fn length(segment: &Segment) -> u64 {
    segment.to_ms - segment.from_ms
}

fn sign(call: &CallRow) -> Markup {
    let (class, sign, words) = match &call.end {
        Some(CallEnd::Result(result)) if result.is_success() => ("good", "✓", "succeeded"),
        Some(end) if end.status() == tollgate_agent::run::CallStatus::Cancelled => {
            ("quiet", "–", "cancelled")
        }
        Some(_) => ("bad", "✕", "failed"),
        None if call.is_waiting() => ("waits", "?", "waiting"),
        None => ("busy", "▶", "running"),
    };
    html! { span.mark.(class) { span aria-hidden="true" { (sign) } span.hidden { (words) " " } } }
}

/// Returns the outcome of a call, or its arguments as long as it has none.
fn outcome_line(call: &CallRow) -> Markup {
    html! {
        @match &call.end {
            Some(CallEnd::Fault(fault)) => { code.code { (fault.code.as_str()) } " " (text::line(&fault.message, 160)) },
            Some(CallEnd::Result(result)) => {
                @match &result.message {
                    Some(message) => (text::line(message, 160)),
                    None => (text::line(&result.data.to_string(), 160)),
                }
            },
            None => {
                span.muted { (call.is_at().unwrap_or("running")) " " }
                @if let Some(arguments) = &call.arguments { (text::line(arguments.text(), 140)) }
            },
        }
    }
}

fn details(call: &CallRow, limits: Option<AttemptLimits>, run_id: &str) -> Markup {
    html! {
        div.details {
            @if let Some(arguments) = &call.arguments { h3 { "Arguments" } (shown_json(arguments.text(), || arguments.to_value(), run_id)) }
            @if let Some(end) = &call.end { (result(end, run_id)) }
            @if !call.verdicts.is_empty() {
                h3 { "Gates" }
                ul.plain { @for verdict in &call.verdicts { li { code { (text::line(&verdict.gate, 64)) } " " (verdict_words(&verdict.verdict)) } } }
            }
            @if !call.asked.is_empty() {
                h3 { "Questions" }
                ul.plain { @for (index, asked) in call.asked.iter().enumerate() { li {
                    (text::line(&asked.ticket.message, 300))
                    @if let Some(decision) = call.decisions.get(index) { " — " (answer_words(decision)) }
                } } }
            }
            @if !call.children.is_empty() {
                h3 { "Child runs" }
                ul.plain { @for child in &call.children { li {
                    (layout::run_link(&child.run_id, html! { (text::line(&child.agent_id, 64)) " " code { (text::short_id(&child.run_id)) } })) " "
                    (layout::badge(child.status.as_ref().map_or("running", child_word)))
                } } }
            }
            @if let Some(change) = &call.change {
                p.muted { "Changed " @for (index, update) in change.updates.iter().enumerate() { @if index > 0 { ", " } code { (text::line(&update.key, 130)) } } " (revision " (change.revision) ")" }
            }
            p.muted { code { (text::line(&call.call_id, 64)) } @if call.usage.attempts > 0 { (used(&call.usage, limits)) } }
        }
    }
}

/// Renders the usage of a call's attempts against the limits of as many attempts. Its memory is that of
/// one attempt.
fn used(usage: &Usage, limits: Option<AttemptLimits>) -> Markup {
    let attempts = u64::from(usage.attempts);
    let time = limits.map(|limits| limits.timeout_ms.saturating_mul(attempts));
    let fuel = limits.and_then(|limits| limits.fuel).map(|fuel| fuel.saturating_mul(attempts));
    let memory = limits.and_then(|limits| limits.memory_bytes);
    let of = |limit: Option<String>| limit.map_or_else(String::new, |limit| format!(" of {limit}"));
    let at_least = if usage.at_least { "at least " } else { "" };
    html! {
        " · " (text::count(attempts, "attempt")) ", "
        (text::micros(usage.wall_us)) (of(time.map(text::span))) " in the tool"
        @if usage.fuel > 0 { ", " (at_least) (text::amount(usage.fuel)) (of(fuel.map(text::amount))) " fuel" }
        @if usage.memory_bytes > 0 { ", " (at_least) (text::bytes(usage.memory_bytes)) (of(memory.map(text::bytes))) " memory" }
    }
}

fn result(end: &CallEnd, run_id: &str) -> Markup {
    html! {
        @match end {
            CallEnd::Result(result) => {
                h3 { "Result" }
                @if let Some(message) = &result.message { p.text { (text::lines(message, MAX_DETAIL_BYTES)) } }
                @if !result.data.is_null() { (shown_json(&result.data.text(), || Cow::Borrowed(&*result.data), run_id)) }
            },
            CallEnd::Fault(fault) => {
                h3 { "Fault " (layout::code(fault.code.as_str())) }
                p.text { (text::lines(&fault.message, MAX_DETAIL_BYTES)) }
                @if let Some(detail) = &fault.detail { p.text.muted { (text::lines(detail, MAX_DETAIL_BYTES)) } }
            },
        }
    }
}

/// Renders JSON. A text that is too long to be shown is not parsed, because its value takes many times its
/// memory.
fn shown_json<'v>(text: &str, value: impl FnOnce() -> Cow<'v, Value>, run_id: &str) -> Markup {
    match text.len() <= MAX_DETAIL_BYTES {
        true => shown_value(&value(), run_id),
        false => {
            let start = &text[..text.floor_char_boundary(MAX_DETAIL_BYTES)];
            cut_value(&within(escaped_json(start.to_owned()), MAX_DETAIL_BYTES).0, run_id)
        }
    }
}

/// Renders a value, whole if it is short.
fn shown_value(value: &Value, run_id: &str) -> Markup {
    let text = text::json(value);
    if text.len() <= MAX_DETAIL_BYTES {
        return value_list(value);
    }
    cut_value(&within(text, MAX_DETAIL_BYTES).0, run_id)
}

fn cut_value(shown: &str, run_id: &str) -> Markup {
    html! {
        pre { (text::body(shown)) }
        p.muted { "Cut; the " a href={ "/console/runs/" (layout::segment(run_id)) "?view=events" } { "events" } " have all of it." }
    }
}

/// Cuts a text to `max_bytes`. Returns whether all of it is left.
pub(super) fn within(mut text: String, max_bytes: usize) -> (String, bool) {
    let is_whole = text.len() <= max_bytes;
    if !is_whole {
        tollgate_agent::text::cut(&mut text, max_bytes);
    }
    (text, is_whole)
}

fn verdict_words(verdict: &Verdict) -> Markup {
    html! {
        @match verdict {
            Verdict::Allow => "allows it",
            Verdict::SetResult(_) => "answers in its place",
            Verdict::Suspend(ticket) => { "asks: " (text::line(&ticket.message, 300)) },
            Verdict::Deny(why) => { "denies it: " (text::line(why, 300)) },
            Verdict::Block(why) => { "blocks the run: " (text::line(why, 300)) },
        }
    }
}

fn child_word(status: &ChildStatus) -> &'static str {
    match status {
        ChildStatus::Completed => "completed",
        _ => "failed",
    }
}

fn end_row(status: &RunStatus, answer: &str, id: &str) -> Markup {
    let (word, why) = status_words(status);
    html! {
        li.end id=(id) {
            span.kind { (layout::badge(word)) @if let Some(why) = why { " " (text::line(&why, 400)) } }
            @if !answer.trim().is_empty() { p.text.answer { (text::lines(answer.trim(), 4_000)) } }
        }
    }
}

fn status_words(status: &RunStatus) -> (&'static str, Option<String>) {
    match status {
        RunStatus::Completed => ("completed", None),
        RunStatus::Blocked { reason } => ("blocked", Some(reason.clone())),
        RunStatus::Stopped { limit } => ("stopped", Some(format!("it reached its limit {limit}"))),
        RunStatus::Cancelled { reason } => ("cancelled", Some(reason.clone())),
        RunStatus::Failed { error } => ("failed", Some(error.clone())),
    }
}

/// Draws segments on the scale. Their words are read to people who do not see them.
fn bar(segments: &[(&str, u64, u64)], scale: &Scale, words: &str) -> Markup {
    html! {
        svg.bar viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(words) {
            @for (from, to, _) in &scale.folds { rect.fold x=(from) width=(to - from) height=(HEIGHT) {} }
            @for (class, from, to) in segments {
                @let x = scale.x(*from).min(WIDTH - 3);
                rect.(class) x=(x) width=(scale.x(*to).saturating_sub(x).max(3)) height=(HEIGHT) {}
            }
        }
    }
}

/// Renders an amount against its limit.
pub(super) fn meter(label: &str, used: u64, limit: Option<u64>, shown: fn(u64) -> String) -> Markup {
    let width = limit.map(|limit| (used.min(limit) * 100).checked_div(limit).unwrap_or(0));
    let class = match width {
        Some(90..) => "bad",
        Some(70..) => "waits",
        _ => "good",
    };
    html! {
        div.meter {
            span.label { (label) } span.value { (shown(used)) @if let Some(limit) = limit { span.muted { " of " (shown(limit)) } } }
            @if let Some(width) = width {
                svg viewBox="0 0 100 2" preserveAspectRatio="none" aria-hidden="true" {
                    rect.track width="100" height="2" {} rect.(class) width=(width.max(u64::from(used > 0))) height="2" {}
                }
            }
        }
    }
}

/// Returns an event's type, and its content as JSON on one line. Contents of guests are not parsed, because
/// their values may take many times the memory of the record. The instructions of agents, which are the
/// operator's, are left out unless `sees_instructions` is set.
pub(super) fn event_parts(event: &StoredEvent, sees_instructions: bool) -> (String, String) {
    let mut text = serde_json::to_string(&event.event).unwrap_or_default();
    if !sees_instructions && has_instructions(&event.event) {
        let mut value = serde_json::from_str(&text).unwrap_or_default();
        hide_instructions(&mut value);
        text = value.to_string();
    }
    // The type comes first.
    let parts = text.strip_prefix(r#"{"type":""#).and_then(|text| text.split_once('"'));
    let Some((kind, members)) = parts else { return (String::new(), text) };
    (kind.to_owned(), format!("{{{}", members.strip_prefix(',').unwrap_or(members)))
}

/// Renders the update of one key.
pub(super) fn update_row(event: &StoredEvent, revision: u64, update: &KeyUpdate, viewer: &Viewer) -> Markup {
    html! {
        tr {
            td.num { (revision) }
            td { (text::moment(event.at_ms, viewer.now_ms)) }
            th scope="row" { code { (text::line(&update.key, 130)) } }
            td.json {
                @match (&update.value, &update.fold, &update.update) {
                    (Some(value), ..) => code { (text::short_json(value, 500)) },
                    (None, Some(fold), Some(change)) => { (fold.reducer.as_str()) " " code { (text::short_json(change, 500)) } },
                    _ if viewer.shared.host.shows_key(&update.key) => span.muted { "not kept" },
                    _ => span.muted { "not visible" },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_agent::run::Event;

    #[test]
    fn an_event_is_its_type_and_the_rest_of_its_text() {
        for (event, kind, content) in [
            (Event::StepStarted { step: 7 }, "step_started", r#"{"step":7}"#),
            (Event::RunWaiting, "run_waiting", "{}"),
        ] {
            let stored = StoredEvent { run_id: "r".into(), number: 1, at_ms: 0, event };
            assert_eq!(event_parts(&stored, false), (kind.to_owned(), content.to_owned()));
        }
    }

    #[test]
    fn json_that_is_too_long_to_be_shown_is_text_that_is_visible() {
        let long = format!("[\"\u{202e}{}\"]", "x".repeat(MAX_DETAIL_BYTES));
        let shown = shown_json(&long, || unreachable!("it is not parsed"), "r").into_string();
        assert!(shown.contains("\\u202e") && !shown.contains('\u{202e}'));
    }

    #[test]
    fn usage_is_shown_against_the_limits_of_its_attempts() {
        let usage =
            Usage { fuel: 47_954, wall_us: 40_000, memory_bytes: 196_608, attempts: 2, ..Usage::default() };
        let of_component =
            AttemptLimits { timeout_ms: 15_000, fuel: Some(20_000_000_000), memory_bytes: Some(64 << 20) };
        for (limits, words) in [
            (
                Some(of_component),
                "40 ms of 30.0 s in the tool, 47.9 k of 40 G fuel, 192 KiB of 64 MiB memory",
            ),
            (None, "40 ms in the tool, 47.9 k fuel, 192 KiB memory"),
        ] {
            assert_eq!(used(&usage, limits).into_string(), format!(" · 2 attempts, {words}"));
        }
        let cut = used(&Usage { at_least: true, ..usage }, None).into_string();
        assert!(cut.ends_with(", at least 47.9 k fuel, at least 192 KiB memory"), "z21: {cut}");
        let native = Usage { wall_us: 700, attempts: 1, ..Usage::default() };
        let limits = AttemptLimits { timeout_ms: 1_500, ..AttemptLimits::default() };
        let shown = used(&native, Some(limits)).into_string();
        assert_eq!(shown, " · 1 attempt, 700 µs of 1.50 s in the tool");
    }
}
