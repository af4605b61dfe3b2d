//! Changes of a catalog: owners join and leave, and tools are taken out of use.

use super::{Catalog, CatalogGrants, Owner, PreparedComponent, Tool, collides};
use crate::descriptor::{DescriptorError, ToolDescriptor};
use crate::name;
use crate::state::Access;
use std::sync::Arc;

impl Catalog {
    /// Adds an owner with its checked tools and keys, all or nothing.
    pub(super) fn join(
        &mut self,
        owner: &Owner,
        prepared: PreparedComponent,
        grants: &CatalogGrants,
    ) -> Result<Arc<Access>, DescriptorError> {
        self.claim_owner(owner)?;
        let mut added = Vec::with_capacity(prepared.tools.len());
        let claimed = self.claim(owner, prepared, grants, &mut added);
        if claimed.is_err() {
            // The catalog is changed in place. Copying it for each owner would make the cost of a
            // start quadratic in the number of components.
            self.forget(&owner.id, added);
        }
        claimed
    }

    /// Adds the state keys and tools of an owner. `added` receives each tool that was added,
    /// even if a later one is refused.
    fn claim(
        &mut self,
        owner: &Owner,
        prepared: PreparedComponent,
        grants: &CatalogGrants,
        added: &mut Vec<Arc<Tool>>,
    ) -> Result<Arc<Access>, DescriptorError> {
        let access = Arc::new(self.claim_state(&prepared.id, prepared.state, grants)?);
        let delegates = Arc::new(grants.delegates.clone());
        let owner = Arc::new(owner.clone());
        for (descriptor, arguments) in prepared.tools {
            self.check_tool(&descriptor, &owner)?;
            let (owner, access, delegates) =
                (Arc::clone(&owner), Arc::clone(&access), Arc::clone(&delegates));
            let tool =
                Arc::new(Tool { arguments, owner, access, actions: grants.actions, delegates, descriptor });
            let ToolDescriptor { name, id, .. } = &tool.descriptor;
            self.folded_names.insert(name::fold(name), Arc::clone(&tool));
            self.folded_ids.insert(name::fold(id), Arc::clone(&tool));
            self.tools.insert(name.clone(), Arc::clone(&tool));
            added.push(tool);
        }
        self.folded_owners.insert(name::fold(&owner.id), owner.id.clone());
        self.owners.insert(owner.id.clone(), owner);
        Ok(access)
    }

    fn claim_owner(&self, owner: &Owner) -> Result<(), DescriptorError> {
        self.check_reserved_owner(owner)?;
        let taken = self.folded_owners.get(&name::fold(&owner.id));
        match taken.and_then(|id| self.owners.get(id)) {
            None => Ok(()),
            Some(other) => Err(DescriptorError(format!(
                "the id \"{}\" of {} {} {}; remove one of the two",
                owner.id,
                owner.origin,
                collides(&owner.id, &other.id),
                other.origin
            ))),
        }
    }

    /// Removes an owner with all its tools and state keys. Values that the state holds
    /// under those keys stay there.
    pub fn remove(&mut self, owner_id: &str) {
        if self.owners.remove(owner_id).is_none() {
            return;
        }
        self.folded_owners.remove(&name::fold(owner_id));
        let gone = self.tools.values().filter(|tool| tool.owner.id == owner_id).cloned().collect();
        self.forget(owner_id, gone);
        if self.hooks.contains_key(owner_id) {
            Arc::make_mut(&mut self.hooks).remove(owner_id);
        }
    }

    /// Removes these tools, and the state keys that their owner defined.
    pub(super) fn forget(&mut self, owner_id: &str, tools: Vec<Arc<Tool>>) {
        for tool in tools {
            let descriptor = &tool.descriptor;
            self.tools.remove(&descriptor.name);
            self.disabled.remove(&descriptor.name);
            self.folded_names.remove(&name::fold(&descriptor.name));
            self.folded_ids.remove(&name::fold(&descriptor.id));
        }
        self.keys.remove_of(owner_id);
    }

    /// Takes a tool out of use: it stays listed, and its calls are answered `disabled`.
    /// The reason is for people.
    pub fn disable(&mut self, tool_name: &str, reason: impl Into<String>) {
        if self.tools.contains_key(tool_name) {
            self.disabled.insert(tool_name.to_owned(), reason.into());
        }
    }

