//! Notices about the configuration at startup.

use super::Loaded;
use crate::config::Config;
use tollgate_agent::gate::permissions::Permissions;

/// Returns the grants and limits of the configuration for something that does not exist.
pub(super) fn without_object(config: &Config, loaded: &Loaded) -> Vec<String> {
    let name = config.name();
    let grants = config
        .grants
        .keys()
        .filter(|id| !loaded.components.iter().any(|component| &component.id == *id))
        .map(|id| format!("{name} has [grants.{id}], and no component of that id is served"));
    let unusable = loaded.components.iter().filter_map(|component| {
        let kinds = config.grants.get(&component.id)?.unusable(&component.imports).join(", ");
        (!kinds.is_empty()).then(|| format!("{name}: {}", cannot_use(&component.id, &kinds)))
    });
    let limits = config
        .limits
        .tools
        .keys()
        .filter(|tool| loaded.toolbox.catalog().tool(tool).is_none())
        .map(|tool| format!("{name} has [tools.{tool}.limits], and no tool of that name is served"));
    grants.chain(unusable).chain(limits).collect()
}

/// Returns notices about the permission rules: remembered answers that will be asked for again, and
/// rules that apply to any component that provides a tool of their name.
pub(super) fn unanswered(config: &Config, loaded: &Loaded) -> Vec<String> {
    let name = config.name();
    let permissions = config.permissions.iter();
    let unbound = permissions.clone().map(Permissions::unbound_answers).filter(|unbound| *unbound > 0).map(
        |unbound| {
            format!(
                "{name} remembers answers in [permissions] that name no version of a tool ({unbound}); they are \
                 asked for again, and can be removed"
            )
        },
    );
    let by_name = permissions.flat_map(Permissions::tools_allowed_by_name).filter_map(|tool| {
        let component = loaded.component_of(tool)?;
        let id = &component.id;
        loaded.approvals.of(id).is_none().then(|| {
            format!(
                "{name} allows the tool {tool} from any component, and the component {id} that provides it \
                 is not approved. Approve it (tollgate grant {id} --asked), or write \
                 {{ tool = \"{tool}\", owner = \"{id}\" }}"
            )
        })
    });
    unbound.chain(by_name).collect()
}

/// Describes grants of these kinds that a component does not import.
pub fn cannot_use(id: &str, kinds: &str) -> String {
    format!(
        "{id} is granted what it can never use ({kinds}): it does not import it. Revoke the grant, or install a \
         version of the component that uses it"
    )
}
