//! A question to a person as text, the same wherever it is shown.
//!
//! The host writes the asker and the call it is about. All other text belongs to a component, a
//! server, a gate or a model. Each line of it begins with [`MARK`], so that none can pass for a
//! line of the host's.

mod suspended_call;

pub use suspended_call::{AnswerSchema, ChildQuestion, SuspendedCall};

use crate::outcome::Ticket;
use crate::proposal::Arguments;
use crate::text::{clean, escaped_json, shown};
use serde_json::Value;

/// The prefix of each line that the host did not write.
pub const MARK: &str = "| ";
/// The longest action of a ticket, in bytes.
pub const MAX_ACTION_BYTES: usize = 64;
/// The longest message of a ticket, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024;
/// The largest parameters of a ticket, in bytes of JSON. The parameters of a permission rule's
/// question are the arguments of the call, which have limits of their own.
pub const MAX_PARAMETERS_BYTES: usize = 64 * 1024;

/// The maximum number of columns of a marked line. A longer line continues on the next one with its
/// own mark, so that the terminal does not wrap it.
const COLUMNS: usize = 76;
/// The least number of columns of a marked line. A narrower terminal wraps it, and shows rows without
/// a mark.
pub const MIN_COLUMNS: usize = 30;
/// The label of the section with the schema of the answer.
pub const ANSWER: &str = "answer";

/// A part of a question, labelled by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The host's label.
    pub label: &'static str,
    /// The text, marked line by line.
    pub text: String,
}

/// The reason why a ticket cannot be shown to a person, as a clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// A text of the ticket is too long.
    #[error("its {part} has {bytes} bytes; at most {most} are allowed")]
    TooLong {
        /// `action` or `message`.
        part: &'static str,
        /// The length of the text.
        bytes: usize,
        /// The maximum length.
        most: usize,
    },
    /// The parameters are too large.
    #[error("its parameters have more than {MAX_PARAMETERS_BYTES} bytes of JSON")]
    LargeParameters,
}

/// Checks that a ticket is not too large for a person to read.
///
/// # Errors
/// It exceeds a limit.
pub fn check(ticket: &Ticket) -> Result<(), TicketError> {
    for (part, bytes, most) in [
        ("action", ticket.action.len(), MAX_ACTION_BYTES),
        ("message", ticket.message.len(), MAX_MESSAGE_BYTES),
    ] {
        if bytes > most {
            return Err(TicketError::TooLong { part, bytes, most });
        }
    }
    match ticket.parameters {
        Value::Null => Ok(()),
        ref parameters if parameters.to_string().len() > MAX_PARAMETERS_BYTES => {
            Err(TicketError::LargeParameters)
        }
        _ => Ok(()),
    }
}

/// Returns who asks, and about which call: ``The gate `permissions` asks about `hello` ``.
#[must_use]
pub fn asks(asked: &SuspendedCall) -> String {
    let words = match (&asked.gate, &asked.child) {
        (Some(gate), _) => format!("The gate `{gate}` asks about `{}`", asked.tool_name),
        (None, Some(child)) => {
            format!(
                "The tool `{}` of the agent `{}`, below `{}`, asks",
                child.tool_name, child.agent_id, asked.tool_name
            )
        }
        (None, None) => format!("The tool `{}` asks", asked.tool_name),
    };
    one_line(&words)
}

/// Returns the requested action, such as `approve`. It is shown on a line of the host's own, so
/// every character except letters, digits, `_` and `.` becomes a hyphen.
#[must_use]
pub fn action(asked: &SuspendedCall) -> String {
    let one_word = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '-' };
    clean(&asked.ticket.action, MAX_ACTION_BYTES).chars().map(one_word).collect()
}

/// Returns everything that is shown with the question: the message, the arguments of the call, the
/// parameters of the question, and the schema of the answer, for a terminal of `columns`. Nothing is
/// cut.
#[must_use]
pub fn sections(asked: &SuspendedCall, columns: usize) -> Vec<Section> {
    let ticket = &asked.ticket;
    let arguments = asked.asking_arguments().map(Arguments::to_value);
    let arguments = arguments.as_deref();
    // Permission rules ask about the arguments themselves.
    let about = Some(&ticket.parameters).filter(|about| Some(*about) != arguments);
    let mut sections = vec![Section { label: "message", text: marked(&ticket.message, columns) }];
    for (label, value) in
        [("arguments", arguments), ("about", about), (ANSWER, ticket.response_schema.as_ref())]
    {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            sections.push(Section { label, text: marked_json(value, columns) });
        }
    }
    sections
}

/// Returns a text that the host did not write, cleaned but not cut, with every line marked. No line
/// is wider than `columns`, of which at least [`MIN_COLUMNS`] and at most 76 are used.
#[must_use]
pub fn marked(text: &str, columns: usize) -> String {
    let text = shown(text, usize::MAX);
    let lines: Vec<String> = text.split('\n').flat_map(|line| wrapped(line, columns)).collect();
    lines.join("\n")
}

/// Returns a cleaned text that follows the host's own words on a line, of which `taken` columns are
/// used. The rest continues on lines like those of [`marked`].
#[must_use]
pub fn continued(text: &str, taken: usize, columns: usize) -> String {
    let text = one_line_of(text, usize::MAX);
    let (first, rest) = text.split_at(line_end(&text, used(columns).saturating_sub(taken)));
    match rest {
        "" => first.to_owned(),
        rest => format!("{first}\n{}", marked(rest, columns)),
    }
}

/// Returns a value as marked lines. Characters that are removed from texts are written as JSON escapes.
fn marked_json(value: &Value, columns: usize) -> String {
    marked(&escaped_json(serde_json::to_string_pretty(value).unwrap_or_default()), columns)
}

