//! The limits of compiling.

use std::time::Duration;
use tollgate_agent::limit_places::LimitPlaces;

/// Additional bytes of the compiled form for each byte of the component.
pub const COMPILED_BYTES_PER_BYTE: u64 = 64;

/// The limits for compiling one component, and the result.
#[derive(Debug)]
pub(super) struct CompileLimits {
    pub(super) cpu: Duration,
    pub(super) wall: Duration,
    pub(super) memory_bytes: u64,
    pub(super) compiled_bytes: u64,
    pub(super) cache_bytes: u64,
    pub(super) places: &'static LimitPlaces,
}

impl CompileLimits {
    /// Returns the maximum size in bytes of the compiled form of a component of this size.
    pub(super) fn artifact_bytes(&self, component_bytes: usize) -> u64 {
        let for_its_size = (component_bytes as u64).saturating_mul(COMPILED_BYTES_PER_BYTE);
        self.compiled_bytes.saturating_add(for_its_size).min(self.cache_bytes / 4)
    }
}
