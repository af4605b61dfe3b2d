//! Each hostile gate ends in its documented code or refusal, which denies the call; and the
//! shipped gates judge as documented.

use serde_json::json;
use tollgate_agent::code::Code;
use tollgate_agent::gate::Verdict;
use tollgate_agent::state::State;
use tollgate_artifacts::{Expectation, Guest, for_each_hostile_gate, gates, rust_gate_bytes};
use tollgate_sandbox::{GateLimits, SandboxConfig};

use crate::rig::{GateQuestion, Rig};

fn ends_as_documented(guest: &Guest) {
    let rig = Rig::new();
    let gate = rig.load_gate(guest.name, guest.bytes());
    let gate = match (guest.expects, gate) {
        (Expectation::Refused(words), Err(reason)) => {
            assert!(reason.contains(words), "refused for another reason: {reason}");
            return;
        }
        (Expectation::Refused(_), Ok(_)) => panic!("it was loaded: {}", guest.attack),
        (_, gate) => gate.unwrap_or_else(|reason| panic!("it was refused: {reason}")),
    };
    let verdict = rig.judge(&gate, &GateQuestion::default());
    match (guest.expects, verdict) {
        (Expectation::Code("denied"), Ok(Verdict::Deny(reason))) => {
            assert_eq!(reason, tollgate_agent::text::clean(&reason, 2_000));
            assert!(!reason.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{reason:?}");
        }
        (Expectation::Code(code), Err(fault)) => {
            assert_eq!(fault.code.as_str(), code, "{fault:?}");
            assert!(fault.message.contains(guest.name), "its id is not in: {}", fault.message);
        }
        (expects, verdict) => panic!("expected {expects}, came to {verdict:?}"),
    }
}

macro_rules! tests {
    ($($name:ident = $guest:ident,)*) => { $(
        #[test]
        fn $name() {
            ends_as_documented(&gates::$guest);
        }
    )* };
}

mod g6_each {
    use super::*;

    for_each_hostile_gate!(tests);
}

#[test]
fn g7_a_shipped_gate_has_no_imports_and_judges() {
    let rig = Rig::new();
    for name in ["budget", "pattern"] {
        assert!(rig.load_gate(name, rust_gate_bytes(name)).is_ok(), "{name}");
    }
}

#[test]
fn g7_the_budget_gate_denies_the_call_after_the_last() {
    let rig = Rig::new();
    let gate = rig.load_gate("budget", rust_gate_bytes("budget")).unwrap();
    let gate = rig.configure(gate, &json!({"calls": {"echo": 2}}), GateLimits::default()).unwrap();
    let judged = |of_tool| {
        rig.judge(&gate, &GateQuestion { calls_before: of_tool, ..GateQuestion::default() }).unwrap()
    };
    assert_eq!(judged(1), Verdict::Allow);
    assert!(matches!(judged(2), Verdict::Deny(reason) if reason.contains("2 times")));
}

#[test]
fn g7_the_pattern_gate_denies_what_matches() {
    let rig = Rig::new();
    let gate = rig.load_gate("pattern", rust_gate_bytes("pattern")).unwrap();
    let settings =
        json!({"deny": [{"tool": "echo", "at": "/path", "matches": "\\.key$", "reason": "No keys."}]});
    let gate = rig.configure(gate, &settings, GateLimits::default()).unwrap();
    let judged = |arguments: &str| {
        let asked = GateQuestion { arguments: arguments.to_owned(), ..GateQuestion::default() };
        rig.judge(&gate, &asked).unwrap()
    };
    assert_eq!(judged(r#"{"path": "a.txt"}"#), Verdict::Allow);
    assert_eq!(judged(r#"{"path": "a.key"}"#), Verdict::Deny("No keys.".to_owned()));
}

#[test]
fn g7_settings_that_a_gate_does_not_know_refuse_it() {
    let rig = Rig::new();
    for settings in [json!({"cals": {}}), json!({}), json!({"calls": {"echo": -1}})] {
        let gate = rig.load_gate("budget", rust_gate_bytes("budget")).unwrap();
        let reason = rig.configure(gate, &settings, GateLimits::default()).err().unwrap();
        assert!(reason.contains("does not accept its settings"), "{reason}");
    }
}

#[test]
fn g6_a_question_has_the_budget_that_the_operator_gives_it() {
    let rig = Rig::new();
    let gate = rig.load_gate("budget", rust_gate_bytes("budget")).unwrap();
    let scarce = GateLimits { fuel: 10, ..GateLimits::default() };
    let reason = rig.configure(gate, &json!({"all": 1}), scarce).err().unwrap();
    assert!(reason.contains("its limit is fuel = 10"), "{reason}");
}

#[test]
fn g6_a_gate_is_not_asked_about_arguments_that_are_too_large_for_it() {
    let rig = Rig::new();
    let gate = rig.load_gate("budget", rust_gate_bytes("budget")).unwrap();
    let asked =
        GateQuestion { arguments: json!({"a": "x".repeat(17 << 20)}).to_string(), ..GateQuestion::default() };
    assert_eq!(rig.judge(&gate, &asked).unwrap_err().code, Code::TooLarge);
}

/// A gate that denies with the value of the one key that it reads, and traps if it receives
/// another number of keys: the list's address and length are 152 and 156 bytes into a gate's
/// argument.
const TELLS_WHAT_IT_SEES: Guest = Guest {
    name: "tells",
    attack: "",
    limit: "",
    expects: Expectation::Succeeds,
    source: r#";; Tells what it sees.
;;
;; kind: gate
;; descriptor: {"reads": ["kit.seen", "kit.absent"]}
;; returns: {"deny": "nothing"}

(func $judge (param $call i32) (result i32) (local $entry i32)
  (if (i32.ne (i32.load $memory offset=156 (local.get $call)) (i32.const 1)) (then (unreachable)))
  (local.set $entry (i32.load $memory offset=152 (local.get $call)))
  (i32.store $memory offset=4 (global.get $returns) (i32.load $memory offset=8 (local.get $entry)))
  (i32.store $memory offset=8 (global.get $returns) (i32.load $memory offset=12 (local.get $entry)))
  (global.get $returns))
"#,
};

#[test]
fn g7_a_gate_is_shown_the_keys_that_it_declares_and_no_others() {
    let rig = Rig::new();
    let gate = rig.load_gate("tells", TELLS_WHAT_IT_SEES.bytes()).unwrap();
    let keys = [("kit.hidden", json!("H")), ("kit.seen", json!("S")), ("notes.items", json!({"n": 1}))];
    let state = State::restored(3, keys.map(|(key, value)| (key.to_owned(), value)));
    let verdict = rig.judge(&gate, &GateQuestion { state, ..GateQuestion::default() }).unwrap();
    assert_eq!(verdict, Verdict::Deny("\"S\"".to_owned()));
    let fault = rig.judge(&gate, &GateQuestion::default()).unwrap_err();
    assert_eq!(fault.code, Code::Trapped, "where nothing is set, it is shown nothing");
}

#[test]
fn z3_state_is_measured_before_a_gate_or_a_tool_is_shown_it() {
    let rig = Rig::with(SandboxConfig { memory_budget_bytes: 12 << 20, ..SandboxConfig::default() });
    let gate = rig.load_gate("tells", TELLS_WHAT_IT_SEES.bytes()).unwrap();
    let limits = GateLimits { memory_bytes: 4 << 20, ..GateLimits::default() };
    let gate = rig.configure(gate, &json!({}), limits).unwrap();
    let judged = |bytes: usize| {
        let state = State::restored(1, [("kit.seen".to_owned(), json!("x".repeat(bytes)))]);
        rig.judge(&gate, &GateQuestion { state, ..GateQuestion::default() })
    };
    assert!(matches!(judged(1 << 20), Ok(Verdict::Deny(_))));
    // The host has no memory for the text; the gate's own memory is not asked for.
    assert_eq!(judged(14 << 20).unwrap_err().code, Code::Overloaded);
    assert_eq!(judged(17 << 20).unwrap_err().code, Code::TooLarge);
}

const ANSWERS_MUCH: Guest = Guest {
    name: "answers-much",
    attack: "",
    limit: "",
    expects: Expectation::Succeeds,
    source: r#";; Answers in the tool's place with a text of 8 million bytes.
;;
;; kind: gate
;; returns: {"set-result": {"status": "success", "data": {"$join": ["\"", {"$repeat": ["a", 8000000]}, "\""]}}}
"#,
};

#[test]
fn z3_the_memory_of_a_large_verdict_is_reserved_for_as_long_as_it_is_held() {
    let rig = Rig::new();
    let gate = rig.load_gate("answers-much", ANSWERS_MUCH.bytes()).unwrap();
    let (verdict, memory) = rig.answer(&gate, &GateQuestion::default()).unwrap();
    assert!(matches!(verdict, Verdict::SetResult(_)));
    let held = memory.as_ref().map_or(0, |memory| memory.bytes());
    assert!(held >= 8_000_000, "{held}");
    assert_eq!(rig.sandbox().memory_budget().reserved_bytes(), held);
    drop((verdict, memory));
    assert_eq!(rig.sandbox().memory_budget().reserved_bytes(), 0);
}
