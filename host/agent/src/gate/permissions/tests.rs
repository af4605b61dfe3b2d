//! Tests of the calls that rules allow, ask about and deny.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::catalog::ToolVersion;
use crate::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use crate::context::{AgentView, RunIdentity};
use crate::descriptor::{ComponentDescriptor, ToolDescriptor};
use crate::gate::{CallsBefore, PERMISSIONS_ID};
use crate::proposal::Arguments;
use crate::question::SuspendedCall;
use crate::state::State;
use serde_json::json;

/// Returns a catalog with the tools of this owner and version. The tools of a server have this
/// description.
fn catalog_of(id: &str, kind: OwnerKind, version: &str, words: &str) -> Catalog {
    let tools = ["read_file", "read_web", "delete"]
        .map(|name| ToolDescriptor::new(name.replace('_', "-"), name, words));
    let owner = Owner { id: id.into(), kind, origin: id.to_owned(), version: version.into() };
    let descriptor = ComponentDescriptor {
        id: id.to_owned(),
        version: version.to_owned(),
        tools: tools.to_vec(),
        state: Vec::new(),
    };
    let mut catalog = Catalog::default();
    catalog.add(owner, descriptor, &CatalogGrants::default()).unwrap();
    catalog
}

fn catalog() -> Catalog {
    catalog_of("kit", OwnerKind::Component, "1", ".")
}

fn judged_in(state: &State, rules: &Permissions, tool: &str, arguments: Value) -> Verdict {
    judged_by(&catalog(), state, rules, tool, arguments)
}

fn judged_by(catalog: &Catalog, state: &State, rules: &Permissions, tool: &str, arguments: Value) -> Verdict {
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
    let rules = Permissions::new(DefaultRule::Deny).allow(all()).unwrap();
    assert_eq!(judged(&rules, "delete", json!({})), "allow");
    let rules = rules.ask(all()).unwrap();
    assert_eq!(judged(&rules, "delete", json!({})), "ask");
    let rules = rules.deny(all()).unwrap();
    assert_eq!(judged(&rules, "delete", json!({})), "deny");
}

#[test]
fn g1_what_no_rule_names_comes_to_what_is_said_otherwise() {
    for (otherwise, word) in
        [(DefaultRule::Allow, "allow"), (DefaultRule::Ask, "ask"), (DefaultRule::Deny, "deny")]
    {
        let rules = Permissions::new(otherwise).allow(RuleSpec::of_tool("read_*")).unwrap();
        assert_eq!(judged(&rules, "read_web", json!({})), "allow");
        assert_eq!(judged(&rules, "delete", json!({})), word);
    }
    assert_eq!(judged(&Permissions::default(), "delete", json!({})), "ask", "to ask is the default");
}

#[test]
fn g1_rules_look_into_arguments_by_pointer_and_pattern() {
    let rules = Permissions::new(DefaultRule::Deny)
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
    let rules = Permissions::new(DefaultRule::Deny).allow(rule("read_file", "/paths", "/docs/*")).unwrap();
    assert_eq!(judged(&rules, "read_file", json!({"paths": ["/docs/a", "/docs/b"]})), "allow");
    assert_eq!(judged(&rules, "read_file", json!({"paths": ["/docs/a", "/etc/passwd"]})), "deny");
    let rules = Permissions::new(DefaultRule::Allow).deny(rule("read_file", "/paths", "/etc/*")).unwrap();
    assert_eq!(judged(&rules, "read_file", json!({"paths": ["/docs/a", "/etc/passwd"]})), "deny");
}

/// Returns the question about a call, as it is recorded.
fn asked(tool: &str, arguments: Value) -> SuspendedCall {
    SuspendedCall {
        call_id: "1".into(),
        suspension_id: "1/1".to_owned(),
        tool_name: tool.into(),
        arguments: None,
        ticket: question(tool, &arguments),
        owner: Some(ToolVersion { id: "kit".into(), version: "1".into() }),
        gate: Some(PERMISSIONS_ID.into()),
        child: None,
        change: None,
        usage: crate::outcome::Usage::default(),
        answer: Default::default(),
    }
}

