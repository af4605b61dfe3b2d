//! One run: its timeline, conversation, events and state changes, its usage against its limits, and
//! the form that cancels it.

use super::conversation;
use super::failure::Failure;
use super::form::Entries;
use super::fragment::{self, Fragment};
use super::layout;
use super::nav::{Nav, Section};
use super::question::Card;
use super::run_facts::{fold, open_questions};
use super::run_parts::{self, AttemptLimits, meter};
use super::text;
use super::timeline::{Row, Scale, Timeline, rounded_up};
use super::viewer::{SeenRun, Viewer};
use crate::Scope;
use crate::load::WholeRecordPlace;
use crate::operations::VisibleRun;
use axum::extract::{Path, Query};
use maud::{Markup, PreEscaped, html};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tollgate::store::RunSummary;
use tollgate::tools::Reservation;
use tollgate_agent::run::{Run, StoredEvent};
use tollgate_agent::text::escaped_json;

/// The maximum number of bytes of rows on one page.
const MAX_ROWS_BYTES: usize = 42 * 1024;
/// The maximum number of bytes of an event on a page of events; each has a page of its own.
const MAX_EVENT_BYTES: usize = 300;

/// The views of a run, each with its name in the address and its label.
const VIEWS: [(&str, &str); 4] =
    [("", "Timeline"), ("conversation", "Conversation"), ("events", "Events"), ("state", "State changes")];

/// A run with its record.
pub(super) struct OpenedRun {
    pub(super) summary: RunSummary,
    pub(super) events: Vec<Arc<StoredEvent>>,
    pub(super) damage: Option<String>,
    pub(super) run: Run,
    pub(super) timeline: Timeline,
    /// Whether a process drives the run now.
    pub(super) is_driven: bool,
    /// The place among the whole records in memory.
    _place: Option<WholeRecordPlace>,
    _memory: Option<Reservation>,
    /// The owner of the run.
    pub(super) visible: VisibleRun,
}

impl OpenedRun {
    /// Opens the record of a run. Values of state keys that are not visible are left out.
    ///
    /// # Errors
    /// The person may not see the run, or the store cannot be read.
    pub(super) async fn open(viewer: &Viewer, run_id: &str) -> Result<Self, Failure> {
        let SeenRun { summary, visible } = viewer.run(run_id).await?;
        let place = viewer.shared.load.whole_record(&viewer.principal.name).await;
        let host = &viewer.shared.host;
        let memory = host.room_for_record(&summary.run_id).await?;
        let record = viewer.store().record(&summary.run_id).await?;
        let events: Vec<_> = record.events.into_iter().map(|event| host.visible(event)).collect();
        let is_driven = summary.status == "running" && summary.is_driven;
        let (run, timeline) = (fold(&events), Timeline::of(&events));
        let run = Self {
            summary,
            events,
            damage: record.damage,
            run,
            timeline,
            is_driven,
            visible,
            _place: place,
            _memory: memory,
        };
        Ok(run)
    }

    /// Returns the end of the timeline's scale: now for a run that continues, and the last event
    /// for one that has ended. For a running one, it is rounded up so that it changes rarely.
    pub(super) fn until_ms(&self, now_ms: u64) -> u64 {
        if self.is_driven {
            self.timeline.began_ms + rounded_up(now_ms.saturating_sub(self.timeline.began_ms))
        } else if self.timeline.is_waiting() {
            now_ms
        } else {
            self.timeline.last_ms
        }
    }
}

