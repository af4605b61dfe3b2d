//! Resources used, summed over time.

use super::pages::time;
use crate::parameters::QueryParameters;
use crate::pricing::{Price, Prices};
use crate::problem::Problem;
use crate::state::{ServerState, Shared};
use axum::Json;
use axum::extract::State;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tollgate::DIRECT_AGENT;
use tollgate::store::{AuditFilter, AuditKind, RunFilter, RunSummary, now_ms};
use tollgate_agent::message::TokenUsage;
use tollgate_agent::run::RunUsage;
use utoipa::{IntoParams, ToSchema};

/// An hour and a day in milliseconds.
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// The maximum number of runs that are summed.
const MAX_RUNS: usize = 5_000;
/// The maximum number of calls that are summed by tool.
const MAX_CALLS: usize = 50_000;
/// The number of runs that are listed at once.
const AT_ONCE: usize = 500;
/// The number of records that are read at once: a database answers several in the time of one.
const READS: usize = 8;

/// The usage to sum.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageQuery {
    /// From this time on, in milliseconds since the Unix epoch [default: the last day].
    #[param(maximum = 9_007_199_254_740_991_u64)]
    from: Option<u64>,
    /// Before this time [default: now].
    #[param(maximum = 9_007_199_254_740_991_u64)]
    to: Option<u64>,
    /// The length of a row [default: day].
    #[serde(default)]
    #[param(inline)]
    bucket: Bucket,
    /// The subject of the rows [default: agent].
    #[serde(default)]
    #[param(inline)]
    by: UsageBy,
}

/// The length of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bucket {
    /// An hour.
    Hour,
    /// A day of 24 hours in UTC.
    #[default]
    Day,
}

/// The subject of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum UsageBy {
    /// The agent.
    #[default]
    Agent,
    /// The model that replied. The turns and tokens of child runs are in the rows of their own
    /// models. If a run had several models, its calls are in the row of the first.
    Model,
    /// The tool: `runs` counts direct calls, and `calls` also those of agents.
    Tool,
    /// The principal.
    Principal,
}

/// The usage of one subject within one row.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(super) struct UsageRow {
    /// When the row begins, in milliseconds since the Unix epoch.
    from: u64,
    /// The agent, model, tool or principal; empty if there is none.
    subject: String,
    /// Runs and direct calls that began in it.
    runs: u64,
    /// Calls that models requested; of a tool, all its calls.
    calls: u64,
    /// Model turns.
    turns: u64,
    /// Tokens read.
    input_tokens: u64,
    /// Tokens written.
    output_tokens: u64,
    /// Units of wasm fuel.
    fuel: u64,
    /// Wall time of attempts in microseconds.
    wall_us: u64,
    /// Whether `fuel` and `wall_us` are lower bounds, because an attempt was stopped from outside.
    at_least: bool,
    /// The cost of the tokens by the prices in [serve]; absent if the model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

/// Usage, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UsageTable {
    /// The rows.
    items: Vec<UsageRow>,
    /// Whether there were more runs or calls than are summed: the oldest of the time are missing.
    truncated: bool,
    /// The time from which on nothing is missing; absent if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_from: Option<u64>,
}

/// Sum up the resources that runs used
///
/// At most 5,000 runs are summed, and by tool at most 50,000 calls. If the answer is `truncated`, it
/// lacks what is older than `complete_from`: ask for that time in another request.
#[utoipa::path(get, path = "/api/v1/usage", tag = "usage", security(("key" = ["read"])), params(UsageQuery),
    responses((status = 200, description = "The usage", body = UsageTable)))]
