//! Asking the gates about calls, in order, up to the first call that is held back.

use super::attempt::Outcomes;
use super::hooks::HookContext;
use super::services::RunParts;
use crate::gates::{Gate, Gates};
use crate::store::now_ms;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::gate::{GateVerdict, ProposedCall, ToolList, Verdict, resolve};
use tollgate_agent::run::{Input, Question, Run, RunSpec};
use tollgate_agent::state::{KeySet, Snapshot};

/// One round of questions, with the context that gates see.
pub(super) struct GateRound {
    gates: Gates,
    context: HookContext,
    spec: Arc<RunSpec>,
    snapshot: Snapshot,
    keys: KeySet,
    now_ms: u64,
    round: u32,
    questions: Vec<Question>,
    /// Holds the memory of large answers until they are committed.
    outcomes: Outcomes,
}

/// The context that gates see with a question.
struct GateContext<'a> {
    spec: &'a RunSpec,
    snapshot: &'a Snapshot,
    keys: &'a KeySet,
    now_ms: u64,
}

/// Returns the answer of the host's own gate if there is no other and no hook, so that nothing has
/// to be awaited.
pub(super) fn ask_own_gate(parts: &RunParts, run: &Run, round: u32, questions: &[Question]) -> Option<Input> {
    let gates = &parts.services.gates;
    if !gates.others.is_empty() || questions.iter().any(|question| question.asks_hooks) {
        return None;
    }
    let (keys, snapshot) = (parts.toolbox.catalog().keys(), run.state().snapshot());
    let shown = GateContext { spec: run.spec(), snapshot: &snapshot, keys, now_ms: now_ms() };
    let mut answers = Vec::with_capacity(questions.len());
    for question in questions {
        let recorded = [own_answer(gates, &shown.call(question))];
        if !record(&mut answers, question, recorded.into()) {
            break;
        }
    }
    Some(Input::Judged { round, answers, hooked: Vec::new() })
}

impl GateRound {
    pub(super) fn new(
        parts: &RunParts,
        run: &Run,
        round: u32,
        questions: Vec<Question>,
        outcomes: Outcomes,
    ) -> Self {
        let catalog = parts.toolbox.catalog();
        Self {
            gates: parts.services.gates.clone(),
            context: HookContext::new(&parts.services.hooks, catalog, run),
            spec: Arc::clone(run.spec()),
            snapshot: run.state().snapshot(),
            keys: catalog.keys().clone(),
            now_ms: now_ms(),
            round,
            questions,
            outcomes,
        }
    }

    /// Asks all gates, and then the hooks before the calls that were allowed. Gates are asked
    /// about one call concurrently; hooks are asked about all calls concurrently.
    pub(super) async fn ask(self) -> Input {
        let shown =
            GateContext { spec: &self.spec, snapshot: &self.snapshot, keys: &self.keys, now_ms: self.now_ms };
        let mut answers = Vec::with_capacity(self.questions.len());
        let mut let_through = 0;
        for question in &self.questions {
            let call = shown.call(question);
            let mut recorded = vec![own_answer(&self.gates, &call)];
            let asked = self.gates.others.iter().map(|gate| ask_gate(gate.as_ref(), &call, &self.outcomes));
            recorded.extend(futures::future::join_all(asked).await);
            if !record(&mut answers, question, recorded.into()) {
                break;
            }
            let_through += 1;
        }
        let hooking = self.questions.iter().take(let_through).filter(|question| question.asks_hooks);
        let context = &self.context;
        let hooked = hooking.map(|question| async move {
            (question.proposal.call_id().clone(), context.before_call(question).await)
        });
        let hooked = futures::future::join_all(hooked).await;
        Input::Judged { round: self.round, answers, hooked }
    }
}

impl<'a> GateContext<'a> {
    fn call(&self, question: &'a Question) -> ProposedCall<'a> {
        ProposedCall {
            call_id: question.proposal.call_id(),
            tool: question.proposal.tool(),
            arguments: question.proposal.arguments(),
            identity: &self.spec.identity,
            agent: &self.spec.agent.view,
            snapshot: self.snapshot,
            keys: self.keys,
            calls_before: question.calls_before,
            now_ms: self.now_ms,
            decided: question.resumption.as_deref().map(|resumption| &resumption.value),
        }
    }
}

fn own_answer(gates: &Gates, call: &ProposedCall<'_>) -> GateVerdict {
    GateVerdict::new(ToolList::ID, gates.tool_list.judge(call))
}

/// A call with the answers of all gates.
type JudgedCall = (SmolStr, Arc<[GateVerdict]>);

/// Records the answers about a call. Returns `false` if the call is held back, so that later
/// calls are not asked about yet.
fn record(answers: &mut Vec<JudgedCall>, question: &Question, recorded: Arc<[GateVerdict]>) -> bool {
    let goes_on = resolve(&recorded, &question.approved_gates).is_allowed();
    answers.push((question.proposal.call_id().clone(), recorded));
    goes_on
}

/// Asks one gate. The memory of a large answer is held together with that of outcomes.
async fn ask_gate(gate: &dyn Gate, call: &ProposedCall<'_>, outcomes: &Outcomes) -> GateVerdict {
    let answer = AssertUnwindSafe(gate.answer(call)).catch_unwind().await;
    let (verdict, memory) = answer.unwrap_or_else(|_| {
        let id = gate.id();
        (Verdict::Deny(format!("The gate '{id}' failed, so the call may not run.")), None)
    });
    memory.into_iter().for_each(|memory| outcomes.hold(memory));
    GateVerdict::new(gate.id(), verdict)
}
