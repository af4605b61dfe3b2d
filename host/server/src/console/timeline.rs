//! A run as rows on a common scale of time: messages, turns of the model, and calls with the
//! segments in which they were judged, waited for a person, or ran.

use std::collections::HashMap;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::child::ChildStatus;
use tollgate_agent::gate::{GateVerdict, Verdict};
use tollgate_agent::message::TokenUsage;
use tollgate_agent::outcome::Usage;
use tollgate_agent::proposal::Arguments;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{CallEnd, Decision, Event, RunStatus, StoredEvent};
use tollgate_agent::state::StateChange;

/// The width of the scale.
pub(super) const WIDTH: u64 = 1_000;
/// The shortest wait that is folded, in milliseconds.
const MIN_FOLDED_MS: u64 = 1_000;

/// A run as rows.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub(super) rows: Vec<Row>,
    /// When the run began, in milliseconds since the Unix epoch.
    pub(super) began_ms: u64,
    /// When its last event was committed.
    pub(super) last_ms: u64,
    /// The times in which the whole run waited for a person.
    waits: Vec<(u64, u64)>,
    waiting_since: Option<u64>,
    /// The rows of calls, by call id.
    calls: HashMap<SmolStr, usize>,
}

/// A row of the timeline.
#[derive(Debug)]
pub(super) enum Row {
    /// A message of the user.
    Message { text: String },
    /// A turn of the model.
    Turn(Turn),
    /// A call.
    Call(Box<CallRow>),
    /// Another fact, in words.
    Note { words: String },
    /// The end of the run.
    End { status: RunStatus, text: String },
}

/// A turn of the model.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) step: u32,
    pub(super) began_ms: u64,
    pub(super) replied_ms: Option<u64>,
    pub(super) text: String,
    pub(super) has_reasoning: bool,
    pub(super) tokens: TokenUsage,
    /// The model that replied, if the record names it.
    pub(super) model: Option<SmolStr>,
}

/// A call.
#[derive(Debug, Default)]
pub(super) struct CallRow {
    pub(super) call_id: SmolStr,
    pub(super) tool_name: SmolStr,
    pub(super) arguments: Option<Arguments>,
    pub(super) segments: Vec<Segment>,
    /// The segment that has not ended.
    open: Option<(Kind, u64)>,
    pub(super) verdicts: Vec<GateVerdict>,
    pub(super) asked: Vec<Arc<SuspendedCall>>,
    pub(super) decisions: Vec<Decision>,
    pub(super) end: Option<CallEnd>,
    pub(super) usage: Usage,
    pub(super) change: Option<StateChange>,
    pub(super) children: Vec<ChildRow>,
}

/// A child run of a call.
#[derive(Debug)]
pub(super) struct ChildRow {
    pub(super) ordinal: u32,
    pub(super) run_id: String,
    pub(super) agent_id: String,
    pub(super) status: Option<ChildStatus>,
}

/// A part of a call's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: Kind,
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
}

/// The kinds of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Gates judge the call.
    Judged,
    /// The call waits for a free place, or for other calls.
    Queued,
    /// The call waits for a person.
    Waited,
    /// An attempt runs.
    Attempt(u32),
    /// An attempt ran and failed, and another followed.
    Failed(u32),
}

impl Kind {
    /// Returns the class of the segment.
    pub(super) fn class(self) -> &'static str {
        match self {
            Kind::Judged => "judged",
            Kind::Queued => "queued",
            Kind::Waited => "waited",
            Kind::Attempt(_) => "ran",
            Kind::Failed(_) => "lost",
        }
    }

    /// Returns the segment in words.
    pub(super) fn words(self) -> String {
        match self {
            Kind::Judged => "judged".to_owned(),
            Kind::Queued => "queued".to_owned(),
            Kind::Waited => "waited for a person".to_owned(),
            Kind::Attempt(1) => "ran".to_owned(),
            Kind::Attempt(number) => format!("attempt {number} ran"),
            Kind::Failed(number) => format!("attempt {number} failed"),
        }
    }
}

impl Timeline {
    /// Reads a record.
    pub(super) fn of(events: &[Arc<StoredEvent>]) -> Self {
        let began_ms = events.first().map_or(0, |first| first.at_ms);
        let mut timeline = Self { began_ms, ..Self::default() };
        for event in events {
            timeline.last_ms = event.at_ms;
            if let Some(since) = timeline.waiting_since.take() {
                timeline.waits.push((since, event.at_ms));
            }
            timeline.event(&event.event, event.at_ms);
        }
        timeline
    }

