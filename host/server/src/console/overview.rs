//! The overview: questions, running and failed runs, the last day in numbers, and the newest audit
//! records.

use super::audit;
use super::failure::Failure;
use super::fragment::{self, Fragment};
use super::layout;
use super::nav::{Nav, Section};
use super::open_questions::{self, ListedQuestion};
use super::runs;
use super::text;
use super::usage::{self, Sums};
use super::viewer::Viewer;
use crate::Scope;
use crate::operator::HostFacts;
use maud::{Markup, PreEscaped, html};
use tollgate::store::{AuditFilter, RunFilter, RunSummary};

const HOUR_MS: u64 = 3_600_000;
/// The number of runs that the overview lists.
const LISTED_RUNS: usize = 8;
/// The number of audit records that the overview lists.
const LISTED_RECORDS: usize = 10;

pub(super) async fn page(viewer: Viewer) -> Result<Markup, Failure> {
    let open = open_questions::all(&viewer).await?;
    let nav = Nav::new(&viewer, Section::Overview, open.len());
    let elements = fragments(&viewer, &open).await?;
    let html = |id: &str| {
        let found = elements.iter().find(|element| element.id == id);
        PreEscaped(found.map_or("", |element| element.html.as_str()))
    };
    let hosts = if viewer.has(Scope::Read) { viewer.data.hosts().await? } else { Vec::new() };
    let rows: Vec<Fragment> =
        elements.iter().filter(|element| element.id.starts_with("run-")).cloned().collect();
    let content = html! {
        div data-live=(fragment::url("overview", &[], &elements)) {
            (html("tiles"))
            (html("day"))
            section.card.flush aria-labelledby="newest" {
                h2 #newest { "Newest runs" a.more href="/console/runs" { "All runs" } }
                @if rows.is_empty() { p.empty { "No run yet. " a href="/console/playground" { "Start one in the playground" } } }
                @else { (runs::table(&rows, "Newest runs")) }
            }
            (html("records"))
        }
        @if !hosts.is_empty() { (host_list(&hosts, viewer.now_ms)) }
    };
    Ok(layout::page(&nav, "Overview", content))
}

/// Returns the elements of the overview that change.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn fragments(viewer: &Viewer, open: &[ListedQuestion]) -> Result<Vec<Fragment>, Failure> {
    let report = usage::report(viewer, 24 * HOUR_MS, HOUR_MS, "").await?;
    let tiles = tiles(viewer, &report.all, open).await?;
    let chart =
        html! { section.card #day { (usage::call_chart(&report.calls, "Calls of the last 24 hours")) } };
    let mut elements = vec![Fragment::new("tiles", tiles), Fragment::new("day", chart)];
    let filter =
        RunFilter { thread_prefix: viewer.listed_threads(), limit: 10 * LISTED_RUNS, ..RunFilter::default() };
    let newest = viewer.store().runs(filter).await?;
    let is_shown = |run: &&RunSummary| run.kind != "child";
    // New rows join at the start, so that the oldest comes first.
    for run in newest.iter().filter(is_shown).take(LISTED_RUNS) {
        elements.push(runs::row(viewer, run).await?);
    }
    elements.push(Fragment::new("records", records(viewer).await?));
    Ok(elements)
}

