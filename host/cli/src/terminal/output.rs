//! Output: answers to standard output, everything else to standard error. A reader that closed the
//! pipe is not a failure, and colours and progress are only for terminals.

use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure};
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use tollgate_agent::text::{cleaned, escaped_json};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WAITS: Style = AnsiColor::Yellow.on_default();
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();

/// The program's two streams.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    /// Whether progress and hints are left out.
    quiet: bool,
    /// The first error of standard output.
    broken: Mutex<Option<io::ErrorKind>>,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, broken: Mutex::new(None) }
    }

    /// Returns whether standard output is for a program to read.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Returns whether progress and hints are left out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns whether a person sees standard output as it is written.
    pub(crate) fn is_live(&self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// Prints a line of the answer.
    pub(crate) fn line(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// Prints a piece of the answer at once.
    pub(crate) fn write(&self, text: &str) {
        let mut stdout = anstream::stdout().lock();
        let written = stdout.write_all(safe(text).as_bytes()).and_then(|()| stdout.flush());
        if let Err(e) = written
            && let Ok(mut broken) = self.broken.lock()
        {
            broken.get_or_insert(e.kind());
        }
    }

    /// Prints the whole answer as indented JSON.
    pub(crate) fn json(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(&escaped_json(text)),
            Err(e) => self.say(&format!("the answer cannot be written as JSON: {e}")),
        }
    }

    /// Prints one JSON value on one line.
    pub(crate) fn json_line(&self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(&escaped_json(text)),
            Err(e) => self.say(&format!("an event cannot be written as JSON: {e}")),
        }
    }

    /// Prints progress or a hint for people to standard error, unless they asked for quiet.
    pub(crate) fn hint(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// Prints a line for people to standard error: a question, a failure or a warning.
    pub(crate) fn say(&self, text: &str) {
        // There is no place to report that standard error is closed.
        let _ = writeln!(anstream::stderr().lock(), "{}", safe(text));
    }

    /// Prints the words in front of what a person types, without the end of the line.
    pub(crate) fn prompt(&self, text: &str) {
        let mut stderr = anstream::stderr().lock();
        // There is no place to report that standard error is closed.
        let _ = stderr.write_all(safe(text).as_bytes()).and_then(|()| stderr.flush());
    }

    /// Prints a warning. It may quote a stranger, whose lines are indented.
    pub(crate) fn warn(&self, text: &str) {
        self.say(&format!("{WAITS}warning:{WAITS:#} {}", indented(text)));
    }

    /// Prints why the program failed. It may quote a stranger, whose lines are indented. A failure with
    /// a code for programs is printed to them, too.
    pub(crate) fn error(&self, failure: &Failure) {
        if let Some(code) = failure.code()
            && self.is_json()
        {
            self.json(&serde_json::json!({"error": {"code": code, "message": failure.to_string()}}));
        }
        self.say(&format!("{BAD}error:{BAD:#} {}", indented(&failure.to_string())));
    }

    /// Returns the exit code. A reader that left early does not change it; output lost for another
    /// reason is a failure.
    pub(crate) fn close(&self, exit: Exit) -> u8 {
        let broken = self.broken.lock().map(|kind| *kind).unwrap_or_default();
        match broken {
            None | Some(io::ErrorKind::BrokenPipe) => exit.code(),
            Some(kind) => {
                self.say(&format!("{BAD}error:{BAD:#} standard output cannot be written: {kind}"));
                Exit::Failed.code()
            }
        }
    }
}

/// A log writer to standard error. A record may quote strangers; each is one line, cleaned like all
/// other output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogLine;

impl Write for LogLine {
    /// Writes one record: the log passes each in a single call.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        let line = indented(safe(text.trim_end_matches('\n')).trim_end());
        writeln!(io::stderr().lock(), "{line}").map(|()| record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Returns whether standard error shows colours.
pub(crate) fn stderr_has_colours() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// Removes everything that a terminal obeys except colours, which are the host's own. Strangers'
/// texts are cleaned before they get here; this is a second line of defence.
fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return cleaned(text, usize::MAX);
    }
    let mut safe = String::with_capacity(text.len());
    for (at, part) in text.split('\u{1b}').enumerate() {
        let colour = part.strip_prefix('[').filter(|_| at > 0).and_then(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            (rest.as_bytes()[end] == b'm').then_some(end + 2)
        });
        if let Some(end) = colour {
            safe.push('\u{1b}');
            safe.push_str(&part[..end]);
        }
        safe.push_str(&cleaned(&part[colour.unwrap_or(0)..], usize::MAX));
    }
    Cow::Owned(safe)
}

/// Indents every line but the first, so that none can be mistaken for the host's.
fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// A line on a terminal that shows the work in progress; it disappears when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts to show this work.
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar }
    }

    /// Shows that `done` of `total` files are done.
    pub(crate) fn file(&self, done: usize, total: usize, file: &Path) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.bar.set_message(format!("{done} of {total}  {}", shown_line(&name, 60)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z14_only_colours_get_through_to_the_terminal() {
        let said = format!("{BAD}error:{BAD:#} a\u{1b}]0;title\u{7}b\u{1b}[2Jc\u{9b}31md\u{202e}\u{1b}");
        assert_eq!(safe(&said), format!("{BAD}error:{BAD:#} a]0;titleb[2Jc31md"));
        assert_eq!(safe("plain ä\n"), "plain ä\n");
        assert_eq!(indented("one\ntwo"), "one\n  two");
    }
}
