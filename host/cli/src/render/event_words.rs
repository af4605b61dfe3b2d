//! The words for the events of a run: the same while a person follows it and in its record.

use crate::terminal::output::{BAD, DIM, GOOD, NAME, WAITS};
use crate::terminal::quantity;
use crate::terminal::text::shown_line;
use anstyle::Style;
use tollgate_agent::child::ChildStatus;
use tollgate_agent::gate::Verdict;
use tollgate_agent::outcome::Fault;
use tollgate_agent::run::CallEnd;
use tollgate_agent::run::event::CheckedCall;

/// The maximum number of characters of arguments, results and reasons on one line.
pub(super) const LINE_CHARS: usize = 100;
/// The maximum number of characters of a name.
const NAME_CHARS: usize = 64;

/// Returns a name, cleaned and cut.
pub(super) fn name(text: &str) -> String {
    shown_line(text, NAME_CHARS)
}

/// Returns a call with its arguments: `→ echo {"text":"hello"}`.
pub(super) fn call(proposed: &CheckedCall) -> String {
    let arguments = proposed.arguments.as_ref().map(|a| shown_line(a.text(), LINE_CHARS));
    format!("{NAME}→ {}{NAME:#} {}", name(&proposed.tool_name), arguments.unwrap_or_default())
}

/// Returns the style of a gate's verdict, and what the gate does.
pub(super) fn verdict(verdict: &Verdict) -> (Style, String) {
    let reason = |words: &str| shown_line(words, LINE_CHARS);
    match verdict {
        Verdict::Allow => (DIM, "allows".to_owned()),
        Verdict::SetResult(_) => (WAITS, "answers in its place".to_owned()),
        Verdict::Suspend(ticket) => (WAITS, format!("asks: {}", reason(&ticket.message))),
        Verdict::Deny(why) => (BAD, format!("denies: {}", reason(why))),
        Verdict::Block(why) => (BAD, format!("blocks the run: {}", reason(why))),
    }
}

/// Returns a tool with a mark that says how its call ended, and the words of the end.
pub(super) fn call_end(tool_name: &str, end: &CallEnd) -> (String, String) {
    let words = match end {
        CallEnd::Result(result) => {
            let data = (!result.data.is_null()).then(|| result.data.to_string());
            let words: Vec<String> = [result.message.clone(), data].into_iter().flatten().collect();
            shown_line(&words.join(" "), LINE_CHARS)
        }
        CallEnd::Fault(fault) => {
            let words = shown_line(&fault.message, 2 * LINE_CHARS);
            format!("{BAD}{}{BAD:#} {words}", fault.code)
        }
    };
    (ended_tool(tool_name, end), words)
}

/// Returns a tool with a mark that says how its call ended.
pub(super) fn ended_tool(tool_name: &str, end: &CallEnd) -> String {
    let (style, mark) = match end {
        CallEnd::Result(result) if result.is_success() => (GOOD, "✓"),
        CallEnd::Result(_) | CallEnd::Fault(_) => (BAD, "✗"),
    };
    format!("{style}{mark} {}{style:#}", name(tool_name))
}

/// Returns the fault of an attempt that is followed by another.
pub(super) fn failed_attempt(attempt: u32, fault: &Fault) -> String {
    format!("{WAITS}attempt {attempt} failed:{WAITS:#} {}", shown_line(&fault.message, LINE_CHARS))
}

/// Returns the conflict for which a call runs again.
pub(super) fn conflict(key: &str) -> String {
    format!("{WAITS}{} was changed meanwhile:{WAITS:#} it runs again", shown_line(key, LINE_CHARS))
}

/// Returns the start of a child of a call.
pub(super) fn child_start(agent_id: &str, child_run_id: &str) -> String {
    format!("{NAME}⇣ agent {}{NAME:#} {DIM}run {child_run_id}{DIM:#}", name(agent_id))
}

/// Returns the end of a child of a call.
pub(super) fn child_end(status: &ChildStatus, steps: u32) -> String {
    let words = status.words().unwrap_or_else(|| "answered".to_owned());
    let turns = quantity::count(steps, "turn");
    format!("⇡ the agent {} {DIM}({turns}){DIM:#}", shown_line(&words, LINE_CHARS))
}

/// Returns the transfer of a conversation from one agent to another.
pub(super) fn transfer(from: &str, to: &str) -> String {
    format!("{NAME}⇒ {} hands over to {}{NAME:#}", name(from), name(to))
}
