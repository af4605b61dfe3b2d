//! Counters and histograms of audit records.

use crate::store::{AuditKind, AuditRecord};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tollgate_agent::message::{ModelReply, TokenUsage};
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::{Event, RunSpec, StoredEvent};

/// The maximum number of distinct tools, of principals and of models; the others are counted
/// together.
const MAX_NAMES: usize = 200;
/// The label of all others.
const OTHERS: &str = "(others)";
/// The powers that a call may be denied for lack of a grant.
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
    decisions: Family<DecisionLabels, Counter>,
    runs: Family<StartLabels, Counter>,
    replies: Family<ReplyLabels, Counter>,
    tokens: Family<Tokens, Counter>,
    tools: Names,
    principals: Names,
    models: Names,
}

/// The names that one label has had so far.
#[derive(Default)]
struct Names(Mutex<BTreeSet<String>>);

impl Names {
    /// Returns the name, or the label of all others beyond the limit on distinct names.
    fn label(&self, name: &str) -> String {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(name) {
            if names.len() >= MAX_NAMES {
                return OTHERS.to_owned();
            }
            names.insert(name.to_owned());
        }
        name.to_owned()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    by: String,
    answer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StartLabels {
    principal: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReplyLabels {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tokens {
    model: String,
    direction: &'static str,
}

/// The facts of a commit that no audit record has: by whom a run was begun, and which models
/// replied.
pub(super) enum Fact {
    Begun(Arc<RunSpec>),
    Replied(Arc<ModelReply>),
}

impl Fact {
    pub(super) fn of(stored: &StoredEvent) -> Option<Self> {
        match &stored.event {
            Event::RunStarted { spec } => Some(Self::Begun(Arc::clone(spec))),
            Event::ModelReplied { reply, .. } => Some(Self::Replied(Arc::clone(reply))),
            _ => None,
        }
    }
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
    pub(super) fn register(registry: &mut Registry) -> Self {
        let recorded = Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 10))),
            fuel: Family::default(),
            undercounted: Family::default(),
            memory: Histogram::new(exponential_buckets(65_536.0, 4.0, 8)),
            denials: Family::default(),
            loads: Family::default(),
            decisions: Family::default(),
            runs: Family::default(),
            replies: Family::default(),
            tokens: Family::default(),
            tools: Names::default(),
            principals: Names::default(),
            models: Names::default(),
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
        let help = "Answers to questions, by who answered";
        registry.register("decisions", help, recorded.decisions.clone());
        let help = "Runs and direct calls that began, by who asked";
        registry.register("runs", help, recorded.runs.clone());
        registry.register("model_replies", "Replies, by model", recorded.replies.clone());
        let help = "Tokens that models read and wrote";
        registry.register("model_tokens", help, recorded.tokens.clone());
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
            AuditKind::Decision => self.count_decision(record),
            AuditKind::Grant
            | AuditKind::Revocation
            | AuditKind::Enabling
            | AuditKind::SignIn
            | AuditKind::Key => {}
        }
    }

    pub(super) fn count_fact(&self, fact: &Fact) {
        match fact {
            // A child runs for the principal of its parent.
            Fact::Begun(spec) if spec.identity.parent_run_id.is_none() => {
                let principal = spec.identity.principal.as_deref().unwrap_or_default();
                let principal = self.principals.label(principal);
                self.runs.get_or_create(&StartLabels { principal }).inc();
            }
            Fact::Begun(_) => {}
            Fact::Replied(reply) => {
                let Some(model) = &reply.model else { return };
                let model = self.models.label(model);
                let TokenUsage { input_tokens, output_tokens } = reply.usage;
                for (direction, tokens) in [("read", input_tokens), ("written", output_tokens)] {
                    let label = Tokens { model: model.clone(), direction };
                    self.tokens.get_or_create(&label).inc_by(tokens);
                }
                self.replies.get_or_create(&ReplyLabels { model }).inc();
            }
        }
    }

    fn count_decision(&self, record: &AuditRecord) {
        // Answers on the command line have no principal.
        let by =
            ["person ", "key "].iter().find_map(|actor| record.who.strip_prefix(*actor)).unwrap_or_default();
        let label = DecisionLabels { by: self.principals.label(by), answer: record.decision.to_string() };
        self.decisions.get_or_create(&label).inc();
    }

    fn count_load(&self, outcome: &'static str) {
        self.loads.get_or_create(&Load { outcome }).inc();
    }

    fn count_call(&self, record: &AuditRecord) {
        let tool = self.tool_label(record);
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
    fn tool_label(&self, record: &AuditRecord) -> String {
        let (Some(name), Some(_)) = (&record.tool_name, &record.component_id) else {
            return OTHERS.to_owned();
        };
        self.tools.label(name)
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
        lines_of(records, [])
    }

    fn lines_of(
        records: impl IntoIterator<Item = AuditRecord>,
        facts: impl IntoIterator<Item = Fact>,
    ) -> Vec<String> {
        let mut registry = Registry::default();
        let recorded = Instruments::register(&mut registry);
        records.into_iter().for_each(|record| recorded.count(&record));
        facts.into_iter().for_each(|fact| recorded.count_fact(&fact));
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
        assert_eq!(of_calls.count(), MAX_NAMES + 1);
        assert!(lines.contains(&"calls_total{tool=\"tool_0\",code=\"success\"} 2".to_owned()), "{lines:#?}");
        let others = format!("calls_total{{tool=\"(others)\",code=\"success\"}} {}", 10_000 - MAX_NAMES);
        assert!(lines.contains(&others), "{lines:#?}");
    }

    #[test]
    fn decisions_runs_and_models_are_counted_by_name_up_to_a_bound() {
        let decided = (0..MAX_NAMES + 5).map(|number| {
            let actor = if number == 1 { "key" } else { "person" };
            AuditRecord::new(AuditKind::Decision, format!("{actor} p{number}"), "resumed")
        });
        let unnamed = AuditRecord::new(AuditKind::Decision, "person", "cancelled");
        let usage = TokenUsage { input_tokens: 7, output_tokens: 3 };
        let replied = (0..MAX_NAMES + 5).map(|number| {
            let model = Some(format!("m{number}").into());
            Fact::Replied(Arc::new(ModelReply { model, usage, ..ModelReply::default() }))
        });
        let lines = lines_of([unnamed].into_iter().chain(decided), replied);
        let of_decisions = lines.iter().filter(|line| line.starts_with("decisions_total{"));
        assert_eq!(of_decisions.count(), MAX_NAMES + 1);
        for line in [
            "decisions_total{by=\"\",answer=\"cancelled\"} 1",
            "decisions_total{by=\"p0\",answer=\"resumed\"} 1",
            "decisions_total{by=\"p1\",answer=\"resumed\"} 1",
            "decisions_total{by=\"(others)\",answer=\"resumed\"} 6",
            "model_replies_total{model=\"m0\"} 1",
            "model_replies_total{model=\"(others)\"} 5",
            "model_tokens_total{model=\"m0\",direction=\"read\"} 7",
            "model_tokens_total{model=\"(others)\",direction=\"written\"} 15",
        ] {
            assert!(lines.contains(&line.to_owned()), "{line}: {lines:#?}");
        }
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
