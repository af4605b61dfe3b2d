//! Plugins in a catalog: their tools and keys, like a component's, and the plugins whose
//! hooks are asked about calls.

use super::prepared_component::{Natives, PreparedComponent};
use super::{Catalog, CatalogGrants, Owner};
use crate::descriptor::{ComponentDescriptor, DescriptorError};
use crate::hook::{HookOwner, HookPoint, HookPoints};
use smol_str::SmolStr;
use std::sync::Arc;

impl Catalog {
    /// Adds a plugin of the embedding program with its tools, if any, and its state
    /// keys. `natives` has the reducers of the keys that are merged by Rust code. The
    /// plugin's hooks at `points` are asked about every call.
    ///
    /// # Errors
    /// Same as [`Catalog::add`].
    pub fn add_plugin(
        &mut self,
        owner: Owner,
        descriptor: ComponentDescriptor,
        grants: &CatalogGrants,
        natives: &Natives,
        points: HookPoints,
    ) -> Result<(), DescriptorError> {
        let id = owner.id.clone();
        let prepared = PreparedComponent::of(descriptor.checked_as_plugin()?, natives)?;
        let access = self.join(&owner, prepared, grants)?;
        if points != HookPoints::NONE {
            let hooks = HookOwner { points, access, actions: grants.actions };
            Arc::make_mut(&mut self.hooks).insert(id, hooks);
        }
        Ok(())
    }

    /// Returns the plugin with this name if it has hooks.
    #[must_use]
    pub fn hook_owner(&self, plugin: &str) -> Option<&HookOwner> {
        self.hooks.get(plugin)
    }

    /// Returns the plugins that have hooks.
    pub fn hook_owners(&self) -> impl Iterator<Item = &HookOwner> {
        self.hooks.values()
    }

    /// Returns whether any plugin has hooks at this point of calls.
    #[must_use]
    pub fn has_hooks(&self, point: HookPoint) -> bool {
        self.hooks.values().any(|owner| match point {
            HookPoint::Before => owner.points.before_call,
            HookPoint::After => owner.points.after_call,
        })
    }

    /// Returns the same catalog without the plugins' hooks, for a replay, which asks no hook
    /// again. With `hooks_after`, it still has a hook point after calls, as the record does.
    pub(crate) fn as_recorded(&self, hooks_after: bool) -> Self {
        let mut catalog = self.clone();
        catalog.hooks = Arc::default();
        if hooks_after {
            let points = HookPoints { after_call: true, ..HookPoints::NONE };
            let owner = HookOwner { points, access: Arc::default(), actions: Default::default() };
            Arc::make_mut(&mut catalog.hooks).insert(SmolStr::default(), owner);
        }
        catalog
    }
}
