//! Narrates a run while a person follows it: its events, and what its tools report meanwhile.
//!
//! The answer goes to standard output, everything else to standard error. If standard output is for
//! a program, every event goes there as a line of JSON.

use crate::render::powers::command_to_grant;
use crate::render::run_lines::{LINE_CHARS, Line, RunLines, View, call, ended, ended_tool, name};
use crate::terminal::output::{BAD, DIM, WAITS};
use crate::terminal::quantity::{self, run_usage};
use crate::terminal::text::{shown, shown_line};
use crate::terminal::{Exit, Output};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tollgate::run::{ChildUpdate, LiveContent, RunEnd, RunUpdate};
use tollgate_agent::code::Code;
use tollgate_agent::question::MARK;
use tollgate_agent::run::{Event, RunStatus, StoredEvent};
use tollgate_sandbox::{ProgressStatus, Report};

/// A narrator of one run.
pub(crate) struct Narrator<'a> {
    output: &'a Output,
    reports_only: bool,
    lines: RunLines,
    /// The components of the calls, by call id.
    components: HashMap<String, String>,
    last_report: String,
    /// Text of the current turn that has already been shown.
    streamed: String,
    /// Whether the model's reasoning is shown in full, in a conversation.
    shows_reasoning: bool,
    /// Whether the current turn's reasoning has been announced.
    is_thinking: bool,
    /// The calls that ran when the process of the run ended.
    interrupted: HashSet<String>,
    /// The tool of the last call that the host had no room for; a child may have made it. For the limit of a
    /// child's own thread, its fault alone names the place.
    overloaded: Option<String>,
}

impl<'a> Narrator<'a> {
    pub(crate) fn new(output: &'a Output) -> Self {
        Self {
            output,
            reports_only: false,
            lines: RunLines::new(View::Live),
            components: HashMap::new(),
            last_report: String::new(),
            streamed: String::new(),
            shows_reasoning: false,
            is_thinking: false,
            interrupted: HashSet::new(),
            overloaded: None,
        }
    }

    /// Returns the tool of the last call, also of a child, that the host had no room for.
    pub(crate) fn overloaded(&self) -> Option<&str> {
        self.overloaded.as_deref()
    }

    /// Narrates a run that goes on after its process has ended, and which of its calls run again.
    pub(crate) fn resuming(mut self, record: &[Arc<StoredEvent>]) -> Self {
        for stored in record {
            match &stored.event {
                Event::CallProposed(proposed) => self.lines.note(proposed),
                Event::CallStarted { call_id, .. } => drop(self.interrupted.insert(call_id.to_string())),
                Event::CallReturned { call_id, .. } | Event::CallRetried { call_id, .. } => {
                    self.interrupted.remove(call_id.as_str());
                }
                Event::CallFinished(finished) => drop(self.interrupted.remove(finished.call_id.as_str())),
                Event::CallSuspended(asked) => drop(self.interrupted.remove(asked.call_id.as_str())),
                _ => {}
            }
        }
        self
    }

    /// Narrates a conversation: no headings of turns, no usage and no gates that allow, and the model's
    /// reasoning in full or as one line.
    pub(crate) fn in_a_conversation(mut self, shows_reasoning: bool) -> Self {
        (self.lines, self.shows_reasoning) = (RunLines::new(View::Conversation), shows_reasoning);
        self
    }

    fn is_conversation(&self) -> bool {
        self.lines.view() == View::Conversation
    }

    /// Narrates only the tools' reports, for a call whose result is shown separately.
    pub(crate) fn reports_only(mut self) -> Self {
        self.reports_only = true;
        self
    }

    /// Narrates one update.
    pub(crate) fn show(&mut self, update: &RunUpdate) {
        self.note_overload(update);
        match update {
            _ if self.output.is_json() && self.reports_only => {}
            update if self.output.is_json() => self.output.json_line(update),
            RunUpdate::Live(transient) => self.piece(&transient.piece),
            RunUpdate::Child(update) => self.child(update),
            RunUpdate::Stored(numbered) => {
                if let Event::CallProposed(proposed) = &numbered.event
                    && let Some(owner) = &proposed.owner
                {
                    self.components.insert(proposed.call_id.to_string(), owner.id.to_string());
                }
                if !self.reports_only {
                    self.event(&numbered.event);
                }
            }
        }
    }

