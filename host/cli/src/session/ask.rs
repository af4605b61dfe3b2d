//! Questions that wait for a person: how they are shown, and asked on a terminal.

use crate::session::shutdown;
use crate::terminal::output::{BOLD, DIM, WAITS, quoted, shown_line};
use crate::terminal::{Failure, Output, program};
use serde_json::Value;
use std::io::{BufRead, IsTerminal};
use tollgate::run::RunEnd;
use tollgate_agent::question::{Section, action, asker, sections};
use tollgate_agent::run::event::Suspended;
use tollgate_agent::run::{Decision, DecisionAnswer};
use uuid::Uuid;

/// The longest question that a terminal shows, in bytes. A longer one is not asked there.
const MAX_QUESTION_BYTES: usize = 256 * 1024;

/// Returns the question with everything that the host knows about it: who asks, about what, and
/// which answers fit. The host's lines are bare; all others are marked. `None` if it is too long to
/// be shown whole.
pub(crate) fn question(suspended: &Suspended) -> Option<String> {
    let mut lines = vec![
        format!("{WAITS}{} asks ({}):{WAITS:#}", asker(suspended), action(suspended)),
        format!("{DIM}call {}{DIM:#}", shown_line(&suspended.call_id, 64)),
    ];
    for Section { label, text } in sections(suspended) {
        lines.push(format!("{BOLD}{label}{BOLD:#}"));
        lines.push(text);
    }
    let question = lines.join("\n");
    (question.len() <= MAX_QUESTION_BYTES).then_some(question)
}

/// Returns the question, or how to see it if it is too long to be shown.
pub(crate) fn question_or_way(run_id: &str, suspended: &Suspended) -> String {
    question(suspended).unwrap_or_else(|| {
        format!(
            "{WAITS}{} asks ({}){WAITS:#} about call {}. The question is too long to be shown here \
             (at most {MAX_QUESTION_BYTES} bytes). Read it whole: {} show {run_id} --json",
            asker(suspended),
            action(suspended),
            shown_line(&suspended.call_id, 64),
            program()
        )
    })
}

/// Prints the commands that answer each question, for use without a terminal.
pub(crate) fn say_how_to_decide(end: &RunEnd, output: &Output) {
    for suspended in &end.waiting {
        output.say(&question_or_way(&end.run_id, suspended));
        say_commands(&end.run_id, suspended, output);
    }
}

fn say_commands(run_id: &str, suspended: &Suspended, output: &Output) {
    output.say(&format!(
        "let it go on: {0} decide {run_id} {1} --resume '...'   or end it: {0} decide {run_id} {1} --cancel",
        program(),
        typed(&suspended.call_id)
    ));
}

/// Returns a call's id, which a model may have chosen, quoted for the shell.
pub(crate) fn typed(call_id: &str) -> String {
    quoted(&shown_line(call_id, 200))
}

/// Returns whether a person can be asked now.
pub(crate) fn somebody_is_there(output: &Output) -> bool {
    !output.is_json() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on the terminal. `None` if the person leaves the question open or ends the program, or if
/// the question cannot be shown whole.
pub(crate) async fn ask(suspended: &Suspended, output: &Output) -> Result<Option<Decision>, Failure> {
    let Some(question) = question(suspended) else { return Ok(None) };
    output.say(&question);
    output.say(
        "your answer as JSON (`true`, `{\"approved\": true}`, ...), `cancel`, or nothing to leave it open:",
    );
    loop {
        let line = tokio::select! {
            line = typed_line() => line?,
            () = shutdown::asked() => return Ok(None),
        };
        let answer = match line.trim() {
            "" => return Ok(None),
            "cancel" => DecisionAnswer::Cancel,
            text => match tollgate_agent::json::parse_exact(text) {
                Ok(value) => DecisionAnswer::Resume(value),
                Err(e) => {
                    output.say(&format!("not valid JSON: {e}; try again:"));
                    continue;
                }
            },
        };
        return Ok(Some(decision(&suspended.suspension_id, answer, None, None)));
    }
}

/// Reads a line that a person types. The reading thread is detached: the program may end before the
/// line is typed.
async fn typed_line() -> Result<String, Failure> {
    let (typed, line) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ = typed.send(read.map(|_| line));
    });
    let read = line.await.unwrap_or_else(|_| Ok(String::new()));
    read.map_err(|e| Failure::failed(format!("the terminal cannot be read: {e}")))
}

/// Returns a decision made now.
pub(crate) fn decision(
    target: &str,
    answer: DecisionAnswer,
    reason: Option<String>,
    id: Option<String>,
) -> Decision {
    let at_ms = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
    let id = id.unwrap_or_else(|| Uuid::now_v7().to_string());
    Decision { id, target: target.to_owned(), answer, reason, by: None, at_ms }
}

/// Reads the answer given to `--resume`; without one it is `true`.
pub(crate) fn read_answer(typed: Option<&str>) -> Result<Value, Failure> {
    let Some(text) = typed else { return Ok(Value::Bool(true)) };
    tollgate_agent::json::parse_exact(text).map_err(|e| {
        Failure::usage(format!(
            "the answer is not valid JSON: {e}; a string needs its quotes: --resume '\"yes\"'"
        ))
    })
}
