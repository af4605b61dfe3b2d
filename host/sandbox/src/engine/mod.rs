//! The engine: the wasm features that are accepted, and memory allocation for instances.
//!
//! A fresh instance for each call is affordable because memories, tables and stacks come from a
//! pool and return to it nearly clean. The expensive part is not wasm but the system calls that
//! map memory, the page faults and the TLB shootdowns on other cores.

mod compatibility;

pub(crate) use compatibility::Compatibility;

use crate::config::{Allocation, SandboxConfig};
use crate::error::SandboxError;
use std::num::NonZeroUsize;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// How many bytes the image of a memory may exceed twice its data. Go omits runs of zeros, so its
/// images are two thirds larger than their data.
pub const IMAGE_SLACK_BYTES: u64 = 64 << 10;
/// Bytes of a memory that are zeroed for the next call, instead of being returned to the system
/// and faulted in again.
const MEMORY_KEEP_RESIDENT: usize = 2 << 20;
/// Bytes of a table that are zeroed for the next call.
const TABLE_KEEP_RESIDENT: usize = 64 << 10;
/// Stack for host functions, in addition to the wasm code's own.
const HOST_STACK_BYTES: usize = 1536 << 10;

/// The layout of linear memories in the address space. Compiled code depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Reserves the whole address space of each memory, with guards; needs no bounds checks.
    Guarded,
    /// Maps only the used part of each memory, with bounds checks, for processes short of address
    /// space.
    Compact,
}

/// An engine, and a notice about how it was made.
pub(crate) struct NewEngine {
    pub(crate) engine: Engine,
    pub(crate) layout: Layout,
    /// Why the engine is slower than it could be.
    pub(crate) notice: Option<String>,
}

/// Creates the engine. If no pool can be reserved (for example, for lack of address space),
/// memory is mapped for each call instead.
pub(crate) fn engine(config: &SandboxConfig) -> Result<NewEngine, SandboxError> {
    let on_demand = |layout, notice| {
        let engine = Engine::new(&wasm(config.stack_bytes, layout)).map_err(cannot_be_made)?;
        Ok(NewEngine { engine, layout, notice })
    };
    if config.allocation == Allocation::OnDemand {
        return on_demand(layout_on_demand(), None);
    }
    let mut pooled = wasm(config.stack_bytes, Layout::Guarded);
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(config)));
    match Engine::new(&pooled) {
        Ok(engine) => Ok(NewEngine { engine, layout: Layout::Guarded, notice: None }),
        Err(why) => {
            let notice = format!(
                "memory is mapped anew for each call, which is slower: the pool cannot be created ({why:#}); \
                 raise the limit on address space (ulimit -v), or lower the number of concurrent calls"
            );
            on_demand(layout_on_demand(), Some(notice))
        }
    }
}

/// Creates an engine that only compiles, for engines of this layout. It reserves nothing.
pub(crate) fn compiling_engine(layout: Layout) -> Result<Engine, SandboxError> {
    Engine::new(&wasm(SandboxConfig::default().stack_bytes, layout)).map_err(cannot_be_made)
}

fn cannot_be_made(why: wasmtime::Error) -> SandboxError {
    SandboxError::new(format!("cannot create the wasm engine: {why:#}"))
}

/// Returns the layout for memory that is mapped for each call. A process with limited address space
/// cannot reserve 4 GiB for each memory.
fn layout_on_demand() -> Layout {
    match rustix::process::getrlimit(rustix::process::Resource::As).current {
        Some(_) => Layout::Compact,
        None => Layout::Guarded,
    }
}

fn wasm(stack_bytes: usize, layout: Layout) -> Config {
    let mut wasm = Config::new();
    // The same input is interrupted at the same instruction on every machine.
    wasm.consume_fuel(true);
    wasm.relaxed_simd_deterministic(true);
    // A guest that computes is interrupted at each tick: see `ticker`.
    wasm.epoch_interruption(true);
    // Host functions run on the guest's stack and must not overflow it.
    wasm.max_wasm_stack(stack_bytes);
    wasm.async_stack_size(stack_bytes + HOST_STACK_BYTES);
    // No component feature that needs it is compiled in; stores are cheaper without it.
    wasm.concurrency_support(false);
    // Tools do not need more than 4 GiB; without 64-bit memories, bounds checks are free.
    wasm.wasm_memory64(false);
    // Trap locations are reported by function, with a limited number of frames. Tables with more
    // detail would only take memory.
    wasm.wasm_backtrace_max_frames(NonZeroUsize::new(16));
    wasm.generate_address_map(false);
    wasm.native_unwind_info(cfg!(windows));
    // A memory's image is stored in the compiled code and again in memory, and spans the distance
    // between its data segments. Sparse images are rejected in `load::census`; this is the
    // compiler's own limit as a second check.
    wasm.memory_guaranteed_dense_image_size(IMAGE_SLACK_BYTES);
    if layout == Layout::Compact {
        wasm.memory_reservation(0);
        wasm.memory_reservation_for_growth(1 << 20);
        wasm.memory_guard_size(0);
        wasm.guard_before_linear_memory(false);
    }
    wasm
}

fn pool(config: &SandboxConfig) -> PoolingAllocationConfig {
    let ceiling = &config.ceiling;
    // The same number of calls may wait for child runs and keep their memory.
    let calls = config.concurrent_calls.max(1).saturating_mul(2);
    let mut pool = PoolingAllocationConfig::new();
    // One instance and one stack per running call. A hostile call that uses all of its limits
    // leaves the others theirs.
    pool.total_component_instances(calls);
    pool.total_stacks(calls);
    pool.total_core_instances(calls.saturating_mul(ceiling.instances));
    // Each memory and table in use needs a few mappings, and a process has a limited number.
    let mappings = max_mappings() / 8;
    pool.total_memories(calls.saturating_mul(ceiling.memories).min(mappings));
    pool.total_tables(calls.saturating_mul(ceiling.tables).min(mappings));
    // The limiter of each call is stricter; these values determine the size of the slots.
    pool.max_memory_size(usize::try_from(ceiling.memory_bytes).unwrap_or(usize::MAX));
    pool.table_elements(usize::try_from(ceiling.table_elements).unwrap_or(usize::MAX));
    pool.max_memories_per_module(ceiling.memories);
    pool.max_tables_per_module(ceiling.tables);
    // A Python tool has fourteen core instances with many functions each.
    pool.max_component_instance_size(16 << 20);
    pool.max_core_instance_size(4 << 20);
    // One system call finds the dirty pages, which are zeroed in place, so that the next call has
    // no page faults. Without the scan all pages would be zeroed.
    pool.linear_memory_keep_resident(MEMORY_KEEP_RESIDENT);
    pool.table_keep_resident(TABLE_KEEP_RESIDENT);
    pool.pagemap_scan(Enabled::Auto);
    // Resident memory is not returned to the system, so it limits the number of warm slots.
    let warm = config.warm_bytes / MEMORY_KEEP_RESIDENT as u64;
    pool.max_unused_warm_slots(u32::try_from(warm).unwrap_or(u32::MAX));
    pool
}

/// Returns how many memory mappings a process may have; Linux's default if unknown.
fn max_mappings() -> u32 {
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(65_530)
}
