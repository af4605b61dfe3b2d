//! The lines with which a run's events are shown, while a person follows the run and in its record.

use crate::render::attachments::{self, attachments};
use crate::terminal::output::{BAD, BOLD, DIM, GOOD, NAME, WAITS};
use crate::terminal::quantity::{self, call_usage, run_usage};
use crate::terminal::text::{shown, shown_line, shown_marked};
use serde_json::Value;
use std::collections::HashMap;
use tollgate_agent::gate::{GateVerdict, Verdict};
use tollgate_agent::hook::{HookAnswer, HookPoint, ModelHooked};
use tollgate_agent::message::ModelReply;
use tollgate_agent::run::event::{CheckedCall, FinishedCall, SuspendedCall};
use tollgate_agent::run::{CallEnd, Decision, DecisionAnswer, Event, RunStatus};
use tollgate_agent::state::StateChange;

/// The maximum number of characters of arguments, results and reasons on one line.
pub(super) const LINE_CHARS: usize = 100;
/// The maximum number of characters of a name.
const NAME_CHARS: usize = 64;

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The record of a run: everything, with what a person needs to find it again.
    Record,
    /// A run that a person follows, without what the person has typed or has read already.
    Live,
    /// A conversation: the same without headings of turns, gates that allow, and usage.
    Conversation,
}

/// A line about a run. One with a text of the model or of a person may have several lines.
#[derive(Debug)]
pub(super) enum Line {
    /// It begins a turn, or another part of the run.
    Heading(String),
    Below(String),
}

/// The lines of one run's events, in their order.
pub(super) struct RunLines {
    view: View,
    lines: Vec<Line>,
    /// Names of tools by call id.
    tools: HashMap<String, String>,
    /// The last text of the model.
    said: String,
}

impl RunLines {
    pub(super) fn new(view: View) -> Self {
        Self { view, lines: Vec::new(), tools: HashMap::new(), said: String::new() }
    }

    pub(super) fn view(&self) -> View {
        self.view
    }

    /// Notes the name of a call's tool.
    pub(super) fn note(&mut self, call: &CheckedCall) {
        self.tools.insert(call.call_id.to_string(), name(&call.tool_name));
    }

    /// Returns the lines of the next event.
    pub(super) fn of(&mut self, event: &Event) -> Vec<Line> {
        if self.view == View::Record {
            self.of_record(event);
        }
        self.of_any(event);
        std::mem::take(&mut self.lines)
    }

    /// Adds the lines that only a record has: a person who follows the run sees these things in another way,
    /// or does not need them.
    fn of_record(&mut self, event: &Event) {
        match event {
            Event::MessageAdded { text } => {
                self.heading(format!("{BOLD}>{BOLD:#} {}", shown(text.trim_end()).replace('\n', "\n  ")));
            }
            Event::ModelReplied { reply, .. } => self.replied(reply),
            Event::BatchStarted { call_ids, revision } if call_ids.len() > 1 => {
                self.line(format!("{DIM}{} calls at once, on revision {revision}{DIM:#}", call_ids.len()));
            }
            Event::CallReturned { call_id, .. } => {
                self.of_call(call_id, &format!("{DIM}returned; calls before it are not done{DIM:#}"));
            }
            Event::CallDecided { call_id, decision, .. } => self.decided(call_id, decision),
            Event::RunWaiting => self.line(format!("{WAITS}waits for a person{WAITS:#}")),
            Event::RunFinished { status, text, usage } => {
                match text.trim() {
                    text if text.is_empty() || text == self.said => self.heading(ended(status)),
                    text => {
                        self.heading(shown(text));
                        self.line(ended(status));
                    }
                }
                self.line(format!("{DIM}{}{DIM:#}", run_usage(usage)));
            }
            _ => {}
        }
    }