async fn tiles(viewer: &Viewer, day: &Sums, open: &[ListedQuestion]) -> Result<Markup, Failure> {
    let running = RunFilter {
        status: Some("running".to_owned()),
        thread_prefix: viewer.listed_threads(),
        limit: 500,
        ..RunFilter::default()
    };
    let running = viewer.store().runs(running).await?;
    let count = |status: &str| running.iter().filter(|run| run.shown_status() == status).count();
    let (at_work, interrupted) = (count("running"), count("interrupted"));
    let oldest = open.first().map(|open| open.at_ms);
    let toolbox = viewer.shared.host.toolbox();
    let catalog = toolbox.catalog();
    let disabled = catalog.tools().filter(|tool| catalog.disabled(&tool.descriptor.name).is_some());
    let disabled = disabled.filter(|tool| viewer.principal.may_use_tool(&tool.descriptor.name)).count();
    let refused = toolbox.refused().len();
    Ok(html! {
        ul.tiles.plain #tiles {
            li.tile.big.calls-for-you[!open.is_empty()] {
                a href="/console/waiting" {
                    span.value { (open.len()) } " " span.label { (if open.len() == 1 { "question waits" } else { "questions wait" }) " for you" }
                    @if let Some(at_ms) = oldest { span.more { "oldest asked " (text::ago(at_ms, viewer.now_ms)) } }
                    @else { span.more { "All clear" } }
                }
            }
            (tile(&at_work.to_string(), "running", "/console/runs?status=running", (interrupted > 0).then(|| format!("{interrupted} interrupted"))))
            (tile(&day.failed_runs.to_string(), "failed", "/console/runs?status=failed", Some(format!("of {} runs, 24\u{a0}h", text::number(day.runs)))))
            (tile(&text::number(day.calls), "calls", "/console/usage?by=tool", Some(format!("{} failed, 24\u{a0}h", day.failed_calls))))
            (tile(&text::amount(day.tokens.total()), "tokens", "/console/usage", Some(day.cost.map_or("in 24\u{a0}h".to_owned(), |cost| format!("cost {}, 24\u{a0}h", text::money(cost))))))
            (tile(&disabled.to_string(), "tools disabled", "/console/tools", (refused > 0).then(|| format!("{} refused", text::count(refused as u64, "file")))))
        }
    })
}

fn tile(value: &str, label: &str, href: &str, more: Option<String>) -> Markup {
    html! {
        li.tile { a href=(href) {
            span.value { (value) } " " span.label { (label) }
            @if let Some(more) = more { span.more { (more) } }
        } }
    }
}

/// Lists the hosts that share the store, with their leases and the runs that they drive.
fn host_list(hosts: &[HostFacts], now_ms: u64) -> Markup {
    html! {
        section.card.flush aria-labelledby="hosts" {
            h2 #hosts { "Hosts" }
            div.scroll tabindex="0" role="group" aria-labelledby="hosts" { table.list {
                thead { tr {
                    th scope="col" { "Host" } th scope="col" { "State" } th.num scope="col" { "Runs" }
                    th scope="col" { "Lease" } th scope="col" { "Claims runs of" } th scope="col" { "Started" }
                    th scope="col" { "Version" }
                } }
                tbody { @for host in hosts { tr {
                    th scope="row" { (text::line(&host.name, 64)) " " code.muted { (text::line(&host.id, 12)) } }
                    td data-label="State" {
                        @if host.is_up { span.badge.good { span.sign aria-hidden="true" { "✓" } "up" } }
                        @else { span.badge.bad { span.sign aria-hidden="true" { "✕" } "dead" } }
                    }
                    td.num data-label="Runs" { (text::number(host.runs)) }
                    td data-label="Lease" { @if host.is_up { (text::span(host.lease_left_ms)) " left" } @else { "ended" } }
                    td data-label="Claims runs of" { (text::line(&host.agents.join(", "), 200)) }
                    td data-label="Started" { (text::moment(host.started_at_ms, now_ms)) }
                    td data-label="Version" { (text::line(&host.version, 32)) }
                } } }
            } }
        }
    }
}

async fn records(viewer: &Viewer) -> Result<Markup, Failure> {
    if !viewer.has(Scope::Read) {
        return Ok(html! { div #records {} });
    }
    let newest =
        viewer.store().audit(AuditFilter { limit: LISTED_RECORDS, ..AuditFilter::default() }).await?;
    Ok(html! {
        section.card.flush #records aria-labelledby="records-title" {
            h2 #records-title { "Newest audit records" a.more href="/console/audit" { "All records" } }
            (audit::table(&newest, viewer.now_ms, "records-title"))
        }
    })
}