pub(super) async fn page(
    viewer: Viewer,
    Path(run_id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Markup, Failure> {
    let opened = OpenedRun::open(&viewer, &run_id).await?;
    let nav = Nav::of(&viewer, Section::Runs).await?;
    let word = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let view = VIEWS.iter().map(|(view, _)| *view).find(|view| *view == word("view")).unwrap_or_default();
    let path = format!("/console/runs/{}", layout::segment(&run_id));
    let content = html! {
        @if let Some(damage) = &opened.damage {
            (layout::notice("bad", html! { "The record of this run is damaged (" (text::line(damage, 300)) "). This page shows the rest of it." }))
        }
        nav.tabs aria-label="Views of the run" { ul {
            @for (name, label) in VIEWS {
                li { a href=(text::href(&path, &[("view", name)])) aria-current=[(name == view).then_some("page")] { (label) } }
            }
        } }
        @match view {
            "conversation" => (conversation_view(&opened, &path, word("from"))),
            "events" => (events_view(&opened, &viewer, &path, word("from"))),
            "state" => (state_view(&opened, &viewer)),
            _ => (timeline_view(&opened, &viewer, word("from"))),
        }
    };
    let title = text::one_line(&opened.summary.title, 80);
    Ok(layout::page_with(&nav, &title, heading(&opened), content))
}

fn heading(opened: &OpenedRun) -> Markup {
    let run = &opened.summary;
    let kind = match run.kind.as_str() {
        "call" => "Direct call",
        "child" => "Child run",
        _ => "Run",
    };
    html! {
        p.crumbs { a href="/console/runs" { "Runs" } " / " code { (text::short_id(&run.run_id)) } }
        h1.title { span.hidden { (kind) ": " } (text::line(&run.title, 160)) }
    }
}

/// Returns the elements of the timeline's page that change.
///
/// # Errors
/// The person may not see the run, or the store cannot be read.
pub(super) async fn fragments(viewer: &Viewer, run_id: &str, from: &str) -> Result<Vec<Fragment>, Failure> {
    let opened = OpenedRun::open(viewer, run_id).await?;
    Ok(elements(&opened, viewer, from))
}

fn elements(opened: &OpenedRun, viewer: &Viewer, from: &str) -> Vec<Fragment> {
    let from: usize = from.parse().unwrap_or(0);
    let mut elements = vec![
        Fragment::new("run-head", head(opened, viewer)),
        Fragment::new("run-open", questions(opened, viewer)),
    ];
    let until = opened.until_ms(viewer.now_ms);
    let scale = Scale::new(&opened.timeline, until);
    elements.push(Fragment::new("run-axis", run_parts::axis(&scale)));
    let (mut bytes, mut known) = (0, HashMap::new());
    for (index, row) in opened.timeline.rows.iter().enumerate().skip(from) {
        let limits = match row {
            Row::Call(call) => *known
                .entry(call.tool_name.clone())
                .or_insert_with(|| attempt_limits(opened, viewer, &call.tool_name)),
            _ => None,
        };
        let markup = run_parts::row(row, limits, index, &scale, viewer.now_ms, &opened.summary.run_id);
        let row = Fragment::new(format!("row-{index}"), markup).at_end("rows");
        bytes += row.html.len();
        if bytes > MAX_ROWS_BYTES {
            elements.push(Fragment::new("run-more", more(&opened.summary.run_id, index)));
            return elements;
        }
        elements.push(row);
    }
    elements.push(Fragment::new("run-more", html! { p #run-more {} }));
    elements
}

/// Returns the limits of an attempt of a tool in this run, as they are now; `None` if it is not served.
fn attempt_limits(opened: &OpenedRun, viewer: &Viewer, tool_name: &str) -> Option<AttemptLimits> {
    let toolbox = viewer.shared.host.toolbox();
    let tool = toolbox.catalog().tool(tool_name)?;
    let facts = viewer.data.component(&tool.owner.id);
    let own = facts.and_then(|facts| facts.limits.into_iter().find(|(name, _)| name == tool_name));
    let own = own.map(|(_, limits)| limits);
    Some(AttemptLimits {
        timeout_ms: u64::from(opened.run.spec().limits.attempt_timeout_ms(&tool.descriptor.execution)),
        fuel: own.map(|limits| limits.fuel),
        memory_bytes: own.map(|limits| limits.memory_bytes),
    })
}

fn more(run_id: &str, from: usize) -> Markup {
    let from = from.to_string();
    let href = text::href(&format!("/console/runs/{}", layout::segment(run_id)), &[("from", &from)]);
    html! { p.pager #run-more { a rel="next" href=(href) { "Later rows →" } } }
}

fn timeline_view(opened: &OpenedRun, viewer: &Viewer, from: &str) -> Markup {
    let elements = elements(opened, viewer, from);
    let query = [("run", opened.summary.run_id.as_str()), ("from", from)];
    let html = |id: &str| {
        let found = elements.iter().find(|element| element.id == id);
        PreEscaped(found.map_or("", |element| element.html.as_str()))
    };
    html! {
        div.run data-live=(fragment::url("run", &query, &elements)) {
            div.main {
                (html("run-open"))
                section.card.flush aria-labelledby="timeline" {
                    h2.hidden #timeline { "Timeline" }
                    (run_parts::legend())
                    (html("run-axis"))
                    ol.timeline #rows {
                        @for row in elements.iter().filter(|element| element.id.starts_with("row-")) { (PreEscaped(&row.html)) }
                    }
                    (fragment::live_text())
                    (html("run-more"))
                }
            }
            aside aria-label="Facts about the run" { (html("run-head")) }
        }
    }
}

/// Renders status, identity, usage against limits, and the form that cancels the run.
fn head(opened: &OpenedRun, viewer: &Viewer) -> Markup {
    let (run, usage, limits) = (&opened.summary, opened.run.usage(), &opened.run.spec().limits);
    let identity = &opened.run.spec().identity;
    let until = if opened.is_driven { viewer.now_ms } else { opened.timeline.last_ms };
    let tokens = usage.all_tokens();
    let cost = viewer.cost(&run.agent_id, usage);
    html! {
        div.facts-card #run-head {
            p.status { (layout::badge(run.shown_status())) @if opened.is_driven { " for " (text::span(until.saturating_sub(run.started_at_ms))) } }
            dl.facts {
                dt { "Agent" } dd { (text::line(&run.agent_id, 64)) }
                dt { "Thread" } dd { (layout::thread_link(&run.thread_id)) }
                @if let Some(parent) = &identity.parent_run_id {
                    dt { "Started by" } dd { (layout::run_link(parent, html! { "run " code { (text::short_id(parent)) } })) }
                }
                @if let Some(owner) = &run.owner {
                    dt { "Host" } dd { (text::line(&owner.name, 64)) " " code.digest { (text::line(&owner.id, 64)) } }
                }
                dt { "Began" } dd { (text::moment(run.started_at_ms, viewer.now_ms)) }
                @if opened.timeline.is_waiting() { dt { "Waits since" } dd { (text::moment(opened.timeline.last_ms, viewer.now_ms)) } }
                @else if !opened.is_driven { dt { "Took" } dd { (text::span(opened.timeline.last_ms.saturating_sub(opened.timeline.began_ms))) } }
                dt { "Id" } dd { code.digest { (text::line(&run.run_id, 64)) } }
            }
            h2 { "Usage" }
            @if run.kind != "call" {
                (meter("Model turns", u64::from(usage.all_steps()), Some(u64::from(limits.model_turns)), text::number))
                (meter("Calls", u64::from(usage.calls), Some(u64::from(limits.tool_calls)), text::number))
                (meter("Tokens", tokens.total(), limits.tokens, text::amount))
            }
            (meter("Active time", opened.timeline.active_ms(until), Some(limits.wall_ms), text::span))
            dl.facts {
                @if let Some(cost) = cost { dt { "Cost" } dd { (text::money(cost)) } }
                @if tokens.total() > 0 { dt { "Tokens" } dd { (text::amount(tokens.input_tokens)) " read, " (text::amount(tokens.output_tokens)) " written" } }
                @if usage.tools.fuel > 0 { dt { "Fuel" } dd { @if usage.tools.at_least { "at least " } (text::amount(usage.tools.fuel)) } }
                dt { "In tools" } dd { (text::micros(usage.tools.wall_us)) }
                @if usage.tools.memory_bytes > 0 { dt { "Memory" } dd { (text::bytes(usage.tools.memory_bytes)) } }
                @if usage.children.runs > 0 { dt { "Child runs" } dd { (usage.children.runs) } }
            }
            (cancel_form(opened, viewer))
        }
    }
}

fn cancel_form(opened: &OpenedRun, viewer: &Viewer) -> Markup {
    let run = &opened.summary;
    let is_allowed = (opened.visible.is_own && viewer.has(Scope::Use)) || viewer.has(Scope::Operate);
    html! {
        @if is_allowed && run.is_open() && run.kind != "child" {
            form.cancel method="post" action={ "/console/runs/" (layout::segment(&run.run_id)) "/cancel" } {
                div.field {
                    label for="cancel-reason" { "Reason" span.optional { " optional" } }
                    input #cancel-reason name="reason" type="text" maxlength="1000";
                }
                button.danger type="submit" { "Cancel the run" }
            }
        }
    }
}

fn questions(opened: &OpenedRun, viewer: &Viewer) -> Markup {
    let open = open_questions(&opened.run, &opened.events);
    let may_decide = viewer.may_decide(&opened.visible);
    html! {
        div.questions #run-open {
            @for question in &open {
                (Card::new(&opened.summary, question, viewer.now_ms).answerable(may_decide).in_list().back_to("run").open(&Entries::default(), &[], viewer))
            }
        }
    }
}

fn conversation_view(opened: &OpenedRun, path: &str, from: &str) -> Markup {
    let (messages, more) = conversation::messages(opened.run.messages(), from.parse().unwrap_or(0));
    html! {
        section.card aria-labelledby="conversation" {
            h2.hidden #conversation { "Conversation" }
            @if opened.run.messages().is_empty() { p.empty { "No turn has ended yet." } }
            (messages)
            @if let Some(from) = more {
                p.pager { a rel="next" href=(text::href(path, &[("view", "conversation"), ("from", &from.to_string())])) { "Later messages →" } }
            }
        }
    }
}

fn events_view(opened: &OpenedRun, viewer: &Viewer, path: &str, from: &str) -> Markup {
    let from: usize = from.parse().unwrap_or(0);
    let (mut rows, mut bytes, mut next) = (Vec::new(), 0, None);
    for (index, event) in opened.events.iter().enumerate().skip(from) {
        let row = event_row(event, viewer, path, opened.timeline.began_ms).into_string();
        bytes += row.len();
        if bytes > MAX_ROWS_BYTES {
            next = Some(index);
            break;
        }
        rows.push(row);
    }
    let at = |from: usize| text::href(path, &[("view", "events"), ("from", &from.to_string())]);
    html! {
        section.card.flush aria-labelledby="events" {
            h2.hidden #events { "Events" }
            div.scroll tabindex="0" role="group" aria-labelledby="events" { table.events {
                thead { tr { th.num scope="col" { "No." } th.num scope="col" { "After" } th scope="col" { "Type" } th scope="col" { "Content" } } }
                tbody { @for row in &rows { (PreEscaped(row)) } }
            } }
        }
        nav.pager aria-label="Pages of the events" {
            @if from > 0 { a rel="prev" href=(at(0)) { "← First" } }
            span { (text::number(opened.events.len() as u64)) " events" }
            @if let Some(next) = next { a rel="next" href=(at(next)) { "Later →" } }
        }
    }
}

fn event_row(event: &StoredEvent, viewer: &Viewer, path: &str, began_ms: u64) -> Markup {
    let (kind, content) = run_parts::event_parts(event, viewer.has(Scope::Read));
    html! {
        tr {
            td.num { a href={ (path) "/events/" (event.number) } { (event.number) } }
            td.num { (text::span(event.at_ms.saturating_sub(began_ms))) }
            td { code { (text::line(&kind, 40)) } }
            td.json { code { (text::line(&escaped_json(content), MAX_EVENT_BYTES)) } }
        }
    }
}

/// Shows one event whole.
pub(super) async fn event(
    viewer: Viewer,
    Path((run_id, number)): Path<(String, u64)>,
) -> Result<Markup, Failure> {
    let opened = OpenedRun::open(&viewer, &run_id).await?;
    let event = opened.events.iter().find(|event| event.number == number).ok_or(Failure::missing("event"))?;
    let nav = Nav::of(&viewer, Section::Runs).await?;
    let (kind, content) = run_parts::event_parts(event, viewer.has(Scope::Read));
    let path = format!("/console/runs/{}", layout::segment(&run_id));
    let value: Option<Value> =
        if content.len() <= MAX_ROWS_BYTES { serde_json::from_str(&content).ok() } else { None };
    let content = value.map_or_else(|| escaped_json(content), |value| text::json(&value));
    let (shown, is_whole) = run_parts::within(content, MAX_ROWS_BYTES);
    let heading = html! {
        p.crumbs { a href="/console/runs" { "Runs" } " / " a href=(text::href(&path, &[("view", "events")])) { "Run " code { (text::short_id(&run_id)) } } }
        h1 { "Event " (number) ": " code { (text::line(&kind, 40)) } }
        p.lead { (text::moment(event.at_ms, viewer.now_ms)) }
    };
    let content = html! {
        @if !is_whole {
            (layout::notice("waits", html! { "This event is longer than a page shows. " code { "tollgate show " (text::line(&run_id, 64)) " --json" } " prints it whole." }))
        }
        section.card { pre.whole tabindex="0" { (text::body(&shown)) } }
    };
    Ok(layout::page_with(&nav, &format!("Event {number}"), heading, content))
}

fn state_view(opened: &OpenedRun, viewer: &Viewer) -> Markup {
    let (mut rows, mut bytes, mut is_cut) = (Vec::new(), 0, false);
    for event in &opened.events {
        let Some(change) = event.event.change() else { continue };
        for update in change.updates.iter() {
            let row = run_parts::update_row(event, change.revision, update, viewer).into_string();
            bytes += row.len();
            is_cut |= bytes > MAX_ROWS_BYTES;
            if !is_cut {
                rows.push(row);
            }
        }
    }
    html! {
        section.card.flush aria-labelledby="state" {
            h2.hidden #state { "State changes" }
            @if rows.is_empty() { p.empty { "This run changed no state." } } @else {
                div.scroll tabindex="0" role="group" aria-labelledby="state" { table {
                    thead { tr { th.num scope="col" { "Revision" } th scope="col" { "When" } th scope="col" { "Key" } th scope="col" { "Value" } } }
                    tbody { @for row in &rows { (PreEscaped(row)) } }
                } }
            }
            @if is_cut { p.muted { "Further changes are on the page of events." } }
        }
    }
}
