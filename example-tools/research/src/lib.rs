//! `research` delegates a question to the agent `researcher` and keeps its findings;
//! the researcher writes them down with `record_finding`.
//!
//! The child is a run of its own. Its task is passed as the seed of a key, which its
//! instructions may name as `{research.brief}`; its findings come back as an export. Neither
//! touches the caller's state: that changes by this call's own mutations, which
//! commit together with its result.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tollgate_sdk::reducer::Append;
use tollgate_sdk::{
    ChildRun, ChildStatus, CodedError, Context, Key, Streaming, ToolError, ToolResult, Value, component,
    data, json, tool,
};

/// The agent that does the research.
pub const RESEARCHER: &str = "researcher";
/// The most findings that one call keeps.
pub const MAX_FINDINGS: usize = 32;
/// The longest claim or source, in bytes.
pub const MAX_TEXT_BYTES: usize = 2_000;

/// The researcher's task; its parent sets it, and it ends with its run.
static BRIEF: Key<Brief> = Key::run("research.brief").persistent();
/// The findings in chronological order.
static FINDINGS: Key<Vec<Finding>, Append> = Key::thread("research.findings").append().persistent();

/// The task of a researcher.
#[data]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Brief {
    /// The question to answer.
    pub question: String,
    /// Places to search; empty for everywhere.
    pub places: Vec<String>,
    /// The number of findings that are enough.
    pub enough: u32,
}

/// A finding.
#[data]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finding {
    /// The claim.
    pub claim: String,
    /// The source of the claim.
    pub source: String,
}

/// The answer of `research`.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Report {
    summary: String,
    findings: Vec<Finding>,
    new: usize,
}

/// Has another agent research a question, and stores its findings in this
/// conversation.
///
/// Args:
///     question: The question to answer.
///     places: Where to look, such as files or directories; everywhere by default.
///     enough: How many findings are enough, 32 at most.
#[tool(category = "agents", idempotent, state(write(BRIEF), FINDINGS))]
pub fn research(
    question: String,
    #[default] places: Vec<String>,
    #[default = 5] enough: u32,
    ctx: &Context,
) -> Result<ToolResult, ToolError> {
    let enough = enough.clamp(1, MAX_FINDINGS as u32);
    let child = ChildRun::new(RESEARCHER)
        .with_user_message(&question)
        .with_seed(BRIEF.name(), &Brief { question: question.clone(), places, enough })
        .with_export(FINDINGS.name())
        .with_streaming(Streaming::Passthrough);
    let outcome = ctx.run_child(child)?;
    if let ChildStatus::Suspended(_) = outcome.status {
        return Ok(ToolResult::suspended("The researcher waits for a person."));
    }
    let outcome = outcome.completed()?;
    let found = exported(outcome.thread_state.unwrap_or_default())?;
    let new = not_known(found.clone(), &ctx.get(&FINDINGS)?);
    for finding in &new {
        ctx.append(&FINDINGS, finding)?;
    }
    let summary = outcome.response.unwrap_or_default();
    Ok(ToolResult::success(Report { summary, findings: found, new: new.len() }))
}

/// Records one finding with its source.
///
/// Args:
///     claim: The claim, in one sentence.
///     source: Its source: a file and line, or an address.
#[tool(category = "agents", idempotent, state(FINDINGS))]
pub fn record_finding(claim: String, source: String, ctx: &Context) -> Result<ToolResult, ToolError> {
    if claim.trim().is_empty() || source.trim().is_empty() {
        return Ok(CodedError::new("empty", "A finding needs a claim and its source.").into());
    }
    if claim.len() > MAX_TEXT_BYTES || source.len() > MAX_TEXT_BYTES {
        let message = format!("Claim and source have {MAX_TEXT_BYTES} bytes at most; be shorter.");
        return Ok(CodedError::new("too_long", message).into());
    }
    let count = ctx.get(&FINDINGS)?.len();
    if count >= MAX_FINDINGS {
        return Ok(CodedError::new("too_many", format!("{MAX_FINDINGS} findings are enough.")).into());
    }
    ctx.append(&FINDINGS, &Finding { claim, source })?;
    Ok(ToolResult::success(json!({"recorded": count + 1})))
}

