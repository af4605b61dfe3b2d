//! Compatibility of compiled code with engines.

use std::fmt;
use std::hash::{Hash as _, Hasher};
use wasmtime::Engine;

/// A digest of everything besides the component that compiled code depends on: the machine, the
/// engine's settings and version, and this crate's version. Engines with the same digest accept
/// each other's artifacts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compatibility(pub(crate) [u8; 32]);

impl Compatibility {
    pub(crate) fn of(engine: &Engine) -> Self {
        let mut hasher = StableHasher(blake3::Hasher::new());
        // This crate reads the component's descriptor, which is stored beside the code.
        hasher.write(concat!("tollgate ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self(*hasher.0.finalize().as_bytes())
    }

    /// Returns a hexadecimal prefix, long enough for a file name.
    pub(crate) fn short(&self) -> String {
        self.0[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Compatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// A stable hasher: the standard library's hashers may change.
struct StableHasher(blake3::Hasher);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.finalize();
        u64::from_le_bytes(std::array::from_fn(|at| digest.as_bytes()[at]))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::{Allocation, SandboxConfig};
    use crate::engine::{Layout, compiling_engine, engine};

    #[test]
    fn pooled_and_compiling_engines_take_each_others_code() {
        let pooled = SandboxConfig::default();
        let on_demand = SandboxConfig { allocation: Allocation::OnDemand, ..SandboxConfig::default() };
        let compiling = compiling_engine(Layout::Guarded).unwrap();
        let of = |config: &SandboxConfig| Compatibility::of(&engine(config).unwrap().engine);
        assert_eq!(of(&pooled), Compatibility::of(&compiling));
        assert_eq!(of(&on_demand), Compatibility::of(&compiling));
        let compact = compiling_engine(Layout::Compact).unwrap();
        assert_ne!(Compatibility::of(&compact), Compatibility::of(&compiling));
    }
}
