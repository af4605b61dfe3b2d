//! Questions that wait for a person: how they are shown, asked on a terminal, and remembered if the
//! answer is permanent.

use crate::globals::Globals;
use crate::session::prompt::{Form, Step};
use crate::session::shutdown;
use crate::terminal::output::{BAD, BOLD, DIM, WAITS};
use crate::terminal::table::terminal_width;
use crate::terminal::text::shown_line;
use crate::terminal::{Failure, Output, program};
use serde_json::Value;
use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::time::Duration;
use tokio::sync::{Mutex, oneshot};
use tollgate::Host;
use tollgate::config::{FILE_NAME, remember_always};
use tollgate::run::RunEnd;
use tollgate::store::{RunFilter, RunStore, short_id};
use tollgate_agent::catalog::Catalog;
use tollgate_agent::gate::permissions::{Scope, answered, asks_to_permit};
use tollgate_agent::question::{ANSWER, MIN_COLUMNS, Section, action, asks, continued, sections};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, DecisionAnswer};
use tollgate_agent::text::quoted;
use uuid::Uuid;

/// The longest question that a terminal shows, in bytes. A longer one is not asked there.
const MAX_QUESTION_BYTES: usize = 256 * 1024;
/// The maximum number of lines of such a question: a terminal forgets what has scrolled far away.
const MAX_QUESTION_LINES: usize = 1_000;

/// Returns the question with everything that the host knows about it: who asks, about what, and
/// which answers fit. The host's lines are bare; all others are marked. The schema of an answer that
/// is not typed as JSON is left out on a terminal, where `?` shows it, and that of the permission rules
/// everywhere. `columns` is the width of the terminal, `None` if it is not for a terminal: its lines
/// then have at most 76 columns, and any number of lines fits. Returns `None` if it is too long to be
/// shown whole, or the terminal too narrow for marked lines.
fn question(suspended: &SuspendedCall, is_asked_now: bool, columns: Option<usize>) -> Option<String> {
    let max_lines = columns.map_or(usize::MAX, |_| MAX_QUESTION_LINES);
    let columns = columns.unwrap_or(usize::MAX);
    if columns < MIN_COLUMNS {
        return None;
    }
    let shows_schema = match is_asked_now {
        true => Form::new(suspended, columns).is_json(),
        false => !asks_to_permit(suspended),
    };
    let mut lines = vec![
        format!("{WAITS}{} ({}):{WAITS:#}", asks(suspended), action(suspended)),
        format!("{DIM}call {}{DIM:#}", continued(&shown_line(&suspended.call_id, 64), 5, columns)),
    ];
    for Section { label, text } in sections(suspended, columns) {
        if label == ANSWER && !shows_schema {
            continue;
        }
        lines.push(format!("{BOLD}{label}{BOLD:#}"));
        lines.push(text);
    }
    let question = lines.join("\n");
    let is_short = question.len() <= MAX_QUESTION_BYTES && question.lines().count() <= max_lines;
    is_short.then_some(question)
}

/// Returns the question, or how to see and answer it if it cannot be shown whole. A question of any
/// number of lines is shown if it is not for a terminal.
pub(crate) fn question_or_way(run_id: &str, suspended: &SuspendedCall, is_for_terminal: bool) -> String {
    let columns = is_for_terminal.then(terminal_width);
    question(suspended, false, columns).unwrap_or_else(|| way(run_id, suspended))
}

/// Returns how to see and answer a question that cannot be shown whole.
fn way(run_id: &str, suspended: &SuspendedCall) -> String {
    format!(
        "read the question whole: {} show {run_id} --json\n\
         answer it: {} --resume {} --code CODE\n\
         {WAITS}{} ({}), call {}.{WAITS:#} The question cannot be shown whole here (at most \
         {MAX_QUESTION_BYTES} bytes and, on a terminal, {MAX_QUESTION_LINES} lines of at least {MIN_COLUMNS} \
         columns).",
        program(),
        decide(run_id, suspended),
        example_answer(suspended),
        asks(suspended),
        action(suspended),
        shown_line(&suspended.call_id, 64),
    )
}