/// Returns the findings among the keys that the child returned.
fn exported(state: Vec<(String, Value)>) -> Result<Vec<Finding>, ToolError> {
    let Some((_, found)) = state.into_iter().find(|(key, _)| key == FINDINGS.name()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::<Finding>::deserialize(found)
        .map_err(|e| ToolError::execution_failed(format!("The findings have an unexpected form: {e}.")))?;
    found.truncate(MAX_FINDINGS);
    Ok(found)
}

/// Returns the findings whose claim is new.
fn not_known(found: Vec<Finding>, known: &[Finding]) -> Vec<Finding> {
    let mut claims: BTreeSet<String> = known.iter().map(|finding| finding.claim.clone()).collect();
    found.into_iter().filter(|finding| claims.insert(finding.claim.clone())).collect()
}

component! { id: "research", tools: [research, record_finding] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{ChildError, ChildOutcome, Component, ToolOutput};

    fn call(tool: &str, args: Value, ctx: Context) -> (Result<ToolOutput, ToolError>, Context) {
        let mut ctx = ctx.with_tool_name(tool);
        (Exported::execute(&args.to_string(), &mut ctx), ctx)
    }

    fn found(claims: &[&str]) -> ChildOutcome {
        let findings = claims.iter().map(|claim| json!({"claim": claim, "source": "a.md"}));
        let mut outcome = ChildOutcome::answered("Two things.");
        outcome.thread_state = Some(vec![("research.findings".to_owned(), findings.collect())]);
        outcome
    }

    #[test]
    fn d3_the_child_is_seeded_with_its_configuration_and_its_findings_become_mutations() {
        let known = json!([{"claim": "Gates judge.", "source": "b.md"}]);
        let ctx = Context::for_test()
            .with_state("research.findings", known)
            .with_child(Ok(found(&["Gates judge.", "Guests own nothing."])));
        let args = json!({"question": "Who decides?", "places": ["docs"], "enough": 99});
        let (output, ctx) = call("research", args, ctx);
        let output = output.unwrap();
        let data = output.result.data();
        assert_eq!((&data["summary"], &data["new"]), (&json!("Two things."), &json!(1)));
        let [mutation] = output.mutations.as_slice() else { unreachable!("one finding is new") };
        assert_eq!(mutation.key(), "research.findings");
        assert_eq!(mutation.update(), json!({"claim": "Guests own nothing.", "source": "a.md"}));

        let [asked] = ctx.children().try_into().unwrap();
        assert_eq!((asked.agent_id.as_str(), asked.messages[0].text.as_str()), (RESEARCHER, "Who decides?"));
        let brief = json!({"question": "Who decides?", "places": ["docs"], "enough": 32});
        assert_eq!(asked.seed, [("research.brief".to_owned(), brief)]);
        assert_eq!(asked.exports, ["research.findings"]);
    }

    #[test]
    fn d8_it_waits_with_a_child_that_waits() {
        let waits = ChildOutcome::answered("").with_status(ChildStatus::Suspended(Some("May I?".to_owned())));
        let (output, _) =
            call("research", json!({"question": "?"}), Context::for_test().with_child(Ok(waits)));
        let output = output.unwrap();
        assert!(
            output.result.is_pending() && output.result.ticket().is_none(),
            "the child's question is shown"
        );
        assert!(output.mutations.is_empty());
    }

    #[test]
    fn d4_a_child_that_does_not_complete_fails_the_call() {
        let failed = ChildOutcome::answered("").with_status(ChildStatus::Failed("no model".to_owned()));
        let (output, _) =
            call("research", json!({"question": "?"}), Context::for_test().with_child(Ok(failed)));
        assert!(output.is_err());
        let denied = Context::for_test().with_child(Err(ChildError::NotGranted("researcher".to_owned())));
        assert!(matches!(call("research", json!({"question": "?"}), denied).0, Err(ToolError::Denied(_))));
    }

    #[test]
    fn a_finding_is_written_down_with_its_source() {
        let args = json!({"claim": "Gates judge.", "source": "b.md:3"});
        let output = call("record_finding", args.clone(), Context::for_test()).0.unwrap();
        assert_eq!(output.result.data(), json!({"recorded": 1}));
        assert_eq!(output.mutations[0].update(), args);
        for (args, code) in [
            (json!({"claim": " ", "source": "b.md"}), "empty"),
            (json!({"claim": "x".repeat(MAX_TEXT_BYTES + 1), "source": "b.md"}), "too_long"),
        ] {
            let output = call("record_finding", args, Context::for_test()).0.unwrap();
            assert_eq!(output.result.data()["error"]["code"], code);
            assert!(output.mutations.is_empty());
        }
        let many: Vec<Value> =
            (0..MAX_FINDINGS).map(|n| json!({"claim": n.to_string(), "source": "b"})).collect();
        let ctx = Context::for_test().with_state("research.findings", many.into());
        let args = json!({"claim": "One more.", "source": "b.md"});
        assert_eq!(call("record_finding", args, ctx).0.unwrap().result.data()["error"]["code"], "too_many");
    }
}
