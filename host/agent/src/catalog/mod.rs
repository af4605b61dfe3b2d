//! Everything that can be called, under names that cannot be confused.
//!
//! A catalog is a value: the host builds a new one when something is loaded or
//! removed, and publishes it by a swap. Calls in flight keep the tools with which
//! they began.

mod changes;
mod plugins;
mod prepared_component;
mod reserved;
mod tool;

pub use prepared_component::{Natives, PreparedComponent};
pub use tool::{Tool, ToolVersion};

use crate::agents::KnownAgent;
use crate::child::Delegates;
use crate::descriptor::{ComponentDescriptor, DescriptorError, StateAccess, ToolDescriptor};
use crate::hook::HookOwner;
use crate::limit_places::LimitPlaces;
use crate::name;
use crate::outcome::ActionGrants;
use crate::state::{Access, KeyDefinition, KeySet};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The owner of the host's own tools.
pub const HOST_ID: &str = "host";

/// The owner of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The component's, plugin's, server's or agent's id.
    pub id: SmolStr,
    /// The kind of owner.
    pub kind: OwnerKind,
    /// Its origin, for people: a file name, a plugin's id, a server's name.
    pub origin: String,
    /// The version, such as a component's digest. A call keeps the version with which it started.
    pub version: SmolStr,
}

/// The kinds of owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerKind {
    /// A WebAssembly component.
    Component,
    /// Rust code of the embedding program.
    Native,
    /// A remote MCP server.
    Mcp,
    /// An agent that is offered as a tool.
    Agent,
}

/// The grants of a tools' owner that the catalog enforces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogGrants {
    /// Other owners' state keys that it may read.
    pub reads: BTreeSet<String>,
    /// Other owners' state keys that it may write.
    pub writes: BTreeSet<String>,
    /// The actions that its tools may request.
    pub actions: ActionGrants,
    /// The agents that its tools may run, with the keys that may be passed.
    pub delegates: Delegates,
}

/// Everything that can be called, every state key, and every agent.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    owners: BTreeMap<SmolStr, Arc<Owner>>,
    tools: BTreeMap<String, Arc<Tool>>,
    /// Tools by folded name. Names that look alike fold to the same text.
    folded_names: BTreeMap<String, Arc<Tool>>,
    /// Tools by folded id.
    folded_ids: BTreeMap<String, Arc<Tool>>,
    /// Folded ids of owners, each with the id as written.
    folded_owners: BTreeMap<String, SmolStr>,
    keys: KeySet,
    /// Disabled tools, each with the reason.
    disabled: BTreeMap<String, String>,
    agents: Arc<BTreeMap<String, KnownAgent>>,
    /// Plugins whose hooks are asked about calls.
    hooks: Arc<BTreeMap<SmolStr, HookOwner>>,
    /// The names of configured servers, connected or not.
    servers: Arc<BTreeSet<String>>,
}

impl Catalog {
    /// Returns the tool with this name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// Returns all tools, sorted by name.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }

    /// Returns all owners of tools, sorted by id.
    pub fn owners(&self) -> impl Iterator<Item = &Arc<Owner>> {
        self.owners.values()
    }

    /// Returns the owner with this id.
    #[must_use]
    pub fn owner(&self, id: &str) -> Option<&Arc<Owner>> {
        self.owners.get(id)
    }

    /// Returns all state keys that loaded owners define.
    #[must_use]
    pub fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// Sets how many bytes the values of one component's keys may have in one thread.
    pub fn set_thread_state_bytes(&mut self, bytes: usize) {
        self.keys.set_thread_state_bytes(bytes);
    }