/// Prints each open question with the commands that answer it. Of the question that was just shown on
/// this terminal, only the commands are printed.
pub(crate) fn say_how_to_decide(end: &RunEnd, shown: Option<&str>, output: &Output) {
    for suspended in &end.waiting {
        if shown != Some(suspended.suspension_id.as_str()) {
            let is_for_terminal = std::io::stderr().is_terminal();
            output.say(&question_or_way(&end.run_id, suspended, is_for_terminal));
        }
        output.say(&how_to_decide(&end.run_id, suspended));
    }
}

/// Returns the commands that answer a question. They contain no code: the reader may be a model, and
/// a person reads the code on a terminal.
pub(crate) fn how_to_decide(run_id: &str, suspended: &SuspendedCall) -> String {
    let decide = decide(run_id, suspended);
    format!(
        "answer it: {decide}   or end it: {decide} --cancel\n\
         {DIM}without a terminal: {decide} --resume {} --code CODE; `{} runs` shows the code on a terminal{DIM:#}",
        example_answer(suspended),
        program()
    )
}

/// Returns the beginning of the command that answers a question.
fn decide(run_id: &str, suspended: &SuspendedCall) -> String {
    format!("{} decide {} {}", program(), short_id(run_id), typed(&suspended.call_id))
}

/// Returns a value for `--resume` that permits the call, or a placeholder if it depends on a schema.
fn example_answer(suspended: &SuspendedCall) -> &'static str {
    let is_free = suspended.ticket.response_schema.as_ref().is_none_or(Value::is_null);
    if is_free || asks_to_permit(suspended) { "true" } else { "'ANSWER AS JSON'" }
}

/// Returns a call's id, which a model may have chosen, quoted for the shell.
pub(crate) fn typed(call_id: &str) -> String {
    quoted(&shown_line(call_id, 200))
}

/// Returns whether a person can be asked now.
pub(crate) fn can_ask(output: &Output) -> bool {
    !output.is_json() && is_at_a_terminal()
}

/// Returns whether a person types the program's input and reads its messages.
pub(crate) fn is_at_a_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The outcome of a question at the terminal.
pub(crate) enum QuestionOutcome {
    /// The person decided.
    Decided(Decision),
    /// The person left the question open or ended the program.
    Open,
    /// The question cannot be shown whole on this terminal.
    NotShown,
    /// The question was decided elsewhere; the run's present state.
    Elsewhere(Box<RunEnd>),
}

/// Asks on the terminal, until the person answers or a decision is made elsewhere.
pub(crate) async fn ask(
    host: &Host,
    run: &RunEnd,
    suspended: &SuspendedCall,
    output: &Output,
) -> Result<QuestionOutcome, Failure> {
    let columns = terminal_width();
    let Some(question) = question(suspended, true, Some(columns)) else {
        return Ok(QuestionOutcome::NotShown);
    };
    output.say(&question);
    let mut form = Form::new(suspended, columns);
    let elsewhere = decided_elsewhere(&**host.store(), run, &suspended.suspension_id);
    let mut elsewhere = std::pin::pin!(elsewhere);
    loop {
        output.say(&form.prompt());
        let line = tokio::select! {
            line = typed_line() => line?,
            end = &mut elsewhere => {
                output.say(&format!("{DIM}decided elsewhere{DIM:#}"));
                return Ok(QuestionOutcome::Elsewhere(Box::new(end?)));
            }
            () = shutdown::wait_for_signal() => {
                // The terminal shows `^C` without an end of the line.
                output.say("");
                None
            }
        };
        let Some(line) = line else { return Ok(QuestionOutcome::Open) };
        match form.enter(&line) {
            Step::Again(words) => words.iter().for_each(|words| output.say(words)),
            Step::Open => return Ok(QuestionOutcome::Open),
            Step::Done(answer) => match unfit(suspended, &answer) {
                Some(why) => {
                    output.say(&format!("{BAD}the answer does not fit what was asked:{BAD:#} {why}"));
                    form.restart();
                }
                None => {
                    return Ok(QuestionOutcome::Decided(decision(
                        &suspended.suspension_id,
                        answer,
                        None,
                        None,
                    )));
                }
            },
        }
    }
}

