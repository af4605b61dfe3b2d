//! A question that waits for a person: how it is shown, and asked on a terminal.

use super::output::{BOLD, DIM, WAITS, shown};
use super::{Failure, Output, program};
use serde_json::Value;
use std::io::{BufRead, IsTerminal};
use tollgate::run::RunEnd;
use tollgate_agent::run::event::Suspended;
use tollgate_agent::run::{Decision, DecisionAnswer};
use uuid::Uuid;

/// The question with all that the host knows of it: who asks, what about, and
/// which answers fit.
pub(super) fn question(suspended: &Suspended) -> String {
    let ticket = &suspended.ticket;
    let asks = match (&suspended.gate, &suspended.child) {
        (Some(gate), _) => format!("the gate {gate}, about {}", suspended.tool_name),
        (None, Some(child)) => {
            format!(
                "the tool {} of the agent {}, below {}",
                child.tool_name, child.agent_id, suspended.tool_name
            )
        }
        (None, None) => format!("the tool {}", suspended.tool_name),
    };
    let arguments = suspended.child.as_ref().and_then(|child| child.arguments.as_ref());
    let mut lines = vec![
        format!(
            "{WAITS}{} asks ({}):{WAITS:#} {}",
            shown(&asks),
            shown(&ticket.action),
            shown(&ticket.message)
        ),
        format!("{DIM}call {}{DIM:#}", shown(&suspended.call_id)),
    ];
    let arguments = arguments.map(|arguments| arguments.value());
    for (label, value) in [
        ("arguments", arguments),
        ("about", Some(&ticket.parameters)),
        ("answer", ticket.response_schema.as_ref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            lines.push(format!("{BOLD}{label}{BOLD:#} {}", shown(&text)));
        }
    }
    lines.join("\n")
}

/// The lines to type for each question, where nobody sits at a terminal.
pub(super) fn say_how_to_decide(end: &RunEnd, output: &Output) {
    for suspended in &end.waiting {
        output.say(&question(suspended));
        output.say(&format!(
            "let it go on: {0} decide {1} {2} --resume '...'   or end it: {0} decide {1} {2} --cancel",
            program(),
            end.run_id,
            suspended.call_id
        ));
    }
}

/// Whether a person can be asked at once.
pub(super) fn somebody_is_there(output: &Output) -> bool {
    !output.is_json() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on the terminal. None where the person leaves the question open.
pub(super) fn ask(suspended: &Suspended, output: &Output) -> Result<Option<Decision>, Failure> {
    output.say(&question(suspended));
    output.say(
        "your answer as JSON (`true`, `{\"approved\": true}`, ...), `cancel`, or nothing to leave it open:",
    );
    let stdin = std::io::stdin();
    loop {
        let mut line = String::new();
        let read = stdin.lock().read_line(&mut line);
        read.map_err(|e| Failure::failed(format!("the terminal cannot be read: {e}")))?;
        let answer = match line.trim() {
            "" => return Ok(None),
            "cancel" => DecisionAnswer::Cancel,
            text => match tollgate_agent::json::parse(text) {
                Ok(value) => DecisionAnswer::Resume(value),
                Err(e) => {
                    output.say(&format!("that is no JSON: {e}; try again:"));
                    continue;
                }
            },
        };
        return Ok(Some(decision(&suspended.suspension_id, answer, None, None)));
    }
}

/// A decision made now.
pub(super) fn decision(
    target: &str,
    answer: DecisionAnswer,
    reason: Option<String>,
    id: Option<String>,
) -> Decision {
    let at_ms = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
    let id = id.unwrap_or_else(|| Uuid::now_v7().to_string());
    Decision { id, target: target.to_owned(), answer, reason, at_ms }
}

/// Reads an answer that was typed behind `--resume`; without one it is `true`.
pub(super) fn read_answer(typed: Option<&str>) -> Result<Value, Failure> {
    let Some(text) = typed else { return Ok(Value::Bool(true)) };
    tollgate_agent::json::parse(text).map_err(|e| {
        Failure::usage(format!("the answer is no JSON: {e}. A text needs its quotes: --resume '\"yes\"'"))
    })
}