    /// Returns the places where an operator changes limits.
    #[must_use]
    pub fn limit_places(&self) -> &'static LimitPlaces {
        self.keys.limit_places()
    }

    /// Sets the places where an operator changes limits, which messages about limits name.
    pub fn set_limit_places(&mut self, places: &'static LimitPlaces) {
        self.keys.set_limit_places(places);
    }

    /// Returns the agent with this id if runs may be handed to it or composed of it.
    #[must_use]
    pub fn agent(&self, id: &str) -> Option<&KnownAgent> {
        self.agents.get(id)
    }

    /// Sets the agents to which runs may be handed or of which they may be composed.
    pub fn set_agents(&mut self, agents: BTreeMap<String, KnownAgent>) {
        self.agents = Arc::new(agents);
    }

    /// Adds an owner with all its tools and state keys, or nothing.
    ///
    /// # Errors
    /// An id or name is invalid or reserved, a schema is refused, or an id, name or
    /// key collides with an existing one; the message names both.
    pub fn add(
        &mut self,
        owner: Owner,
        descriptor: ComponentDescriptor,
        grants: &CatalogGrants,
    ) -> Result<(), DescriptorError> {
        self.add_prepared(owner, PreparedComponent::new(descriptor)?, grants)
    }

    /// Adds an owner with its checked tools and keys, or nothing. This does not take long.
    ///
    /// # Errors
    /// A name is reserved, or an id, name or key collides with an existing one; the message
    /// names both.
    pub fn add_prepared(
        &mut self,
        owner: Owner,
        prepared: PreparedComponent,
        grants: &CatalogGrants,
    ) -> Result<(), DescriptorError> {
        self.join(&owner, prepared, grants).map(drop)
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

    /// Adds the state keys that an owner defines, and returns which keys it may read and write.
    fn claim_state(
        &mut self,
        id: &str,
        state: Vec<(StateAccess, Option<KeyDefinition>)>,
        grants: &CatalogGrants,
    ) -> Result<Access, DescriptorError> {
        let mut access = Access::default();
        for (wanted, definition) in state {
            let is_own = prepared_component::is_own(id, &wanted.key);
            match (&wanted.defines, definition) {
                (Some(_), Some(definition)) => {
                    self.keys.insert(definition).map_err(|e| DescriptorError(e.to_string()))?;
                }
                (Some(_), None) => return Err(foreign(&wanted, id)),
                (None, _) if is_own => {
                    return Err(DescriptorError(format!(
                        "the component \"{id}\" uses its state key \"{}\" without defining it",
                        crate::text::clean(&wanted.key, 140)
                    )));
                }
                (None, _) if wanted.key.starts_with("host.") => {
                    return Err(DescriptorError(format!(
                        "the component \"{id}\" asks for the state key \"{}\"; keys under \"host.\" are the host's own",
                        crate::text::clean(&wanted.key, 140)
                    )));
                }
                (None, _) => {}
            }
            let read = wanted.read && (is_own || grants.reads.contains(&wanted.key));
            let write = wanted.write && (is_own || grants.writes.contains(&wanted.key));
            access.allow(&wanted.key, read, write);
        }
        Ok(access)
    }

    /// Checks that the name and id of a tool are not reserved, and that no tool has them or looks like them.
    fn check_tool(&self, descriptor: &ToolDescriptor, owner: &Owner) -> Result<(), DescriptorError> {
        if name::is_reserved_name(&descriptor.name) && owner.id != HOST_ID {
            return Err(DescriptorError(format!(
                "the tool name \"{}\" is reserved for the host",
                descriptor.name
            )));
        }
        self.check_reserved_tool(descriptor, owner)?;
        let collision = |what: &str, word: &str, other: &str, taken_by: &Tool| {
            DescriptorError(format!(
                "the tool {what} \"{word}\" of {} {} {}; remove one of the two",
                owner.origin,
                collides(word, other),
                taken_by.owner.origin
            ))
        };
        if let Some(other) = self.folded_names.get(&name::fold(&descriptor.name)) {
            return Err(collision("name", &descriptor.name, &other.descriptor.name, other));
        }
        if let Some(other) = self.folded_ids.get(&name::fold(&descriptor.id)) {
            return Err(collision("id", &descriptor.id, &other.descriptor.id, other));
        }
        Ok(())
    }
}

/// Returns the words between a name and the owner of another one with which it collides.
fn collides(name: &str, other: &str) -> String {
    match name == other {
        true => "is taken by".to_owned(),
        false => format!("looks like \"{other}\" of"),
    }
}

