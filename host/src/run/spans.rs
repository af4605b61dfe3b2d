//! Tracing spans of runs. Each run has a span; inside it are a span for each request to a model
//! or to gates, each attempt at a call, and each commit. They hold names, ids, codes and costs,
//! but never the words of a model, a tool or a person.

use tollgate_agent::code::Code;
use tollgate_agent::message::ModelReply;
use tollgate_agent::outcome::{Outcome, Usage};
use tollgate_agent::run::Execution;
use tracing::field::Empty;
use tracing::{Span, info_span};

/// Returns the span of a run or direct call, for as long as this process drives it.
pub(super) fn run(run_id: &str, thread_id: &str) -> Span {
    info_span!("run", run_id, thread_id)
}

/// Returns the span of one request to a model, including its retries.
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

/// Returns the span of gates that have to be waited for.
pub(super) fn gates() -> Span {
    info_span!("gates")
}

/// Returns the span of one attempt at a call.
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

/// Returns the span of one commit.
pub(super) fn commit(events: usize) -> Span {
    info_span!("commit", events)
}

/// Records in the current span what the model's reply cost.
pub(super) fn replied(reply: &ModelReply) {
    let span = Span::current();
    span.record("input_tokens", reply.usage.input_tokens);
    span.record("output_tokens", reply.usage.output_tokens);
}

/// Records in the current span that the operation failed.
pub(super) fn failed() {
    Span::current().record("otel.status_code", "ERROR");
}

/// Records an attempt's outcome in the current span.
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