pub(super) async fn usage(
    State(state): State<Shared>,
    QueryParameters(query): QueryParameters<UsageQuery>,
) -> Result<Json<UsageTable>, Problem> {
    let to = time(query.to)?.unwrap_or_else(now_ms);
    let from = time(query.from)?.unwrap_or_else(|| to.saturating_sub(DAY_MS));
    if query.by == UsageBy::Tool {
        return Ok(Json(by_tool(&state, query.bucket, from, to).await?));
    }
    let (runs, complete_from) = runs(&state, from, to).await?;
    let mut rows = UsageRows { bucket: query.bucket, rows: BTreeMap::new() };
    // A child's usage is part of its parent's, but each model is counted by itself.
    let runs = runs.into_iter().filter(|run| run.kind != "child" || query.by == UsageBy::Model);
    let (state, by) = (&*state, query.by);
    let found = runs.map(|run| async move {
        let usage = state.ended_usage(&run).await?.unwrap_or_default();
        let subject = subject(state, by, &run).await?;
        Ok::<_, Problem>((run, usage, subject))
    });
    let mut found = futures::stream::iter(found).buffer_unordered(READS);
    while let Some((run, usage, subject)) = found.try_next().await? {
        match by {
            UsageBy::Model => rows.add_models(state, &run, &usage, subject),
            _ => rows.add(state, &run, &usage, subject),
        }
    }
    Ok(Json(rows.table(complete_from)))
}

/// Returns the newest runs of this period. If there may be more, also returns the time since which they are
/// complete.
async fn runs(state: &ServerState, from: u64, to: u64) -> Result<(Vec<RunSummary>, Option<u64>), Problem> {
    let mut filter =
        RunFilter { from_ms: Some(from), to_ms: Some(to), limit: AT_ONCE, ..RunFilter::default() };
    let mut runs: Vec<RunSummary> = Vec::new();
    loop {
        let page = state.store().runs(filter.clone()).await?;
        let is_last = page.len() < AT_ONCE;
        runs.extend(page);
        if is_last {
            return Ok((runs, None));
        }
        if runs.len() >= MAX_RUNS {
            let complete_from = cut(&mut runs, |run| run.started_at_ms);
            return Ok((runs, complete_from));
        }
        filter.before = runs.last().map(|last| last.run_id.clone());
    }
}

/// Removes the runs or calls of the oldest millisecond, of which some may be missing. Returns the time since
/// which the others are complete: a request for the time before it counts nothing twice.
fn cut<T>(newest: &mut Vec<T>, at_ms: impl Fn(&T) -> u64) -> Option<u64> {
    let complete_from = at_ms(newest.last()?) + 1;
    newest.retain(|one| at_ms(one) >= complete_from);
    Some(complete_from)
}

/// Sums up calls by tool, from the audit: it has the calls of agents as well as direct calls.
async fn by_tool(state: &ServerState, bucket: Bucket, from: u64, to: u64) -> Result<UsageTable, Problem> {
    let filter = AuditFilter {
        kind: Some(AuditKind::Call),
        since_ms: from,
        until_ms: to,
        limit: MAX_CALLS,
        ..AuditFilter::default()
    };
    let mut calls = state.store().audit(filter).await?;
    let has_more = calls.len() == MAX_CALLS;
    let complete_from = if has_more { cut(&mut calls, |call| call.at_ms) } else { None };
    let mut rows = UsageRows { bucket, rows: BTreeMap::new() };
    for call in calls {
        let is_direct = call.agent_id() == Some(DIRECT_AGENT);
        let (tool, used) = (call.tool_name.unwrap_or_default(), call.usage.unwrap_or_default());
        let row = rows.row(call.at_ms, tool.to_string());
        row.runs += u64::from(is_direct);
        row.calls += 1;
        row.fuel = row.fuel.saturating_add(used.fuel);
        row.wall_us = row.wall_us.saturating_add(used.wall_us);
        row.at_least |= used.at_least;
    }
    Ok(rows.table(complete_from))
}

/// Returns the configured model of a run's agent, for records that do not name the model.
fn model_of<'a>(state: &'a ServerState, run: &RunSummary) -> Option<&'a String> {
    state.models.get(&run.agent_id).filter(|_| run.kind != "call")
}

/// Returns the subject of the row that a run belongs to; of a model, that of replies whose record
/// does not name it.
async fn subject(state: &ServerState, by: UsageBy, run: &RunSummary) -> Result<String, Problem> {
    Ok(match by {
        UsageBy::Agent => run.agent_id.clone(),
        UsageBy::Model => model_of(state, run).cloned().unwrap_or_default(),
        UsageBy::Tool => run.title.clone(),
        UsageBy::Principal => {
            let spec = state.store().run_spec(&run.run_id).await?;
            spec.and_then(|spec| spec.identity.principal.as_ref().map(ToString::to_string))
                .unwrap_or_default()
        }
    })
}

