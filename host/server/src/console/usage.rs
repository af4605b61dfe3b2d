//! Usage of runs and calls over time, by agent, tool, person or model, with costs if prices are
//! configured.

use super::chart::{self, Bar, ChartParts};
use super::failure::Failure;
use super::filters::Filters;
use super::layout;
use super::nav::{Nav, Section};
use super::runs::SEARCHED_RUNS;
use super::text;
use super::viewer::{Viewer, owner_and_id};
use crate::pricing::{Price, Prices};
use maud::{Markup, html};
use std::collections::{BTreeMap, HashSet};
use tollgate::store::{AuditFilter, AuditKind, AuditRecord, RunFilter, RunSummary};
use tollgate_agent::message::TokenUsage;
use tollgate_agent::run::RunUsage;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// The number of the newest calls that are counted.
const MAX_CALLS: usize = 50_000;

/// The periods: name, label, length, and length of one bar.
const RANGES: [(&str, &str, u64, u64); 3] = [
    ("24h", "24 hours", DAY_MS, HOUR_MS),
    ("7d", "7 days", 7 * DAY_MS, 6 * HOUR_MS),
    ("30d", "30 days", 30 * DAY_MS, DAY_MS),
];

/// The groups of the table.
const GROUPS: [(&str, &str); 5] =
    [("agent", "Agent"), ("tool", "Tool"), ("person", "Person"), ("model", "Model"), ("day", "Day")];

/// Sums of usage.
#[derive(Debug, Default, Clone)]
pub(super) struct Sums {
    pub(super) runs: u64,
    pub(super) failed_runs: u64,
    pub(super) calls: u64,
    pub(super) failed_calls: u64,
    pub(super) tokens: TokenUsage,
    pub(super) fuel: u64,
    pub(super) wall_us: u64,
    /// Whether fuel and time are lower bounds, because an attempt was stopped from outside.
    at_least: bool,
    /// `None` if no price is configured.
    pub(super) cost: Option<f64>,
}

/// The usage of a period.
pub(super) struct Report {
    pub(super) all: Sums,
    pub(super) calls: Vec<Bar>,
    tokens: Vec<Bar>,
    groups: BTreeMap<String, Sums>,
    /// Whether there were more runs or calls than are counted.
    is_cut: bool,
}

impl Sums {
    fn add_run(&mut self, tokens: TokenUsage, cost: Option<f64>, failed: bool) {
        self.runs += 1;
        self.failed_runs += u64::from(failed);
        self.tokens = self.tokens.plus(tokens);
        if let Some(cost) = cost {
            self.cost = Some(self.cost.unwrap_or_default() + cost);
        }
    }

    fn add_calls(&mut self, usage: &RunUsage) {
        self.calls += u64::from(usage.calls);
        self.fuel += usage.tools.fuel;
        self.wall_us += usage.tools.wall_us;
        self.at_least |= usage.tools.at_least;
    }

    /// Returns the fuel as shown.
    fn shown_fuel(&self) -> String {
        let at_least = if self.at_least { "at least " } else { "" };
        format!("{at_least}{}", text::amount(self.fuel))
    }
}

impl Viewer {
    /// Returns the cost of a run with its children by the models that replied, if they have prices.
    pub(super) fn cost(&self, agent_id: &str, usage: &RunUsage) -> Option<f64> {
        self.priced(agent_id, |prices| prices.cost(usage))
    }

    /// Uses the prices that count for an agent.
    fn priced<T>(
        &self,
        agent_id: &str,
        read: impl FnOnce(&Prices<'_, &dyn Fn(&str) -> Option<Price>>) -> T,
    ) -> T {
        let configured = self.model_of(agent_id);
        let price = |model: &str| self.data.price(model);
        read(&Prices { configured: configured.as_deref(), price: &price })
    }

    /// Returns the name of the model that an agent has now.
    fn model_of(&self, agent_id: &str) -> Option<String> {
        let agent = self.shared.host.agents().find(|agent| agent.spec.view.id == agent_id)?;
        agent.model.as_ref().map(|model| model.name().to_owned())
    }
}

/// Sums up the usage of a period that ends now, as far as the person may see it.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn report(
    viewer: &Viewer,
    length_ms: u64,
    bar_ms: u64,
    by: &str,
) -> Result<Report, Failure> {
    let since_ms = viewer.now_ms.saturating_sub(length_ms);
    let filter = RunFilter {
        thread_prefix: viewer.listed_threads(),
        from_ms: Some(since_ms),
        limit: SEARCHED_RUNS,
        ..RunFilter::default()
    };
    let runs = viewer.store().runs(filter).await?;
    let is_cut = runs.len() == SEARCHED_RUNS;
    let filter =
        AuditFilter { kind: Some(AuditKind::Call), since_ms, limit: MAX_CALLS, ..AuditFilter::default() };
    let mut calls = viewer.store().audit(filter).await?;
    let is_cut = is_cut || calls.len() == MAX_CALLS;
    if !viewer.has(crate::Scope::Read) {
        let own: HashSet<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        calls.retain(|call| call.run_id.as_deref().is_some_and(|run_id| own.contains(run_id)));
    }
    let count = usize::try_from(length_ms / bar_ms).unwrap_or(1);
    let first_ms = (viewer.now_ms / bar_ms + 1) * bar_ms - length_ms;
    let labels: Vec<Bar> = (0..count as u64)
        .map(|at| first_ms + at * bar_ms)
        .map(|at_ms| Bar { label: label(at_ms, bar_ms), short: short_label(at_ms, bar_ms), parts: [0, 0] })
        .collect();
    let mut report = Report {
        all: Sums::default(),
        calls: labels.clone(),
        tokens: labels,
        groups: BTreeMap::new(),
        is_cut,
    };
    let bar =
        |at_ms: u64| usize::try_from(at_ms.saturating_sub(first_ms) / bar_ms).unwrap_or(0).min(count - 1);
    for run in &runs {
        let usage = viewer.usage(run).await?.unwrap_or_default();
        report.add_run(viewer, run, &usage, by, bar(run.started_at_ms));
    }
    for call in &calls {
        report.add_call(call, by, bar(call.at_ms));
    }
    Ok(report)
}

