//! Resources used, summed over time.

use super::pages::time;
use crate::parameters::QueryParameters;
use crate::problem::Problem;
use crate::state::{ServerState, Shared};
use axum::Json;
use axum::extract::State;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tollgate::store::{RunFilter, RunSummary, now_ms};
use tollgate_agent::run::{Event, RunUsage};
use utoipa::{IntoParams, ToSchema};

/// An hour and a day in milliseconds.
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// The maximum number of runs that are summed.
const MAX_RUNS: usize = 5_000;
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
    /// The configured model of the agent.
    Model,
    /// The tool of a direct call; agents' calls are in the rows of agents.
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
    /// Calls that models requested.
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
    /// The cost of the tokens by the prices in [serve]; absent if the model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

/// Usage, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UsageTable {
    /// The rows.
    items: Vec<UsageRow>,
    /// Whether there were more runs than are summed: the oldest of the time are missing.
    truncated: bool,
}

/// Sum up the resources that runs used
///
/// At most 5,000 runs are summed; ask for a shorter time if the answer is truncated.
#[utoipa::path(get, path = "/api/v1/usage", tag = "usage", security(("key" = ["read"])), params(UsageQuery),
    responses((status = 200, description = "The usage", body = UsageTable)))]
pub(super) async fn usage(
    State(state): State<Shared>,
    QueryParameters(query): QueryParameters<UsageQuery>,
) -> Result<Json<UsageTable>, Problem> {
    let to = time(query.to)?.unwrap_or_else(now_ms);
    let from = time(query.from)?.unwrap_or_else(|| to.saturating_sub(DAY_MS));
    let mut rows: BTreeMap<(u64, String), UsageRow> = BTreeMap::new();
    let mut filter =
        RunFilter { from_ms: Some(from), to_ms: Some(to), limit: AT_ONCE, ..RunFilter::default() };
    let (mut read, mut truncated) = (0, false);
    loop {
        let page = state.store().runs(filter.clone()).await?;
        let is_last = page.len() < AT_ONCE;
        filter.before = page.last().map(|last| last.run_id.clone());
        read += page.len();
        // A child's usage is part of its parent's.
        let runs = page.into_iter().filter(|run| run.kind != "child");
        let (state, query) = (&*state, &query);
        let found = runs.map(|run| async move {
            let (usage, subject) = (used(state, &run).await?, subject(state, query, &run).await?);
            Ok::<_, Problem>((run, usage, subject))
        });
        let mut found = futures::stream::iter(found).buffer_unordered(READS);
        while let Some((run, usage, subject)) = found.try_next().await? {
            add(state, query, &run, (usage, subject), &mut rows);
        }
        if is_last {
            break;
        }
        if read >= MAX_RUNS {
            truncated = true;
            break;
        }
    }
    Ok(Json(UsageTable { items: rows.into_values().collect(), truncated }))
}

/// Returns the model of a run of an agent.
fn model_of<'a>(state: &'a ServerState, run: &RunSummary) -> Option<&'a String> {
    state.models.get(&run.agent_id).filter(|_| run.kind == "prompt")
}

/// Returns the subject of the row that a run belongs to.
async fn subject(state: &ServerState, query: &UsageQuery, run: &RunSummary) -> Result<String, Problem> {
    Ok(match query.by {
        UsageBy::Agent => run.agent_id.clone(),
        UsageBy::Model => model_of(state, run).cloned().unwrap_or_default(),
        UsageBy::Tool if run.kind == "call" => run.title.clone(),
        UsageBy::Tool => String::new(),
        UsageBy::Principal => {
            let spec = state.store().run_spec(&run.run_id).await?;
            spec.and_then(|spec| spec.identity.principal.as_ref().map(ToString::to_string))
                .unwrap_or_default()
        }
    })
}

/// Adds a run to its row.
fn add(
    state: &ServerState,
    query: &UsageQuery,
    run: &RunSummary,
    (usage, subject): (RunUsage, String),
    rows: &mut BTreeMap<(u64, String), UsageRow>,
) {
    let length = if query.bucket == Bucket::Hour { HOUR_MS } else { DAY_MS };
    let from = run.started_at_ms - run.started_at_ms % length;
    let row = rows.entry((from, subject.clone())).or_insert_with(|| UsageRow {
        from,
        subject,
        ..UsageRow::default()
    });
    let tokens = usage.all_tokens();
    row.runs += 1;
    row.calls += u64::from(usage.calls);
    row.turns += u64::from(usage.all_steps());
    row.input_tokens += tokens.input_tokens;
    row.output_tokens += tokens.output_tokens;
    row.fuel = row.fuel.saturating_add(usage.tools.fuel);
    row.wall_us = row.wall_us.saturating_add(usage.tools.wall_us);
    if let Some(price) = model_of(state, run).and_then(|model| state.config.prices.get(model)) {
        let millions = |tokens: u64| tokens as f64 / 1_000_000.0;
        let cost =
            millions(tokens.input_tokens) * price.input + millions(tokens.output_tokens) * price.output;
        row.cost = Some(row.cost.unwrap_or_default() + cost);
    }
}

/// Returns the usage of a run that has ended; nothing of one that has not.
async fn used(state: &ServerState, run: &RunSummary) -> Result<RunUsage, Problem> {
    if matches!(run.status.as_str(), "running" | "waiting") {
        return Ok(RunUsage::default());
    }
    let last = state.store().events(&run.run_id, run.events.saturating_sub(1)).await?;
    Ok(match last.last().map(|last| &last.event) {
        Some(Event::RunFinished { usage, .. }) => **usage,
        _ => RunUsage::default(),
    })
}
