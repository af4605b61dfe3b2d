//! Writes and requests of the hooks around a call, joined with those of the tool.
//!
//! They are joined in a fixed order (the hooks before the call, the tool, the hooks after it) and
//! are committed as one change with the end of the call. A failed hook fails its call. In that case
//! the tool's part is dropped, and the writes of the other hooks are kept.

use super::Run;
use super::actions::{Actor, granted};
use super::call::{Call, HooksBefore};
use super::event::Event;
use super::facts::{CallCompletion, CallEnd, InvalidTransition, LoopActions};
use super::transition::Transition;
use crate::code::Code;
use crate::hook::{HookAnswer, HookPoint, MAX_ACTIONS_BYTES, MAX_CUSTOM_EVENT_BYTES, MAX_CUSTOM_EVENTS};
use crate::outcome::{Fault, Mutation};
use crate::state::change::{MutationJoiner, check_sizes, conflict};
use crate::state::{PendingMutation, StateChange};
use crate::text::clean;
use std::sync::Arc;

/// The end of a call after its hooks have been applied.
pub(super) struct HookedEnd {
    pub(super) end: CallEnd,
    pub(super) change: Option<StateChange>,
    pub(super) asked: LoopActions,
}

/// One part of a call's change: the tool's, or a hook's with the name of its plugin.
struct Part<'a> {
    plugin: Option<&'a str>,
    point: HookPoint,
    mutations: Vec<Mutation>,
}

/// A hook that failed.
struct Failure<'a> {
    plugin: &'a str,
    point: HookPoint,
    why: String,
}

impl Failure<'_> {
    fn fault(&self, tool_name: &str) -> Fault {
        let side = match self.point {
            HookPoint::Before => "before",
            HookPoint::After => "after",
        };
        let message =
            format!("The hook of the plugin '{}' {side} the call of '{tool_name}' failed.", self.plugin);
        Fault::new(Code::HookFailed, message).with_detail(self.why.clone())
    }
}

impl Run {
    pub(super) fn call_hooked(
        &mut self,
        call_id: &str,
        point: HookPoint,
        answers: &[HookAnswer],
    ) -> Result<(), InvalidTransition> {
        let call = self.call_mut(call_id)?;
        if point == HookPoint::Before {
            call.hooks_before = Some(HooksBefore { answers: Arc::from(answers), are_committed: false });
        }
        Ok(())
    }
}

