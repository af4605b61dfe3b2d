//! The host's additions to a catalog: its own tools, and the agents to which runs may be
//! handed or of which they may be composed.

use super::{Catalog, CatalogGrants, HOST_ID, Natives, Owner, OwnerKind, PreparedComponent};
use crate::agents::KnownAgent;
use crate::child::Delegates;
use crate::descriptor::{ComponentDescriptor, DescriptorError};
use crate::outcome::ActionGrants;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Catalog {
    /// Returns the agent with this id if runs may be handed to it or composed of it.
    #[must_use]
    pub fn agent(&self, id: &str) -> Option<&KnownAgent> {
        self.agents.get(id)
    }

    /// Sets the agents to which runs may be handed or of which they may be composed.
    pub fn set_agents(&mut self, agents: BTreeMap<String, KnownAgent>) {
        self.agents = Arc::new(agents);
    }

    /// Adds the host's own tools, whose names are reserved for it.
    ///
    /// # Errors
    /// Same as [`Catalog::add`].
    pub fn add_own(
        &mut self,
        descriptor: ComponentDescriptor,
        actions: ActionGrants,
    ) -> Result<(), DescriptorError> {
        let owner = Owner {
            id: HOST_ID.into(),
            kind: OwnerKind::Native,
            origin: HOST_ID.to_owned(),
            version: SmolStr::new(&descriptor.version),
        };
        let grants = CatalogGrants { actions, delegates: Delegates::Any, ..CatalogGrants::default() };
        self.add_prepared(
            owner,
            PreparedComponent::of(descriptor.checked_as_own()?, &Natives::new())?,
            &grants,
        )
    }
}