    fn of_any(&mut self, event: &Event) {
        match event {
            Event::StepStarted { step } if self.view != View::Conversation => {
                self.heading(format!("{BOLD}turn {step}{BOLD:#}"));
            }
            Event::CallProposed(proposed) => self.proposed(proposed),
            Event::CallGated { call_id, verdicts } => self.gated(call_id, verdicts),
            Event::CallStarted { call_id, attempt, .. } if *attempt > 1 => {
                self.of_call(call_id, &format!("{DIM}attempt {attempt}{DIM:#}"));
            }
            Event::ChildStarted { call_id, agent_id, child_run_id, .. } => {
                let agent = name(agent_id);
                self.of_call(
                    call_id,
                    &format!("{NAME}⇣ agent {agent}{NAME:#} {DIM}run {child_run_id}{DIM:#}"),
                );
            }
            Event::ChildFinished { call_id, status, steps, .. } => {
                let words = status.words().unwrap_or_else(|| "answered".to_owned());
                let (words, turns) = (shown_line(&words, LINE_CHARS), quantity::count(*steps, "turn"));
                self.of_call(call_id, &format!("⇡ the agent {words} {DIM}({turns}){DIM:#}"));
            }
            Event::Transferred { from, agent, .. } => {
                let (from, to) = (name(from), name(&agent.view.id));
                self.line(format!("  {NAME}⇒ {from} hands over to {to}{NAME:#}"));
            }
            Event::CallRetried { call_id, attempt, fault, usage } => {
                let fault = shown_line(&fault.message, LINE_CHARS);
                let (words, used) = (format!("attempt {attempt} failed, retrying:"), call_usage(usage));
                self.of_call(call_id, &format!("{WAITS}{words}{WAITS:#} {fault} {DIM}({used}){DIM:#}"));
            }
            Event::CallConflicted { call_id, key, .. } => {
                let key = shown_line(key, LINE_CHARS);
                self.of_call(call_id, &format!("{WAITS}{key} was changed meanwhile:{WAITS:#} it runs again"));
            }
            Event::CallHooked { call_id, point, answers } => self.hooked(call_id, *point, answers),
            Event::ModelHooked { hooked, .. } => self.model_hooked(hooked),
            Event::CallFinished(finished) => self.finished(finished),
            // In a conversation, the question itself follows.
            Event::CallSuspended(suspended) if self.view != View::Conversation => self.suspended(suspended),
            _ => {}
        }
    }

    fn replied(&mut self, reply: &ModelReply) {
        let text = reply.message.text.trim();
        text.clone_into(&mut self.said);
        if !text.is_empty() {
            self.line(shown(text));
        }
        let tokens = reply.usage;
        let spent = (tokens.total() > 0).then(|| quantity::count(tokens.total(), "token"));
        let model = reply.model.as_ref().map(|model| format!("model {}", shown_line(model, 100)));
        let facts: Vec<String> = spent.into_iter().chain(model).collect();
        if !facts.is_empty() {
            self.line(format!("{DIM}{}{DIM:#}", facts.join(", ")));
        }
    }

    fn proposed(&mut self, proposed: &CheckedCall) {
        let words = call(proposed);
        match self.view {
            View::Record => self.line(format!("{words} {DIM}{}{DIM:#}", shown_line(&proposed.call_id, 40))),
            View::Live | View::Conversation => self.line(words),
        }
        self.note(proposed);
    }

    /// Shows the gates that allow on one line, and each other verdict on its own. A person who follows the
    /// run sees a gate's question once, when the call is suspended.
    fn gated(&mut self, call_id: &str, verdicts: &[GateVerdict]) {
        let mut allow = Vec::new();
        for recorded in verdicts {
            let gate = name(&recorded.gate);
            let reason = |words: &str| shown_line(words, LINE_CHARS);
            let (style, words) = match &recorded.verdict {
                Verdict::Allow => {
                    allow.push(gate);
                    continue;
                }
                Verdict::Suspend(_) if self.view != View::Record => continue,
                Verdict::Suspend(ticket) => (WAITS, format!("asks: {}", reason(&ticket.message))),
                Verdict::SetResult(_) => (WAITS, "answers in its place".to_owned()),
                Verdict::Deny(why) => (BAD, format!("denies: {}", reason(why))),
                Verdict::Block(why) => (BAD, format!("blocks the run: {}", reason(why))),
            };
            self.of_call(call_id, &format!("{style}gate {gate} {words}{style:#}"));
        }
        if !allow.is_empty() && self.view != View::Conversation {
            let verb = if allow.len() == 1 { "gate" } else { "gates" };
            self.of_call(call_id, &format!("{DIM}let through by {verb} {}{DIM:#}", allow.join(", ")));
        }
    }

