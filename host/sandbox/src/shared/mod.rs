//! The state that all components of a sandbox share: one engine, its ticker, its linkers, the
//! admission of its calls, and the cache of compiled code.

mod code;

use crate::admission::{Admission, Slot};
use crate::compile::CompilerPool;
use crate::component_places::ComponentPlaces;
use crate::config::SandboxConfig;
use crate::error::Refusal;
use crate::instance::{Instance, interrupt};
use crate::limits::Limits;
use crate::load::{Cache, CodeMemory, DescriptionShare};
use crate::termination::Termination;
use crate::ticker::Ticker;
use crate::watchdog::CallDeadline;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use wasmtime::component::Linker;
use wasmtime::{Engine, Store};

/// The state that all components of a sandbox share.
pub(crate) struct Shared {
    pub(crate) config: SandboxConfig,
    pub(crate) ticker: Ticker,
    pub(crate) admission: Admission,
    pub(crate) engine: Engine,
    pub(crate) real: Linker<Instance>,
    pub(crate) sealed: Linker<Instance>,
    pub(crate) compiling: CompilerPool,
    pub(crate) cache: Option<Cache>,
    pub(crate) code_memory: CodeMemory,
    pub(crate) notices: Mutex<Vec<String>>,
}

impl Shared {
    /// Creates a store for one instance, under these limits.
    pub(crate) fn store(&self, instance: Instance, limits: &Limits) -> Result<Store<Instance>, Termination> {
        let mut store = Store::new(&self.engine, instance);
        store.limiter(|instance| &mut instance.meter);
        store.set_hostcall_fuel(usize::try_from(limits.crossing_bytes).unwrap_or(usize::MAX));
        store.set_max_component_handles(limits.handles as usize);
        store.set_fuel(limits.fuel).map_err(|error| Termination::Host(error.to_string()))?;
        interrupt(&mut store);
        Ok(store)
    }

    /// Runs work on a sealed guest within a time limit, after waiting for room up to a separate
    /// limit. The answer is read after the guest's memory is freed, within the same time limit
    /// and charged to the same slot.
    pub(crate) async fn run_sealed<T, R>(
        &self,
        places: Option<&ComponentPlaces>,
        limits: &Limits,
        (patience, timeout): (Duration, Duration),
        work: impl AsyncFnOnce(&mut Store<Instance>, &Arc<Slot>) -> wasmtime::Result<T>,
        read: impl AsyncFnOnce(T, &Arc<Slot>) -> wasmtime::Result<R>,
    ) -> Result<R, Termination> {
        let slot = self.admission.take(places, limits.memory_bytes, patience).await;
        let slot = Arc::new(slot.map_err(|_| Termination::NoSlot)?.under(limits));
        let _ticking = self.ticker.keep_ticking();
        let cancel = CancellationToken::new();
        let term = CallDeadline::new(Instant::now(), timeout, &cancel);
        let mut instance = Instance::sealed(limits, &term);
        instance.meter.charging(Arc::clone(&slot));
        let mut store = self.store(instance, limits)?;
        let answer = term.attend(pin!(work(&mut store, &slot))).await?;
        drop(store);
        term.attend(pin!(read(answer, &slot))).await
    }

    /// Reserves the memory of a description that takes this many bytes once parsed.
    pub(crate) async fn description_memory(
        &self,
        name: &str,
        parsed_bytes: u64,
    ) -> Result<DescriptionShare, Refusal> {
        self.code_memory.reserve_for_description(parsed_bytes).await.map_err(|why| why.refusal(name))
    }
}
