//! Each ending has its code, and its sentence names the limit that was reached.
#![allow(clippy::panic)]
use super::*;
use tollgate_agent::limit_places::LimitPlaces;

static PLACES: LimitPlaces =
    LimitPlaces { host: "the settings", attempt: "the settings of {}", ..LimitPlaces::NONE };

fn fault(ending: Termination) -> Fault {
    fault_at(ending, &PLACES)
}

fn fault_at(ending: Termination, limit_places: &'static LimitPlaces) -> Fault {
    let host = SandboxConfig { stack_bytes: 1024, limit_places, ..SandboxConfig::default() };
    let under = CallBounds { limits: &Limits::default(), timeout: Duration::from_secs(5), host: &host };
    ending.fault("name", &under)
}

#[test]
fn t3_a_timeout_says_after_how_long() {
    let fault = fault(Termination::Deadline);
    assert_eq!((fault.code, fault.message.as_str()), (Code::TimedOut, "Tool 'name' timed out after 5.0s"));
}

#[test]
fn a_limit_is_named_with_its_value_and_its_place() {
    let message = fault(Termination::Memory).message;
    let words = "memory_bytes = 67108864. An operator can raise it in the settings of name.";
    assert!(message.ends_with(words), "{message}");
    let message = fault_at(Termination::Memory, &LimitPlaces::NONE).message;
    assert!(message.ends_with("memory_bytes = 67108864. An operator can raise it."), "{message}");
}

#[test]
fn the_stack_and_the_room_for_calls_are_named_with_their_values_and_places() {
    let deep = fault(Termination::Stack).message;
    assert!(deep.contains("stack_bytes = 1024") && deep.ends_with("in the settings."), "{deep}");
    let full = fault(Termination::NoSlot);
    assert!(full.message.contains("Tool 'name'") && !full.message.contains("settings"), "{}", full.message);
    let detail = full.detail.unwrap_or_default();
    for part in [
        "concurrent_calls = 64",
        "waiting_calls = 1024",
        "memory_budget_bytes = 6442450944",
        "component_calls = 48",
        "can raise them in the settings",
    ] {
        assert!(detail.contains(part), "{part} in {detail}");
    }
}

#[test]
fn our_own_stops_are_known_under_any_context() {
    for (stop, code) in [
        (Stop::Memory, Code::OutOfMemory),
        (Stop::TableElements, Code::OutOfResources),
        (Stop::OpenFiles, Code::OutOfResources),
        (Stop::Descriptors, Code::Overloaded),
        (Stop::Crossing, Code::TooLarge),
        (Stop::Boundary, Code::TooLarge),
        (Stop::Fuel, Code::OutOfFuel),
        (Stop::Deadline, Code::TimedOut),
        (Stop::Cancelled, Code::Cancelled),
        (Stop::HostMemory, Code::OutOfMemory),
        (Stop::Budget, Code::Overloaded),
    ] {
        let error = wasmtime::Error::from(stop).context("while something was done");
        assert_eq!(Termination::of(&error).code(), code);
    }
}

#[test]
fn what_wasmtime_has_types_for_is_known_by_type() {
    assert_eq!(Termination::of(&Trap::OutOfFuel.into()), Termination::Fuel);
    assert_eq!(Termination::of(&Trap::StackOverflow.into()), Termination::Stack);
    assert_eq!(Termination::of(&I32Exit(3).into()), Termination::Exited(3));
    assert_eq!(Termination::of(&ResourceTableError::Full.into()), Termination::Handles);
    let aborted = Termination::of(&Trap::UnreachableCodeReached.into());
    assert_eq!(aborted.code(), Code::Trapped);
    assert!(fault(aborted).message.contains("trapped: it aborted"));
}

#[test]
fn what_the_system_refuses_is_the_hosts_failure() {
    #[derive(Debug, thiserror::Error)]
    #[error("sealing")]
    struct Within(#[source] std::io::Error);
    let busy = rustix::io::Errno::BUSY;
    let refusals = [busy.into(), std::io::Error::from(busy).into(), Within(busy.into()).into()];
    let refusals: [wasmtime::Error; 3] = refusals;
    for refused in refusals.map(|error| error.context("no memory can be mapped")) {
        let Termination::Host(why) = Termination::of(&refused) else { panic!("{refused:?}") };
        assert!(why.contains("no memory can be mapped") && why.contains("os error 16"), "{why}");
    }
}

#[test]
fn the_hosts_failure_is_told_to_the_operator_alone() {
    let fault = fault(Termination::Host("a secret path".to_owned()));
    assert!(!fault.message.contains("secret"));
    assert_eq!(fault.detail.as_deref(), Some("a secret path"));
}