    /// Returns whether the last event reports that the run waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Returns the time until then without the time in which the whole run waited for a person.
    pub(super) fn active_ms(&self, until_ms: u64) -> u64 {
        let until_ms = until_ms.max(self.last_ms);
        let open = self.waiting_since.map(|since| (since, until_ms));
        let waited: u64 = self.waits.iter().copied().chain(open).map(|(from, to)| to - from).sum();
        until_ms.saturating_sub(self.began_ms).saturating_sub(waited)
    }

    fn event(&mut self, event: &Event, at_ms: u64) {
        match event {
            Event::MessageAdded { text } => self.rows.push(Row::Message { text: text.clone() }),
            Event::StepStarted { step } => {
                self.rows.push(Row::Turn(Turn { step: *step, began_ms: at_ms, ..Turn::default() }));
            }
            Event::ModelReplied { reply, .. } => {
                let turns = self.rows.iter_mut().rev();
                if let Some(turn) = turns
                    .into_iter()
                    .find_map(|row| if let Row::Turn(turn) = row { Some(turn) } else { None })
                {
                    turn.replied_ms = Some(at_ms);
                    turn.text.clone_from(&reply.message.text);
                    turn.has_reasoning = reply.message.reasoning.is_some();
                    turn.tokens = turn.tokens.plus(reply.usage);
                    turn.model.clone_from(&reply.model);
                }
            }
            Event::CallProposed(proposed) => {
                self.calls.insert(proposed.call_id.clone(), self.rows.len());
                let call = CallRow {
                    call_id: proposed.call_id.clone(),
                    tool_name: proposed.tool_name.clone(),
                    arguments: proposed.arguments.clone(),
                    open: Some((Kind::Judged, at_ms)),
                    ..CallRow::default()
                };
                self.rows.push(Row::Call(Box::new(call)));
            }
            Event::Transferred { from, agent, .. } => {
                let words = format!("{from} handed the conversation to {}", agent.view.id);
                self.rows.push(Row::Note { words });
            }
            Event::RunWaiting => self.waiting_since = Some(at_ms),
            Event::RunFinished { status, text, .. } => {
                let said = self.rows.iter().rev().find_map(|row| match row {
                    Row::Turn(turn) => Some(turn.text.trim()),
                    _ => None,
                });
                // The answer is most often the text of the last turn.
                let text = if said == Some(text.trim()) { "" } else { text.as_str() };
                self.rows.push(Row::End { status: status.clone(), text: text.to_owned() });
            }
            event => self.of_call(event, at_ms),
        }
    }

    fn of_call(&mut self, event: &Event, at_ms: u64) {
        let call_id = match event {
            Event::CallGated { call_id, .. }
            | Event::CallStarted { call_id, .. }
            | Event::CallRetried { call_id, .. }
            | Event::CallReturned { call_id, .. }
            | Event::CallConflicted { call_id, .. }
            | Event::CallDecided { call_id, .. }
            | Event::ChildStarted { call_id, .. }
            | Event::ChildFinished { call_id, .. } => call_id,
            Event::CallFinished(finished) => &finished.call_id,
            Event::CallSuspended(asked) => &asked.call_id,
            _ => return,
        };
        let Some(Row::Call(call)) = self.calls.get(call_id).and_then(|at| self.rows.get_mut(*at)) else {
            return;
        };
        call.event(event, at_ms);
        // A direct call is stored once, when it has ended.
        if let Some(first) = call.segments.first() {
            self.began_ms = self.began_ms.min(first.from_ms);
        }
    }
}

