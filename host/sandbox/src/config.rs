//! How large the sandbox is: what all calls together may use.

use crate::compile::{COMPILE_CPU, COMPILE_WALL, COMPILED_BYTES, Compiler};
use crate::component_places::most_of;
use crate::limits::Limits;
use crate::load::LOADED_CODE_BYTES;
use std::path::PathBuf;
use std::time::Duration;

/// What the host gives to all tools together, and the ceiling for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Bytes that the host may spend for guests, clients and remote servers together: wasm
    /// memory, parsed values, bodies, listings. A call takes its own limit from it for as
    /// long as it runs, and what the host holds for it beyond that.
    pub memory_budget_bytes: u64,
    /// Calls that run at once; those beyond wait.
    pub concurrent_calls: u32,
    /// Calls of one component that run at once; those beyond wait. Without it, three
    /// quarters of `concurrent_calls`, rounded up, so that other components have places.
    pub component_calls: Option<u32>,
    /// Calls that may wait for their turn; those beyond are answered `overloaded`.
    pub waiting_calls: u32,
    /// The most that one call may be given; limits above it are lowered.
    pub ceiling: Limits,
    /// The longest timeout that one attempt may be given.
    pub timeout_ceiling: Duration,
    /// Bytes of stack for wasm code.
    pub stack_bytes: usize,
    /// Where instances get their memory.
    pub allocation: Allocation,
    /// Bytes of memory that stay resident for the next call after calls ended.
    pub warm_bytes: u64,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// Processor time for compiling one component, where that is done by a child. The
    /// system counts whole seconds, and rounds up.
    pub compile_cpu: Duration,
    /// Time for compiling one component, where that is done by a child, on a machine
    /// that is busy with other things.
    pub compile_wall: Duration,
    /// Bytes of the compiled form of one component, beside 64 for each of its own bytes;
    /// a quarter of `cache_bytes` at most.
    pub compiled_bytes: u64,
    /// Bytes of the compiled forms of all components that are loaded.
    pub loaded_code_bytes: u64,
    /// The directory in which compiled code is kept for the next start, with a key that
    /// authenticates it; this user's alone. Without one, each start compiles anew.
    pub cache_dir: Option<PathBuf>,
    /// Bytes of that directory; what was not used for longest goes first.
    pub cache_bytes: u64,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            memory_budget_bytes: 6 << 30,
            concurrent_calls: 64,
            component_calls: None,
            waiting_calls: 1_024,
            ceiling: Limits {
                fuel: 1_000_000_000_000,
                memory_bytes: 1 << 30,
                host_memory_bytes: 256 << 20,
                table_elements: 1_000_000,
                open_files: 1_024,
                crossing_bytes: 64 << 20,
                boundary_bytes: 512 << 20,
                console_bytes: 1 << 20,
                reports: 100_000,
                report_bytes: 64 << 10,
                reports_bytes: 16 << 20,
                random_bytes: 1 << 20,
                http_requests: 10_000,
                http_body_bytes: 64 << 20,
                written_bytes: 4 << 30,
                ..Limits::default()
            },
            timeout_ceiling: Duration::from_secs(300),
            stack_bytes: 512 << 10,
            allocation: Allocation::Pooled,
            warm_bytes: 64 << 20,
            compiler: Compiler::InProcess,
            compile_cpu: COMPILE_CPU,
            compile_wall: COMPILE_WALL,
            compiled_bytes: COMPILED_BYTES,
            loaded_code_bytes: LOADED_CODE_BYTES,
            cache_dir: None,
            cache_bytes: 1 << 30,
        }
    }
}

impl SandboxConfig {
    /// Calls of one component that run at once, whether that was set or not.
    #[must_use]
    pub fn component_calls(&self) -> u32 {
        let calls = self.concurrent_calls.max(1);
        self.component_calls.unwrap_or(most_of(calls)).clamp(1, calls)
    }
}

/// Where instances get their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// From a pool that is reserved at the start; several times faster. Where no
    /// pool can be had, from the system.
    Pooled,
    /// From the system, anew for each call.
    OnDemand,
}