impl Report {
    fn add_run(&mut self, viewer: &Viewer, run: &RunSummary, usage: &RunUsage, by: &str, bar: usize) {
        let failed = ["failed", "stopped", "blocked"].contains(&run.status.as_str());
        if by == "model" {
            self.add_models(viewer, run, usage, failed);
        }
        // The tokens of a child are part of its parent's.
        if run.kind == "child" {
            return;
        }
        let tokens = usage.all_tokens();
        let cost = viewer.cost(&run.agent_id, usage);
        let key = match by {
            "agent" => Some(run.agent_id.clone()),
            "person" => Some(owner_and_id(&run.thread_id).0.unwrap_or("–").to_owned()),
            "day" => Some(day(run.started_at_ms)),
            _ => None,
        };
        self.tokens[bar].parts[0] += tokens.input_tokens;
        self.tokens[bar].parts[1] += tokens.output_tokens;
        let mut group = key.map(|key| self.groups.entry(key).or_default());
        if let Some(group) = group.as_deref_mut().filter(|_| by == "person") {
            group.add_calls(usage);
        }
        for sums in [Some(&mut self.all), group].into_iter().flatten() {
            sums.add_run(tokens, cost, failed);
        }
    }

    /// Adds a run without its children to the groups of the models that replied.
    fn add_models(&mut self, viewer: &Viewer, run: &RunSummary, usage: &RunUsage, failed: bool) {
        let parts = viewer.priced(&run.agent_id, |prices| {
            let named = usage.models.iter();
            let named = named.map(|one| (one.model.to_string(), one.tokens, prices.of_reply(&one.model)));
            match prices.configured {
                // The record does not name the model.
                Some(model) if usage.models.is_empty() => {
                    vec![(model.to_owned(), usage.tokens, prices.of_configured())]
                }
                _ => named.collect(),
            }
        });
        for (at, (model, tokens, price)) in parts.into_iter().enumerate() {
            let group = self.groups.entry(model).or_default();
            group.add_run(tokens, price.map(|price| price.of(tokens)), failed);
            if at == 0 {
                group.add_calls(usage);
            }
        }
    }

    fn add_call(&mut self, call: &AuditRecord, by: &str, bar: usize) {
        let failed = call.decision != "success";
        self.calls[bar].parts[usize::from(failed)] += 1;
        let key = match by {
            "agent" => call.agent_id().map(str::to_owned),
            "tool" => call.tool_name.as_ref().map(ToString::to_string),
            "day" => Some(day(call.at_ms)),
            _ => None,
        };
        let group = key.map(|key| self.groups.entry(key).or_default());
        let usage = call.usage.unwrap_or_default();
        for sums in [Some(&mut self.all), group].into_iter().flatten() {
            sums.calls += 1;
            sums.failed_calls += u64::from(failed);
            sums.fuel += usage.fuel;
            sums.wall_us += usage.wall_us;
            sums.at_least |= usage.at_least;
        }
    }
}

fn label(at_ms: u64, bar_ms: u64) -> String {
    let at = text::zoned(at_ms);
    let format = match bar_ms {
        HOUR_MS => "%H:%M",
        DAY_MS => "%b %-d",
        _ => "%a %H:%M",
    };
    at.strftime(format).to_string()
}

/// Returns a label that has room on the axis of a phone.
fn short_label(at_ms: u64, bar_ms: u64) -> String {
    match bar_ms {
        HOUR_MS | DAY_MS => label(at_ms, bar_ms),
        _ => text::zoned(at_ms).strftime("%a").to_string(),
    }
}

fn day(at_ms: u64) -> String {
    text::zoned(at_ms).strftime("%Y-%m-%d").to_string()
}

