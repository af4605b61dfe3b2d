//! Notices about the configuration at startup.

use super::loaded::{LoadedComponent, LoadedTools, Notice, UnknownTool};
use crate::config::{ComponentGrants, Config};
use crate::tools::toolbox::FileRemedy;
use std::path::Path;
use tollgate_agent::gate::permissions::Permissions;
use tollgate_agent::name::{did_you_mean, is_reserved_name, server_prefix};
use tollgate_agent::text::clean;

/// Returns sentences about grants and limits of the configuration that apply to nothing that is served.
pub(super) fn unused_settings(config: &Config, loaded: &LoadedTools) -> Vec<String> {
    let name = config.name();
    let grants = config
        .grants
        .keys()
        .filter(|id| !loaded.components.iter().any(|component| &component.id == *id))
        // A file that is refused is reported with its reason.
        .filter(|id| !is_refused(loaded, id))
        .map(|id| format!("{name} has [grants.{id}], and no component of that id is served"));
    let unusable = loaded.components.iter().filter_map(|component| {
        let notices = without_effect(component, config.grants.get(&component.id)?);
        Some(notices.into_iter().map(|notice| format!("{name}: {notice}")))
    });
    let limits = config
        .limits
        .tools
        .keys()
        .filter(|tool| loaded.toolbox.catalog().tool(tool).is_none())
        .map(|tool| format!("{name} has [tools.{tool}.limits], and no tool of that name is served"));
    grants.chain(unusable.flatten()).chain(limits).collect()
}

fn is_refused(loaded: &LoadedTools, id: &str) -> bool {
    let mut pending = loaded.pending.iter().chain(&loaded.unopened).chain(&loaded.contested);
    let of_file = |file: &Path| file.file_stem().is_some_and(|stem| stem == id);
    pending.any(|pending| pending.id == id)
        || loaded.toolbox.refused().iter().any(|refused| of_file(&refused.file))
}

/// Returns the tools of agents that nothing provides, and those of permission rules that resemble
/// another name. A rule may name a tool that is installed later, and those of MCP servers are unknown
/// until they are connected.
pub(super) fn unknown_tools(config: &Config, loaded: &LoadedTools) -> Vec<UnknownTool> {
    let catalog = loaded.toolbox.catalog();
    let agents = config.agents.values().filter_map(|agent| agent.offered_as.as_deref());
    let known: Vec<&str> = catalog.tools().map(|tool| tool.descriptor.name.as_str()).chain(agents).collect();
    let is_known = |tool: &str| {
        tool.contains(['*', '?'])
            || known.contains(&tool)
            || is_reserved_name(tool)
            || config.servers.keys().any(|server| tool.starts_with(&server_prefix(server)))
    };
    let hint = |tool: &str| did_you_mean(tool, known.iter().copied());
    let name = config.name();
    let mut unknown = Vec::new();
    for (id, agent) in &config.agents {
        for tool in agent.tools.iter().filter(|tool| !is_known(tool)) {
            let hint = hint(tool).unwrap_or_default();
            let notice =
                format!("{name}: the agent `{id}` lists the tool `{tool}`, which does not exist{hint}");
            unknown.push(UnknownTool { agent: Some(id.clone()), notice });
        }
    }
    for (list, tool) in config.permissions.iter().flat_map(Permissions::named_tools) {
        if let Some(hint) = hint(tool).filter(|_| !is_known(tool)) {
            let notice = format!(
                "{name}: `{list}` of [permissions] names the tool `{tool}`, which does not exist{hint}"
            );
            unknown.push(UnknownTool { agent: None, notice });
        }
    }
    unknown
}

/// Returns notices about the permission rules: remembered answers that will be asked for again, and
/// rules that apply to any component that provides a tool of their name.
pub(super) fn unanswered(config: &Config, loaded: &LoadedTools) -> Vec<Notice> {
    let name = config.name();
    let permissions = config.permissions.iter();
    let unbound = permissions.clone().map(Permissions::unbound_answers).filter(|unbound| *unbound > 0).map(
        |unbound| {
            let text = format!(
                "{name} remembers answers in [permissions] that name no version of a tool ({unbound}); they are \
                 asked for again, and can be removed"
            );
            Notice { text, remedy: None }
        },
    );
    let by_name = permissions.flat_map(Permissions::tools_allowed_by_name).filter_map(|tool| {
        let component = loaded.component_of(tool)?;
        let id = &component.id;
        loaded.approvals.of(id).is_none().then(|| {
            let text = format!(
                "{name} allows the tool {tool} from any component, and the component {id} that provides it \
                 is not approved. Write {{ tool = \"{tool}\", owner = \"{id}\" }}, or look at it and approve it"
            );
            let remedy = FileRemedy::Approve { id: id.clone(), file: component.file.clone() };
            Notice { text, remedy: Some(remedy) }
        })
    });
    unbound.chain(by_name).collect()
}

/// Describes the grants that have no effect on a component: it imports no interface that uses them, or
/// its manifest does not ask for them.
#[must_use]
pub fn without_effect(component: &LoadedComponent, grants: &ComponentGrants) -> Vec<String> {
    let asks = component.asks.as_ref();
    let unasked = asks.map(|asks| asks.not_requested(grants).join(", ")).unwrap_or_default();
    [
        (grants.unusable(&component.imports).join(", "), "it imports nothing that uses them", "uses"),
        (unasked, "its manifest does not ask for them", "asks for"),
    ]
    .into_iter()
    .filter(|(names, ..)| !names.is_empty())
    .map(|(names, why, does)| {
        format!(
            "{} has grants without effect ({}): {why}. Revoke them, or install a version of the component that \
             {does} them",
            component.id,
            clean(&names, 300)
        )
    })
    .collect()
}
