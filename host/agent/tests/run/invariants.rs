//! Invariants of every run, checked after every event.

use crate::tools;
use std::collections::BTreeMap;
use tollgate_agent::SmolStr;
use tollgate_agent::hook::HookPoint;
use tollgate_agent::message::Message;
use tollgate_agent::run::{Event, Phase, Run};
use tollgate_agent::state::StateChange;

/// Watches the events of one run.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    tools: BTreeMap<SmolStr, SmolStr>,
    attempts: BTreeMap<SmolStr, u32>,
    allowed_starts: BTreeMap<SmolStr, u32>,
    ends: BTreeMap<SmolStr, u32>,
    /// The number of times that the hooks on each side of a call answered.
    hooked: BTreeMap<(SmolStr, bool), u32>,
    endings: BTreeMap<SmolStr, u32>,
    /// The revision on which each call began its last attempts.
    began: BTreeMap<SmolStr, u64>,
    /// The revisions that wrote `kit.city`, whose updates never commute.
    cities: Vec<u64>,
    steps_open: i32,
    finished: bool,
}

impl Watch {
    /// Checks one event that was just applied.
    pub(crate) fn applied(&mut self, event: &Event, revision_before: u64, run: &Run) {
        assert!(!self.finished, "after the end: {event:?}");
        match event {
            Event::CallProposed(p) => {
                let seen = self.tools.insert(p.call_id.clone(), p.tool_name.clone());
                assert!(seen.is_none(), "the id {} is used twice", p.call_id);
                self.allowed_starts.insert(p.call_id.clone(), 1);
            }
            Event::BatchStarted { call_ids, revision } => {
                self.began.extend(call_ids.iter().map(|call_id| (call_id.clone(), *revision)));
            }
            Event::CallStarted { call_id, attempt, .. } => {
                let attempts = self.attempts.entry(call_id.clone()).or_default();
                *attempts += 1;
                assert_eq!(*attempt, *attempts, "attempts of {call_id} are counted");
                if !tools::is_idempotent(&self.tools[call_id]) {
                    let left = self.allowed_starts.get_mut(call_id).unwrap();
                    assert!(*left > 0, "{call_id} may not run twice");
                    *left -= 1;
                }
            }
            // Only a person's decision lets a call run again.
            Event::CallDecided { call_id, .. } => {
                self.allowed_starts.insert(call_id.clone(), 1);
            }
            Event::CallHooked { call_id, point, .. } => {
                let asked = self.hooked.entry((call_id.clone(), *point == HookPoint::Before)).or_default();
                *asked += 1;
                assert_eq!(*asked, 1, "hooks were asked twice: {event:?}");
            }
            Event::CallEnding(ending) => {
                let endings = self.endings.entry(ending.call_id.clone()).or_default();
                *endings += 1;
                assert_eq!(*endings, 1, "{} ends twice", ending.call_id);
            }
            Event::CallFinished(f) => {
                let was_let_through = self.hooked.contains_key(&(f.call_id.clone(), true));
                let had_hooks = self.hooked.contains_key(&(f.call_id.clone(), false));
                assert!(!was_let_through || had_hooks, "{} was let through and no hook told", f.call_id);
                let ends = self.ends.entry(f.call_id.clone()).or_default();
                *ends += 1;
                assert_eq!(*ends, 1, "{} ended twice", f.call_id);
            }
            Event::StepStarted { .. } => self.steps_open += 1,
            Event::StepFinished { .. } => self.steps_open -= 1,
            Event::RunFinished { .. } => self.end(),
            _ => {}
        }
        assert!((0..=1).contains(&self.steps_open), "steps begin and end in turn: {event:?}");
        self.nothing_is_overwritten_unseen(event);
        let grown = u64::from(event.change().is_some());
        assert_eq!(run.state().revision(), revision_before + grown, "{event:?}");
        transcript_is_valid(run.messages());
    }

    /// Records a change of the thread by another run.
    pub(crate) fn absorbed(&mut self, change: &StateChange) {
        if change.updates.iter().any(|update| &*update.key == "kit.city") {
            self.cities.push(change.revision);
        }
    }

    /// Checks that a tool's writes build on the state that its call saw. Hooks write last and may
    /// overwrite it.
    fn nothing_is_overwritten_unseen(&mut self, event: &Event) {
        let Some(change) = event.change() else { return };
        let call_id = match event {
            Event::CallFinished(f) => Some(&f.call_id),
            Event::CallSuspended(s) => Some(&s.call_id),
            _ => None,
        };
        let hooked =
            |id: &SmolStr| [true, false].iter().any(|at| self.hooked.contains_key(&(id.clone(), *at)));
        let writes = change.updates.iter().any(|update| &*update.key == "kit.city");
        if let Some(call_id) = call_id.filter(|id| writes && !hooked(id)) {
            let began = self.began[call_id];
            let unseen = self.cities.iter().find(|revision| **revision > began);
            assert_eq!(unseen, None, "{call_id} began on {began}: {event:?}");
        }
        self.absorbed(change);
    }

    fn end(&mut self) {
        self.finished = true;
        assert_eq!(self.steps_open, 0, "the last step ended");
        let open: Vec<_> = self.tools.keys().filter(|id| !self.ends.contains_key(*id)).collect();
        assert!(open.is_empty(), "calls without an end: {open:?}");
    }
}

/// Checks that every call is answered exactly once, in order, right after it was requested.
pub(crate) fn transcript_is_valid(messages: &[Message]) {
    let mut at = 0;
    while at < messages.len() {
        match &messages[at] {
            Message::Assistant(said) => {
                for call in said.calls.iter() {
                    at += 1;
                    match messages.get(at) {
                        Some(Message::Answer(answer)) => assert_eq!(answer.call_id, call.id),
                        other => panic!("the call {} is followed by {other:?}", call.id),
                    }
                }
            }
            Message::Answer(answer) => panic!("an answer to no call: {answer:?}"),
            Message::User(_) | Message::Note(_) => {}
        }
        at += 1;
    }
}

/// Checks that a run folded from its record equals the live run.
pub(crate) fn same(live: &Run, folded: &Run) {
    assert_eq!(live.phase(), folded.phase());
    assert_eq!(live.messages(), folded.messages());
    assert_eq!(live.usage(), folded.usage());
    assert_eq!(live.last_text(), folded.last_text());
    assert_eq!(live.state().revision(), folded.state().revision());
    for (key, value) in live.state().iter() {
        if !matches!(key, "kit.fleeting" | "kit.tally" | "keeper.fleeting") {
            assert_eq!(Some(value), folded.state().get(key), "{key}");
        }
    }
    assert_eq!(live.calls().len(), folded.calls().len());
    for (a, b) in live.calls().iter().zip(folded.calls()) {
        assert_eq!((&a.id, a.status(), a.end()), (&b.id, b.status(), b.end()));
        assert_eq!((&a.arguments, a.attempts, &a.usage), (&b.arguments, b.attempts, &b.usage));
        assert_eq!((&a.version, a.resumption()), (&b.version, b.resumption()));
    }
    assert_eq!(live.is_finished(), matches!(live.phase(), Phase::Finished(_)));
}