impl CallRow {
    fn event(&mut self, event: &Event, at_ms: u64) {
        match event {
            Event::CallGated { verdicts, .. } => {
                // A gate that asked is asked again when the call continues.
                let telling = verdicts.iter().filter(|verdict| verdict.verdict != Verdict::Allow);
                let news: Vec<_> =
                    telling.filter(|verdict| !self.verdicts.contains(verdict)).cloned().collect();
                self.verdicts.extend(news);
                self.become_kind(Kind::Queued, at_ms);
            }
            Event::CallStarted { attempt, not_before_ms, .. } => {
                let from_ms = at_ms.max(*not_before_ms);
                self.become_kind(Kind::Queued, at_ms);
                self.become_kind(Kind::Attempt(*attempt), from_ms);
            }
            Event::CallRetried { attempt, .. } => {
                self.open = self.open.map(|(_, since)| (Kind::Failed(*attempt), since));
                self.become_kind(Kind::Queued, at_ms);
            }
            Event::CallReturned { .. } => self.become_kind(Kind::Queued, at_ms),
            Event::CallConflicted { .. } => self.become_kind(Kind::Judged, at_ms),
            Event::CallSuspended(asked) => {
                self.asked.push(Arc::new((**asked).clone()));
                self.become_kind(Kind::Waited, at_ms);
            }
            Event::CallDecided { decision, .. } => {
                self.decisions.push((**decision).clone());
                self.become_kind(Kind::Judged, at_ms);
            }
            Event::ChildStarted { ordinal, child_run_id, agent_id, .. } => {
                let (run_id, agent_id) = (child_run_id.clone(), agent_id.clone());
                self.children.push(ChildRow { ordinal: *ordinal, run_id, agent_id, status: None });
            }
            Event::ChildFinished { ordinal, status, .. } => {
                let child = self.children.iter_mut().find(|child| child.ordinal == *ordinal);
                child.into_iter().for_each(|child| child.status = Some(status.clone()));
            }
            Event::CallFinished(finished) => {
                if let Some((Kind::Attempt(_), since)) = &mut self.open
                    && *since == at_ms
                {
                    *since = at_ms.saturating_sub(finished.last_attempt().wall_us / 1_000);
                }
                self.close(at_ms);
                self.end = Some(finished.end.clone());
                self.usage = finished.usage;
                self.change.clone_from(&finished.change);
            }
            _ => {}
        }
    }

    fn become_kind(&mut self, kind: Kind, at_ms: u64) {
        self.close(at_ms);
        self.open = Some((kind, at_ms));
    }

    fn close(&mut self, at_ms: u64) {
        let Some((kind, from_ms)) = self.open.take() else { return };
        if at_ms > from_ms || matches!(kind, Kind::Attempt(_)) {
            self.segments.push(Segment { kind, from_ms, to_ms: at_ms.max(from_ms) });
        }
    }

    /// Returns the segments, with the one that has not ended until now.
    pub(super) fn segments_until(&self, now_ms: u64) -> Vec<Segment> {
        let open = self.open.map(|(kind, from_ms)| Segment { kind, from_ms, to_ms: now_ms.max(from_ms) });
        self.segments.iter().copied().chain(open).collect()
    }

    /// Returns whether the call waits for a person.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.open, Some((Kind::Waited, _)))
    }

    /// Returns the current segment's word; `None` if the call has ended.
    pub(super) fn is_at(&self) -> Option<&'static str> {
        Some(match self.open?.0 {
            Kind::Judged => "judging",
            Kind::Queued => "queued",
            Kind::Waited => "waiting",
            Kind::Attempt(_) | Kind::Failed(_) => "running",
        })
    }
}

/// Maps time to a position from 0 to [`WIDTH`]. Long waits for a person are folded to a fixed
/// width, so that the work between them stays visible.
#[derive(Debug)]
pub(super) struct Scale {
    began_ms: u64,
    /// Pairs of time since the beginning and position, both increasing.
    points: Vec<(u64, u64)>,
    /// The folded waits, as their positions and their length in milliseconds.
    pub(super) folds: Vec<(u64, u64, u64)>,
}

impl Scale {
    /// Creates the scale of a timeline that extends to `until_ms`.
    pub(super) fn new(timeline: &Timeline, until_ms: u64) -> Self {
        let began = timeline.began_ms;
        let end = until_ms.max(timeline.last_ms).max(began + 1) - began;
        let open = timeline.waiting_since.map(|since| (since, until_ms.max(since)));
        let waits: Vec<(u64, u64)> =
            timeline.waits.iter().copied().chain(open).map(|(a, b)| (a - began, b - began)).collect();
        let waited: u64 = waits.iter().map(|(from, to)| to - from).sum();
        let active = end.saturating_sub(waited).max(1);
        let folded: Vec<(u64, u64)> =
            waits.into_iter().filter(|(from, to)| to - from > MIN_FOLDED_MS.max(active / 2)).collect();
        let folded_ms: u64 = folded.iter().map(|(from, to)| to - from).sum();
        // Each fold takes an eighth of the width; all of them together at most half.
        let fold_width = if folded.is_empty() { 0 } else { (WIDTH / 8).min(WIDTH / 2 / folded.len() as u64) };
        let room = WIDTH - fold_width * folded.len() as u64;
        let shown_ms = (end - folded_ms).max(1);
        let (mut points, mut folds) = (vec![(0, 0)], Vec::new());
        let mut at = (0, 0);
        for (from, to) in folded {
            let start = at.1 + (from - at.0) * room / shown_ms;
            points.push((from, start));
            points.push((to, start + fold_width));
            folds.push((start, start + fold_width, to - from));
            at = (to, start + fold_width);
        }
        points.push((end, WIDTH));
        Self { began_ms: began, points, folds }
    }

