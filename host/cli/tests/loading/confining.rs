//! Tests that the process that compiles can do nothing but compile, observed from within and
//! through the system.

use crate::compiling::{PROGRAM, shell, waiting_child};
use std::time::{Duration, Instant};
use tollgate_sandbox::{Sandbox, SandboxConfig};

/// The child is started with descriptors that were not meant for it, tries forbidden actions, and
/// reports which succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn z18_the_process_that_compiles_tries_to_get_out_and_cannot() {
    let line = format!("exec 7</etc/passwd 8>/dev/null 9<>/dev/null; exec '{PROGRAM}' compile-child");
    let config = SandboxConfig { compiler: shell(&line), concurrent_calls: 4, ..SandboxConfig::default() };
    let gaps = Sandbox::new(config).unwrap().compiler_gaps().await.unwrap_or_default();
    assert!(!gaps.contains("it can "), "{gaps}");
    let answered = gaps.is_empty() || gaps.contains("not fully confined: this system lacks ");
    assert!(answered, "{gaps}");
    // Landlock and namespaces are not available everywhere. The rest is available wherever the
    // tests run.
    for mechanism in ["no_new_privs", "seccomp", "descriptors", "capabilities"] {
        assert!(!gaps.contains(mechanism), "{gaps}");
    }
}

/// A program that is not the compiler confines nothing, and that is reported.
#[tokio::test(flavor = "multi_thread")]
async fn z18_a_process_that_is_not_confined_is_reported() {
    let other = SandboxConfig { compiler: shell("exit 1"), concurrent_calls: 4, ..SandboxConfig::default() };
    let gaps = Sandbox::new(other).unwrap().compiler_gaps().await.unwrap();
    assert!(gaps.contains("not fully confined"), "{gaps}");
    let own = SandboxConfig { concurrent_calls: 4, ..SandboxConfig::default() };
    let gaps = Sandbox::new(own).unwrap().compiler_gaps().await.unwrap();
    assert!(gaps.contains("the host's own process"), "{gaps}");
}

#[test]
fn z18_the_system_says_the_same_of_a_child_that_has_read_nothing() {
    let mut child = waiting_child();
    let line = |name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let soon = Instant::now() + Duration::from_secs(20);
    while line("Seccomp") != "2" {
        assert!(Instant::now() < soon, "it is not confined");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(line("NoNewPrivs"), "1");
    for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&line(set), 16).unwrap(), 0, "{set}");
    }
    // In a separate user namespace, the system shows this to root alone.
    if let Ok(open) = std::fs::read_dir(format!("/proc/{}/fd", child.id())) {
        assert_eq!(open.count(), 3, "its pipes and nothing else");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
