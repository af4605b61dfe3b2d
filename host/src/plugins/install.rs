//! Installs plugins into a host. If two of them define the same thing, the error names both.

use super::{InstalledHooks, Parts, Plugin};
use crate::error::{HostError, SetupError};
use crate::gates::Gate;
use crate::stream::Bus;
use crate::tools::{NativePlugin, Toolbox};
use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_agent::catalog::{Owner, OwnerKind};
use tollgate_agent::hook::HookPoints;
use tollgate_agent::name;

/// The parts of all plugins that do not belong to a toolbox.
#[derive(Default)]
pub(crate) struct PluginParts {
    pub(crate) natives: Vec<NativePlugin>,
    pub(crate) gates: Vec<Arc<dyn Gate>>,
    pub(crate) hooks: Vec<InstalledHooks>,
}

/// Collects the parts of each plugin.
///
/// # Errors
/// A name does not fit or is installed already, two plugins define a gate, key or tool of one
/// name, or a part collides with an existing one.
pub(crate) fn install(plugins: Vec<Box<dyn Plugin>>, bus: &mut Bus) -> Result<PluginParts, HostError> {
    let mut claims = PartOwners::default();
    let mut installed = PluginParts::default();
    for plugin in plugins {
        let name = plugin.name().to_owned();
        if !name::is_id(&name) || name::is_reserved_id(&name) {
            return Err(SetupError::PluginName(name).into());
        }
        let mut parts = Parts::new(&name);
        plugin.register(&mut parts);
        claims.claim_all(&name, &parts)?;
        let Parts { native, gates, hooks, subscriptions } = parts;
        let points = hooks.as_ref().map_or(HookPoints::NONE, |hooks| hooks.points());
        installed.natives.push(native.with_hooks_at(points));
        installed.gates.extend(gates);
        let named = hooks.map(|hooks| InstalledHooks { plugin: Arc::from(name), points, hooks });
        installed.hooks.extend(named);
        for (pattern, subscriber) in subscriptions {
            bus.subscribe(&pattern, subscriber);
        }
    }
    Ok(installed)
}

/// Adds the tools, keys and hooks of plugins to a toolbox that does not contain them yet.
///
/// # Errors
/// Something in it collides with a part of a plugin.
pub(crate) fn equip(toolbox: &mut Toolbox, natives: &[NativePlugin]) -> Result<(), HostError> {
    for native in natives {
        let is_there = |owner: &Arc<Owner>| owner.id == native.id() && owner.kind == OwnerKind::Native;
        if !toolbox.catalog().owners().any(is_there) {
            native.clone().install(toolbox).map_err(SetupError::from)?;
        }
    }
    Ok(())
}

/// The owner of each part, by kind and name.
#[derive(Default)]
struct PartOwners {
    owners: BTreeMap<(&'static str, String), (String, String)>,
}

impl PartOwners {
    fn claim_all(&mut self, plugin: &str, parts: &Parts) -> Result<(), HostError> {
        self.claim("name", &name::fold(plugin), plugin, plugin)?;
        for gate in parts.gates.iter().map(|gate| gate.id()) {
            self.claim("gate", gate, gate, plugin)?;
        }
        for key in parts.native.own_keys() {
            self.claim("state key", key, key, plugin)?;
        }
        for tool in parts.native.descriptors() {
            self.claim("tool", &name::fold(&tool.name), &tool.name, plugin)?;
            self.claim("tool id", &name::fold(&tool.id), &tool.id, plugin)?;
        }
        Ok(())
    }

    fn claim(&mut self, kind: &'static str, folded: &str, word: &str, plugin: &str) -> Result<(), HostError> {
        let mine = (plugin.to_owned(), word.to_owned());
        match self.owners.insert((kind, folded.to_owned()), mine) {
            None => Ok(()),
            Some((other, name)) => Err(SetupError::PluginConflict {
                plugins: [other, plugin.to_owned()],
                kind,
                name,
                other_name: word.to_owned(),
            }
            .into()),
        }
    }
}