/// Returns why an answer violates the question's schema.
fn unfit(suspended: &SuspendedCall, answer: &DecisionAnswer) -> Option<String> {
    let DecisionAnswer::Resume(value) = answer else { return None };
    let schema = suspended.answer_schema().ok().flatten()?;
    let violations = schema.violations(value);
    let each = violations.iter().map(|v| shown_line(format!("{} {}", v.pointer, v.problem).trim(), 200));
    (!violations.is_empty()).then(|| each.collect::<Vec<_>>().join("; "))
}

/// The pause between two looks at the record while a question is open.
const LOOK_AGAIN: Duration = Duration::from_millis(400);

/// Waits until another process has decided this question and has ended its work on the run.
async fn decided_elsewhere(
    store: &dyn RunStore,
    run: &RunEnd,
    suspension_id: &str,
) -> Result<RunEnd, Failure> {
    let mut events = 0;
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(now) = store.runs(RunFilter::one(&run.run_id)).await?.pop() else { continue };
        if now.events == events || (now.status == "running" && now.is_driven) {
            continue;
        }
        events = now.events;
        let record = store.events(&run.run_id, 0).await?;
        let end = RunEnd::of_record(&record, &run.thread_id)?;
        if end.waiting.iter().all(|question| question.suspension_id != suspension_id) {
            return Ok(end);
        }
    }
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
    Decision { id, target: target.to_owned(), answer, reason, by: None, by_key: false, at_ms }
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

type Reading = oneshot::Receiver<std::io::Result<Option<String>>>;

/// A read that is no longer awaited. The next question continues it; otherwise the person's
/// next line would be lost.
static READING: Mutex<Option<Reading>> = Mutex::const_new(None);

/// Reads the next line; `None` at the end of the input. The reading thread is detached: the program
/// may end before the line is typed.
pub(crate) async fn typed_line() -> Result<Option<String>, Failure> {
    let mut slot = READING.lock().await;
    let reading = slot.get_or_insert_with(|| {
        let (typed, line) = oneshot::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            let _ = typed.send(read.map(|bytes| (bytes > 0).then_some(line)));
        });
        line
    });
    let read = reading.await;
    *slot = None;
    read.unwrap_or(Ok(None)).map_err(|e| Failure::failed(format!("the terminal cannot be read: {e}")))
}

/// Writes the answer to the configuration if it is permanent, and reports that it did, or why it could
/// not. `catalog` is the catalog with which the call was decided.
pub(crate) fn remember_if_permanent(
    globals: &Globals,
    catalog: &Catalog,
    asked: &SuspendedCall,
    decision: &Decision,
    output: &Output,
) {
    let DecisionAnswer::Resume(answer) = &decision.answer else { return };
    let Some((Scope::Always, rule)) = answered(catalog, asked, answer) else { return };
    let file = globals.config.as_deref().unwrap_or(Path::new(FILE_NAME));
    match remember_always(file, &rule) {
        Ok(()) => output.say(&format!("remembered for always, in [permissions] of {}", file.display())),
        Err(why) => output.warn(&why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use tollgate_agent::outcome::Ticket;

    #[test]
    fn z22_a_question_of_many_lines_is_not_asked_on_a_terminal() {
        let asked = |arguments: Value| -> SuspendedCall {
            let ticket = Ticket { parameters: arguments, ..Ticket::confirm("Sure?") };
            let asked = json!({"call_id": "c", "suspension_id": "s", "tool_name": "t", "ticket": ticket});
            serde_json::from_value(asked).unwrap()
        };
        let few = asked(json!({"path": "notes", "text": "word ".repeat(6_000)}));
        let shown = question(&few, true, Some(80)).unwrap();
        assert!(shown.contains("| ") && shown.contains("notes"), "{shown}");
        assert_eq!(question(&few, true, Some(MIN_COLUMNS - 1)), None, "each row has room for its mark");
        let many = asked(json!({"path": "notes", "lines": vec![0; MAX_QUESTION_LINES]}));
        assert_eq!(question(&many, true, Some(80)), None);
        let way = question_or_way("r", &many, true);
        let commands: Vec<_> = way.lines().take(2).collect();
        assert!(commands[0].ends_with("show r --json"), "{way}");
        assert!(commands[1].contains("decide r c --resume") && commands[1].ends_with("--code CODE"), "{way}");
        let whole = question_or_way("r", &many, false);
        assert!(whole.lines().count() > MAX_QUESTION_LINES && whole.contains("notes"), "{whole}");
    }
}
