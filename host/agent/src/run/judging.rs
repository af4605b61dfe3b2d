//! From the gates' answers to what runs: batches, and calls that are held back.

use super::call::Call;
use super::draft::Draft;
use super::event::{Event, RunStatus};
use super::{CallEnd, CallStatus};
use crate::code::Code;
use crate::gate::{Recorded, Standing, Verdict, stands};
use crate::outcome::{Fault, Ticket, ToolStatus, Usage};
use crate::text::clean;
use std::sync::Arc;

impl Draft<'_> {
    /// The allowed calls up to the first that is held back become a batch. A call
    /// that is held back first is dealt with; the ones after it are asked again.
    pub(super) fn judged(&mut self, round: u32, answers: Vec<(String, Vec<Recorded>)>) {
        let run = self.run;
        let Some(turn) = run.turn.as_ref().filter(|turn| turn.rounds == round && turn.batch.is_none()) else {
            return;
        };
        let mut batch: Vec<&Call> = Vec::new();
        let pending =
            turn.calls.iter().filter(|call| call.wants_judgement() && call.tool(self.catalog).is_some());
        for (call, (call_id, verdicts)) in pending.zip(answers) {
            if call.id != call_id {
                break;
            }
            let held = match stands(&verdicts, call.approved_gate()) {
                Standing::Allowed => None,
                Standing::Held(held) => Some(held.clone()),
                Standing::Unasked => Some(Recorded::new(
                    "host",
                    Verdict::Deny("No gate is configured, so nothing may run.".to_owned()),
                )),
            };
            match held {
                None => {
                    self.push(Event::CallGated { call_id, verdicts });
                    batch.push(call);
                }
                Some(held) => {
                    if batch.is_empty() {
                        self.push(Event::CallGated { call_id, verdicts });
                        self.hold(call, held);
                    }
                    break;
                }
            }
            if run.spec.limits.concurrency == 1 {
                break;
            }
        }
        self.start_batch(&batch);
    }

    fn start_batch(&mut self, batch: &[&Call]) {
        if batch.is_empty() {
            return self.settle();
        }
        self.push(Event::BatchStarted {
            call_ids: batch.iter().map(|call| call.id.clone()).collect(),
            revision: self.state.revision(),
        });
        for call in batch.iter().take(self.run.spec.limits.concurrency.max(1) as usize) {
            self.start_call(call, call.attempts + 1, 0);
        }
    }

    pub(super) fn start_call(&mut self, call: &Call, attempt: u32, not_before_ms: u64) {
        self.set_status(&call.id, CallStatus::Running);
        self.push(Event::CallStarted { call_id: call.id.clone(), attempt, not_before_ms });
    }

    fn hold(&mut self, call: &Call, held: Recorded) {
        match held.verdict {
            Verdict::Allow => {}
            Verdict::Deny(reason) => {
                let message =
                    format!("The call of '{}' was denied: {}", call.tool_name, clean(&reason, 2_000));
                self.finish_call(
                    &call.id,
                    Fault::new(Code::Denied, message).with_detail(format!("gate {}", held.gate)),
                );
            }
            Verdict::Block(reason) => {
                let reason = clean(&reason, 2_000);
                let message =
                    format!("The call of '{}' was blocked, and the run with it: {reason}", call.tool_name);
                self.finish_call(
                    &call.id,
                    Fault::new(Code::Blocked, message).with_detail(format!("gate {}", held.gate)),
                );
                self.end_early(Code::NotRun, RunStatus::Blocked { reason });
            }
            Verdict::Suspend(ticket) => self.suspend(call, *ticket, Some(held.gate), None, Usage::default()),
            Verdict::SetResult(result) => match result.status {
                ToolStatus::Pending(ref ticket) => {
                    let ticket = ticket.as_ref().map_or_else(
                        || Ticket::confirm(result.message.clone().unwrap_or_default()),
                        |t| (**t).clone(),
                    );
                    self.suspend(call, ticket, Some(held.gate), None, Usage::default());
                }
                _ => self.finish_call(&call.id, CallEnd::Result(Arc::new(*result))),
            },
        }
    }
}
