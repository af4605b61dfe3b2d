//! Counters and histograms of audit records.

use crate::store::{AuditKind, AuditRecord};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tollgate_agent::outcome::Usage;

/// The maximum number of distinct tools; the others are counted together.
const MAX_TOOLS: usize = 200;
/// The label of all other tools.
const OTHERS: &str = "(others)";
/// The powers for whose lack a call may be denied.
const POWERS: [&str; 4] = ["http", "files", "sockets", "delegates"];

/// Counters and histograms.
pub(super) struct Instruments {
    calls: Family<Call, Counter>,
    durations: Family<Tool, Histogram, fn() -> Histogram>,
    fuel: Family<Tool, Counter>,
    undercounted: Family<Tool, Counter>,
    memory: Histogram,
    denials: Family<Denial, Counter>,
    loads: Family<Load, Counter>,
    tools: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    tool: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tool {
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Denial {
    power: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Load {
    outcome: &'static str,
}

impl Instruments {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let recorded = Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 10))),
            fuel: Family::default(),
            undercounted: Family::default(),
            memory: Histogram::new(exponential_buckets(65_536.0, 4.0, 8)),
            denials: Family::default(),
            loads: Family::default(),
            tools: Mutex::default(),
        };
        registry.register("calls", "Ended calls, by tool and outcome", recorded.calls.clone());
        let help = "Wall time of calls, all attempts together";
        registry.register_with_unit("call_duration", help, Unit::Seconds, recorded.durations.clone());
        registry.register("fuel", "Units of wasm fuel that calls used", recorded.fuel.clone());
        let help = "Calls that were stopped from outside: their fuel and memory are counted as at least";
        registry.register("undercounted_calls", help, recorded.undercounted.clone());
        let help = "The most memory that a call held";
        registry.register_with_unit("call_memory", help, Unit::Bytes, recorded.memory.clone());
        let help = "Powers that calls tried and were not granted";
        registry.register("refused_powers", help, recorded.denials.clone());
        let help = "Components that were loaded, refused and removed";
        registry.register("loads", help, recorded.loads.clone());
        recorded
    }

    pub(super) fn count(&self, record: &AuditRecord) {
        match record.kind {
            AuditKind::Load => self.count_load("served"),
            AuditKind::Refusal => self.count_load("refused"),
            AuditKind::Removal => self.count_load("removed"),
            AuditKind::Denial if record.power.is_some() => {
                let power = record.power.as_deref().unwrap_or_default();
                let power = POWERS.iter().find(|known| **known == power).unwrap_or(&OTHERS);
                self.denials.get_or_create(&Denial { power }).inc();
            }
            AuditKind::Call | AuditKind::Denial => self.count_call(record),
            AuditKind::Grant | AuditKind::Revocation | AuditKind::Enabling | AuditKind::Decision => {}
        }
    }

    fn count_load(&self, outcome: &'static str) {
        self.loads.get_or_create(&Load { outcome }).inc();
    }

    fn count_call(&self, record: &AuditRecord) {
        let tool = self.told_apart(record);
        // Codes are a fixed list of the host.
        self.calls.get_or_create(&Call { tool: tool.clone(), code: record.decision.to_string() }).inc();
        if let Some(Usage { fuel, wall_us, memory_bytes, at_least, .. }) = record.usage {
            let tool = Tool { tool };
            if at_least {
                self.undercounted.get_or_create(&tool).inc();
            }
            self.fuel.get_or_create(&tool).inc_by(fuel);
            self.durations.get_or_create(&tool).observe(rounded(wall_us) / 1e6);
            self.memory.observe(rounded(memory_bytes));
        }
    }

    /// Returns the tool's label, within the limit on distinct names. A called tool that does not
    /// exist has only a name made up by the model.
    fn told_apart(&self, record: &AuditRecord) -> String {
        let (Some(name), Some(_)) = (&record.tool_name, &record.component_id) else {
            return OTHERS.to_owned();
        };
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if !tools.contains(name.as_str()) {
            if tools.len() >= MAX_TOOLS {
                return OTHERS.to_owned();
            }
            tools.insert(name.to_string());
        }
        name.to_string()
    }
}

/// Converts a count for a histogram, which need not be exact.
#[expect(clippy::cast_precision_loss, reason = "beyond 2^53 the last digits do not matter")]
fn rounded(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    /// Returns the metrics of these records.
    fn lines(records: impl IntoIterator<Item = AuditRecord>) -> Vec<String> {
        let mut registry = Registry::default();
        let recorded = Instruments::registered(&mut registry);
        records.into_iter().for_each(|record| recorded.count(&record));
        let mut text = String::new();
        assert!(encode(&mut text, &registry).is_ok());
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn call(tool: &str) -> AuditRecord {
        AuditRecord::new(AuditKind::Call, "agent direct", "success").of_tool(tool)
    }

    #[test]
    fn names_of_tools_are_told_apart_up_to_a_bound() {
        let served = (0..5_000).map(|number| call(&format!("tool_{number}")).of_component("x", None));
        let unknown = (0..5_000).map(|number| call(&format!("no_tool_{number}")));
        let once_more = call("tool_0").of_component("x", None);
        let lines = lines(served.chain(unknown).chain([once_more]));
        let of_calls = lines.iter().filter(|line| line.starts_with("calls_total{"));
        assert_eq!(of_calls.count(), MAX_TOOLS + 1);
        assert!(lines.contains(&"calls_total{tool=\"tool_0\",code=\"success\"} 2".to_owned()), "{lines:#?}");
        let others = format!("calls_total{{tool=\"(others)\",code=\"success\"}} {}", 10_000 - MAX_TOOLS);
        assert!(lines.contains(&others), "{lines:#?}");
    }

    #[test]
    fn powers_are_words_of_the_host() {
        let denied = ["http", "files", "<script>", "x"].map(|power| {
            AuditRecord::new(AuditKind::Denial, "agent direct", "not_granted").of_tool("t").of_power(power)
        });
        let lines = lines(denied);
        let of_powers: Vec<_> =
            lines.iter().filter(|line| line.starts_with("refused_powers_total{")).collect();
        assert_eq!(of_powers.len(), 3, "{of_powers:?}");
        let is_call = |line: &String| line.starts_with("calls_total{");
        assert!(!lines.iter().any(is_call), "the call itself ends in a record of its own");
    }
}
