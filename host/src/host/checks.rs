//! Checks that agents fit together.

use super::{DIRECT_AGENT, HostError};
use crate::agents::Agent;
use crate::error::{RequestRefusal, SetupError};
use std::collections::BTreeMap;
use tollgate_agent::backend::Capabilities;
use tollgate_agent::composition::{Composition, MAX_PARTS, MAX_ROUNDS};

/// Checks the agent's references to other agents, and the capabilities of its backend.
pub(super) fn check(agent: &Agent, agents: &BTreeMap<String, Agent>) -> Result<(), HostError> {
    let id = &agent.spec.view.id;
    let wrong = |problem: String| Err(HostError::from(SetupError::Agent { id: id.clone(), problem }));
    let parts = agent.made_of.as_ref().map_or(&[][..], Composition::agents);
    for other in agent.spec.view.delegates.iter().chain(parts) {
        if other == DIRECT_AGENT || !agents.contains_key(other) {
            return wrong(format!("names the agent \"{other}\", which does not exist"));
        }
        if other == id {
            return wrong("names itself".to_owned());
        }
    }
    for other in &agent.spec.view.delegates {
        if agents.get(other).is_some_and(|other| !other.spec.backend.transcript) {
            return wrong(format!(
                "hands its conversation to the agent \"{other}\", whose backend takes no earlier messages; set its `transcript` to \"whole\", or offer it with `offered_as`"
            ));
        }
    }
    if agent.made_of.is_some() && !(1..=MAX_PARTS).contains(&parts.len()) {
        return wrong(format!("is made of {} agents; 1 to {MAX_PARTS} are accepted", parts.len()));
    }
    if let Some(Composition::Loop { max_rounds, .. }) = &agent.made_of
        && !(1..=MAX_ROUNDS).contains(max_rounds)
    {
        return wrong(format!("has {max_rounds} rounds; 1 to {MAX_ROUNDS} are accepted"));
    }
    if let Some(schema) = &agent.spec.output
        && let Err(e) = tollgate_agent::schema::Schema::compile(schema)
    {
        return wrong(format!("has an unusable output schema: {e}"));
    }
    let lacking = agent.spec.backend.lacking(agent.spec.needs());
    if lacking.is_empty() {
        Ok(())
    } else {
        wrong(format!("needs features that its backend lacks: {}", lacking.join(", ")))
    }
}

/// Checks that the agent's backend has the capabilities that a run needs.
/// `continues` is whether the thread has messages, `is_told` whether the request brings some. A
/// backend that continues its own conversation knows the messages of the thread.
pub(super) fn check_backend(agent: &Agent, continues: bool, is_told: bool) -> Result<(), HostError> {
    let backend = agent.spec.backend;
    let transcript = is_told || (continues && !backend.continuation);
    let lacking = backend.lacking(Capabilities { continuation: continues, transcript, ..agent.spec.needs() });
    if lacking.is_empty() {
        return Ok(());
    }
    Err(RequestRefusal::BackendLacks { agent_id: agent.spec.view.id.clone(), lacking }.into())
}