    /// Notes a call of the run, or of a child below it, that the host had no room for.
    fn note_overload(&mut self, update: &RunUpdate) {
        match update {
            RunUpdate::Child(update) => self.note_overload(&update.child),
            RunUpdate::Stored(stored) => {
                if let Event::CallFinished(finished) = &stored.event
                    && finished.end.code() == Some(Code::Overloaded)
                {
                    self.overloaded = Some(finished.tool_name.to_string());
                }
            }
            RunUpdate::Live(_) => {}
        }
    }

    /// Prints the answer, unless it is already on the screen, and how the run ended.
    pub(crate) fn finish(&self, end: &RunEnd) {
        if self.output.is_json() {
            return;
        }
        if self.streamed.trim() != shown(&end.text).trim() {
            self.output.line(&shown(&end.text));
        }
        match &end.status {
            Some(RunStatus::Completed) => {}
            Some(status) => self.output.say(&ended(status)),
            None => {
                let decisions = quantity::count(end.waiting.len() as u64, "decision");
                self.output.say(&format!("{WAITS}the run waits for {decisions}{WAITS:#}"));
            }
        }
        if !self.is_conversation() {
            self.output.hint(&format!("{DIM}{}{DIM:#}", run_usage(&end.usage)));
        }
    }

    /// Shows a piece of the model's reasoning in a conversation, or that there is some.
    fn reasoning(&mut self, text: &str) {
        if !self.is_conversation() {
            return;
        }
        let is_first = !std::mem::replace(&mut self.is_thinking, true);
        match (self.shows_reasoning, is_first) {
            (true, _) => self.output.prompt(&format!("{DIM}{}{DIM:#}", shown(text))),
            (false, true) => self.output.hint(&format!("{DIM}thinking ...{DIM:#}")),
            (false, false) => {}
        }
    }

    /// Ends the lines of reasoning before the answer.
    fn end_reasoning(&mut self) {
        if std::mem::take(&mut self.is_thinking) && self.shows_reasoning {
            self.output.prompt("\n");
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::StepStarted { .. } => self.streamed.clear(),
            Event::ModelReplied { reply, .. } => {
                self.replied(&reply.message.text, !reply.message.calls.is_empty());
            }
            Event::CallStarted { call_id, attempt, .. } if self.interrupted.remove(call_id.as_str()) => {
                let tool = self.lines.tool(call_id).unwrap_or(call_id);
                let words = format!("the process had ended; `{tool}` runs again (attempt {attempt})");
                self.say(&format!("{WAITS}{words}{WAITS:#}"));
                return;
            }
            _ => {}
        }
        for line in self.lines.of(event) {
            match line {
                Line::Heading(words) => self.output.hint(&words),
                Line::Below(words) => self.say(&words),
            }
        }
    }

    fn piece(&mut self, piece: &LiveContent) {
        match piece {
            LiveContent::TextDelta { text } if self.output.is_live() => {
                self.end_reasoning();
                let text = shown(text);
                self.output.write(&text);
                self.streamed.push_str(&text);
            }
            LiveContent::ReplyRestarted { attempt, max_attempts, pause_ms, reason } => {
                self.end_line();
                self.streamed.clear();
                self.output.hint(&restarted(*attempt, *max_attempts, *pause_ms, reason));
            }
            LiveContent::CallReport { call_id, report, .. } => self.report(call_id, report),
            LiveContent::CallConsole { call_id, console, .. } => {
                for line in shown(&console.text).lines() {
                    self.say_of(call_id, &format!("{DIM}{MARK}{}{DIM:#}", shown_line(line, LINE_CHARS)));
                }
            }
            LiveContent::CallDenied { call_id, denied, .. } => {
                for what in denied {
                    self.say_of(
                        call_id,
                        &format!("{WAITS}not granted:{WAITS:#} {}", shown_line(what, LINE_CHARS)),
                    );
                    let component = self.components.get(&**call_id);
                    if let Some(command) = component.and_then(|id| command_to_grant(id, what)) {
                        self.say_of(call_id, &format!("{DIM}to grant it: {command}{DIM:#}"));
                    }
                }
            }
            LiveContent::ReasoningDelta { text, .. } => self.reasoning(text),
            LiveContent::TextDelta { .. } | LiveContent::TextSoFar { .. } => {}
        }
    }

    /// Shows a child's calls and how they end, below the call that started it. Its text is shown as
    /// the call's output, if the call shows it.
    fn child(&self, update: &ChildUpdate) {
        let words = match update.child.as_ref() {
            RunUpdate::Stored(numbered) => match &numbered.event {
                Event::CallProposed(proposed) => call(proposed),
                Event::CallFinished(finished) => {
                    let tool = ended_tool(&finished.tool_name, &finished.end);
                    let code = finished.end.code().map(|code| format!(" {BAD}{code}{BAD:#}"));
                    format!("{tool}{}", code.unwrap_or_default())
                }
                _ => return,
            },
            RunUpdate::Live(_) | RunUpdate::Child(_) => return,
        };
        self.say_of(&update.call_id, &format!("  {words}"));
    }

