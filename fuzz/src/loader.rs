//! Fuzzes bytes that claim to be a component, from the first check to the description.

use std::sync::OnceLock;
use tollgate_sandbox::{Allocation, Sandbox, SandboxConfig};

/// The longest reason shown to a person, in bytes.
const MAX_REASON_BYTES: usize = 4 << 10;

pub(crate) fn run(bytes: &[u8]) {
    let loaded = crate::runtime().block_on(sandbox().load_bytes("fuzzed.wasm", bytes.to_vec()));
    match loaded {
        Ok(component) => assert!(!component.digest().is_empty()),
        Err(refusal) => {
            let reason = refusal.to_string();
            assert!(reason.len() <= MAX_REASON_BYTES, "a reason of {} bytes", reason.len());
            let escapes = reason.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
            assert!(!escapes, "a reason with control characters: {reason:?}");
        }
    }
}

/// Returns the sandbox shared by all inputs. The code compiled is small, so that it needs no
/// child process.
pub(crate) fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let config = SandboxConfig { allocation: Allocation::OnDemand, ..SandboxConfig::default() };
        Sandbox::new(config).unwrap()
    })
}