impl Transition<'_> {
    /// Records the answers of the hooks before a call. Returns the fault if one of them failed.
    pub(super) fn hooked_before(&mut self, call: &Call, answers: Vec<HookAnswer>) -> Option<Fault> {
        let without_result = |answer: HookAnswer| match answer.result {
            None => answer,
            Some(_) => {
                HookAnswer::failed(answer.plugin, "before a call there is no result; a gate can supply one")
            }
        };
        let answers = answers.into_iter().map(without_result).map(|answer| self.checked(answer));
        let answers: Arc<[HookAnswer]> = answers.collect();
        let event = Event::CallHooked {
            call_id: call.id.clone(),
            point: HookPoint::Before,
            answers: answers.to_vec(),
        };
        self.push(event);
        let fault =
            failures(HookPoint::Before, &answers).next().map(|failure| failure.fault(&call.tool_name));
        self.before.push((call.id.clone(), answers));
        fault
    }

    /// Returns the answers of the hooks before the call, if they were asked.
    pub(super) fn before_of(&self, call: &Call) -> Option<Arc<[HookAnswer]>> {
        let now = self.before.iter().find(|(call_id, _)| *call_id == call.id).map(|(_, answers)| answers);
        now.or(call.hooks_before.as_ref().map(|hooks| &hooks.answers)).map(Arc::clone)
    }

    /// Returns the answer to record. An answer that requests too much becomes a failure.
    pub(super) fn checked(&self, answer: HookAnswer) -> HookAnswer {
        if answer.failed.is_some() {
            return HookAnswer::failed(answer.plugin.clone(), answer.failed.as_deref().unwrap_or_default());
        }
        match self.refusal(&answer) {
            Some(why) => HookAnswer::failed(answer.plugin, &why),
            None => {
                let keys = self.catalog.keys();
                let pending = PendingMutation::mutations(&answer.mutations);
                let mutations = pending.iter().map(|mutation| PendingMutation::of(keys, mutation)).collect();
                HookAnswer { mutations, ..answer }
            }
        }
    }

    fn refusal(&self, answer: &HookAnswer) -> Option<String> {
        if answer.events.len() > MAX_CUSTOM_EVENTS {
            return Some(format!(
                "it returned {} events; at most {MAX_CUSTOM_EVENTS} are accepted",
                answer.events.len()
            ));
        }
        let large = |data: &serde_json::Value| data.to_string().len() > MAX_CUSTOM_EVENT_BYTES;
        if let Some(event) = answer.events.iter().find(|event| event.name.len() > 64 || large(&event.data)) {
            let name = clean(&event.name, 64);
            return Some(format!(
                "its event \"{name}\" is too large; a name has at most 64 bytes, data {MAX_CUSTOM_EVENT_BYTES}"
            ));
        }
        if let Err(fault) = check_sizes(&PendingMutation::mutations(&answer.mutations)) {
            return Some(fault.message);
        }
        let actions = serde_json::to_string(&answer.actions).map_or(usize::MAX, |json| json.len());
        if actions > MAX_ACTIONS_BYTES {
            return Some(format!(
                "its actions have {actions} bytes; at most {MAX_ACTIONS_BYTES} are accepted"
            ));
        }
        if answer.result.as_ref().is_some_and(|result| result.is_pending()) {
            return Some("a hook cannot ask a person; a gate can".to_owned());
        }
        None
    }

    /// Joins the writes of the hooks before the call, unless they are already part of the state.
    pub(super) fn join_before<'b>(
        &self,
        call: &Call,
        joining: &mut MutationJoiner<'b>,
        before: &'b [(String, Vec<Mutation>)],
    ) -> Result<(), Fault> {
        for (plugin, mutations) in before {
            self.join_hook(plugin, mutations, joining)
                .map_err(|why| Failure { plugin, point: HookPoint::Before, why }.fault(&call.tool_name))?;
        }
        Ok(())
    }

    /// Returns the uncommitted writes of the hooks before the call, by plugin.
    pub(super) fn uncommitted_writes(&self, call: &Call) -> Vec<(String, Vec<Mutation>)> {
        let answers = self.before_of(call).filter(|_| !call.are_hooks_committed());
        let written =
            |answer: &HookAnswer| (answer.plugin.clone(), PendingMutation::mutations(&answer.mutations));
        answers.iter().flat_map(|answers| answers.iter()).map(written).collect()
    }

    fn join_hook<'b>(
        &self,
        plugin: &str,
        mutations: &'b [Mutation],
        joining: &mut MutationJoiner<'b>,
    ) -> Result<(), String> {
        if mutations.is_empty() {
            return Ok(());
        }
        let owner = self.catalog.hook_owner(plugin);
        let owner = owner.ok_or_else(|| format!("the plugin {plugin} is no longer installed"))?;
        joining.add(&owner.access, mutations).map_err(|fault| fault.message)
    }

    /// Returns the end of a call after its hooks have been applied.
    pub(super) fn completed(&self, call: &Call, ending: &CallCompletion, after: &[HookAnswer]) -> HookedEnd {
        let before = self.before_of(call);
        let before: &[HookAnswer] = before.as_deref().unwrap_or_default();
        let mut failed: Vec<Failure<'_>> = failures(HookPoint::After, after).collect();
        let mut asked = self.asked_by_hooks(before, after, &mut failed);
        let counts = failed.is_empty() && matches!(ending.end, CallEnd::Result(_));
        let (mut change, mut end) = (None, ending.end.clone());
        match self.join_all(call, counts.then_some(ending), (before, after), &mut failed) {
            // Failures found while joining also drop the tool's part.
            Ok(joined) if !counts || failed.is_empty() => change = joined,
            Ok(_) => change = self.join_all(call, None, (before, after), &mut failed).unwrap_or_default(),
            Err(fault) => {
                end = CallEnd::Fault(fault);
                change = self.join_all(call, None, (before, after), &mut failed).unwrap_or(change);
            }
        }
        let replacement = after.iter().rev().find_map(|answer| answer.result.clone());
        match (&end, failed.first(), replacement) {
            (CallEnd::Result(_), Some(failure), _) => {
                end = CallEnd::Fault(failure.fault(&call.tool_name));
            }
            // A hook replaces only the end that it saw.
            (seen, None, Some(result)) if *seen == ending.end && ending.may_be_replaced() => {
                end = CallEnd::Result(Arc::new(*result));
            }
            _ => {}
        }
        if counts && failed.is_empty() {
            let mut all = ending.asked.clone();
            all.join(asked);
            asked = all;
        }
        HookedEnd { end, change, asked }
    }

    /// Joins all parts. A hook whose part cannot be joined is recorded as failed, and its part is
    /// left out.
    ///
    /// # Errors
    /// The tool's part cannot be joined.
    fn join_all<'b>(
        &self,
        call: &Call,
        tool: Option<&CallCompletion>,
        (before, after): (&'b [HookAnswer], &'b [HookAnswer]),
        failed: &mut Vec<Failure<'b>>,
    ) -> Result<Option<StateChange>, Fault> {
        let left_out: Vec<(&str, HookPoint)> = failed.iter().map(|f| (f.plugin, f.point)).collect();
        let of_hooks = |point: HookPoint, answers: &'b [HookAnswer]| {
            let counting = answers.iter().filter(|answer| answer.failed.is_none());
            let part = move |answer: &'b HookAnswer| Part {
                plugin: Some(answer.plugin.as_str()),
                point,
                mutations: PendingMutation::mutations(&answer.mutations),
            };
            counting.map(part).collect::<Vec<_>>()
        };
        let mut parts = match call.are_hooks_committed() {
            true => Vec::new(),
            false => of_hooks(HookPoint::Before, before),
        };
        let written = tool.map(|ending| PendingMutation::mutations(&ending.mutations)).unwrap_or_default();
        parts.push(Part { plugin: None, point: HookPoint::After, mutations: written });
        parts.extend(of_hooks(HookPoint::After, after));
        let snapshot = self.state().snapshot();
        let mut joining = MutationJoiner::on(self.catalog.keys(), &snapshot);
        for part in &parts {
            match part.plugin {
                None => self.join_tool(call, &part.mutations, &mut joining)?,
                Some(plugin) if left_out.contains(&(plugin, part.point)) => {}
                Some(plugin) => {
                    if let Err(why) = self.join_hook(plugin, &part.mutations, &mut joining) {
                        failed.push(Failure { plugin, point: part.point, why });
                    }
                }
            }
        }
        Ok(joining.into_change())
    }

    /// Joins the tool's writes. They were checked when the call returned, but others may have
    /// written to the thread since. The call is over and does not run again.
    fn join_tool<'b>(
        &self,
        call: &Call,
        mutations: &'b [Mutation],
        joining: &mut MutationJoiner<'b>,
    ) -> Result<(), Fault> {
        if mutations.is_empty() {
            return Ok(());
        }
        if let Some(key) = conflict(self.catalog.keys(), &self.changed_since(), mutations) {
            return Err(state_conflict(call, key, false));
        }
        let tool = call.tool_or_successor(self.catalog).ok_or_else(|| lost(call))?;
        joining.add(&tool.access, mutations)
    }

    /// Returns the changes committed since the batch began.
    pub(super) fn changed_since(&self) -> Vec<&StateChange> {
        let batch = self.run.turn.as_ref().and_then(|turn| turn.batch.as_ref());
        batch.iter().flat_map(|batch| &batch.changes).chain(self.changes()).collect()
    }

    /// Returns the loop actions that hooks request. A hook that requests a forbidden action fails.
    fn asked_by_hooks<'b>(
        &self,
        before: &'b [HookAnswer],
        after: &'b [HookAnswer],
        failed: &mut Vec<Failure<'b>>,
    ) -> LoopActions {
        let mut all = LoopActions::default();
        let sides = [(HookPoint::Before, before), (HookPoint::After, after)];
        for (point, answers) in sides {
            for answer in answers.iter().filter(|answer| answer.failed.is_none()) {
                match self.asked_by_hook(answer) {
                    Ok(asked) => all.join(asked),
                    Err(fault) => failed.push(Failure { plugin: &answer.plugin, point, why: fault.message }),
                }
            }
        }
        all
    }

    fn asked_by_hook(&self, answer: &HookAnswer) -> Result<LoopActions, Fault> {
        if answer.actions.is_empty() {
            return Ok(LoopActions::default());
        }
        let grants = self.catalog.hook_owner(&answer.plugin).map(|owner| owner.actions).unwrap_or_default();
        let by = Actor::plugin(&answer.plugin, grants);
        let asked = granted(&by, &answer.actions)?;
        self.check_possible(&by, &asked)?;
        match &asked.transfer {
            Some(target) if !self.knows_delegate(target) => {
                let words = format!("There is no agent '{}' to hand the conversation to.", clean(target, 64));
                Err(Fault::new(Code::BadAction, words))
            }
            _ => Ok(asked),
        }
    }
}

