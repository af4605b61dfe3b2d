//! What changes in a catalog while others work from it: owners leave, and tools are
//! taken out of use.

use super::Catalog;
use crate::name;
use std::sync::Arc;

impl Catalog {
    /// Takes out an owner with all its tools and state keys. What the state holds under
    /// those keys stays there.
    pub fn remove(&mut self, owner_id: &str) {
        if self.owners.remove(owner_id).is_none() {
            return;
        }
        let gone: Vec<_> = self
            .tools
            .values()
            .filter(|tool| tool.owner.id == owner_id)
            .map(|tool| tool.descriptor.clone())
            .collect();
        for descriptor in gone {
            self.tools.remove(&descriptor.name);
            self.disabled.remove(&descriptor.name);
            self.folded_names.remove(&name::fold(&descriptor.name));
            self.folded_ids.remove(&name::fold(&descriptor.id));
        }
        self.keys.remove_of(owner_id);
        if self.hooks.contains_key(owner_id) {
            Arc::make_mut(&mut self.hooks).remove(owner_id);
        }
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

    /// Why the tool of this name is out of use; none where it is in use.
    #[must_use]
    pub fn disabled(&self, tool_name: &str) -> Option<&str> {
        self.disabled.get(tool_name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::catalog::{CatalogGrants, Owner, OwnerKind};
    use crate::code::Code;
    use crate::descriptor::{ComponentDescriptor, StateAccess, StateKey, ToolDescriptor};
    use crate::proposal::{Arguments, Proposal};
    use crate::state::{KeyScope, Reducer};
    use serde_json::json;

    fn with(ids: &[&str]) -> Catalog {
        let mut catalog = Catalog::default();
        ids.iter().for_each(|id| add(&mut catalog, id).unwrap());
        catalog
    }

    fn add(catalog: &mut Catalog, id: &str) -> Result<(), crate::descriptor::DescriptorError> {
        let owner = Owner {
            id: id.into(),
            kind: OwnerKind::Component,
            origin: format!("{id}.wasm"),
            version: "1".into(),
        };
        let defines = StateKey {
            initial: json!(0),
            schema: None,
            reducer: Reducer::Add,
            scope: KeyScope::Thread,
            persistent: false,
        };
        let key = StateAccess { key: format!("{id}.total"), read: true, write: true, defines: Some(defines) };
        let descriptor = ComponentDescriptor {
            id: id.to_owned(),
            version: "1".to_owned(),
            tools: vec![ToolDescriptor::new(id, id, "A tool.")],
            state: vec![key],
        };
        catalog.add(owner, descriptor, &CatalogGrants::default())
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