#[test]
fn w8_a_remembered_answer_is_about_these_arguments_unless_it_says_the_tool() {
    let question = asked("delete", json!({"id": 1}));
    let mut state = State::default();
    state.apply(&remembered::change(&state, &catalog(), &question, &json!({"remember": "run"})).unwrap());
    let ask = Permissions::default();
    assert_eq!(judged_in(&state, &ask, "delete", json!({"id": 1})), Verdict::Allow);
    assert!(matches!(judged_in(&state, &ask, "delete", json!({"id": 2})), Verdict::Suspend(_)));
    state.apply(
        &remembered::change(&state, &catalog(), &question, &json!({"remember": "thread", "for": "tool"}))
            .unwrap(),
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
    assert!(remembered::change(&state, &catalog(), &own, &json!(true)).is_none());
    let other = SuspendedCall { gate: Some("another".into()), ..own.clone() };
    assert!(remembered::change(&state, &catalog(), &other, &json!({"remember": "always"})).is_none());
    let tool = SuspendedCall { gate: None, ..own };
    assert!(remembered::change(&state, &catalog(), &tool, &json!({"remember": "always"})).is_none());
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

#[test]
fn z10_a_rule_that_allows_wants_what_it_examines_to_be_there_and_not_empty() {
    let pattern = |at: &str, matches: &str| RuleSpec {
        glob: None,
        matches: Some(matches.to_owned()),
        ..rule("*", at, "")
    };
    let globs = Permissions::new(DefaultRule::Deny).allow(rule("read_file", "/paths", "/docs/**")).unwrap();
    let regexes = Permissions::new(DefaultRule::Deny).allow(pattern("/paths", ".*")).unwrap();
    for hollow in
        [json!([]), json!({}), json!(""), json!(null), json!([[]]), json!([{"a": {}}]), json!(["a", ""])]
    {
        for rules in [&globs, &regexes] {
            assert_eq!(judged(rules, "read_file", json!({"paths": hollow})), "deny", "{hollow}");
        }
    }
    assert_eq!(judged(&regexes, "read_file", json!({})), "deny");
    assert_eq!(judged(&regexes, "read_file", json!({"paths": ["a"]})), "allow");
    let whole = Permissions::new(DefaultRule::Deny).allow(pattern("", "^[a-z]+$")).unwrap();
    assert_eq!(judged(&whole, "read_file", json!({})), "deny");
    assert_eq!(judged(&whole, "read_file", json!({"a": "b"})), "allow");
}

#[test]
fn z10_a_rule_that_allows_looks_at_names_of_fields() {
    let rules = Permissions::new(DefaultRule::Deny).allow(rule("read_file", "/files", "/docs/**")).unwrap();
    assert_eq!(judged(&rules, "read_file", json!({"files": {"/docs/a": "/docs/b"}})), "allow");
    for smuggled in [json!({"/etc/passwd": "/docs/b"}), json!({"/docs/a": {"/etc/passwd": "/docs/b"}})] {
        assert_eq!(judged(&rules, "read_file", json!({"files": smuggled})), "deny", "{smuggled}");
    }
}

#[test]
fn z10_a_glob_that_allows_does_not_lead_elsewhere() {
    let rules = Permissions::new(DefaultRule::Deny)
        .allow(rule("read_file", "/path", "/docs/**"))
        .unwrap()
        .allow(rule("read_web", "/url", "https://a.test/**"))
        .unwrap();
    for path in [
        "/docs/../etc/passwd",
        "/docs//etc/passwd",
        "/docs/./x",
        "/docs/",
        "/docs/..",
        "/docs/..\\etc",
        "/docs/%2e%2E/etc",
        "/docs/a/../../etc",
    ] {
        assert_eq!(judged(&rules, "read_file", json!({"path": path})), "deny", "{path}");
    }
    assert_eq!(judged(&rules, "read_file", json!({"path": "/docs/..a/b..c/..."})), "allow");
    assert_eq!(judged(&rules, "read_web", json!({"url": "https://a.test/x"})), "allow");
    assert_eq!(judged(&rules, "read_web", json!({"url": "https://a.test/../x"})), "deny");
}

#[test]
fn z10_a_rule_that_holds_back_matches_the_normalized_form_too() {
    let deny = |spec: RuleSpec| Permissions::new(DefaultRule::Allow).deny(spec).unwrap();
    let glob = deny(rule("*", "/path", "/etc/*"));
    let regex = deny(RuleSpec { matches: Some("^/etc/".to_owned()), ..RuleSpec::of_tool("*") });
    let ask = Permissions::new(DefaultRule::Allow).ask(rule("*", "/path", "/etc/*")).unwrap();
    for path in ["/etc/passwd", "/docs/../etc/passwd", "//etc//passwd", "/etc/./passwd/", "/../etc/passwd"] {
        for (rules, word) in [(&glob, "deny"), (&regex, "deny"), (&ask, "ask")] {
            assert_eq!(judged(rules, "read_file", json!({"path": path})), word, "{path}");
        }
    }
    assert_eq!(
        judged(&regex, "read_file", json!({"x": {"a/../../etc/../..//etc/x": 1, "/x/../etc/y": 1}})),
        "deny"
    );
    assert_eq!(judged(&glob, "read_file", json!({"path": "/docs/etc/passwd"})), "allow");
}

#[test]
fn z10_a_rule_with_an_owner_is_about_that_owners_tools_alone() {
    let of_kit = || RuleSpec { owner: Some("kit".to_owned()), ..RuleSpec::of_tool("read_file") };
    let rules = Permissions::new(DefaultRule::Deny).allow(of_kit()).unwrap();
    let impostor = catalog_of("evil", OwnerKind::Component, "1", ".");
    assert_eq!(judged(&rules, "read_file", json!({})), "allow");
    let verdict = judged_by(&impostor, &State::default(), &rules, "read_file", json!({}));
    assert!(matches!(verdict, Verdict::Deny(_)), "{verdict:?}");
    let pinned = RuleSpec { digest: Some("2".to_owned()), ..of_kit() };
    let pinned = Permissions::new(DefaultRule::Deny).allow(pinned).unwrap();
    assert_eq!(judged(&pinned, "read_file", json!({})), "deny");
    let next = catalog_of("kit", OwnerKind::Component, "2", ".");
    assert_eq!(judged_by(&next, &State::default(), &pinned, "read_file", json!({})), Verdict::Allow);
    assert!(Permissions::default().allow(RuleSpec { owner: Some("No id".to_owned()), ..of_kit() }).is_err());
    let rules = rules.allow(RuleSpec::of_tool("delete")).unwrap().allow(RuleSpec::of_tool("read_*")).unwrap();
    assert_eq!(rules.tools_allowed_by_name().collect::<Vec<_>>(), ["delete"]);
}

/// Returns the state of a thread that remembers this answer about this catalog's version of
/// `delete`.
fn remembering(catalog: &Catalog, answer: &Value) -> State {
    let owner = &catalog.tool("delete").unwrap().owner;
    let version = ToolVersion { id: owner.id.clone(), version: owner.version.clone() };
    let question = SuspendedCall { owner: Some(version), ..asked("delete", json!({})) };
    let mut state = State::default();
    state.apply(&remembered::change(&state, catalog, &question, answer).unwrap());
    state
}

#[test]
fn z11_an_answer_is_remembered_for_the_version_that_was_asked_about() {
    let ask = Permissions::default();
    let answers = [json!({"remember": "thread"}), json!({"remember": "run", "for": "tool"})];
    for answer in &answers {
        let state = remembering(&catalog(), answer);
        assert_eq!(judged_in(&state, &ask, "delete", json!({})), Verdict::Allow, "{answer}");
        let impostor = catalog_of("evil", OwnerKind::Component, "1", ".");
        let next = catalog_of("kit", OwnerKind::Component, "2", ".");
        for other in [impostor, next] {
            let verdict = judged_by(&other, &state, &ask, "delete", json!({}));
            assert!(matches!(verdict, Verdict::Suspend(_)), "{answer}: {verdict:?}");
        }
    }
    // A server's list may change as long as this tool stays the same.
    let server = catalog_of("files", OwnerKind::Mcp, "list 1", "Deletes.");
    let state = remembering(&server, &answers[0]);
    let longer = catalog_of("files", OwnerKind::Mcp, "list 2", "Deletes.");
    assert_eq!(judged_by(&longer, &state, &ask, "delete", json!({})), Verdict::Allow);
    let renamed = catalog_of("other", OwnerKind::Mcp, "list 1", "Deletes.");
    let reworded = catalog_of("files", OwnerKind::Mcp, "list 1", "Deletes everything.");
    for other in [renamed, reworded] {
        assert!(matches!(judged_by(&other, &state, &ask, "delete", json!({})), Verdict::Suspend(_)));
    }
}

#[test]
fn z11_an_answer_about_a_tool_that_has_changed_since_is_not_remembered() {
    let next = catalog_of("kit", OwnerKind::Component, "2", ".");
    let answer = json!({"remember": "thread"});
    assert!(remembered::change(&State::default(), &next, &asked("delete", json!({})), &answer).is_none());
    let nobodys = SuspendedCall { owner: None, ..asked("delete", json!({})) };
    assert!(remembered::change(&State::default(), &catalog(), &nobodys, &answer).is_none());
}

#[test]
fn z11_answers_that_were_remembered_without_a_version_are_asked_for_again() {
    let mut state = State::default();
    state.set(REMEMBERED_IN_THREAD, json!([{"tool": "delete"}, {"tool": "delete", "arguments": "{}"}, 7]));
    let ask = Permissions::default().remembered(RuleSpec::of_tool("delete")).unwrap();
    assert!(matches!(judged_in(&state, &ask, "delete", json!({})), Verdict::Suspend(_)));
    assert_eq!(ask.unbound_answers(), 1);
    let bound = RuleSpec {
        owner: Some("kit".to_owned()),
        digest: Some("1".to_owned()),
        ..RuleSpec::of_tool("delete")
    };
    let ask = ask.remembered(bound).unwrap();
    assert_eq!(judged_in(&state, &ask, "delete", json!({})), Verdict::Allow);
}

#[test]
fn z11_at_most_256_answers_are_remembered() {
    let bound = |number: usize| RuleSpec {
        owner: Some("kit".to_owned()),
        digest: Some("1".to_owned()),
        ..RuleSpec::of_tool(format!("t{number}"))
    };
    let full =
        (0..MAX_REMEMBERED).try_fold(Permissions::default(), |all, n| all.remembered(bound(n))).unwrap();
    let why = full.remembered(bound(MAX_REMEMBERED)).unwrap_err().to_string();
    assert!(why.contains("256"), "{why}");
    let mut state = State::default();
    for number in 0..MAX_REMEMBERED + 3 {
        let question = asked("delete", json!({"n": number}));
        let answer = json!({"remember": "thread"});
        state.apply(&remembered::change(&state, &catalog(), &question, &answer).unwrap());
    }
    assert_eq!(state.get(REMEMBERED_IN_THREAD).unwrap().as_array().unwrap().len(), MAX_REMEMBERED);
}
