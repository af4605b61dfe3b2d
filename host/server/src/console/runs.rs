//! The list of runs and direct calls, with filters in the address.

use super::failure::Failure;
use super::filters::Filters;
use super::fragment::{self, Fragment};
use super::layout;
use super::nav::{Nav, Section};
use super::text;
use super::viewer::{Viewer, owner_and_id};
use maud::{Markup, PreEscaped, html};
use tollgate::store::{RunFilter, RunSummary};
use tollgate_agent::run::RunUsage;

/// The number of runs on one page.
const PAGE_RUNS: usize = 50;
/// The number of the newest runs that are searched for those that fit a filter which the store
/// does not know.
pub(super) const SEARCHED_RUNS: usize = 5_000;
/// The highest page number.
const MAX_PAGE: usize = 100;

const STATUSES: [&str; 9] =
    ["waiting", "queued", "running", "completed", "failed", "stopped", "blocked", "cancelled", "interrupted"];

const KINDS: [&str; 3] = ["prompt", "call", "child"];

/// The filters and the page of a list of runs.
#[derive(Debug, Default, Clone)]
pub(super) struct RunListQuery {
    status: String,
    agent: String,
    kind: String,
    person: String,
    text: String,
    thread: String,
    page: usize,
}

impl RunListQuery {
    /// Reads the query of the page.
    ///
    /// # Errors
    /// A filter has a value that it cannot have.
    pub(super) fn read(filters: &Filters) -> Result<Self, Failure> {
        let word = |name: &str| filters.word(name).to_owned();
        Ok(Self {
            status: filters.choice("status", &STATUSES)?.to_owned(),
            agent: word("agent"),
            kind: filters.choice("kind", &KINDS)?.to_owned(),
            person: word("person"),
            text: word("text"),
            thread: word("thread"),
            page: filters.page(MAX_PAGE)?,
        })
    }

    /// Creates the filter for the runs of a thread.
    pub(super) fn of_thread(thread_id: &str) -> Self {
        Self { thread: thread_id.to_owned(), page: 1, ..Self::default() }
    }

    fn query(&self) -> [(&str, &str); 6] {
        [
            ("status", &self.status),
            ("agent", &self.agent),
            ("kind", &self.kind),
            ("person", &self.person),
            ("text", &self.text),
            ("thread", &self.thread),
        ]
    }

    fn fits(&self, run: &RunSummary) -> bool {
        let is = |wanted: &str, has: &str| wanted.is_empty() || wanted == has;
        let words = self.text.to_lowercase();
        let kind = if self.kind.is_empty() { run.kind != "child" } else { run.kind == self.kind };
        kind && is(&self.status, run.shown_status())
            && is(&self.person, owner_and_id(&run.thread_id).0.unwrap_or_default())
            && (words.is_empty()
                || run.title.to_lowercase().contains(&words)
                || run.run_id.starts_with(&words))
    }

    /// Returns the part of the filters that the store knows; [`fits`](Self::fits) checks the rest.
    /// `own` is the prefix of the threads to which the list is limited.
    fn filter(&self, own: Option<String>, limit: usize) -> RunFilter {
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        let status = match self.status.as_str() {
            "queued" | "interrupted" => "running",
            status => status,
        };
        RunFilter {
            thread_id: some(&self.thread),
            status: some(status),
            kind: some(&self.kind),
            agent_id: some(&self.agent),
            thread_prefix: own.or_else(|| some(&self.person).map(|name| name + "/")),
            limit,
            ..RunFilter::default()
        }
    }
}

/// The rows of a page.
pub(super) struct RunRows {
    pub(super) rows: Vec<Fragment>,
    has_more: bool,
}

/// Returns the rows of a page.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn rows(viewer: &Viewer, wanted: &RunListQuery) -> Result<RunRows, Failure> {
    let skip = (wanted.page - 1) * PAGE_RUNS;
    let needed = skip + PAGE_RUNS + 1;
    let mut runs = Vec::new();
    // Most pages are full after a few more runs than they show, so the whole search is rare.
    for limit in [needed * 2, SEARCHED_RUNS.max(needed * 2)] {
        let found = viewer.store().runs(wanted.filter(viewer.listed_threads(), limit)).await?;
        let is_all = found.len() < limit;
        runs = found.into_iter().filter(|run| wanted.fits(run)).skip(skip).take(PAGE_RUNS + 1).collect();
        if is_all || runs.len() > PAGE_RUNS {
            break;
        }
    }
    let has_more = runs.len() > PAGE_RUNS && wanted.page < MAX_PAGE;
    runs.truncate(PAGE_RUNS);
    let mut rows = Vec::with_capacity(runs.len());
    for run in &runs {
        rows.push(row(viewer, run).await?);
    }
    Ok(RunRows { rows, has_more })
}