    fn replied(&mut self, text: &str, goes_on: bool) {
        self.end_line();
        if self.streamed.is_empty() && goes_on && !text.trim().is_empty() {
            self.say(&shown(text).trim().replace('\n', "\n  "));
        }
    }

    fn report(&mut self, call_id: &str, report: &Report) {
        let words = reported(report);
        if words.trim().is_empty() || words == self.last_report {
            return;
        }
        self.say_of(call_id, &format!("{DIM}{MARK}{words}{DIM:#}"));
        self.last_report = words;
    }

    fn say_of(&self, call_id: &str, words: &str) {
        self.say(&self.lines.about(call_id, words));
    }

    /// Prints a line below the heading of its turn to standard error.
    fn say(&self, words: &str) {
        self.output.hint(&format!("  {words}"));
    }

    fn end_line(&self) {
        if !self.streamed.is_empty() && !self.streamed.ends_with('\n') {
            self.output.write("\n");
        }
    }
}

/// Returns a tool's report as one line, which needs a mark: it can look like a line of the host's.
fn reported(report: &Report) -> String {
    match report {
        Report::Progress { status, message, progress } => {
            let phase = phase_of(*status);
            let percent = progress.map(|p| format!("{:3.0} % ", p * 100.0)).unwrap_or_default();
            format!("{percent}{phase}{}", shown_line(message.as_deref().unwrap_or_default(), LINE_CHARS))
        }
        Report::Activity { content: text, .. } | Report::Output(text) => shown_line(text, LINE_CHARS),
        Report::ActivityDelta { kind, patch } => {
            format!("{}: {}", shown_line(kind, LINE_CHARS), shown_line(&patch.to_string(), LINE_CHARS))
        }
        Report::ChildError { agent_id, message } => {
            format!("error: the agent '{}' {}", name(agent_id), shown_line(message, LINE_CHARS))
        }
        Report::Log { level, message } => {
            format!("{}: {}", format!("{level:?}").to_lowercase(), shown_line(message, LINE_CHARS))
        }
    }
}

/// Returns why a reply begins anew, and when: `rate limited; retrying in 1 s (2 of 5)`.
fn restarted(attempt: u32, max_attempts: u32, pause_ms: u64, reason: &str) -> String {
    let why = match reason.strip_prefix("The provider ") {
        Some(words) if words.starts_with("answered 429") => "rate limited".to_owned(),
        // There was no reply yet.
        Some(words) if words.starts_with("answered") || words.starts_with("cannot be reached") => {
            format!("the provider {}", shown_line(words.trim_end_matches('.'), LINE_CHARS))
        }
        _ => format!("the reply broke off ({})", shown_line(reason, LINE_CHARS)),
    };
    let pause = quantity::millis(pause_ms);
    format!("  {WAITS}{why}; retrying in {pause} ({attempt} of {max_attempts}){WAITS:#}")
}

/// Returns the exit code after a run.
pub(crate) fn outcome(end: &RunEnd) -> Exit {
    match &end.status {
        None => Exit::Waiting,
        Some(RunStatus::Completed) => Exit::Done,
        Some(_) => Exit::Failed,
    }
}

/// The phase of a call as words before its message; empty for a call that simply runs.
fn phase_of(status: ProgressStatus) -> &'static str {
    match status {
        ProgressStatus::Running => "",
        ProgressStatus::Pending => "pending ",
        ProgressStatus::Done => "done ",
        ProgressStatus::Failed => "failed ",
        ProgressStatus::Cancelled => "cancelled ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_says_when_and_how_often() {
        let shown = |reason: &str| anstream::adapter::strip_str(&restarted(2, 5, 1_000, reason)).to_string();
        assert_eq!(
            shown("The provider answered 429 Too Many Requests: slow down"),
            "  rate limited; retrying in 1 s (2 of 5)"
        );
        assert_eq!(
            shown("The provider cannot be reached at http://localhost:1 (`base_url` in [model])."),
            "  the provider cannot be reached at http://localhost:1 (`base_url` in [model]); retrying in 1 s (2 of 5)"
        );
        assert_eq!(
            shown("The provider's stream broke."),
            "  the reply broke off (The provider's stream broke.); retrying in 1 s (2 of 5)"
        );
    }
}
