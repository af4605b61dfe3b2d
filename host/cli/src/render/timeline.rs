//! The timeline of a past run: each line with the time since the run began, calls under their turn
//! with their outcome.

use crate::render::attachments::{self, attachments};
use crate::render::event_words::{
    LINE_CHARS, call, call_end, child_end, child_start, conflict, failed_attempt, name, transfer, verdict,
};
use crate::render::usage::{call_usage, run_usage};
use crate::terminal::output::{BAD, BOLD, DIM, GOOD, WAITS};
use crate::terminal::quantity;
use crate::terminal::text::{shown, shown_line};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tollgate_agent::gate::{GateVerdict, Verdict};
use tollgate_agent::hook::{HookAnswer, HookPoint, ModelHooked};
use tollgate_agent::message::ModelReply;
use tollgate_agent::run::event::{CheckedCall, FinishedCall, SuspendedCall};
use tollgate_agent::run::{Decision, DecisionAnswer, Event, RunStatus, StoredEvent};
use tollgate_agent::state::StateChange;

/// Returns the lines of a run's events, without the questions that are open at its end.
pub(crate) fn timeline(events: &[Arc<StoredEvent>]) -> String {
    let mut timeline = Timeline::default();
    for event in events {
        timeline.began_ms.get_or_insert(event.at_ms);
        timeline.at_ms = event.at_ms;
        timeline.event(&event.event);
    }
    timeline.text
}

#[derive(Default)]
struct Timeline {
    text: String,
    began_ms: Option<u64>,
    at_ms: u64,
    /// The time of the last line.
    stamped: String,
    /// Names of tools by call id.
    tools: HashMap<String, String>,
    /// The last text of the model.
    said: String,
}

impl Timeline {
    fn event(&mut self, event: &Event) {
        match event {
            Event::MessageAdded { text } => {
                self.blank();
                self.lines(&format!("{BOLD}>{BOLD:#} "), "  ", text);
            }
            Event::StepStarted { step } => {
                self.blank();
                self.line(&format!("{BOLD}turn {step}{BOLD:#}"));
            }
            Event::ModelReplied { reply, .. } => self.replied(reply),
            Event::CallProposed(proposed) => self.proposed(proposed),
            Event::CallGated { call_id, verdicts } => self.gated(call_id, verdicts),
            Event::BatchStarted { call_ids, revision } if call_ids.len() > 1 => {
                self.line(&format!("{DIM}{} calls at once, on revision {revision}{DIM:#}", call_ids.len()));
            }
            Event::CallStarted { call_id, attempt, .. } if *attempt > 1 => {
                self.of_call(call_id, &format!("{DIM}attempt {attempt}{DIM:#}"));
            }
            Event::ChildStarted { call_id, agent_id, child_run_id, .. } => {
                self.of_call(call_id, &child_start(agent_id, child_run_id));
            }
            Event::ChildFinished { call_id, status, steps, .. } => {
                self.of_call(call_id, &child_end(status, *steps));
            }
            Event::Transferred { from, agent, .. } => {
                self.line(&format!("  {}", transfer(from, &agent.view.id)));
            }
            Event::CallRetried { call_id, attempt, fault, usage } => {
                let (words, used) = (failed_attempt(*attempt, fault), call_usage(usage));
                self.of_call(call_id, &format!("{words} {DIM}({used}){DIM:#}"));
            }
            Event::CallConflicted { call_id, key, .. } => self.of_call(call_id, &conflict(key)),
            Event::CallReturned { call_id, .. } => {
                self.of_call(call_id, &format!("{DIM}returned; calls before it are not done{DIM:#}"));
            }
            Event::CallHooked { call_id, point, answers } => self.hooked(call_id, *point, answers),
            Event::ModelHooked { hooked, .. } => self.model_hooked(hooked),
            Event::CallFinished(finished) => self.finished(finished),
            Event::CallSuspended(suspended) => self.suspended(suspended),
            Event::CallDecided { call_id, decision, .. } => self.decided(call_id, decision),
            Event::RunWaiting => self.line(&format!("{WAITS}waits for a person{WAITS:#}")),
            Event::RunFinished { status, text, usage } => {
                self.ended(status, text);
                self.line(&format!("{DIM}{}{DIM:#}", run_usage(usage)));
            }
            _ => {}
        }
    }

    fn replied(&mut self, reply: &ModelReply) {
        let text = reply.message.text.trim();
        if !text.is_empty() {
            self.lines("", "", text);
        }
        let tokens = reply.usage;
        let spent = (tokens.total() > 0).then(|| quantity::count(tokens.total(), "token"));
        let model = reply.model.as_ref().map(|model| format!("model {}", shown_line(model, 100)));
        let facts: Vec<String> = spent.into_iter().chain(model).collect();
        if !facts.is_empty() {
            self.line(&format!("{DIM}{}{DIM:#}", facts.join(", ")));
        }
        text.clone_into(&mut self.said);
    }

    fn proposed(&mut self, proposed: &CheckedCall) {
        let call_id = shown_line(&proposed.call_id, 40);
        self.line(&format!("{} {DIM}{call_id}{DIM:#}", call(proposed)));
        self.tools.insert(proposed.call_id.to_string(), name(&proposed.tool_name));
    }