/// Returns the chart of calls.
pub(super) fn call_chart(bars: &[Bar], title: &'static str) -> Markup {
    chart::bars(bars, &ChartParts { title, names: [("good", "succeeded"), ("bad", "failed")] }, "From")
}

pub(super) async fn page(viewer: Viewer, filters: Filters) -> Result<Markup, Failure> {
    let filters = filters.only(&["range", "by"])?;
    let range = filters.choice("range", &RANGES.map(|(name, ..)| name))?;
    let by = filters.choice("by", &GROUPS.map(|(name, _)| name))?;
    let (range, label, length_ms, bar_ms) =
        RANGES.into_iter().find(|(name, ..)| *name == range).unwrap_or(RANGES[0]);
    let (by, by_label) = GROUPS.into_iter().find(|(name, _)| *name == by).unwrap_or(GROUPS[0]);
    let nav = Nav::of(&viewer, Section::Usage).await?;
    let report = report(&viewer, length_ms, bar_ms, by).await?;
    let all = &report.all;
    let content = html! {
        div.choices {
            nav aria-label="Period" { ul.switch { @for (name, label, ..) in RANGES {
                li { a href=(text::href("/console/usage", &[("range", name), ("by", by)])) aria-current=[(name == range).then_some("true")] { (label) } }
            } } }
            nav aria-label="Group by" { ul.switch { @for (name, label) in GROUPS {
                li { a href=(text::href("/console/usage", &[("range", range), ("by", name)])) aria-current=[(name == by).then_some("true")] { (label) } }
            } } }
        }
        dl.tiles {
            (tile("Runs", text::number(all.runs), Some(format!("{} failed", all.failed_runs))))
            (tile("Calls", text::number(all.calls), Some(format!("{} failed", all.failed_calls))))
            (tile("Tokens", text::amount(all.tokens.total()), Some(format!("{} written", text::amount(all.tokens.output_tokens)))))
            (tile("In tools", text::micros(all.wall_us), (all.fuel > 0).then(|| format!("{} fuel", all.shown_fuel()))))
            @if let Some(cost) = all.cost { (tile("Cost", text::money(cost), None)) }
        }
        div.charts {
            section.card { (call_chart(&report.calls, "Calls")) }
            section.card { (chart::bars(&report.tokens, &ChartParts { title: "Tokens", names: [("input", "read"), ("output", "written")] }, "From")) }
        }
        section.card.flush aria-labelledby="groups" {
            h2 #groups { "By " (by_label.to_lowercase()) ", last " (label) }
            (group_table(&report, by, by_label))
        }
        @if report.is_cut { p.muted { "Only the newest runs and calls are counted." } }
    };
    Ok(layout::page(&nav, "Usage", content))
}

fn tile(label: &str, value: String, more: Option<String>) -> Markup {
    html! { div.tile { dt { (label) } dd { span.value { (value) } @if let Some(more) = more { span.more { (more) } } } } }
}

fn group_table(report: &Report, by: &str, by_label: &str) -> Markup {
    let mut groups: Vec<_> = report.groups.iter().collect();
    if by == "day" {
        groups.reverse();
    } else {
        groups.sort_by_key(|(_, sums)| std::cmp::Reverse((sums.calls, sums.runs)));
    }
    let is_tool = by == "tool";
    let has_cost = report.all.cost.is_some() && !is_tool;
    let has_fuel = report.all.fuel > 0;
    let most = groups.iter().map(|(_, sums)| sums.calls).max().unwrap_or(0).max(1);
    html! {
        @if groups.is_empty() { p.empty { "Nothing ran in this period." } } @else {
            div.scroll tabindex="0" role="group" aria-labelledby="groups" { table {
                thead { tr {
                    th scope="col" { (by_label) }
                    @if !is_tool { th.num scope="col" { "Runs" } }
                    th.num scope="col" { "Calls" } th.share scope="col" { span.hidden { "Share" } }
                    th.num scope="col" { "Failed" }
                    @if !is_tool { th.num scope="col" { "Tokens" } }
                    @if has_fuel { th.num scope="col" { "Fuel" } }
                    th.num scope="col" { "In tools" }
                    @if has_cost { th.num scope="col" { "Cost" } }
                } }
                tbody { @for (key, sums) in groups { tr {
                    th scope="row" { (text::line(key, 64)) }
                    @if !is_tool { td.num { (text::number(sums.runs)) } }
                    td.num { (text::number(sums.calls)) }
                    td.share { svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" { rect.good width=(sums.calls * 100 / most) height="4" {} } }
                    td.num { (text::number(if by == "person" || by == "model" { sums.failed_runs } else { sums.failed_calls })) }
                    @if !is_tool { td.num { (text::amount(sums.tokens.total())) } }
                    @if has_fuel { td.num { (sums.shown_fuel()) } }
                    td.num { (text::micros(sums.wall_us)) }
                    @if has_cost { td.num { @if let Some(cost) = sums.cost { (text::money(cost)) } } }
                } } }
            } }
        }
    }
}
