//! The catalog of the scripted world: tools with every policy, keys with every reducer.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_agent::catalog::{Catalog, CatalogGrants, Natives, Owner, OwnerKind};
use tollgate_agent::child::{DelegateGrant, Delegates};
use tollgate_agent::context::AgentView;
use tollgate_agent::descriptor::{
    ComponentDescriptor, ExecutionPolicy, StateAccess, StateKey, ToolDescriptor,
};
use tollgate_agent::hook::HookPoints;
use tollgate_agent::outcome::ActionGrants;
use tollgate_agent::run::{AgentSpec, KnownAgent, RunLimits};
use tollgate_agent::state::{KeyScope, Reducer};

/// `look` is idempotent, `act` is not, `once` is idempotent and has no retries,
/// `checks` checks its own arguments, `typed` has a schema.
pub(crate) const NAMES: [&str; 5] = ["act", "checks", "look", "once", "typed"];

pub(crate) fn is_idempotent(tool: &str) -> bool {
    matches!(tool, "look" | "once" | "ask_scout")
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
        defines: Some(StateKey {
            initial: initial.into(),
            schema: None,
            reducer,
            scope: KeyScope::Thread,
            persistent,
        }),
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
        id: "kit".into(),
        kind: OwnerKind::Component,
        origin: "kit.wasm".to_owned(),
        version: version.into(),
    };
    let actions = ActionGrants { add_context: true, ..ActionGrants::default() };
    let mut catalog = Catalog::default();
    catalog.add(owner.clone(), descriptor, &CatalogGrants { actions, ..CatalogGrants::default() }).unwrap();
    let (team, grants) = team();
    catalog
        .add(Owner { id: team.id.clone().into(), origin: "team.wasm".to_owned(), ..owner }, team, &grants)
        .unwrap();
    catalog.set_agents(agents(|_| ()));
    catalog
}

/// Adds the plugin `keeper`, whose hooks are asked on both sides of calls. It may write `kit.city`
/// besides its own keys.
pub(crate) fn add_keeper(catalog: &mut Catalog) {
    let key = |name: &str, reducer, persistent| StateAccess {
        key: format!("keeper.{name}"),
        read: true,
        write: true,
        defines: Some(StateKey {
            initial: json!([]).into(),
            schema: None,
            reducer,
            scope: KeyScope::Thread,
            persistent,
        }),
    };
    let city = StateAccess { key: "kit.city".to_owned(), read: true, write: true, defines: None };
    let descriptor = ComponentDescriptor {
        id: "keeper".to_owned(),
        version: "1".to_owned(),
        tools: Vec::new(),
        state: vec![key("log", Reducer::Append, true), key("fleeting", Reducer::Append, false), city],
    };
    let owner = Owner {
        id: "keeper".into(),
        kind: OwnerKind::Native,
        origin: "the plugin keeper".to_owned(),
        version: "1".into(),
    };
    let actions = ActionGrants { add_context: true, filter_tools: true, ..ActionGrants::default() };
    let grants =
        CatalogGrants { actions, writes: ["kit.city".to_owned()].into(), ..CatalogGrants::default() };
    catalog.add_plugin(owner, descriptor, &grants, &Natives::new(), HookPoints::ALL).unwrap();
}

/// Returns a component with `ask_scout`, which runs the agent `scout`, and `hand`, which hands the
/// conversation on.
fn team() -> (ComponentDescriptor, CatalogGrants) {
    let tool = |id: &str, name: &str| {
        let execution = ExecutionPolicy { idempotent: is_idempotent(name), ..ExecutionPolicy::default() };
        ToolDescriptor::new(id, name, "Knows others.").with_execution(execution)
    };
    let unused = StateKey {
        initial: json!(0).into(),
        schema: None,
        reducer: Reducer::Replace,
        scope: KeyScope::Run,
        persistent: true,
    };
    let city = StateAccess { key: "kit.city".to_owned(), read: true, write: true, defines: None };
    let state = vec![
        StateAccess { key: "team.unused".to_owned(), read: true, write: true, defines: Some(unused) },
        city,
    ];
    let tools = vec![tool("ask-scout", "ask_scout"), tool("hand", "hand")];
    let descriptor = ComponentDescriptor { id: "team".to_owned(), version: "1".to_owned(), tools, state };
    let keys = ["kit.city", "kit.fleeting", "kit.items", "kit.nothing", "team.unused", "host.agent"];
    let scout = DelegateGrant {
        seed: keys.map(str::to_owned).into(),
        export: ["kit.city".to_owned(), "kit.count".to_owned()].into(),
    };
    let grants = CatalogGrants {
        writes: ["kit.city".to_owned()].into(),
        actions: ActionGrants { transfer: true, escalate: true, ..ActionGrants::default() },
        delegates: Delegates::Granted([("scout".to_owned(), scout)].into()),
        ..CatalogGrants::default()
    };
    (descriptor, grants)
}

/// Returns the agents `front` and `scout`. `change` adjusts `scout`, which may only call `look`.
pub(crate) fn agents(change: impl FnOnce(&mut AgentSpec)) -> BTreeMap<String, KnownAgent> {
    let agent = |id: &str| {
        let view = AgentView { id: id.to_owned(), ..AgentView::default() };
        AgentSpec { view, tools: vec!["look".to_owned()], ..AgentSpec::default() }
    };
    let (mut scout, front) = (agent("scout"), agent("front"));
    change(&mut scout);
    let known = |spec: AgentSpec| KnownAgent { spec: Arc::new(spec), limits: RunLimits::default() };
    BTreeMap::from([("scout".to_owned(), known(scout)), ("front".to_owned(), known(front))])
}
