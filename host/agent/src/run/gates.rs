//! Processing of the gates' answers: the start of batches, and the calls that are held back.

use super::Phase;
use super::call::Call;
use super::event::Event;
use super::facts::{CallEnd, CallStatus, RunStatus};
use super::transition::{Asker, CallEffects, Transition, question};
use super::turn::Turn;
use crate::code::Code;
use crate::gate::{GateVerdict, Verdict, resolve};
use crate::hook::HookAnswer;
use crate::outcome::{Fault, Ticket, ToolStatus, Usage};
use crate::text::clean;
use smol_str::SmolStr;
use std::sync::Arc;

impl Transition<'_> {
    /// Handles the answer of a tool's own argument check.
    pub(super) fn validated(&mut self, call_id: &str, fault: Option<&Fault>) {
        let asked = |call: &&Call| call.is_judging() && !call.is_validated;
        let Some(call) = self.call(call_id).filter(asked) else { return };
        self.push(Event::CallValidated { call_id: call.id.clone(), fault: fault.cloned() });
        if let Some(fault) = fault {
            self.complete_call(call_id, fault.clone());
            self.settle();
        }
    }

    /// Starts a batch of the allowed calls up to the first that is held back. If the first call
    /// itself is held back, it is handled here, and the gates are asked again about the calls after
    /// it.
    pub(super) fn accept_verdicts(
        &mut self,
        round: u32,
        answers: &[(SmolStr, Arc<[GateVerdict]>)],
        hooked: &[(SmolStr, Vec<HookAnswer>)],
    ) {
        let run = self.run;
        let current = |turn: &&Turn| turn.rounds == round && turn.batch.is_none();
        let Some(turn) = run.turn.as_ref().filter(|_| run.phase == Phase::Calling).filter(current) else {
            return;
        };
        let catalog = self.catalog;
        let wanting = || turn.calls.iter().filter(|call| call.is_judging());
        for call in wanting().filter(|call| call.tool(catalog).is_none()) {
            self.without_tool(call);
        }
        let (mut batch, mut first): (Vec<&Call>, bool) = (Vec::with_capacity(answers.len()), true);
        let pending = wanting().filter(|call| call.tool(catalog).is_some());
        for (call, (call_id, verdicts)) in pending.zip(answers) {
            if call.id != *call_id {
                break;
            }
            let gated = || Event::CallGated { call_id: call_id.clone(), verdicts: Arc::clone(verdicts) };
            let Some(held) = resolve(verdicts, call.approved_gates()).held() else {
                self.push(gated());
                first = false;
                if self.pass_hooks(call, hooked) {
                    batch.push(call);
                }
                if run.spec.limits.concurrency == 1 {
                    break;
                }
                continue;
            };
            if first {
                self.push(gated());
                self.hold(call, held);
            }
            break;
        }
        self.start_batch(&batch);
    }

    /// Returns whether the hooks before the call let it run. A failed hook ends the call.
    fn pass_hooks(&mut self, call: &Call, hooked: &[(SmolStr, Vec<HookAnswer>)]) -> bool {
        let answers = hooked.iter().find(|(call_id, _)| *call_id == call.id && call.hooks_before.is_none());
        let Some((_, answers)) = answers else { return true };
        let Some(fault) = self.hooked_before(call, answers.clone()) else { return true };
        self.complete_call(&call.id, fault);
        false
    }

    fn start_batch(&mut self, batch: &[&Call]) {
        if batch.is_empty() {
            return self.settle();
        }
        self.push(Event::BatchStarted {
            call_ids: batch.iter().map(|call| call.id.clone()).collect(),
            revision: self.state().revision(),
        });
        for call in batch.iter().take(self.run.spec.limits.concurrency.max(1) as usize) {
            self.start_call(call, 0);
        }
    }

    /// Starts the next attempt of the call.
    pub(super) fn start_call(&mut self, call: &Call, not_before_ms: u64) {
        let until_ms = self.until_ms(call).unwrap_or_else(|| self.now_ms + self.ceiling_ms());
        self.start_call_until(call, not_before_ms, until_ms);
    }

    /// Starts the next attempt of the call, with this deadline for the whole call.
    pub(super) fn start_call_until(&mut self, call: &Call, not_before_ms: u64, until_ms: u64) {
        let (call_id, attempt) = (call.id.clone(), call.attempts + 1);
        self.set_status(&call_id, CallStatus::Running);
        self.push(Event::CallStarted { call_id, attempt, not_before_ms, until_ms });
    }

    fn hold(&mut self, call: &Call, held: GateVerdict) {
        match held.verdict {
            Verdict::Allow => {}
            Verdict::Deny(reason) => {
                let message =
                    format!("The call of '{}' was denied: {}", call.tool_name, clean(&reason, 2_000));
                let by = format!("gate {}", held.gate);
                self.complete_call(&call.id, Fault::new(Code::Denied, message).with_detail(by));
            }
            Verdict::Block(reason) => {
                let reason = clean(&reason, 2_000);
                let message =
                    format!("The call of '{}' was blocked, and the run with it: {reason}", call.tool_name);
                let by = format!("gate {}", held.gate);
                self.complete_call(&call.id, Fault::new(Code::Blocked, message).with_detail(by));
                self.end_early(Code::NotRun, RunStatus::Blocked { reason });
            }
            Verdict::Suspend(ticket) => self.ask(call, *ticket, held.gate),
            Verdict::SetResult(result) => match &result.status {
                ToolStatus::Pending(asked) => {
                    self.ask(call, question(&call.tool_name, &result, asked.as_deref()), held.gate);
                }
                _ => {
                    let did = CallEffects { supplied: true, ..CallEffects::default() };
                    let end = CallEnd::Result(Arc::new(*result));
                    self.complete_call_with(&call.id, end, did, Usage::default());
                }
            },
        }
    }

    /// Suspends a call with a gate's question to a person.
    fn ask(&mut self, call: &Call, ticket: Ticket, gate: SmolStr) {
        let by = format!("gate {gate}");
        let asker = Asker::Gate(gate);
        match Self::check_question(call, &ticket, &asker) {
            Ok(answer) => self.suspend(call, (ticket, answer), asker, None, Usage::default()),
            Err(fault) => self.complete_call(&call.id, fault.with_detail(by)),
        }
    }
}
