//! The tools: what each asks for, was granted and uses, its health, and a form to try it.

use super::failure::Failure;
use super::form::{Entries, Form};
use super::form_fields::{self, Context};
use super::layout;
use super::nav::{Nav, Section};
use super::text;
use super::viewer::Viewer;
use crate::operations::StartedRun;
use crate::operator::ComponentFacts;
use crate::tool_limits::LimitOrigin;
use crate::{Problem, Scope};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::collections::HashMap;
use std::sync::Arc;
use tollgate::store::{AuditFilter, AuditKind};
use tollgate_agent::agents::max_retries;
use tollgate_agent::catalog::{Catalog, HOST_ID, OwnerKind, Tool};

/// The number of the newest calls that are counted for the list of tools.
const COUNTED_CALLS: usize = 20_000;
/// The maximum number of bytes of a schema that is shown.
const MAX_SCHEMA_BYTES: usize = 16 * 1024;

/// The calls of a tool, counted in the newest audit records.
#[derive(Default)]
struct CallTotals {
    all: u64,
    failed: u64,
    wall_us: u64,
}

pub(super) async fn list(viewer: Viewer) -> Result<Markup, Failure> {
    let nav = Nav::of(&viewer, Section::Tools).await?;
    let toolbox = viewer.shared.host.toolbox();
    let catalog = toolbox.catalog();
    let calls = if viewer.has(Scope::Read) { counted(&viewer, None).await? } else { HashMap::new() };
    let tools: Vec<&Arc<Tool>> = catalog.tools().filter(|tool| is_shown(&viewer, tool)).collect();
    let content = html! {
        section.card.flush aria-label="Tools" {
            @if tools.is_empty() { p.empty { "No tools. " code { "tollgate add" } " installs one." } } @else {
                table.list {
                    caption.hidden { "Tools by name" }
                    thead { tr {
                        th scope="col" { "Tool" } th scope="col" { "Description" } th scope="col" { "From" }
                        th.num scope="col" { "Calls" } th.num scope="col" { "Failed" } th scope="col" { "Health" }
                    } }
                    tbody { @for tool in tools { (tool_row(tool, catalog, &viewer, calls.get(tool.descriptor.name.as_str()))) } }
                }
            }
        }
        @if viewer.has(Scope::Read) && !toolbox.refused().is_empty() {
            section.card aria-labelledby="refused" {
                h2 #refused { "Files that are not served" }
                ul.plain { @for refused in toolbox.refused().iter().take(30) { li {
                    code { (text::line(&refused.file.file_name().unwrap_or_default().to_string_lossy(), 100)) } " — " (text::line(&refused.reason, 500))
                    @if let Some(commands) = viewer.shared.commands_for(refused) { " " code { (text::line(&commands, 300)) } }
                } } }
            }
        }
    };
    Ok(layout::page(&nav, "Tools", content))
}

fn is_shown(viewer: &Viewer, tool: &Tool) -> bool {
    tool.owner.id != HOST_ID && viewer.principal.may_use_tool(&tool.descriptor.name)
}

fn tool_row(tool: &Tool, catalog: &Catalog, viewer: &Viewer, calls: Option<&CallTotals>) -> Markup {
    let name = &tool.descriptor.name;
    let missing = viewer.data.component(&tool.owner.id).map_or(0, |facts| facts.missing.len());
    html! {
        tr {
            th scope="row" { a.tool href={ "/console/tools/" (layout::segment(name)) } { (text::line(name, 64)) } }
            td.detail { (text::line(&tool.descriptor.description, 140)) }
            td data-label="From" { (text::line(&tool.owner.id, 64)) " " span.muted { (kind_word(tool.owner.kind)) } }
            td.num data-label="Calls" { @if let Some(calls) = calls { (text::number(calls.all)) } }
            td.num data-label="Failed" { @if let Some(calls) = calls.filter(|calls| calls.failed > 0) { (text::number(calls.failed)) } }
            td data-label="Health" {
                @match catalog.disabled(name) {
                    Some(_) => span.badge.bad { span.sign aria-hidden="true" { "✕" } "disabled" },
                    None if missing > 0 => span.badge.waits { span.sign aria-hidden="true" { "!" } (text::count(missing as u64, "power")) " missing" },
                    None => span.badge.good { span.sign aria-hidden="true" { "✓" } "served" },
                }
            }
        }
    }
}