/// Returns the row of a run.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn row(viewer: &Viewer, run: &RunSummary) -> Result<Fragment, Failure> {
    let usage = viewer.usage(run).await?;
    let id = format!("run-{}", layout::segment(&run.run_id));
    let tokens = usage.as_ref().map(RunUsage::all_tokens).filter(|tokens| tokens.total() > 0);
    let cost =
        usage.as_ref().filter(|_| tokens.is_some()).and_then(|usage| viewer.cost(&run.agent_id, usage));
    let is_call = run.kind == "call";
    let markup = html! {
        tr id=(id) {
            td.status { (layout::badge(run.shown_status())) }
            th.title scope="row" {
                a href={ "/console/runs/" (layout::segment(&run.run_id)) } {
                    @if is_call { "call " code { (text::line(&run.title, 100)) } } @else { (text::line(&run.title, 110)) }
                }
            }
            td data-label="Agent" { (text::line(&run.agent_id, 40)) }
            td data-label="Thread" { (layout::thread_link(&run.thread_id)) }
            td.num data-label="Began" { (text::moment(run.started_at_ms, viewer.now_ms)) }
            td.num data-label="Took" { (took(run, usage.as_ref())) }
            td.num data-label="Calls" { @if let Some(usage) = &usage { (usage.calls.max(u32::from(is_call))) } }
            td.num data-label="Tokens" {
                @if let Some(tokens) = tokens { (text::amount(tokens.total())) }
                @if let Some(cost) = cost { span.cost { (text::money(cost)) } }
            }
            td.num data-label="Fuel" {
                @if let Some(usage) = usage.filter(|usage| usage.tools.fuel > 0) { (text::amount(usage.tools.fuel)) }
            }
        }
    };
    Ok(Fragment::new(id, markup).at_start("runs"))
}

/// Returns how long a run took; an empty text while it continues. A direct call may be stored only
/// after it has ended, so that its events have one time; its usage has the duration.
fn took(run: &RunSummary, usage: Option<&RunUsage>) -> String {
    let ms = run.updated_at_ms.saturating_sub(run.started_at_ms);
    match (run.status.as_str(), usage) {
        ("waiting" | "running", _) => String::new(),
        (_, Some(usage)) if run.kind == "call" && ms == 0 => text::micros(usage.tools.wall_us),
        _ => text::span(ms),
    }
}

/// Returns a table of these rows.
pub(super) fn table(rows: &[Fragment], label: &str) -> Markup {
    html! {
        table.list {
            caption.hidden { (label) }
            thead { tr {
                th scope="col" { "Status" } th scope="col" { "Run" } th scope="col" { "Agent" } th scope="col" { "Thread" }
                th.num scope="col" { "Began" } th.num scope="col" { "Took" } th.num scope="col" { "Calls" }
                th.num scope="col" { "Tokens" } th.num scope="col" { "Fuel" }
            } }
            tbody #runs { @for row in rows { (PreEscaped(&row.html)) } }
        }
    }
}

pub(super) async fn list(viewer: Viewer, filters: Filters) -> Result<Markup, Failure> {
    let known = ["status", "agent", "kind", "person", "text", "thread", "page"];
    let wanted = RunListQuery::read(&filters.only(&known)?)?;
    let nav = Nav::of(&viewer, Section::Runs).await?;
    let RunRows { rows, has_more } = rows(&viewer, &wanted).await?;
    let agents: Vec<&str> = viewer
        .shared
        .host
        .agents()
        .map(|agent| agent.spec.view.id.as_str())
        .filter(|id| viewer.principal.may_use_agent(id))
        .collect();
    let mut live_query = wanted.query().to_vec();
    let page = wanted.page.to_string();
    live_query.push(("page", &page));
    let content = html! {
        form.filters method="get" action="/console/runs" role="search" aria-label="Filter runs" {
            (layout::filter_select("status", "Status", &STATUSES, &wanted.status))
            (layout::filter_select("agent", "Agent", &agents, &wanted.agent))
            (layout::filter_select("kind", "Kind", &KINDS, &wanted.kind))
            @if viewer.has(crate::Scope::Read) {
                label { span { "Person" } input name="person" type="text" value=(wanted.person) size="10"; }
            }
            label { span { "Text" } input name="text" type="search" value=(wanted.text) size="14"; }
            @if !wanted.thread.is_empty() { input type="hidden" name="thread" value=(wanted.thread); }
            button type="submit" { "Filter" }
            @if wanted.query().iter().any(|(_, value)| !value.is_empty()) { a href="/console/runs" { "Clear" } }
        }
        section.card.flush aria-label="Runs" data-live=(fragment::url("runs", &live_query, &rows)) {
            @if rows.is_empty() { p.empty { "No runs fit. " a href="/console/runs" { "Show all" } } }
            @else { (table(&rows, "Runs, newest first")) }
        }
        (layout::pager("/console/runs", &wanted.query(), wanted.page, has_more))
    };
    Ok(layout::page(&nav, "Runs", content))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of others take no place among those that are searched.
    #[test]
    fn the_store_filters_by_person_and_agent() {
        let wanted =
            RunListQuery { person: "lin".to_owned(), agent: "clerk".to_owned(), ..RunListQuery::default() };
        let filter = wanted.filter(None, 10);
        assert_eq!(
            (filter.thread_prefix.as_deref(), filter.agent_id.as_deref()),
            (Some("lin/"), Some("clerk"))
        );
        let filter = wanted.filter(Some("ada/".to_owned()), 10);
        assert_eq!(filter.thread_prefix.as_deref(), Some("ada/"));
        assert_eq!(RunListQuery::default().filter(None, 10).thread_prefix, None);
    }
}
