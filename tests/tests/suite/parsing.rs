//! Guests' results are measured before they are parsed, and take no more memory of the host than
//! their calls may use.

use std::time::Duration;

use crate::hostile::unlike_documented;
use crate::rig::Rig;
use tollgate_agent::code::Code;
use tollgate_artifacts::{HOSTILE, good, hostile};
use tollgate_sandbox::{Limits, SandboxConfig};

/// The memory that a call may take beyond the guest's own.
const BESIDE_BYTES: u64 = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a field of the system's figures about this process's memory, in bytes.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn z3_to_read_what_a_guest_returned_takes_its_memory_and_32_mib_at_most() {
    let rig = Rig::new();
    let echo = rig.load(&good::ECHO).unwrap();
    rig.call(&echo, "{}", &Limits::default(), PATIENCE);
    let limits = Limits::default();
    let mut attacks = 0;
    let measured = HOSTILE.iter().filter(|guest| ["JSON nodes", "host memory"].contains(&guest.limit));
    for guest in measured.chain([&hostile::OPEN_A_LONG_PATH]) {
        let loaded = rig.load(guest).unwrap();
        // Resets the peak to the current memory.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = memory("VmRSS");
        let ended = Ok(rig.call(&loaded, "{}", &limits, PATIENCE));
        let peak = memory("VmHWM").saturating_sub(before);
        assert_eq!(unlike_documented(guest, &ended), None, "{}", guest.name);
        assert!(peak <= limits.memory_bytes + BESIDE_BYTES, "{} took {} MiB", guest.name, peak >> 20);
        drop(ended);
        assert_eq!(rig.sandbox().memory_budget().reserved_bytes(), 0, "{}", guest.name);
        attacks += 1;
    }
    assert!(attacks >= 8);
}

#[test]
fn z3_an_answer_holds_its_memory_of_the_budget_as_long_as_it_lives() {
    let rig = Rig::new();
    let loaded = rig.load(&hostile::ALL_DIFFERENT_KEYS).unwrap();
    let ended = rig.call(&loaded, "{}", &Limits::default(), PATIENCE);
    let held = rig.sandbox().memory_budget().reserved_bytes();
    assert!(held > 4 << 20, "{held} bytes are held");
    drop(ended);
    assert_eq!(rig.sandbox().memory_budget().reserved_bytes(), 0);
}

#[test]
fn z3_where_the_budget_is_used_up_a_large_answer_is_not_read() {
    let limits = Limits { memory_bytes: 32 << 20, ..Limits::default() };
    let call = |memory_budget_bytes: u64| {
        let rig = Rig::with(SandboxConfig { memory_budget_bytes, ..SandboxConfig::default() });
        let loaded = rig.load(&hostile::ALL_DIFFERENT_KEYS).unwrap();
        rig.call(&loaded, "{}", &limits, PATIENCE)
    };
    let ended = call(32 << 20);
    assert_eq!(ended.code(), Some(Code::Overloaded), "{:?}", ended.result);
    assert!(ended.result.unwrap_err().detail.unwrap().contains("memory_budget_bytes = 33554432"));
    assert!(call(128 << 20).result.is_ok());
}
