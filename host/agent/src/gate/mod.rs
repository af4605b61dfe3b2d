//! Decides whether a call may run: the gates' verdicts, how they are joined, and the
//! [`Permit`] to which only the join leads.

mod descriptor;
pub mod permissions;

pub use descriptor::{GateDescriptor, GateDescriptorError, MAX_GATE_DESCRIPTION_BYTES, MAX_GATE_READS};

use crate::catalog::{OwnerKind, Tool};
use crate::context::{AgentView, RunIdentity};
use crate::outcome::{Ticket, ToolResult};
use crate::proposal::{Arguments, Proposal};
use crate::state::{KeySet, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The id of the gate that applies the operator's permission rules.
pub const PERMISSIONS_ID: &str = "permissions";

/// The answer of one gate about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Ends the call and the run, with this reason.
    Block(String),
    /// Ends the call; the model reads this reason and the run continues.
    Deny(String),
    /// Parks the call until a person decides.
    Suspend(Box<Ticket>),
    /// Answers the call without running the tool.
    SetResult(Box<ToolResult>),
    /// Lets the call run.
    Allow,
}

impl Verdict {
    /// Returns how severe the verdict is; of several, the most severe wins.
    #[must_use]
    pub fn severity(&self) -> u8 {
        match self {
            Verdict::Allow => 0,
            Verdict::SetResult(_) => 1,
            Verdict::Suspend(_) => 2,
            Verdict::Deny(_) => 3,
            Verdict::Block(_) => 4,
        }
    }

    /// Returns whether the verdict asks a person: a suspension, or a supplied result that waits.
    #[must_use]
    pub fn asks(&self) -> bool {
        match self {
            Verdict::Suspend(_) => true,
            Verdict::SetResult(result) => result.is_pending(),
            Verdict::Allow | Verdict::Deny(_) | Verdict::Block(_) => false,
        }
    }
}

/// A verdict with the id of the gate that gave it, as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateVerdict {
    /// The gate.
    pub gate: SmolStr,
    /// Its answer.
    pub verdict: Verdict,
}

impl GateVerdict {
    /// Creates a gate's answer.
    #[must_use]
    pub fn new(gate: impl Into<SmolStr>, verdict: Verdict) -> Self {
        Self { gate: gate.into(), verdict }
    }
}

/// A call as a gate sees it.
#[derive(Debug, Clone, Copy)]
pub struct ProposedCall<'a> {
    /// The call's id, unique within the run.
    pub call_id: &'a str,
    /// The requested tool.
    pub tool: &'a Tool,
    /// Its arguments, checked.
    pub arguments: &'a Arguments,
    /// The run, thread and agent of the call.
    pub identity: &'a RunIdentity,
    /// The agent that calls.
    pub agent: &'a AgentView,
    /// The current state.
    pub snapshot: &'a Snapshot,
    /// The definitions of the state's keys.
    pub keys: &'a KeySet,
    /// The number of other calls of the run that were let through.
    pub calls_before: CallsBefore,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The value of a person's decision that let the suspended call continue, if there is one.
    pub decided: Option<&'a Value>,
}

impl ProposedCall<'_> {
    /// Returns the component that owns the tool; `None` if its owner is not a component.
    #[must_use]
    pub fn component_id(&self) -> Option<&str> {
        let owner = &self.tool.owner;
        (owner.kind == OwnerKind::Component).then_some(owner.id.as_str())
    }
}

/// The number of other calls of a run that the gates let through. A call counts from then
/// on, whatever its outcome, and once, however often it was attempted. Calls that precede
/// this one in its turn, and will run concurrently with it, count as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallsBefore {
    /// Calls of the same tool.
    pub of_tool: u32,
    /// Calls of all tools.
    pub in_run: u32,
}

/// Permission to run one call with these arguments. Only a [`Clearance`] makes one, and a tool
/// cannot run without it.
#[derive(Debug, Clone)]
pub struct Permit {
    proposal: Proposal,
}

impl Permit {
    /// Returns the call's id.
    #[must_use]
    pub fn call_id(&self) -> &SmolStr {
        &self.proposal.call_id
    }

    /// Returns the tool to run.
    #[must_use]
    pub fn tool(&self) -> &Arc<Tool> {
        &self.proposal.tool
    }

    /// Returns the arguments that were judged.
    #[must_use]
    pub fn arguments(&self) -> &Arguments {
        &self.proposal.arguments
    }
}

/// The deciding answer among those of all gates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Resolution<'a> {
    /// No gate answered, so the host denies the call.
    Unasked,
    /// No gate holds the call back.
    Allowed(Clearance),
    /// This answer holds the call back.
    Held(&'a GateVerdict),
}

impl Resolution<'_> {
    /// Returns whether the call may run.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        matches!(self, Resolution::Allowed(_))
    }

    /// Returns the verdict that holds the call back; `None` if the call may run.
    #[must_use]
    pub fn held(self) -> Option<GateVerdict> {
        match self {
            Resolution::Allowed(_) => None,
            Resolution::Held(held) => Some(held.clone()),
            Resolution::Unasked => {
                let reason = "No gate is configured, so no tool may run.".to_owned();
                Some(GateVerdict::new("host", Verdict::Deny(reason)))
            }
        }
    }
}

/// Proof that no gate holds a call back. Only [`resolve`] makes one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clearance(());

impl Clearance {
    /// Permits the call about which the gates were asked.
    #[must_use]
    pub fn permit(self, proposal: Proposal) -> Permit {
        Permit { proposal }
    }
}