    /// Returns the position of a time in milliseconds since the Unix epoch.
    pub(super) fn x(&self, at_ms: u64) -> u64 {
        let at = at_ms.saturating_sub(self.began_ms);
        let next = self.points.partition_point(|(ms, _)| *ms <= at);
        match (next.checked_sub(1).and_then(|last| self.points.get(last)), self.points.get(next)) {
            (Some((from, x)), Some((to, end))) => x + (at - from) * (end - x) / (to - from).max(1),
            _ => WIDTH,
        }
    }

    /// Returns the working time until a position in milliseconds, without folded waits.
    pub(super) fn working_ms(&self, x: u64) -> u64 {
        let folded: u64 = self.folds.iter().filter(|(_, end, _)| *end <= x).map(|(.., length)| length).sum();
        self.ms(x).saturating_sub(folded)
    }

    /// Returns the time since the beginning at a position, in milliseconds.
    fn ms(&self, x: u64) -> u64 {
        let next = self.points.partition_point(|(_, at)| *at <= x);
        match (next.checked_sub(1).and_then(|last| self.points.get(last)), self.points.get(next)) {
            (Some((from, start)), Some((to, end))) => from + (x - start) * (to - from) / (end - start).max(1),
            (Some((last, _)), None) => *last,
            _ => 0,
        }
    }
}

/// Rounds a length in milliseconds up to a round one, so that the scale of a run that is at work
/// changes rarely.
pub(super) fn rounded_up(ms: u64) -> u64 {
    let mut step = 100;
    loop {
        for factor in [1, 2, 5] {
            if ms <= step * factor {
                return step * factor;
            }
        }
        step *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn events(list: serde_json::Value) -> Vec<Arc<StoredEvent>> {
        let list: Vec<StoredEvent> = serde_json::from_value(list).expect("events");
        list.into_iter().map(Arc::new).collect()
    }

    fn asked() -> Vec<Arc<StoredEvent>> {
        let ticket = json!({"action": "confirm", "message": "Sure?", "resume_mode": "replay-tool-call"});
        events(json!([
            {"run_id": "r", "number": 1, "at_ms": 1_000, "type": "step_started", "step": 1},
            {"run_id": "r", "number": 2, "at_ms": 1_100, "type": "call_proposed", "call_id": "c", "tool_name": "t"},
            {"run_id": "r", "number": 3, "at_ms": 1_110, "type": "call_suspended", "call_id": "c",
             "suspension_id": "c/1", "tool_name": "t", "ticket": ticket},
            {"run_id": "r", "number": 4, "at_ms": 1_110, "type": "run_waiting"},
            {"run_id": "r", "number": 5, "at_ms": 3_601_110, "type": "call_decided", "call_id": "c",
             "decision": {"id": "d", "target": "c", "answer": {"resume": true}, "at_ms": 3_601_110}},
            {"run_id": "r", "number": 6, "at_ms": 3_601_120, "type": "call_started", "call_id": "c", "attempt": 1},
            {"run_id": "r", "number": 7, "at_ms": 3_601_200, "type": "call_finished", "call_id": "c",
             "tool_name": "t", "end": {"result": {"status": "success"}}},
        ]))
    }

    #[test]
    fn a_call_has_segments_and_long_waits_are_folded() {
        let timeline = Timeline::of(&asked());
        let Some(Row::Call(call)) = timeline.rows.last() else { panic!("no call") };
        let kinds: Vec<_> = call.segments.iter().map(|segment| segment.kind).collect();
        assert_eq!(kinds, [Kind::Judged, Kind::Waited, Kind::Judged, Kind::Attempt(1)]);
        let scale = Scale::new(&timeline, timeline.last_ms);
        assert_eq!(scale.folds.len(), 1);
        assert_eq!(scale.folds[0].2, 3_600_000);
        assert_eq!((scale.x(1_000), scale.x(3_601_200)), (0, WIDTH));
        // The hour takes an eighth of the width; the 200 ms around it take the rest.
        assert!(scale.x(1_110) > 400 && scale.x(3_601_110) - scale.x(1_110) == WIDTH / 8);
        assert_eq!((scale.ms(WIDTH), scale.working_ms(WIDTH)), (3_600_200, 200));
        let mut last = 0;
        for at in (1_000..3_601_200).step_by(997) {
            assert!(scale.x(at) >= last && scale.x(at) <= WIDTH);
            last = scale.x(at);
        }
    }

    #[test]
    fn lengths_are_rounded_up() {
        assert_eq!(
            [rounded_up(0), rounded_up(101), rounded_up(450), rounded_up(60_000)],
            [100, 200, 500, 100_000]
        );
    }
}