fn kind_word(kind: OwnerKind) -> &'static str {
    match kind {
        OwnerKind::Component => "component",
        OwnerKind::Native => "native",
        OwnerKind::Mcp => "MCP server",
        OwnerKind::Agent => "agent",
    }
}

async fn counted(viewer: &Viewer, tool_name: Option<&str>) -> Result<HashMap<String, CallTotals>, Failure> {
    let filter = AuditFilter {
        kind: Some(AuditKind::Call),
        tool_name: tool_name.map(str::to_owned),
        limit: COUNTED_CALLS,
        ..AuditFilter::default()
    };
    let mut counted: HashMap<String, CallTotals> = HashMap::new();
    for record in viewer.store().audit(filter).await? {
        let Some(name) = &record.tool_name else { continue };
        let calls = counted.entry(name.to_string()).or_default();
        calls.all += 1;
        calls.failed += u64::from(record.decision != "success");
        calls.wall_us += record.usage.map_or(0, |usage| usage.wall_us);
    }
    Ok(counted)
}

pub(super) async fn one(viewer: Viewer, Path(name): Path<String>) -> Result<Response, Failure> {
    page(&viewer, &name, &Entries::default(), &[], None).await
}

fn find(viewer: &Viewer, name: &str) -> Result<Arc<Tool>, Failure> {
    let tool = viewer.shared.host.toolbox().catalog().tool(name).cloned();
    tool.filter(|tool| is_shown(viewer, tool)).ok_or(Failure::missing("tool"))
}

async fn page(
    viewer: &Viewer,
    name: &str,
    entries: &Entries,
    errors: &[super::form::EntryError],
    problem: Option<&str>,
) -> Result<Response, Failure> {
    let tool = find(viewer, name)?;
    let nav = Nav::of(viewer, Section::Tools).await?;
    let toolbox = viewer.shared.host.toolbox();
    let disabled = toolbox.catalog().disabled(name).map(str::to_owned);
    let facts = viewer.data.component(&tool.owner.id);
    let about = tool_facts(&tool, facts.as_ref(), viewer).await?;
    let heading = html! {
        p.crumbs { a href="/console/tools" { "Tools" } }
        h1 { span.tool { (text::line(name, 64)) } }
        p.lead { (text::lines(&tool.descriptor.description, 2_000)) }
    };
    let content = html! {
        @if let Some(reason) = &disabled { (disabled_notice(viewer, name, reason)) }
        div.run {
            div.main {
                @if viewer.has(Scope::Use) { (try_form(&tool, entries, errors, problem)) }
                @if let Some(facts) = &facts { (powers(&tool.owner.id, facts)) }
                section.card aria-labelledby="parameters" {
                    h2 #parameters { "Parameters" }
                    pre.whole tabindex="0" { (text::body(&super::run_parts::within(text::json(&tool.descriptor.parameters), MAX_SCHEMA_BYTES).0)) }
                }
            }
            aside aria-label="Facts about the tool" { div.facts-card { (about) } }
        }
    };
    let status = if errors.is_empty() && problem.is_none() {
        StatusCode::OK
    } else {
        StatusCode::UNPROCESSABLE_ENTITY
    };
    Ok((status, layout::page_with(&nav, name, heading, content)).into_response())
}