/// Joins the answers of all gates about one call. The most severe wins; of equally severe
/// ones, that of the gate whose id sorts first. No answer at all means deny.
///
/// If a person has answered gates' questions about this very call, `approved_gates` names
/// those gates: their `suspend` counts as allowed.
///
/// ```
/// use tollgate_agent::gate::{GateVerdict, Resolution, Verdict, resolve};
/// use tollgate_agent::outcome::Ticket;
///
/// // Every gate is asked, and the most severe answer wins, whatever their order.
/// let asks = GateVerdict::new("careful", Verdict::Suspend(Box::new(Ticket::confirm("Sure?"))));
/// let denies = GateVerdict::new("strict", Verdict::Deny("Never.".to_owned()));
/// let answers = [asks, GateVerdict::new("mild", Verdict::Allow), denies.clone()];
/// assert_eq!(resolve(&answers, &[]), Resolution::Held(&denies));
/// ```
#[must_use]
pub fn resolve<'a>(recorded: &'a [GateVerdict], approved_gates: &[SmolStr]) -> Resolution<'a> {
    let severity = |answer: &GateVerdict| {
        let is_approved = answer.verdict.asks() && approved_gates.contains(&answer.gate);
        if is_approved { 0 } else { answer.verdict.severity() }
    };
    let severest =
        recorded.iter().min_by(|a, b| severity(b).cmp(&severity(a)).then_with(|| a.gate.cmp(&b.gate)));
    match severest {
        None => Resolution::Unasked,
        Some(answer) if severity(answer) == 0 => Resolution::Allowed(Clearance(())),
        Some(answer) => Resolution::Held(answer),
    }
}

/// The default gate: allows the tools that the agent lists and denies the rest.
/// `*` lists all; an agent without a list has none.
#[derive(Debug, Clone, Default)]
pub struct ToolList {
    /// The tools of each agent, by its id.
    agents: BTreeMap<String, Vec<String>>,
}

impl ToolList {
    /// The id under which its verdicts are recorded.
    pub const ID: &'static str = "tool-list";

    /// Sets the tools of an agent.
    #[must_use]
    pub fn with_agent(mut self, agent_id: impl Into<String>, tools: Vec<String>) -> Self {
        self.agents.insert(agent_id.into(), tools);
        self
    }

    /// Decides whether this call may run.
    #[must_use]
    pub fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        let tool = &call.tool.descriptor.name;
        if self.lists(&call.agent.id, tool) {
            Verdict::Allow
        } else {
            Verdict::Deny(format!("The agent '{}' does not list the tool '{tool}'.", call.agent.id))
        }
    }

    /// Returns whether the agent lists the tool.
    #[must_use]
    pub fn lists(&self, agent_id: &str, tool_name: &str) -> bool {
        self.agents.get(agent_id).is_some_and(|tools| crate::agents::lists(tools, tool_name))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn verdict() -> impl Strategy<Value = Verdict> {
        prop_oneof![
            Just(Verdict::Allow),
            "[a-z]{1,3}".prop_map(Verdict::Deny),
            "[a-z]{1,3}".prop_map(Verdict::Block),
            "[a-z]{1,3}".prop_map(|m| Verdict::Suspend(Box::new(Ticket::confirm(m)))),
            "[a-z]{1,3}".prop_map(|m| Verdict::SetResult(Box::new(ToolResult::success(m)))),
        ]
    }

    fn answers() -> impl Strategy<Value = Vec<GateVerdict>> {
        proptest::collection::btree_map("[a-z]{1,4}", verdict(), 0..8).prop_map(|gates| {
            gates.into_iter().map(|(gate, verdict)| GateVerdict { gate: gate.into(), verdict }).collect()
        })
    }

    proptest! {
        #[test]
        fn g2_the_order_of_gates_never_matters((one, other) in answers().prop_flat_map(|a| (Just(a.clone()), Just(a).prop_shuffle()))) {
            prop_assert_eq!(resolve(&one, &[]), resolve(&other, &[]));
        }

        #[test]
        fn g2_the_severest_stands_and_ties_go_to_the_first_id(answers in answers()) {
            let top = answers.iter().map(|r| r.verdict.severity()).max();
            match resolve(&answers, &[]) {
                Resolution::Unasked => prop_assert!(answers.is_empty()),
                Resolution::Allowed(_) => prop_assert_eq!(top, Some(0)),
                Resolution::Held(held) => {
                    prop_assert_eq!(Some(held.verdict.severity()), top);
                    let first = answers.iter().filter(|r| Some(r.verdict.severity()) == top).map(|r| &r.gate).min();
                    prop_assert_eq!(Some(&held.gate), first);
                }
            }
        }
    }

    #[test]
    fn g3_no_gate_at_all_means_deny() {
        assert_eq!(resolve(&[], &[]), Resolution::Unasked);
        assert!(matches!(Resolution::Unasked.held().unwrap().verdict, Verdict::Deny(_)));
    }

    #[test]
    fn g8_only_the_question_that_was_answered_counts_as_allowed() {
        let suspend = |gate: &str| GateVerdict::new(gate, Verdict::Suspend(Box::new(Ticket::confirm("?"))));
        let both = [suspend("a"), suspend("b")];
        let one = ["a".into()];
        assert_eq!(resolve(&both, &one), Resolution::Held(&both[1]));
        assert!(resolve(&both[..1], &one).is_allowed());
        assert!(resolve(&both, &["b".into(), "a".into()]).is_allowed());
        let denied = [suspend("a"), GateVerdict::new("c", Verdict::Deny("no".to_owned()))];
        assert_eq!(resolve(&denied, &one), Resolution::Held(&denied[1]));
    }
}
