//! Where words go: answers to standard output, everything else to standard error.
//! A reader that left is no failure, and colours are for terminals.

use super::{Exit, Failure};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use tollgate_agent::question::MARK;
use tollgate_agent::text::{clean, cleaned, escaped_json};

/// The most bytes of a stranger's text that one place of the screen shows.
const MAX_SHOWN_BYTES: usize = 64 * 1024;

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
    /// The first thing that went wrong with standard output.
    broken: Mutex<Option<io::ErrorKind>>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, broken: Mutex::new(None) }
    }

    /// Whether standard output is for a program to read.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person sees standard output as it is written.
    pub(crate) fn is_live(&self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// A line of the answer.
    pub(crate) fn line(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// A piece of the answer, shown at once.
    pub(crate) fn write(&self, text: &str) {
        let mut stdout = anstream::stdout().lock();
        let written = stdout.write_all(safe(text).as_bytes()).and_then(|()| stdout.flush());
        if let Err(e) = written
            && let Ok(mut broken) = self.broken.lock()
        {
            broken.get_or_insert(e.kind());
        }
    }

    /// The whole answer as JSON, indented.
    pub(crate) fn json(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(&escaped_json(text)),
            Err(e) => self.say(&format!("the answer cannot be written as JSON: {e}")),
        }
    }

    /// One JSON value on one line.
    pub(crate) fn json_line(&self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(&escaped_json(text)),
            Err(e) => self.say(&format!("an event cannot be written as JSON: {e}")),
        }
    }

    /// A line beside the answer, for people.
    pub(crate) fn say(&self, text: &str) {
        // Whoever closed standard error does not want to be told.
        let _ = writeln!(anstream::stderr().lock(), "{}", safe(text));
    }

    /// A warning, for people. It may quote a stranger, whose lines are indented.
    pub(crate) fn warn(&self, text: &str) {
        self.say(&format!("{WAITS}warning:{WAITS:#} {}", indented(text)));
    }

    /// Why the program ends without having done what it was asked. It may quote a
    /// stranger, whose lines are indented.
    pub(crate) fn error(&self, failure: &Failure) {
        self.say(&format!("{BAD}error:{BAD:#} {}", indented(&failure.to_string())));
    }

    /// The code to end with. A reader that left early does not change it; output
    /// that was lost otherwise is a failure.
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

/// Standard error for a log, whose lines may quote strangers: each record is one line, as
/// safe as any other.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogLine;

impl Write for LogLine {
    /// Takes one record, as the log hands each over at once.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        let line = indented(safe(text.trim_end_matches('\n')).trim_end());
        writeln!(io::stderr().lock(), "{line}").map(|()| record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Whether standard error shows colours.
pub(crate) fn stderr_has_colours() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// The text without anything that a terminal obeys, except colours: those are the host's
/// own. Strangers' texts are cleaned before they get here; this is for the one that was
/// forgotten.
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

/// The text with every line but the first indented, so that none of them is taken for one
/// of the host's.
fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// A stranger's text as a person may see it, each line but the first with a mark: none of
/// them is taken for one of the host's.
pub(crate) fn shown_marked(text: &str) -> String {
    shown(text.trim_end()).replace('\n', &format!("\n{MARK}"))
}

/// A stranger's text as a person may see it: no escapes, nothing invisible.
pub(crate) fn shown(text: &str) -> String {
    clean(text, MAX_SHOWN_BYTES)
}

/// A stranger's text on one line of at most so many characters.
pub(crate) fn shown_line(text: &str, max_chars: usize) -> String {
    let cleaned = shown(text);
    let line = cleaned.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars.saturating_sub(1)) {
        Some((at, _)) if line[at..].chars().count() > 1 => format!("{}…", &line[..at]),
        _ => line,
    }
}

/// The configuration and the store that were named on the command line, as what is typed
/// next names them.
static NAMED: OnceLock<String> = OnceLock::new();

/// From now on, lines to type name what was named here; from whatever directory.
pub(crate) fn remember_named(config: Option<&Path>, data: Option<&Path>) {
    let mut words = String::new();
    for (option, path) in [("--config", config), ("--data", data)] {
        if let Some(path) = path.and_then(|path| std::path::absolute(path).ok()) {
            words.push_str(&format!(" {option} {}", quoted(&clean(&path.display().to_string(), 4_096))));
        }
    }
    // It is done once, before any verb.
    let _ = NAMED.set(words);
}

/// How this program was called, so that a line that is shown can be typed: with the
/// configuration and the store that were named.
pub(crate) fn program() -> String {
    let typed = std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
    let relative = std::env::current_dir()
        .ok()
        .and_then(|here| Path::new(&typed).strip_prefix(here).ok().map(|path| path.display().to_string()));
    let program = match relative.unwrap_or(typed) {
        typed if typed.is_empty() => "tollgate".to_owned(),
        typed => clean(&typed, 300),
    };
    program + NAMED.get().map_or("", String::as_str)
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
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
    }

    #[test]
    fn z14_no_line_of_a_strangers_text_stands_where_the_hosts_do() {
        let text = "fine\nerror: not the host's\r\nwarning: nor this\u{2028}x\n";
        assert_eq!(shown_marked(text), "fine\n| error: not the host's\n| warning: nor thisx");
        assert_eq!(indented("one\ntwo"), "one\n  two");
    }

    #[test]
    fn a_strangers_text_is_cleaned_and_cut() {
        assert_eq!(shown("a\x1b[31mb\u{202e}"), "a[31mb");
        assert_eq!(shown_line("one\n two\tthree", 80), "one two three");
        assert_eq!(shown_line("abcdef", 6), "abcdef");
        assert_eq!(shown_line("abcdefg", 6), "abcde…");
    }
}