/// Returns the error for a state key that belongs to another owner.
fn foreign(wanted: &StateAccess, id: &str) -> DescriptorError {
    DescriptorError(format!(
        "the component \"{0}\" defines the state key \"{1}\"; it may define only keys that begin with \"{0}.\"",
        id,
        crate::text::clean(&wanted.key, 140)
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::descriptor::StateKey;
    use crate::state::{KeyScope, Reducer};
    use serde_json::json;

    fn owner(id: &str) -> Owner {
        Owner { id: id.into(), kind: OwnerKind::Component, origin: format!("{id}.wasm"), version: "1".into() }
    }

    fn component(id: &str, tools: &[(&str, &str)]) -> ComponentDescriptor {
        ComponentDescriptor {
            id: id.to_owned(),
            version: "1".to_owned(),
            tools: tools.iter().map(|(id, name)| ToolDescriptor::new(*id, *name, "Does it.")).collect(),
            state: Vec::new(),
        }
    }

    fn add(catalog: &mut Catalog, component: ComponentDescriptor) -> Result<(), DescriptorError> {
        catalog.add(owner(&component.id.clone()), component, &CatalogGrants::default())
    }

    #[test]
    fn r1_a_collision_refuses_the_newcomer_alone_and_names_both() {
        let mut catalog = Catalog::default();
        add(&mut catalog, component("first", &[("a", "read_file")])).unwrap();
        for newcomer in [
            component("first", &[("b", "other")]),
            component("second", &[("b", "Read-File")]),
            component("second", &[("a", "other")]),
            component("second", &[("x", "fresh"), ("y", "read_fi1e")]),
            component("f1rst", &[("b", "other")]),
            component("second", &[("b", "twice"), ("c", "twice")]),
        ] {
            let error = add(&mut catalog, newcomer.clone()).unwrap_err().to_string();
            assert!(error.contains("first.wasm") || error.contains("by second.wasm"), "{error}");
        }
        assert_eq!(catalog.tools().count(), 1);
        assert_eq!(catalog.owners().count(), 1);
    }

    #[test]
    fn r1_a_collision_names_the_owner_of_the_name_and_not_of_an_equal_id() {
        let mut catalog = Catalog::default();
        add(&mut catalog, component("first", &[("a", "search")])).unwrap();
        add(&mut catalog, component("other", &[("search", "query")])).unwrap();
        let error = add(&mut catalog, component("new", &[("b", "search")])).unwrap_err().to_string();
        assert!(error.contains("is taken by first.wasm"), "{error}");
    }

    #[test]
    fn r2_words_that_do_not_fit_refuse_the_component() {
        let mut catalog = Catalog::default();
        for bad in [
            component("Bad", &[("a", "a")]),
            component("good", &[("A", "a")]),
            component("good", &[("a", "read file")]),
            component("good", &[("a", "pаy")]),
            component("good", &[]),
        ] {
            assert!(add(&mut catalog, bad).is_err());
        }
    }

    #[test]
    fn r4_tools_are_sorted_by_name() {
        let mut catalog = Catalog::default();
        add(&mut catalog, component("x", &[("b", "zeta"), ("c", "alpha")])).unwrap();
        add(&mut catalog, component("a", &[("d", "mid")])).unwrap();
        let names: Vec<&str> = catalog.tools().map(|t| t.descriptor.name.as_str()).collect();
        assert_eq!(names, ["alpha", "mid", "zeta"]);
    }

    #[test]
    fn r5_reserved_words_are_refused() {
        let mut catalog = Catalog::default();
        for bad in [
            component("host", &[("a", "a")]),
            component("tollgate", &[("a", "a")]),
            component("x", &[("a", "transfer_to_agent")]),
            component("x", &[("a", "search_history")]),
            component("x", &[("a", "tollgate_grant")]),
        ] {
            assert!(add(&mut catalog, bad).is_err());
        }
    }

    #[test]
    fn s1_other_components_keys_need_a_grant() {
        let key = StateKey {
            initial: json!(0).into(),
            schema: None,
            reducer: Reducer::Add,
            scope: KeyScope::Run,
            persistent: false,
        };
        let mut first = component("first", &[("a", "a")]);
        first.state.push(StateAccess {
            key: "first.n".to_owned(),
            read: true,
            write: true,
            defines: Some(key.clone()),
        });
        let mut second = component("second", &[("b", "b")]);
        second.state.push(StateAccess { key: "first.n".to_owned(), read: true, write: true, defines: None });

        let mut catalog = Catalog::default();
        add(&mut catalog, first).unwrap();
        let mut with_grant = catalog.clone();
        add(&mut catalog, second.clone()).unwrap();
        assert!(!catalog.tool("b").unwrap().access.may_read("first.n"));

        let grants = CatalogGrants { reads: ["first.n".to_owned()].into(), ..CatalogGrants::default() };
        with_grant.add(owner("second"), second.clone(), &grants).unwrap();
        let access = &with_grant.tool("b").unwrap().access;
        assert!(access.may_read("first.n") && !access.may_write("first.n"));

        second.state[0].defines = Some(key);
        assert!(add(&mut Catalog::default(), second).is_err(), "a foreign key cannot be defined");
    }
}