async fn tool_facts(tool: &Tool, facts: Option<&ComponentFacts>, viewer: &Viewer) -> Result<Markup, Failure> {
    let name = tool.descriptor.name.as_str();
    let policy = &tool.descriptor.execution;
    let calls = if viewer.has(Scope::Read) { counted(viewer, Some(name)).await? } else { HashMap::new() };
    let limits =
        facts.and_then(|facts| facts.limits.iter().find(|(tool, _)| tool == name)).map(|(_, limits)| *limits);
    let (timeout_ms, timeout_source) = viewer.shared.timeout_of(tool, limits.as_ref());
    let source = |origin: LimitOrigin| html! { " " span.muted { (text::line(&origin.in_words(tool), 100)) } };
    let (reads, writes): (Vec<&str>, Vec<&str>) =
        (tool.access.reads().collect(), tool.access.writes().collect());
    Ok(html! {
        h2 { "Provider" }
        dl.facts {
            dt { "From" } dd { (text::line(&tool.owner.id, 64)) ", " (kind_word(tool.owner.kind)) }
            @if let Some(facts) = facts {
                dt { "Version" } dd { (text::line(&facts.version, 64)) }
                dt { "File" } dd { code { (text::line(&facts.file, 100)) } }
                dt { "Origin" } dd { (text::line(facts.origin.as_deref().unwrap_or("not from a registry"), 200)) }
                @if let Some(signer) = &facts.signer { dt { "Signer" } dd { (text::line(signer, 200)) } }
                @if let Some(licence) = &facts.licence { dt { "Licence" } dd { (text::line(licence, 200)) } }
                @if let Some(lock) = &facts.lock { dt { "Lock file" } dd { (text::line(lock, 200)) } }
            }
            // The version of a component is its digest; a native tool has one of the program's choice.
            @let is_native = tool.owner.kind == OwnerKind::Native;
            dt { @if is_native { "Version" } @else { "Digest" } } dd { code.digest { (text::line(&tool.digest(), 80)) } }
            @if let Some(category) = &tool.descriptor.category { dt { "Category" } dd { (text::line(category, 64)) } }
        }
        h2 { "Limits" }
        dl.facts {
            dt { "Time of an attempt" } dd { (text::span(u64::from(timeout_ms))) (source(timeout_source)) }
            dt { "Retries" } dd { (max_retries(policy)) @if !policy.idempotent { ", not idempotent" } }
            @if let Some(limits) = limits {
                dt { "Fuel" } dd { (text::amount(limits.fuel)) (source(limits.fuel_source.into())) }
                dt { "Memory" } dd { (text::bytes(limits.memory_bytes)) (source(limits.memory_source.into())) }
            }
        }
        h2 { "State" }
        dl.facts {
            dt { "Reads" } dd { @if reads.is_empty() { "nothing" } @for key in reads { code { (text::line(key, 130)) } " " } }
            dt { "Writes" } dd { @if writes.is_empty() { "nothing" } @for key in writes { code { (text::line(key, 130)) } " " } }
        }
        @if let Some(calls) = calls.get(name) {
            h2 { "Calls" }
            dl.facts {
                dt { "All" } dd { (text::number(calls.all)) }
                dt { "Failed" } dd { (text::number(calls.failed)) }
                dt { "On average" } dd { (text::micros(calls.wall_us.checked_div(calls.all).unwrap_or(0))) }
            }
            p { a href=(text::href("/console/audit", &[("tool", name)])) { "Audit records" } }
        }
    })
}

fn disabled_notice(viewer: &Viewer, name: &str, reason: &str) -> Markup {
    html! {
        div.notice.bad role="status" {
            p { "Calls are answered " (layout::code("disabled")) ": " (text::line(reason, 300)) "." }
            @if viewer.has(Scope::Operate) {
                form method="post" action={ "/console/tools/" (layout::segment(name)) "/enable" } { button type="submit" { "Enable again" } }
            }
        }
    }
}

fn powers(id: &str, facts: &ComponentFacts) -> Markup {
    html! {
        section.card aria-labelledby="powers" {
            h2 #powers { "Powers" }
            @match &facts.asks {
                None => p.muted { "The component has no manifest: it does not say which powers it needs." },
                Some(asks) if asks.is_empty() => p { "It asks for nothing: it computes, and uses its own state." },
                Some(asks) => { h3 { "It asks to" } ul { @for ask in asks { li { (text::line(ask, 300)) } } } },
            }
            h3 { "It was granted" }
            @if facts.granted.is_empty() { p.muted { "nothing" } } @else { ul { @for grant in &facts.granted { li { (text::line(grant, 300)) } } } }
            @if !facts.missing.is_empty() {
                h3 { "Missing" }
                ul.missing { @for (what, arguments) in &facts.missing { li {
                    (text::line(what, 300))
                    pre.command { "tollgate grant " (text::line(id, 64)) " " (text::line(arguments, 2_000)) }
                } } }
                p.muted { "Powers are granted on the command line only." }
            }
        }
    }
}

