//! Prometheus metrics of a server since its start.
//!
//! The counters follow the audit records as they are stored: [`Metrics::observing`] wraps a store
//! and counts. The load of the sandbox and the served tools are looked up for each scrape. Names
//! of tools come from guests, those of models from providers, and those of principals from the
//! operator, so the number of distinct names is limited. All other labels are words of the host.

mod instruments;
mod observed_store;

use crate::Host;
use crate::store::Store;
use instruments::Instruments;
use observed_store::ObservedStore;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use tollgate_sandbox::Sandbox;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters for the life of the process. Cheap to clone; clones share their counts.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<MetricsState>,
}

struct MetricsState {
    sandbox: Sandbox,
    registry: Registry,
    recorded: Arc<Instruments>,
    gauges: Gauges,
}

/// Gauges, set for each scrape.
#[derive(Default)]
struct Gauges {
    running_calls: Gauge,
    waiting_calls: Gauge,
    lending_calls: Gauge,
    reserved: Gauge,
    budget: Gauge,
    tools: Gauge,
    refused_files: Gauge,
    resident: Gauge,
}

impl Metrics {
    /// Creates metrics for a host whose components run in this sandbox.
    #[must_use]
    pub fn new(sandbox: Sandbox) -> Self {
        let mut registry = Registry::with_prefix("tollgate");
        let recorded = Arc::new(Instruments::register(&mut registry));
        let gauges = Gauges::register(&mut registry);
        gauges.budget.set(signed(sandbox.config().memory_budget_bytes));
        Self { inner: Arc::new(MetricsState { sandbox, registry, recorded, gauges }) }
    }

    /// Wraps a store to count the records of its audit.
    #[must_use]
    pub fn observing(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(ObservedStore::new(store, Arc::clone(&self.inner.recorded)))
    }

    /// Returns all metrics in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self, host: &Host) -> String {
        self.inner.gauges.sample(&self.inner.sandbox, host);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.inner.registry);
        text
    }
}

impl Gauges {
    fn register(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        let mut of = |name: &str, help: &str, gauge: &Gauge| registry.register(name, help, gauge.clone());
        of("running_calls", "Calls that run", &gauges.running_calls);
        of("waiting_calls", "Calls that wait for their turn", &gauges.waiting_calls);
        of("lending_calls", "Calls that wait for a child run", &gauges.lending_calls);
        of("tools", "Tools that are served", &gauges.tools);
        of("refused_files", "Files that are not served", &gauges.refused_files);
        let mut bytes = |name: &str, help: &str, gauge: &Gauge| {
            registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        };
        bytes("reserved_memory", "Wasm memory reserved for calls", &gauges.reserved);
        bytes("memory_budget", "Limit on the wasm memory of all calls together", &gauges.budget);
        bytes("resident_memory", "Resident memory of the process", &gauges.resident);
        gauges
    }

    fn sample(&self, sandbox: &Sandbox, host: &Host) {
        let occupancy = sandbox.occupancy();
        self.running_calls.set(occupancy.running_calls.into());
        self.waiting_calls.set(occupancy.waiting_calls.into());
        self.lending_calls.set(occupancy.lending_calls.into());
        self.reserved.set(signed(occupancy.memory_bytes));
        let toolbox = host.toolbox();
        self.tools.set(i64::try_from(toolbox.catalog().tools().count()).unwrap_or(i64::MAX));
        self.refused_files.set(i64::try_from(toolbox.refused().len()).unwrap_or(i64::MAX));
        self.resident.set(resident_bytes().map_or(0, signed));
    }
}

/// Returns the resident memory of this process; `None` if the system does not report it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