/// Splits a line into marked lines of limited width.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = line;
    loop {
        let (this, next) = rest.split_at(line_end(rest, used(columns) - MARK.len()));
        // The width of a tab depends on the terminal.
        lines.push(format!("{MARK}{}", this.replace('\t', " ")));
        if next.is_empty() {
            return lines;
        }
        rest = next;
    }
}

/// Returns how many of a terminal's columns are used.
fn used(columns: usize) -> usize {
    columns.clamp(MIN_COLUMNS, COLUMNS)
}

/// Returns how many bytes of a text fit into `room` columns. A longer text is cut after a space in the
/// second half of the line, which ends this line, or else within a word.
fn line_end(text: &str, room: usize) -> usize {
    let (mut columns, mut after_space) = (0, 0);
    for (at, c) in text.char_indices() {
        columns += width(c);
        if columns > room {
            return if after_space > at / 2 { after_space } else { at };
        }
        if c == ' ' {
            after_space = at + 1;
        }
    }
    text.len()
}

/// Returns the most columns that a terminal uses for a character.
fn width(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

fn one_line(text: &str) -> String {
    one_line_of(text, 400)
}

fn one_line_of(text: &str, max_bytes: usize) -> String {
    shown(text, max_bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::proposal::Arguments;
    use serde_json::json;

    fn asked(ticket: Ticket, arguments: Value) -> SuspendedCall {
        let suspended = json!({"call_id": "c", "suspension_id": "s", "tool_name": "t", "ticket": ticket});
        let suspended: SuspendedCall = serde_json::from_value(suspended).unwrap();
        SuspendedCall { arguments: Some(Arguments::from_value(arguments)), ..suspended }
    }

    #[test]
    fn z22_each_line_of_anothers_text_is_marked() {
        let far = format!("{}the gate host asks (permit): fine", "\u{2800}".repeat(200));
        let message = format!("Sure?\nthe gate host asks (permit):\r\n{}call 1\t{far}", '\u{2028}');
        let ticket = Ticket { parameters: json!({"a\nb": "c\nd"}), ..Ticket::confirm(message) };
        for section in sections(&asked(ticket, json!({"n": ["x".repeat(300), "\u{202e}"]})), 80) {
            for line in section.text.lines() {
                assert!(line.starts_with(MARK), "{section:?}");
                let columns: usize = line.chars().map(width).sum();
                assert!(columns <= COLUMNS, "{line}");
            }
        }
    }

    #[test]
    fn z22_each_row_of_a_narrow_terminal_is_marked() {
        let far = format!("Sure?{}The gate `x` asks (permit): 語語", " ".repeat(38));
        let arguments = json!({"n": "語".repeat(300)});
        for columns in [MIN_COLUMNS, 40, 75] {
            let shown = sections(&asked(Ticket::confirm(far.clone()), arguments.clone()), columns);
            let said = continued(&far, 10, columns);
            for line in shown.iter().flat_map(|section| section.text.lines()).chain(said.lines().skip(1)) {
                let used: usize = line.chars().map(width).sum();
                assert!(line.starts_with(MARK) && used <= columns, "{columns}: {line}");
            }
            assert!(said.lines().next().is_some_and(|first| first.len() <= columns - 10), "{said}");
        }
        assert_eq!(continued("語", 80, 0), "\n| 語", "a line without room does not end the program");
    }

    #[test]
    fn z22_a_question_is_shown_whole_with_its_arguments() {
        let ticket = Ticket { parameters: json!({"n": 1}), ..Ticket::confirm("Sure?") };
        let long = "a".repeat(100_000);
        let shown = sections(&asked(ticket, json!({"path": long, "hidden": "x\u{200b}y"})), 80);
        let labels: Vec<_> = shown.iter().map(|section| section.label).collect();
        assert_eq!(labels, ["message", "arguments", "about"]);
        let arguments: String = shown[1].text.lines().map(|line| &line[MARK.len()..]).collect();
        assert!(arguments.contains(&long) && arguments.contains("x\\u200by"), "{}", arguments.len());
        let ticket = Ticket { parameters: json!({"n": 1}), ..Ticket::confirm("Sure?") };
        assert_eq!(sections(&asked(ticket, json!({"n": 1})), 80).len(), 2, "the same is shown once");
        let ticket = Ticket { action: "a\nthe gate x".to_owned(), ..Ticket::confirm("Sure?") };
        assert_eq!(action(&asked(ticket, json!({}))), "a-the-gate-x");
    }

    #[test]
    fn z22_what_continues_a_line_of_the_hosts_is_marked() {
        assert_eq!(continued("short\nenough", 10, 80), "short enough");
        let long = continued(&"word ".repeat(100), 10, 80);
        assert!(long.lines().next().is_some_and(|first| first.len() <= COLUMNS - 10), "{long}");
        assert!(
            long.lines().all(|line| line.trim_end().ends_with("word")),
            "it is cut within a word: {long}"
        );
        assert!(long.lines().skip(1).all(|line| line.starts_with(MARK) && line.len() <= COLUMNS), "{long}");
    }

    #[test]
    fn z22_a_question_has_limits() {
        let ticket = || Ticket::confirm("Sure?");
        check(&ticket()).unwrap();
        check(&Ticket::confirm("m".repeat(MAX_MESSAGE_BYTES))).unwrap();
        for (large, word) in [
            (Ticket { action: "a".repeat(MAX_ACTION_BYTES + 1), ..ticket() }, "64"),
            (Ticket::confirm("m".repeat(MAX_MESSAGE_BYTES + 1)), "4096"),
            (Ticket { parameters: json!("p".repeat(MAX_PARAMETERS_BYTES)), ..ticket() }, "65536"),
        ] {
            let why = check(&large).unwrap_err();
            assert!(why.to_string().contains(word), "{why}");
        }
    }
}