    fn finished(&mut self, finished: &FinishedCall) {
        let (tool, words) = call_end(&finished.tool_name, &finished.end);
        let call = self.call_among_equals(&finished.call_id);
        let used = call_usage(&finished.usage);
        self.line(format!("{tool}{call} {words} {DIM}({used}){DIM:#}"));
        if let Some(own) = &finished.replaced {
            let own = own.code().map_or("success", |code| code.as_str());
            self.line(format!("  {WAITS}changed by hooks;{WAITS:#} the call itself ended as {own}"));
        }
        attachments::lines(attachments(&finished.end)).for_each(|line| self.line(format!("  {line}")));
        self.changed(finished.change.as_ref());
        for note in &finished.notes {
            self.line(format!("  {DIM}note for the model:{DIM:#} {}", shown_line(note, LINE_CHARS)));
        }
        for later in &finished.scheduled {
            let (turns, note) = (later.in_turns, shown_line(&later.note, LINE_CHARS));
            self.line(format!("  {DIM}note for the model in {turns} turns:{DIM:#} {note}"));
        }
        if let Some(filter) = &finished.filter {
            let only = filter.only.iter().flatten().map(|shown| name(shown));
            let hidden = filter.hidden.iter().map(|hidden| format!("not {}", name(hidden)));
            let tools: Vec<String> = only.chain(hidden).collect();
            self.line(format!("  {DIM}tools of the next turn:{DIM:#} {}", tools.join(", ")));
        }
    }

    /// Shows hooks that failed or emitted their own events. The state they wrote is shown with the
    /// call's end.
    fn hooked(&mut self, call_id: &str, point: HookPoint, answers: &[HookAnswer]) {
        let side = if point == HookPoint::Before { "before" } else { "after" };
        for answer in answers {
            let plugin = name(&answer.plugin);
            if let Some(why) = &answer.failed {
                let why = shown_line(why, LINE_CHARS);
                self.of_call(call_id, &format!("{BAD}hook {plugin} {side} it failed:{BAD:#} {why}"));
            }
            for event in &answer.events {
                let (event_name, data) = (name(&event.name), shown_line(&event.data.to_string(), LINE_CHARS));
                self.of_call(call_id, &format!("{DIM}hook {plugin} emits {event_name}{DIM:#} {data}"));
            }
        }
    }

    fn model_hooked(&mut self, hooked: &ModelHooked) {
        let mut said = Vec::new();
        if let Some(plugin) = &hooked.answered_by {
            said.push(format!("{plugin} answers in the model's place"));
        }
        if !hooked.hidden.is_empty() {
            said.push(format!("hidden: {}", hooked.hidden.iter().cloned().collect::<Vec<_>>().join(", ")));
        }
        let changed = [("request", &hooked.request_changed_by), ("reply", &hooked.reply_changed_by)];
        for (what, by) in changed.into_iter().filter(|(_, by)| !by.is_empty()) {
            said.push(format!("{what} changed by {}", by.join(", ")));
        }
        said.extend(hooked.notes.iter().map(|note| format!("note: {note}")));
        for words in said {
            self.line(format!("{DIM}hooks: {}{DIM:#}", shown_line(&words, LINE_CHARS)));
        }
        for (plugin, why) in &hooked.failed {
            let words = shown_line(&format!("{plugin} failed: {why}"), 2 * LINE_CHARS);
            self.line(format!("{BAD}hook {words}{BAD:#}"));
        }
    }

    fn suspended(&mut self, suspended: &SuspendedCall) {
        let asks = match &suspended.gate {
            Some(gate) => {
                format!("gate {} about {}", name(gate), name(&suspended.tool_name))
            }
            None => name(&suspended.tool_name),
        };
        let call = self.call_among_equals(&suspended.call_id);
        let ticket = &suspended.ticket;
        let (action, words) = (name(&ticket.action), shown_line(&ticket.message, 2 * LINE_CHARS));
        self.line(format!("{WAITS}? {asks}{WAITS:#}{call} asks ({action}): {words}"));
        self.changed(suspended.change.as_ref());
    }

    fn decided(&mut self, call_id: &str, decision: &Decision) {
        let answer = match &decision.answer {
            DecisionAnswer::Resume(value) => {
                format!("it goes on with {}", shown_line(&value.to_string(), LINE_CHARS))
            }
            DecisionAnswer::Cancel => "it is cancelled".to_owned(),
        };
        let reason =
            decision.reason.as_deref().map(|why| format!(", because: {}", shown_line(why, LINE_CHARS)));
        let who = match &decision.by {
            Some(by) if decision.by_key => format!("the key {}", name(by)),
            Some(by) => name(by),
            None => "a person".to_owned(),
        };
        let words = format!("{BOLD}{who} decided:{BOLD:#} {answer}{}", reason.unwrap_or_default());
        self.of_call(call_id, &words);
    }

