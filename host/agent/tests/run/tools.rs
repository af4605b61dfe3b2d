//! The catalog of the scripted world: tools of every policy, keys of every reducer.

use serde_json::{Value, json};
use tollgate_agent::catalog::{ActionGrants, Catalog, CatalogGrants, Owner, OwnerKind};
use tollgate_agent::descriptor::{
    ComponentDescriptor, ExecutionPolicy, StateAccess, StateKey, ToolDescriptor,
};
use tollgate_agent::state::{KeyScope, Reducer};

/// `look` is idempotent, `act` is not, `once` is idempotent and has no retries,
/// `checks` checks its own arguments, `typed` has a schema.
pub(crate) const NAMES: [&str; 5] = ["act", "checks", "look", "once", "typed"];

pub(crate) fn is_idempotent(tool: &str) -> bool {
    matches!(tool, "look" | "once")
}

pub(crate) fn catalog(version: &str) -> Catalog {
    let policy = |name: &str| ExecutionPolicy {
        idempotent: is_idempotent(name),
        validates: name == "checks",
        max_retries: (name == "once").then_some(0),
        ..ExecutionPolicy::default()
    };
    let tools = NAMES.map(|name| {
        let tool = ToolDescriptor::new(name, name, "A tool.").with_execution(policy(name));
        if name == "typed" {
            return tool.with_parameters(json!({
                "type": "object",
                "properties": {"n": {"type": "integer"}, "path": {"type": "string"}},
                "required": ["n"],
                "additionalProperties": false,
            }));
        }
        tool
    });
    let key = |name: &str, initial: Value, reducer, persistent| StateAccess {
        key: format!("kit.{name}"),
        read: true,
        write: name != "locked",
        defines: Some(StateKey { initial, schema: None, reducer, scope: KeyScope::Thread, persistent }),
    };
    let descriptor = ComponentDescriptor {
        id: "kit".to_owned(),
        version: version.to_owned(),
        tools: tools.to_vec(),
        state: vec![
            key("city", json!(""), Reducer::Replace, true),
            key("doc", json!({}), Reducer::MergePatch, true),
            key("count", json!(0), Reducer::Add, true),
            key("items", json!([]), Reducer::Append, true),
            key("fleeting", json!(0), Reducer::Replace, false),
            key("tally", json!(0), Reducer::Add, false),
            key("locked", json!(0), Reducer::Replace, true),
        ],
    };
    let owner = Owner {
        id: "kit".to_owned(),
        kind: OwnerKind::Component,
        origin: "kit.wasm".to_owned(),
        version: version.to_owned(),
    };
    let actions = ActionGrants { add_context: true, ..ActionGrants::default() };
    let mut catalog = Catalog::default();
    catalog.add(owner, descriptor, &CatalogGrants { actions, ..CatalogGrants::default() }).unwrap();
    catalog
}
