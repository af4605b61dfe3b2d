//! The memory of all compiled code that is loaded.
//!
//! It is reserved before the code is read, and given back when the component is dropped.

use super::Artefact;
use crate::error::Refusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasmtime::Engine;
use wasmtime::component::Component;

/// Bytes of the compiled forms of all components that are loaded, unless the configuration
/// says otherwise.
pub const LOADED_CODE_BYTES: u64 = 2 << 30;

/// What may be loaded, and what is.
pub(crate) struct CodeMemory {
    used_bytes: Arc<AtomicU64>,
    most_bytes: u64,
}

/// A part of the memory for code, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct CodeShare {
    used_bytes: Arc<AtomicU64>,
    bytes: u64,
}

/// Code that can be called, with its part of the memory.
pub(crate) struct LoadedCode {
    pub(crate) component: Component,
    /// Held for as long as the component is.
    pub(crate) share: CodeShare,
}

/// All memory for code is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoRoomForCode {
    bytes: u64,
    used_bytes: u64,
    most_bytes: u64,
}

impl CodeMemory {
    pub(crate) fn new(most_bytes: u64) -> Self {
        Self { used_bytes: Arc::default(), most_bytes }
    }

    /// Reserves this many bytes.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<CodeShare, NoRoomForCode> {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.most_bytes);
        match self.used_bytes.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Ok(CodeShare { used_bytes: Arc::clone(&self.used_bytes), bytes }),
            Err(used_bytes) => Err(NoRoomForCode { bytes, used_bytes, most_bytes: self.most_bytes }),
        }
    }

    /// Bytes that are reserved now.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }
}

impl Drop for CodeShare {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

impl Artefact {
    /// Makes the code callable.
    pub(crate) fn loaded(&self, engine: &Engine, share: CodeShare) -> wasmtime::Result<LoadedCode> {
        Ok(LoadedCode { component: self.load(engine)?, share })
    }
}

impl NoRoomForCode {
    /// Continues a sentence that begins with the component's name.
    pub(crate) fn refusal(self, name: &str) -> Refusal {
        Refusal::for_want_of_room(format!(
            "{name} is not loaded: its compiled form takes {} KiB, and those of the components that are loaded \
             take {} MiB of {} MiB (loaded_code_bytes = {}); remove components, or raise loaded_code_bytes in \
             tollgate.toml, under [limits]",
            self.bytes.div_ceil(1 << 10),
            self.used_bytes.div_ceil(1 << 20),
            self.most_bytes >> 20,
            self.most_bytes
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::Ending;
    use tollgate_agent::code::Code;

    #[test]
    fn z4_memory_for_code_is_bounded_and_comes_back() {
        let memory = CodeMemory::new(100);
        let first = memory.reserve(60);
        assert!(first.is_ok() && memory.reserve(41).is_err() && memory.reserve(u64::MAX).is_err());
        let second = memory.reserve(40);
        assert!(second.is_ok() && memory.used_bytes() == 100);
        drop((first, second));
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn z4_a_call_without_room_for_its_code_is_overloaded_and_no_fault_of_the_host() {
        let full = Ending::of_refusal(Refusal::for_want_of_room("all of it is taken"));
        assert_eq!(full.code(), Code::Overloaded);
        let lost = Ending::of_refusal(Refusal::new("its file is another now"));
        assert_eq!(lost.code(), Code::HostFailed);
    }
}
