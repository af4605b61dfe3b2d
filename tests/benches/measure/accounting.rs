//! The cost of counting: everything that one governed call does only to bound the work of the host, done by
//! itself. The check against the schema would be needed without limits too, so it is measured separately.

use super::governed;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tollgate::CallRequest;
use tollgate::tools::Toolbox;
use tollgate_agent::json::{self, LazyJson};
use tollgate_agent::run::Event;
use tollgate_agent::schema::Schema;
use tollgate_sandbox::{Limits, MemoryBudget, SandboxConfig};

/// Texts up to this size are not measured.
const UNMEASURED_BYTES: usize = 4 << 10;
/// The number of times that bytes are counted between the guest and the host: arguments, context
/// and result, each towards the call's sum and its fuel.
const BOUNDARY_COUNTS: usize = 8;

/// The counting of one call.
pub(crate) struct Accounting {
    budget: MemoryBudget,
    memory_bytes: u64,
    schema: Schema,
    arguments: String,
    value: Value,
    result: String,
    events: Vec<Event>,
    boundary: AtomicU64,
}

impl Accounting {
    /// Makes one governed call, and prepares to count it.
    pub(crate) async fn of_call(toolbox: &Toolbox, tool: &str, arguments: &str) -> Self {
        let host = governed::host(toolbox);
        let end = host.call(CallRequest::from_json(tool, arguments)).await.unwrap();
        let result = match &end.last_call.unwrap().end {
            tollgate_agent::run::CallEnd::Result(result) => serde_json::to_string(&result.data).unwrap(),
            tollgate_agent::run::CallEnd::Fault(fault) => panic!("{fault:?}"),
        };
        let events = host.store().events(&end.run_id, 0).await.unwrap();
        let offered = toolbox.catalog().tools().find(|offered| offered.descriptor.name == tool).unwrap();
        Self {
            budget: MemoryBudget::new(SandboxConfig::default().memory_budget_bytes),
            memory_bytes: Limits::default().memory_bytes,
            schema: Schema::compile(&offered.descriptor.parameters).unwrap(),
            arguments: arguments.to_owned(),
            value: serde_json::from_str(arguments).unwrap(),
            result,
            events: events.iter().map(|stored| stored.event.clone()).collect(),
            boundary: AtomicU64::new(0),
        }
    }

    /// Counts the call once. Returns what was counted, so that nothing is optimized away.
    pub(crate) fn count(&self) -> usize {
        let guest = self.budget.try_reserve(self.memory_bytes).unwrap();
        let arguments = self.measured(&self.arguments).map(|bytes| self.budget.try_reserve(bytes).unwrap());
        let mut held = self.budget.try_reserve(0).unwrap();
        if let Some(bytes) = self.measured(&self.result) {
            assert!(held.try_grow(bytes));
            held.shrink_to(bytes / 2);
        }
        for _ in 0..BOUNDARY_COUNTS {
            self.boundary.fetch_add(self.result.len() as u64, Relaxed);
        }
        let record: usize = self.events.iter().map(json::written_bytes).sum();
        record + usize::from(arguments.is_some()) + usize::from(guest.bytes() > 0)
    }

    /// Checks the arguments against the schema once. Returns the number of violations.
    pub(crate) fn check(&self) -> usize {
        self.schema.violations(&self.value).len()
    }

    /// Returns the bytes that a text is charged with, if it is measured.
    fn measured(&self, text: &str) -> Option<u64> {
        (text.len() > UNMEASURED_BYTES).then(|| {
            let measure = json::measure(text.as_bytes());
            measure.parsed_bytes + LazyJson::held_bytes(text, &measure)
        })
    }
}
