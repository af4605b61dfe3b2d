//! Which calls which rules let through, ask about and deny.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use crate::context::{AgentView, RunIdentity};
use crate::descriptor::{ComponentDescriptor, ToolDescriptor};
use crate::gate::CallsBefore;
use crate::proposal::Arguments;
use crate::run::event::Suspended;
use crate::state::State;
use serde_json::json;

fn catalog() -> Catalog {
    let tools = ["read_file", "read_web", "delete"]
        .map(|name| ToolDescriptor::new(name.replace('_', "-"), name, "."));
    let owner =
        Owner { id: "kit".into(), kind: OwnerKind::Native, origin: "native".to_owned(), version: "1".into() };
    let descriptor = ComponentDescriptor {
        id: "kit".to_owned(),
        version: "1".to_owned(),
        tools: tools.to_vec(),
        state: Vec::new(),
    };
    let mut catalog = Catalog::default();
    catalog.add(owner, descriptor, &CatalogGrants::default()).unwrap();
    catalog
}

fn judged_in(state: &State, rules: &Permissions, tool: &str, arguments: Value) -> Verdict {
    let catalog = catalog();
    rules.judge(&ProposedCall {
        call_id: "1",
        tool: catalog.tool(tool).unwrap(),
        arguments: &Arguments::from_value(arguments),
        identity: &RunIdentity::default(),
        agent: &AgentView::default(),
        snapshot: &state.snapshot(),
        keys: catalog.keys(),
        calls_before: CallsBefore::default(),
        now_ms: 0,
        decided: None,
    })
}

fn judged(rules: &Permissions, tool: &str, arguments: Value) -> &'static str {
    match judged_in(&State::default(), rules, tool, arguments) {
        Verdict::Allow => "allow",
        Verdict::Suspend(_) => "ask",
        Verdict::Deny(_) => "deny",
        Verdict::Block(_) | Verdict::SetResult(_) => "other",
    }
}

fn rule(tool: &str, at: &str, glob: &str) -> RuleSpec {
    RuleSpec { at: Some(at.to_owned()), glob: Some(glob.to_owned()), ..RuleSpec::of_tool(tool) }
}

#[test]
fn g2_of_the_rules_deny_is_stronger_than_ask_and_ask_than_allow() {
    let all = || RuleSpec::of_tool("*");
    let rules = Permissions::new(Otherwise::Deny).allow(all()).unwrap();
    assert_eq!(judged(&rules, "delete", json!({})), "allow");
    let rules = rules.ask(all()).unwrap();
    assert_eq!(judged(&rules, "delete", json!({})), "ask");
    let rules = rules.deny(all()).unwrap();
    assert_eq!(judged(&rules, "delete", json!({})), "deny");
}

#[test]
fn g1_what_no_rule_names_comes_to_what_is_said_otherwise() {
    for (otherwise, word) in [(Otherwise::Allow, "allow"), (Otherwise::Ask, "ask"), (Otherwise::Deny, "deny")]
    {
        let rules = Permissions::new(otherwise).allow(RuleSpec::of_tool("read_*")).unwrap();
        assert_eq!(judged(&rules, "read_web", json!({})), "allow");
        assert_eq!(judged(&rules, "delete", json!({})), word);
    }
    assert_eq!(judged(&Permissions::default(), "delete", json!({})), "ask", "to ask is the default");
}

#[test]
fn g1_rules_look_into_arguments_by_pointer_and_pattern() {
    let rules = Permissions::new(Otherwise::Deny)
        .allow(rule("read_file", "/path", "/docs/**"))
        .unwrap()
        .deny(rule("read_file", "/path", "**/.*"))
        .unwrap()
        .deny(RuleSpec { matches: Some("(?i)secret".to_owned()), ..RuleSpec::of_tool("*") })
        .unwrap();
    for (arguments, word) in [
        (json!({"path": "/docs/a/b.md"}), "allow"),
        (json!({"path": "/docs"}), "deny"),
        (json!({"path": "/docs/.git"}), "deny"),
        (json!({"path": "/docs/x", "why": "a SECRET"}), "deny"),
        (json!({"other": "/docs/x"}), "deny"),
    ] {
        assert_eq!(judged(&rules, "read_file", arguments.clone()), word, "{arguments}");
    }
}

#[test]
fn g1_a_rule_that_lets_through_wants_every_part_to_match() {
    let rules = Permissions::new(Otherwise::Deny).allow(rule("read_file", "/paths", "/docs/*")).unwrap();
    assert_eq!(judged(&rules, "read_file", json!({"paths": ["/docs/a", "/docs/b"]})), "allow");
    assert_eq!(judged(&rules, "read_file", json!({"paths": ["/docs/a", "/etc/passwd"]})), "deny");
    let rules = Permissions::new(Otherwise::Allow).deny(rule("read_file", "/paths", "/etc/*")).unwrap();
    assert_eq!(judged(&rules, "read_file", json!({"paths": ["/docs/a", "/etc/passwd"]})), "deny");
}

/// The question about a call, as it is recorded.
fn asked(tool: &str, arguments: Value) -> Suspended {
    Suspended {
        call_id: "1".into(),
        suspension_id: "1/1".to_owned(),
        tool_name: tool.into(),
        ticket: question(tool, &arguments),
        owner: None,
        gate: Some(PERMISSIONS_ID.into()),
        child: None,
        change: None,
        usage: crate::outcome::Usage::default(),
    }
}

#[test]
fn w8_a_remembered_answer_is_about_these_arguments_unless_it_says_the_tool() {
    let question = asked("delete", json!({"id": 1}));
    let mut state = State::default();
    state.apply(&remembered::change(&state, &question, &json!({"remember": "run"})).unwrap());
    let ask = Permissions::default();
    assert_eq!(judged_in(&state, &ask, "delete", json!({"id": 1})), Verdict::Allow);
    assert!(matches!(judged_in(&state, &ask, "delete", json!({"id": 2})), Verdict::Suspend(_)));
    state.apply(
        &remembered::change(&state, &question, &json!({"remember": "thread", "for": "tool"})).unwrap(),
    );
    assert_eq!(judged_in(&state, &ask, "delete", json!({"id": 2})), Verdict::Allow);
    assert!(matches!(judged_in(&state, &ask, "read_web", json!({})), Verdict::Suspend(_)));
    let denied = ask.deny(RuleSpec::of_tool("delete")).unwrap();
    assert!(matches!(judged_in(&state, &denied, "delete", json!({"id": 1})), Verdict::Deny(_)));
}

#[test]
fn w8_only_the_rules_own_question_is_remembered_and_only_if_it_is_wanted() {
    let state = State::default();
    let own = asked("delete", json!({}));
    assert!(remembered::change(&state, &own, &json!(true)).is_none());
    let other = Suspended { gate: Some("another".into()), ..own.clone() };
    assert!(remembered::change(&state, &other, &json!({"remember": "always"})).is_none());
    let tool = Suspended { gate: None, ..own };
    assert!(remembered::change(&state, &tool, &json!({"remember": "always"})).is_none());
}

#[test]
fn s1_no_tool_and_no_gate_that_is_a_component_can_reach_what_is_remembered() {
    let mut access = crate::state::Access::default();
    for key in [REMEMBERED_IN_RUN, REMEMBERED_IN_THREAD] {
        access.allow(key, true, true);
        assert!(!access.may_read(key) && !access.may_write(key));
        assert!(crate::gate::GateDescriptor::checked("a", "", vec![key.to_owned()]).is_err());
    }
}
