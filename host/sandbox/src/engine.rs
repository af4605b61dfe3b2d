//! The engine: which wasm is accepted, and how instances get their memory.
//!
//! A fresh instance for each call is affordable because memories, tables and
//! stacks come from a pool and go back to it nearly clean: what costs is not wasm,
//! it is the system calls that map memory, take page faults and shoot down the
//! other cores' address translations.

use crate::config::{Allocation, SandboxConfig};
use crate::error::SandboxError;
use crate::load::IMAGE_SLACK_BYTES;
use std::num::NonZeroUsize;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Bytes of a memory that are cleared by hand for the next call, instead of being
/// given back to the system and faulted in again.
const MEMORY_KEEP_RESIDENT: usize = 2 << 20;
/// The same of a table.
const TABLE_KEEP_RESIDENT: usize = 64 << 10;
/// Stack beyond the wasm code's own, for the host functions that it calls.
const HOST_STACK_BYTES: usize = 1536 << 10;

/// How linear memories lie in the address space. Compiled code relies on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each has its whole address space reserved, with guards: no bounds are checked.
    Guarded,
    /// Each takes what it uses, and bounds are checked: where address space is short.
    Compact,
}

/// An engine, and how it came about.
pub(crate) struct Made {
    pub(crate) engine: Engine,
    pub(crate) layout: Layout,
    /// Why it is not as fast as it could be.
    pub(crate) notice: Option<String>,
}

/// Makes the engine. Where no pool can be had (a small address space, say) it maps
/// memory for each call instead.
pub(crate) fn engine(config: &SandboxConfig) -> Result<Made, SandboxError> {
    let on_demand = |layout, notice| {
        let engine = Engine::new(&wasm(config.stack_bytes, layout)).map_err(cannot_be_made)?;
        Ok(Made { engine, layout, notice })
    };
    if config.allocation == Allocation::OnDemand {
        return on_demand(layout_on_demand(), None);
    }
    let mut pooled = wasm(config.stack_bytes, Layout::Guarded);
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(config)));
    match Engine::new(&pooled) {
        Ok(engine) => Ok(Made { engine, layout: Layout::Guarded, notice: None }),
        Err(why) => {
            let notice = format!(
                "memory is mapped anew for each call, which is slower: the pool cannot be made ({why:#}); \
                 raise the limit on address space (ulimit -v), or lower the number of concurrent calls"
            );
            on_demand(layout_on_demand(), Some(notice))
        }
    }
}

/// An engine that only compiles, for engines of this layout: it reserves nothing.
pub(crate) fn compiling_engine(layout: Layout) -> Result<Engine, SandboxError> {
    Engine::new(&wasm(SandboxConfig::default().stack_bytes, layout)).map_err(cannot_be_made)
}

fn cannot_be_made(why: wasmtime::Error) -> SandboxError {
    SandboxError::new(format!("the wasm engine cannot be made: {why:#}"))
}

/// A process whose address space is bounded cannot give 4 GiB of it to each memory.
fn layout_on_demand() -> Layout {
    match rustix::process::getrlimit(rustix::process::Resource::As).current {
        Some(_) => Layout::Compact,
        None => Layout::Guarded,
    }
}

fn wasm(stack_bytes: usize, layout: Layout) -> Config {
    let mut wasm = Config::new();
    // The same input is cut at the same place, on every machine.
    wasm.consume_fuel(true);
    wasm.relaxed_simd_deterministic(true);
    // A guest that computes is interrupted at each tick: see `ticker`.
    wasm.epoch_interruption(true);
    // Host functions run on the guest's stack, and must not run out of it.
    wasm.max_wasm_stack(stack_bytes);
    wasm.async_stack_size(stack_bytes + HOST_STACK_BYTES);
    // No component feature that needs it is compiled in; each store is cheaper.
    wasm.concurrency_support(false);
    // Tools do not need more than 4 GiB; bounds checks without it are free.
    wasm.wasm_memory64(false);
    // Where a guest trapped is told by function, from a bounded number of frames;
    // the tables for more would only take memory.
    wasm.wasm_backtrace_max_frames(NonZeroUsize::new(16));
    wasm.generate_address_map(false);
    wasm.native_unwind_info(cfg!(windows));
    // The images of memories are in the compiled code, once more in memory, and as large as
    // their data lies apart. Sparse ones are decided about in `load::census`; this is
    // the compiler's own bound behind it.
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
    // As many again may wait for child runs, and keep what they have.
    let calls = config.concurrent_calls.max(1).saturating_mul(2);
    let mut pool = PoolingAllocationConfig::new();
    // One instance and one stack for each call that runs. A hostile call that takes
    // all that its limits allow leaves the others theirs.
    pool.total_component_instances(calls);
    pool.total_stacks(calls);
    pool.total_core_instances(calls.saturating_mul(ceiling.instances));
    // Each memory and table in use is a few mappings, of which a process may have
    // only so many.
    let mappings = max_mappings() / 8;
    pool.total_memories(calls.saturating_mul(ceiling.memories).min(mappings));
    pool.total_tables(calls.saturating_mul(ceiling.tables).min(mappings));
    // The limiter of each call is stricter; these are what the slots are sized by.
    pool.max_memory_size(usize::try_from(ceiling.memory_bytes).unwrap_or(usize::MAX));
    pool.table_elements(usize::try_from(ceiling.table_elements).unwrap_or(usize::MAX));
    pool.max_memories_per_module(ceiling.memories);
    pool.max_tables_per_module(ceiling.tables);
    // A Python tool is fourteen core instances with many functions each.
    pool.max_component_instance_size(16 << 20);
    pool.max_core_instance_size(4 << 20);
    // Dirty pages are found by one system call and cleared in place, so that the
    // next call faults nothing in. Without the scan this would clear them all.
    pool.linear_memory_keep_resident(MEMORY_KEEP_RESIDENT);
    pool.table_keep_resident(TABLE_KEEP_RESIDENT);
    pool.pagemap_scan(Enabled::Auto);
    // What is kept resident is memory that does not come back: so many slots of it.
    let warm = config.warm_bytes / MEMORY_KEEP_RESIDENT as u64;
    pool.max_unused_warm_slots(u32::try_from(warm).unwrap_or(u32::MAX));
    pool
}

/// How many memory mappings a process may have; Linux's default where unknown.
fn max_mappings() -> u32 {
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(65_530)
}
