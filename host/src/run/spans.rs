//! What tracing is told of runs: a span for each run, and within it one for each question
//! to a model or to gates, each attempt at a call, and each commit. They hold names,
//! ids, codes and costs; never what a model, a tool or a person said.

use tollgate_agent::code::Code;
use tollgate_agent::message::ModelReply;
use tollgate_agent::outcome::{Outcome, Usage};
use tollgate_agent::run::Execution;
use tracing::field::Empty;
use tracing::{Span, info_span};

/// Of a run, or a direct call, for as long as this process carries it.
pub(super) fn run(run_id: &str, thread_id: &str) -> Span {
    info_span!("run", run_id, thread_id)
}

/// Of one question to a model, whose retries it holds.
pub(super) fn model(model: &str, ask: u32) -> Span {
    info_span!(
        "model",
        model,
        ask,
        input_tokens = Empty,
        output_tokens = Empty,
        otel.kind = "client",
        otel.status_code = Empty
    )
}

/// Of gates that have to be waited for.
pub(super) fn gates() -> Span {
    info_span!("gates")
}

/// Of one attempt at a call.
pub(super) fn attempt(execution: &Execution) -> Span {
    let (permit, tool) = (&execution.permit, execution.permit.tool());
    info_span!(
        "call",
        tool = tool.descriptor.name,
        component = tool.owner.id.as_str(),
        call_id = permit.call_id().as_str(),
        attempt = execution.attempt,
        code = Empty,
        fuel = Empty,
        memory_bytes = Empty,
        usage_at_least = Empty,
        otel.status_code = Empty
    )
}

/// Of what is stored as one unit.
pub(super) fn commit(events: usize) -> Span {
    info_span!("commit", events)
}

/// Notes in the present span what the model's answer cost.
pub(super) fn replied(reply: &ModelReply) {
    let span = Span::current();
    span.record("input_tokens", reply.usage.input_tokens);
    span.record("output_tokens", reply.usage.output_tokens);
}

/// Notes in the present span that nothing came of it.
pub(super) fn failed() {
    Span::current().record("otel.status_code", "ERROR");
}

/// Notes in the present span what an attempt came to.
pub(super) fn attempted(outcome: &Outcome, usage: &Usage) {
    let span = Span::current();
    span.record("fuel", usage.fuel);
    span.record("memory_bytes", usage.memory_bytes);
    if usage.at_least {
        span.record("usage_at_least", true);
    }
    match outcome {
        Outcome::Returned(_) => drop(span.record("code", "success")),
        Outcome::Faulted(fault) => {
            span.record("code", Code::as_str(fault.code));
            failed();
        }
    }
}