    /// Shows the gates that allow on one line, and each other verdict on its own.
    fn gated(&mut self, call_id: &str, verdicts: &[GateVerdict]) {
        let mut allow = Vec::new();
        for recorded in verdicts {
            let gate = name(&recorded.gate);
            if recorded.verdict == Verdict::Allow {
                allow.push(gate);
                continue;
            }
            let (style, words) = verdict(&recorded.verdict);
            self.of_call(call_id, &format!("{style}gate {gate} {words}{style:#}"));
        }
        if !allow.is_empty() {
            let verb = if allow.len() == 1 { "gate" } else { "gates" };
            self.of_call(call_id, &format!("{DIM}let through by {verb} {}{DIM:#}", allow.join(", ")));
        }
    }

    fn finished(&mut self, finished: &FinishedCall) {
        let (tool, words) = call_end(&finished.tool_name, &finished.end);
        let call = self.call_among_equals(&finished.call_id);
        let used = call_usage(&finished.usage);
        self.line(&format!("{tool}{call} {words} {DIM}({used}){DIM:#}"));
        if let Some(own) = &finished.replaced {
            let own = own.code().map_or("success", |code| code.as_str());
            self.line(&format!("  {WAITS}changed by hooks;{WAITS:#} the call itself ended as {own}"));
        }
        attachments::lines(attachments(&finished.end)).for_each(|line| self.line(&format!("  {line}")));
        self.changed(finished.change.as_ref());
        for note in &finished.notes {
            self.line(&format!("  {DIM}note for the model:{DIM:#} {}", shown_line(note, LINE_CHARS)));
        }
        for later in &finished.scheduled {
            let (turns, note) = (later.in_turns, shown_line(&later.note, LINE_CHARS));
            self.line(&format!("  {DIM}note for the model in {turns} turns:{DIM:#} {note}"));
        }
        if let Some(filter) = &finished.filter {
            let only = filter.only.iter().flatten().map(|shown| name(shown));
            let hidden = filter.hidden.iter().map(|hidden| format!("not {}", name(hidden)));
            let tools: Vec<String> = only.chain(hidden).collect();
            self.line(&format!("  {DIM}tools of the next turn:{DIM:#} {}", tools.join(", ")));
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
            self.line(&format!("{DIM}hooks: {}{DIM:#}", shown_line(&words, LINE_CHARS)));
        }
        for (plugin, why) in &hooked.failed {
            let words = shown_line(&format!("{plugin} failed: {why}"), 2 * LINE_CHARS);
            self.line(&format!("{BAD}hook {words}{BAD:#}"));
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
        self.line(&format!("{WAITS}? {asks}{WAITS:#}{call} asks ({action}): {words}"));
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
        let who = decision.by.as_deref().map_or_else(|| "a person".to_owned(), name);
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
            self.line(&format!("  {DIM}state{DIM:#} {key} {became} {DIM}(revision {revision}){DIM:#}"));
        }
    }

    fn ended(&mut self, status: &RunStatus, text: &str) {
        self.blank();
        if !text.trim().is_empty() && text.trim() != self.said {
            self.lines("", "", text.trim());
        }
        let (style, words) = match status {
            RunStatus::Completed => (GOOD, "completed".to_owned()),
            RunStatus::Blocked { reason } => {
                (BAD, format!("blocked: {}", shown_line(reason, 2 * LINE_CHARS)))
            }
            RunStatus::Stopped { limit } => (BAD, format!("stopped: it reached its limit {limit}")),
            RunStatus::Cancelled { reason } => {
                (BAD, format!("cancelled: {}", shown_line(reason, 2 * LINE_CHARS)))
            }
            RunStatus::Failed { error } => (BAD, format!("failed: {}", shown_line(error, 4 * LINE_CHARS))),
        };
        self.line(&format!("{style}{words}{style:#}"));
    }

    /// Returns the call's id if the tool's name alone is ambiguous.
    fn call_among_equals(&self, call_id: &str) -> String {
        let name = self.tools.get(call_id);
        let equals = self.tools.values().filter(|other| Some(*other) == name).count();
        if equals > 1 { format!(" {DIM}{}{DIM:#}", shown_line(call_id, 40)) } else { String::new() }
    }

    fn of_call(&mut self, call_id: &str, words: &str) {
        let name = self.tools.get(call_id).cloned().unwrap_or_default();
        let call = self.call_among_equals(call_id);
        self.line(&format!("  {name}{call} {words}"));
    }

    /// Prints a text of several lines, each cleaned of terminal escapes.
    fn lines(&mut self, first: &str, others: &str, text: &str) {
        for (at, line) in shown(text).lines().enumerate() {
            self.line(&format!("{}{line}", if at == 0 { first } else { others }));
        }
    }

    /// Prints a line, with the time if it differs from the previous line's.
    fn line(&mut self, words: &str) {
        let since = stamp(self.at_ms.saturating_sub(self.began_ms.unwrap_or(self.at_ms)));
        let shown = if self.stamped == since { "" } else { &since };
        let line = format!("{DIM}{shown:>9}{DIM:#}  {words}");
        self.stamped = since;
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn blank(&mut self) {
        self.text.push('\n');
    }
}

/// Formats the time since the run began: `1.240 s`, and from a minute on `1:02:03`.
fn stamp(since_ms: u64) -> String {
    let (seconds, ms) = (since_ms / 1_000, since_ms % 1_000);
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}.{ms:03} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