    /// Shows the keys that a call changed, with their new values.
    fn changed(&mut self, change: Option<&StateChange>) {
        let Some(change) = change else { return };
        for update in change.updates.iter() {
            let shown = |value: &Value| shown_line(&value.to_string(), LINE_CHARS);
            let became = match (&update.value, &update.fold, &update.update) {
                (Some(value), ..) => format!("= {}", shown(value)),
                // The record holds the update alone.
                (None, Some(fold), Some(update)) => format!("{} {}", fold.reducer.as_str(), shown(update)),
                _ => "= (not kept)".to_owned(),
            };
            let (key, revision) = (shown_line(&update.key, 130), change.revision);
            self.line(format!("  {DIM}state{DIM:#} {key} {became} {DIM}(revision {revision}){DIM:#}"));
        }
    }

    /// Returns the call's id if the tool's name alone is ambiguous. Only a record shows the ids of calls.
    fn call_among_equals(&self, call_id: &str) -> String {
        if self.view != View::Record {
            return String::new();
        }
        let name = self.tools.get(call_id);
        let equals = self.tools.values().filter(|other| Some(*other) == name).count();
        if equals > 1 { format!(" {DIM}{}{DIM:#}", shown_line(call_id, 40)) } else { String::new() }
    }

    /// Returns the name of a call's tool.
    pub(super) fn tool(&self, call_id: &str) -> Option<&str> {
        self.tools.get(call_id).map(String::as_str)
    }

    /// Returns words about a call, after the name of its tool. A person who follows a run with a single
    /// call knows it.
    pub(super) fn about(&self, call_id: &str, words: &str) -> String {
        match self.tools.get(call_id).filter(|_| self.view == View::Record || self.tools.len() > 1) {
            Some(name) => format!("  {DIM}{name}{DIM:#}{} {words}", self.call_among_equals(call_id)),
            None => format!("  {words}"),
        }
    }

    fn of_call(&mut self, call_id: &str, words: &str) {
        self.line(self.about(call_id, words));
    }

    fn heading(&mut self, words: String) {
        self.lines.push(Line::Heading(words));
    }

    fn line(&mut self, words: String) {
        self.lines.push(Line::Below(words));
    }
}

/// Returns a name, cleaned and cut.
pub(super) fn name(text: &str) -> String {
    shown_line(text, NAME_CHARS)
}

/// Returns a call with its arguments: `→ echo {"text":"hello"}`.
pub(super) fn call(proposed: &CheckedCall) -> String {
    let arguments = proposed.arguments.as_ref().map(|a| shown_line(a.text(), LINE_CHARS));
    format!("{NAME}→ {}{NAME:#} {}", name(&proposed.tool_name), arguments.unwrap_or_default())
}

/// Returns a tool with a mark that says how its call ended.
pub(super) fn ended_tool(tool_name: &str, end: &CallEnd) -> String {
    let (style, mark) = match end {
        CallEnd::Result(result) if result.is_success() => (GOOD, "✓"),
        CallEnd::Result(_) | CallEnd::Fault(_) => (BAD, "✗"),
    };
    format!("{style}{mark} {}{style:#}", name(tool_name))
}

/// Returns how a run ended, and what to do about it.
pub(super) fn ended(status: &RunStatus) -> String {
    let bad = |word: &str, words: &str| format!("{BAD}{word}:{BAD:#} {words}");
    match status {
        RunStatus::Completed => format!("{GOOD}completed{GOOD:#}"),
        RunStatus::Blocked { reason } => bad("blocked", &shown_marked(reason)),
        RunStatus::Stopped { limit } => bad(
            "stopped",
            &format!(
                "it reached its limit `{limit}`; change it in [limits], or in [agents.ID.limits], of tollgate.toml"
            ),
        ),
        RunStatus::Cancelled { reason } => bad("cancelled", &shown_marked(reason)),
        RunStatus::Failed { error } => bad("failed", &shown_marked(error)),
    }
}

/// Returns a tool with a mark that says how its call ended, and the words of the end.
fn call_end(tool_name: &str, end: &CallEnd) -> (String, String) {
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