fn try_form(
    tool: &Tool,
    entries: &Entries,
    errors: &[super::form::EntryError],
    problem: Option<&str>,
) -> Markup {
    let form = Form::of_schema(&tool.descriptor.parameters);
    let form = if form == Form::Anything { Form::Json } else { form };
    let context = Context { id: "try", entries, errors };
    let is_json = matches!(form, Form::Json);
    html! {
        section.card aria-labelledby="try-title" {
            h2 #try-title { "Try it" }
            form method="post" action={ "/console/tools/" (layout::segment(&tool.descriptor.name)) } {
                @if let Some(problem) = problem { p.error role="alert" { (text::line(problem, 500)) } }
                @for error in errors.iter().filter(|error| error.pointer.is_empty() && !is_json) { p.error role="alert" { (text::line(&error.problem, 400)) } }
                (form_fields::of_form(&form, &context))
                button.primary type="submit" { "Call" }
                p.hint { "Gates judge this call like any other, and it is recorded." }
            }
        }
    }
}

/// Calls the tool with the entries of its form.
pub(super) async fn call(viewer: Viewer, Path(name): Path<String>, body: Bytes) -> Result<Response, Failure> {
    viewer.principal.require(Scope::Use)?;
    let tool = find(&viewer, &name)?;
    let entries = Entries::read(&body);
    let form = Form::of_schema(&tool.descriptor.parameters);
    let is_empty = form == Form::Anything && entries.word("json").is_empty();
    let entered = if is_empty { Ok(serde_json::json!({})) } else { form.value(&entries) };
    let arguments = match entered {
        Ok(arguments) => arguments,
        Err(errors) => return page(&viewer, &name, &entries, &errors, None).await,
    };
    let (thread, arguments) = (format!("try-{name}"), arguments.to_string());
    let (call, place) = ((name.as_str(), arguments.as_str()), (Some(thread.as_str()), None));
    match viewer.shared.start_call(&viewer.principal, &viewer.share(), call, place, false).await {
        Ok(started) => {
            let run_id = started.handle.run_id.to_string();
            finish(&viewer, started).await;
            Ok(Redirect::to(&format!("/console/runs/{}", layout::segment(&run_id))).into_response())
        }
        Err(why) => refused_page(&viewer, &name, &entries, &why).await,
    }
}

/// Returns the page of a tool whose call was refused.
async fn refused_page(
    viewer: &Viewer,
    name: &str,
    entries: &Entries,
    why: &Problem,
) -> Result<Response, Failure> {
    let mut response = page(viewer, name, entries, &[], Some(&why.detail)).await?;
    *response.status_mut() = why.status;
    Ok(response)
}

/// Waits a moment for the end of a call, so that its page shows the result.
async fn finish(viewer: &Viewer, started: StartedRun) {
    let run_id = started.handle.run_id.to_string();
    drop(started.detach());
    for _ in 0..40 {
        let filter = tollgate::store::RunFilter::one(&run_id);
        let found = viewer.store().runs(filter).await.unwrap_or_default();
        if found.first().is_some_and(|run| run.status != "running") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
}

pub(super) async fn enable(viewer: Viewer, Path(name): Path<String>) -> Result<Redirect, Failure> {
    viewer.principal.require(Scope::Operate)?;
    find(&viewer, &name)?;
    viewer
        .shared
        .host
        .enable_by(&name, &viewer.principal.name)
        .await
        .map_err(|why| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", why.to_string()))?;
    Ok(Redirect::to(&format!("/console/tools/{}", layout::segment(&name))))
}
