//! The host's built-in tools, agents that are offered as tools, and composed agents. All pass
//! the gates like any other tool, and none can grant, install, load or approve.

mod agents;
mod history;

use crate::a2a::{FollowAgent, MessageAgent};
use crate::agents::Agent;
use crate::config::DIRECT_AGENT;
use crate::error::HostError;
use crate::tools::Toolbox;
use crate::tools::native::{NativeRunner, NativeTool};
use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::catalog::{CatalogGrants, HOST_ID, Owner, OwnerKind};
use tollgate_agent::child::Delegates;
use tollgate_agent::descriptor::{ComponentDescriptor, DescriptorError};
use tollgate_agent::run::KnownAgent;

/// Adds the host's own tools and its agents to the toolbox.
pub(crate) fn equip(toolbox: &mut Toolbox, agents: &BTreeMap<String, Agent>) -> Result<(), HostError> {
    let mut own: Vec<Arc<dyn NativeTool>> =
        vec![Arc::new(agents::Transfer), Arc::new(history::SearchHistory), Arc::new(agents::RunAgent)];
    let remote =
        agents.iter().filter_map(|(id, agent)| Some((id.clone(), Arc::clone(agent.remote.as_ref()?))));
    let remote = Arc::new(remote.collect::<BTreeMap<_, _>>());
    if !remote.is_empty() {
        own.push(Arc::new(MessageAgent(Arc::clone(&remote))));
        own.push(Arc::new(FollowAgent(remote)));
    }
    let known = agents.iter().filter(|(id, _)| *id != DIRECT_AGENT).map(|(id, agent)| {
        let known = KnownAgent { spec: Arc::clone(&agent.spec), limits: agent.limits.clone() };
        (id.clone(), known)
    });
    let (descriptor, runner) = described(HOST_ID, own);
    let wrong = |e: DescriptorError| HostError::Setup(e.into());
    toolbox.equip(known.collect(), descriptor, Arc::new(runner)).map_err(wrong)?;
    for (id, agent) in agents {
        let Some(name) = &agent.offered_as else { continue };
        if toolbox.catalog().owners().any(|owner| owner.id == *id && owner.kind == OwnerKind::Agent) {
            continue;
        }
        let tool = agents::AgentTool::new(agent, name);
        let (descriptor, runner) = described(id, vec![Arc::new(tool)]);
        let owner = Owner {
            id: id.into(),
            kind: OwnerKind::Agent,
            origin: format!("the agent {id}"),
            version: SmolStr::new(&descriptor.version),
        };
        let grants = CatalogGrants { delegates: Delegates::Any, ..CatalogGrants::default() };
        toolbox.add(owner, descriptor, &grants, Arc::new(runner)).map_err(wrong)?;
    }
    Ok(())
}

fn described(id: &str, tools: Vec<Arc<dyn NativeTool>>) -> (ComponentDescriptor, NativeRunner) {
    let descriptors: Vec<_> = tools.iter().map(|tool| tool.descriptor()).collect();
    let names = descriptors.iter().map(|descriptor| descriptor.name.clone());
    let runner = NativeRunner { tools: names.zip(tools).collect() };
    let descriptor = ComponentDescriptor {
        id: id.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tools: descriptors,
        state: Vec::new(),
    };
    (descriptor, runner)
}