    /// Takes a tool back into use.
    pub fn enable(&mut self, tool_name: &str) {
        self.disabled.remove(tool_name);
    }

    /// Returns the reason why the tool is out of use; `None` if it is in use.
    #[must_use]
    pub fn disabled(&self, tool_name: &str) -> Option<&str> {
        self.disabled.get(tool_name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::catalog::OwnerKind;
    use crate::code::Code;
    use crate::descriptor::{ComponentDescriptor, StateAccess, StateKey};
    use crate::proposal::{Arguments, Proposal};
    use crate::state::{KeyScope, Reducer};
    use serde_json::json;

    fn with(ids: &[&str]) -> Catalog {
        let mut catalog = Catalog::default();
        ids.iter().for_each(|id| add(&mut catalog, id).unwrap());
        catalog
    }

    fn owner(id: &str) -> Owner {
        Owner { id: id.into(), kind: OwnerKind::Component, origin: format!("{id}.wasm"), version: "1".into() }
    }

    fn counter() -> StateKey {
        StateKey {
            initial: json!(0).into(),
            schema: None,
            reducer: Reducer::Add,
            scope: KeyScope::Thread,
            persistent: false,
        }
    }

    fn add(catalog: &mut Catalog, id: &str) -> Result<(), DescriptorError> {
        let key =
            StateAccess { key: format!("{id}.total"), read: true, write: true, defines: Some(counter()) };
        let descriptor = ComponentDescriptor {
            id: id.to_owned(),
            version: "1".to_owned(),
            tools: vec![ToolDescriptor::new(id, id, "A tool.")],
            state: vec![key],
        };
        catalog.add(owner(id), descriptor, &CatalogGrants::default())
    }

    #[test]
    fn what_leaves_takes_its_names_and_keys_along() {
        let mut catalog = with(&["one", "two"]);
        assert!(add(&mut catalog, "one").is_err());
        catalog.remove("one");
        assert!(catalog.tool("one").is_none() && catalog.keys().get("one.total").is_none());
        assert!(catalog.tool("two").is_some() && catalog.keys().get("two.total").is_some());
        catalog.remove("nobody");
        add(&mut catalog, "one").unwrap();
        assert!(catalog.tool("one").is_some() && catalog.keys().get("one.total").is_some());
    }

    #[test]
    fn a_refused_owner_leaves_nothing_behind() {
        let mut catalog = with(&["one", "two"]);
        let mut descriptor = ComponentDescriptor {
            id: "three".to_owned(),
            version: "1".to_owned(),
            tools: ["free", "other", "two"].map(|id| ToolDescriptor::new(id, id, "A tool.")).into(),
            state: Vec::new(),
        };
        descriptor.state.push(StateAccess {
            key: "three.total".to_owned(),
            read: true,
            write: true,
            defines: Some(counter()),
        });
        let owner = owner("three");
        let refused = catalog.add(owner, descriptor, &CatalogGrants::default()).unwrap_err().to_string();
        assert!(refused.contains("two.wasm"), "{refused}");
        assert!(catalog.tool("free").is_none() && catalog.keys().get("three.total").is_none());
        add(&mut catalog, "free").unwrap();
        add(&mut catalog, "three").unwrap();
        assert_eq!(catalog.tools().count(), 4);
    }

    #[test]
    fn a_disabled_tool_is_listed_and_answers_so() {
        let mut catalog = with(&["one"]);
        let check = |catalog: &Catalog| {
            Proposal::check(catalog, |_| true, "call-1", "one", &Arguments::read("{}").unwrap()).map(drop)
        };
        catalog.disable("one", "it trapped");
        catalog.disable("nobody", "it trapped");
        assert_eq!(catalog.disabled("one"), Some("it trapped"));
        assert_eq!(catalog.disabled("nobody"), None);
        assert_eq!(check(&catalog).unwrap_err().code, Code::Disabled);
        catalog.enable("one");
        assert!(check(&catalog).is_ok());
        catalog.disable("one", "it trapped");
        catalog.remove("one");
        add(&mut catalog, "one").unwrap();
        assert!(check(&catalog).is_ok(), "another version begins anew");
    }
}
