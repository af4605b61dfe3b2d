//! The audit, newest first, with filters in the address.

use super::failure::Failure;
use super::filters::Filters;
use super::layout;
use super::nav::{Nav, Section};
use super::text;
use super::viewer::Viewer;
use crate::Scope;
use maud::{Markup, html};
use tollgate::store::{AuditFilter, AuditKind, AuditRecord};

/// The number of records on one page.
const PAGE_RECORDS: usize = 50;
/// The last page that is shown.
const MAX_PAGE: usize = 100;

/// The periods: name, and length in milliseconds.
const PERIODS: [(&str, u64); 4] =
    [("1h", 3_600_000), ("24h", 86_400_000), ("7d", 604_800_000), ("30d", 2_592_000_000)];

/// The filters of the list.
const FILTERS: [&str; 7] = ["kind", "tool", "component", "run", "decision", "power", "since"];

pub(super) async fn page(viewer: Viewer, filters: Filters) -> Result<Markup, Failure> {
    viewer.principal.require(Scope::Read)?;
    let filters = filters.only(&[&FILTERS[..], &["page"]].concat())?;
    let kinds: Vec<&str> = AuditKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let periods: Vec<&str> = PERIODS.iter().map(|(name, _)| *name).collect();
    let (kind, since) = (filters.choice("kind", &kinds)?, filters.choice("since", &periods)?);
    let word = |name: &str| filters.word(name);
    let some = |name: &str| Some(word(name)).filter(|word| !word.is_empty()).map(str::to_owned);
    let page = filters.page(MAX_PAGE)?;
    let period = PERIODS.iter().find(|(name, _)| *name == since);
    let filter = AuditFilter {
        kind: AuditKind::ALL.iter().copied().find(|known| known.as_str() == kind),
        component_id: some("component"),
        tool_name: some("tool"),
        run_id_prefix: some("run"),
        decision: some("decision"),
        power: some("power"),
        since_ms: period.map_or(0, |(_, length)| viewer.now_ms.saturating_sub(*length)),
        limit: page * PAGE_RECORDS + 1,
        ..AuditFilter::default()
    };
    let nav = Nav::of(&viewer, Section::Audit).await?;
    let mut records = viewer.store().audit(filter).await?;
    let has_more = records.len() > page * PAGE_RECORDS && page < MAX_PAGE;
    records = records.into_iter().skip((page - 1) * PAGE_RECORDS).take(PAGE_RECORDS).collect();
    let kept: Vec<(&str, &str)> = FILTERS.iter().map(|name| (*name, word(name))).collect();
    let input = |name: &str, label: &str| {
        html! { label { span { (label) } input name=(name) type="text" value=(word(name)) size="11"; } }
    };
    let content = html! {
        form.filters method="get" action="/console/audit" role="search" aria-label="Filter records" {
            (layout::filter_select("kind", "Kind", &kinds, kind))
            (layout::filter_select("since", "Last", &periods, since))
            (input("tool", "Tool")) (input("component", "Component")) (input("decision", "Decision"))
            (input("power", "Power")) (input("run", "Run"))
            button type="submit" { "Filter" }
            @if kept.iter().any(|(_, value)| !value.is_empty()) { a href="/console/audit" { "Clear" } }
        }
        section.card.flush aria-label="Records" #records {
            @if records.is_empty() { p.empty { "No records fit. " a href="/console/audit" { "Show all" } } }
            @else { h2.hidden #records-title { "Records, newest first" } (table(&records, viewer.now_ms, "records-title")) }
        }
        (layout::pager("/console/audit", &kept, page, has_more))
    };
    Ok(layout::page(&nav, "Audit", content))
}

/// Returns a table of records under the heading with this id.
pub(super) fn table(records: &[AuditRecord], now_ms: u64, heading: &str) -> Markup {
    let has_fuel = records.iter().any(|record| record.usage.is_some_and(|usage| usage.fuel > 0));
    html! {
        div.scroll tabindex="0" role="group" aria-labelledby=(heading) { table.audit.list {
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Kind" } th scope="col" { "By" } th scope="col" { "Decision" }
                th scope="col" { "About" } th scope="col" { "Detail" } @if has_fuel { th.num scope="col" { "Fuel" } } th scope="col" { "Run" }
            } }
            tbody { @for record in records { (row(record, now_ms, has_fuel)) } }
        } }
    }
}

fn row(record: &AuditRecord, now_ms: u64, has_fuel: bool) -> Markup {
    let about = [record.tool_name.as_deref(), record.component_id.as_deref(), record.file.as_deref()];
    // A file is shown without its directory, which is the operator's affair.
    let about = about.into_iter().flatten().next().unwrap_or_default();
    let about = about.rsplit('/').next().unwrap_or_default();
    html! {
        tr {
            td.when data-label="When" { (text::moment(record.at_ms, now_ms)) }
            td { span.tag { (record.kind.as_str()) } }
            td.whole-word data-label="By" {
                (text::line(&record.who, 40))
                @if let Some(model) = &record.model { br; span.muted { (text::line(model, 40)) } }
            }
            td { @if record.decision == "success" { (layout::badge("success")) } @else { (decision(record)) } }
            td.about data-label="About" { @if !about.is_empty() { code { (text::line(about, 60)) } } @if let Some(power) = &record.power { " " (text::line(power, 80)) } }
            td.detail { @if let Some(detail) = &record.detail { (text::line(detail, 160)) } }
            @if has_fuel { td.num data-label="Fuel" { @if let Some(usage) = record.usage.filter(|usage| usage.fuel > 0) { (text::amount(usage.fuel)) } } }
            td.whole-word data-label="Run" { @if let Some(run_id) = &record.run_id { (layout::run_link(run_id, html! { code { (text::short_id(run_id)) } })) } }
        }
    }
}

fn decision(record: &AuditRecord) -> Markup {
    if matches!(record.kind, AuditKind::Call | AuditKind::Denial) {
        return html! { span.badge.bad { span.sign aria-hidden="true" { "✕" } (layout::code(&record.decision)) } };
    }
    layout::badge(&record.decision)
}