fn failures(point: HookPoint, answers: &[HookAnswer]) -> impl Iterator<Item = Failure<'_>> {
    answers.iter().filter_map(move |answer| {
        Some(Failure { plugin: &answer.plugin, point, why: answer.failed.clone()? })
    })
}

/// Returns the fault of a call whose changes were dropped because of a conflict. `reruns_used_up`
/// means that the call used up all its reruns.
pub(super) fn state_conflict(call: &Call, key: &str, reruns_used_up: bool) -> Fault {
    let name = &call.tool_name;
    let message = match reruns_used_up {
        true => format!(
            "'{name}' ran {} times, and each time another call changed the state key \"{key}\" meanwhile. \
             It changed no state.",
            call.attempts
        ),
        false => format!(
            "'{name}' has run, but it changed no state: another call changed the state key \"{key}\" meanwhile. \
             Check what it did outside of the state before you call it again."
        ),
    };
    Fault::new(Code::StateConflict, message)
}

/// Returns the fault of a call that returned before its tool was removed.
pub(super) fn lost(call: &Call) -> Fault {
    let message = format!(
        "'{}' has run, but it changed no state: it is no longer loaded. Check what it did outside of the \
         state before you call it again.",
        call.tool_name
    );
    Fault::new(Code::Interrupted, message)
}