/// The rows by their beginning and subject.
struct UsageRows {
    bucket: Bucket,
    rows: BTreeMap<(u64, String), UsageRow>,
}

impl UsageRows {
    fn row(&mut self, at_ms: u64, subject: String) -> &mut UsageRow {
        let length = if self.bucket == Bucket::Hour { HOUR_MS } else { DAY_MS };
        let from = at_ms - at_ms % length;
        let new = || UsageRow { from, subject: subject.clone(), ..UsageRow::default() };
        self.rows.entry((from, subject.clone())).or_insert_with(new)
    }

    fn table(self, complete_from: Option<u64>) -> UsageTable {
        let items = self.rows.into_values().collect();
        UsageTable { items, truncated: complete_from.is_some(), complete_from }
    }

    /// Adds a run with its children to the row of its subject.
    fn add(&mut self, state: &ServerState, run: &RunSummary, usage: &RunUsage, subject: String) {
        let prices = prices(state, run);
        let row = self.row(run.started_at_ms, subject);
        row.runs += 1;
        row.turns += u64::from(usage.all_steps());
        row.add_calls(usage);
        for (tokens, price) in prices.parts(usage) {
            row.add_tokens(tokens, price);
        }
    }

    /// Adds a run without its children to the rows of its models. `unnamed` is the model of replies
    /// whose record does not name it.
    fn add_models(&mut self, state: &ServerState, run: &RunSummary, usage: &RunUsage, unnamed: String) {
        let prices = prices(state, run);
        if usage.models.is_empty() {
            let row = self.row(run.started_at_ms, unnamed);
            row.runs += 1;
            row.turns += u64::from(usage.steps);
            row.add_calls(usage);
            row.add_tokens(usage.tokens, prices.of_configured());
            return;
        }
        for (at, one) in usage.models.iter().enumerate() {
            let row = self.row(run.started_at_ms, one.model.to_string());
            row.runs += 1;
            row.turns += u64::from(one.replies);
            if at == 0 {
                row.add_calls(usage);
            }
            row.add_tokens(one.tokens, prices.of_reply(&one.model));
        }
    }
}

impl UsageRow {
    fn add_calls(&mut self, usage: &RunUsage) {
        self.calls += u64::from(usage.calls);
        self.fuel = self.fuel.saturating_add(usage.tools.fuel);
        self.wall_us = self.wall_us.saturating_add(usage.tools.wall_us);
        self.at_least |= usage.tools.at_least;
    }

    fn add_tokens(&mut self, tokens: TokenUsage, price: Option<Price>) {
        self.input_tokens += tokens.input_tokens;
        self.output_tokens += tokens.output_tokens;
        if let Some(price) = price {
            self.cost = Some(self.cost.unwrap_or_default() + price.of(tokens));
        }
    }
}

/// Returns the prices that count for a run.
fn prices<'a>(
    state: &'a ServerState,
    run: &RunSummary,
) -> Prices<'a, impl Fn(&str) -> Option<Price> + use<'a>> {
    Prices { configured: model_of(state, run).map(String::as_str), price: |model: &str| state.price(model) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_agent::outcome::Usage;

    #[test]
    fn z21_a_sum_with_a_call_that_was_cut_is_marked() {
        let cut = RunUsage { tools: Usage { at_least: true, ..Usage::default() }, ..RunUsage::default() };
        let mut row = UsageRow::default();
        row.add_calls(&RunUsage::default());
        assert!(!row.at_least);
        row.add_calls(&cut);
        row.add_calls(&RunUsage::default());
        assert!(row.at_least);
    }

    #[test]
    fn windows_of_time_count_each_run_once() {
        // The list ends between runs of the same millisecond.
        let mut newest = vec![(9, "e"), (8, "d"), (8, "c")];
        assert_eq!(cut(&mut newest, |run| run.0), Some(9));
        assert_eq!(newest, [(9, "e")]);
        assert_eq!(cut(&mut Vec::<(u64, &str)>::new(), |run| run.0), None);
    }
}
