//! Threads: conversations with their state and runs.

use super::conversation;
use super::failure::Failure;
use super::filters::Filters;
use super::layout;
use super::nav::{Nav, Section};
use super::runs::{self, RunListQuery, SEARCHED_RUNS};
use super::text;
use super::viewer::{Viewer, owner_and_id};
use axum::extract::Query;
use maud::{Markup, PreEscaped, html};
use std::collections::HashMap;
use tollgate::store::{RunFilter, RunSummary};

/// The number of threads on one page.
const PAGE_THREADS: usize = 60;
/// The maximum number of bytes of messages on the page of a thread.
const MAX_MESSAGES_BYTES: usize = 22 * 1024;
/// The maximum number of bytes of a state value.
const MAX_VALUE_BYTES: usize = 600;
/// The maximum number of state keys on the page of a thread.
const MAX_KEYS: usize = 20;

/// The last page that is shown.
const MAX_PAGE: usize = 100;

/// A thread in the list.
struct ThreadRow<'a> {
    last: &'a RunSummary,
    runs: usize,
    first_ms: u64,
}

pub(super) async fn list(viewer: Viewer, filters: Filters) -> Result<Markup, Failure> {
    let nav = Nav::of(&viewer, Section::Threads).await?;
    let page = filters.only(&["page"])?.page(MAX_PAGE)?;
    let filter =
        RunFilter { thread_prefix: viewer.listed_threads(), limit: SEARCHED_RUNS, ..RunFilter::default() };
    let found = viewer.store().runs(filter).await?;
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut threads: Vec<ThreadRow<'_>> = Vec::new();
    // A direct call without a thread has one of its own, with the id of its run.
    let is_listed = |run: &&RunSummary| run.kind != "child" && run.thread_id != run.run_id;
    for run in found.iter().filter(is_listed) {
        match places.get(run.thread_id.as_str()) {
            Some(place) => {
                threads[*place].runs += 1;
                threads[*place].first_ms = run.started_at_ms;
            }
            None => {
                places.insert(&run.thread_id, threads.len());
                threads.push(ThreadRow { last: run, runs: 1, first_ms: run.started_at_ms });
            }
        }
    }
    let has_more = threads.len() > page * PAGE_THREADS;
    let shown: Vec<_> = threads.iter().skip((page - 1) * PAGE_THREADS).take(PAGE_THREADS).collect();
    let content = html! {
        section.card.flush aria-label="Threads" {
            @if shown.is_empty() { p.empty { "No conversation yet." } } @else {
                table.list {
                    caption.hidden { "Threads, newest first" }
                    thead { tr {
                        th scope="col" { "Thread" } th scope="col" { "Last run" } th scope="col" { "Status" }
                        th scope="col" { "Agent" } th.num scope="col" { "Runs" } th.num scope="col" { "Began" } th.num scope="col" { "Last" }
                    } }
                    tbody { @for thread in shown { (thread_row(thread, viewer.now_ms)) } }
                }
            }
        }
        (layout::pager("/console/threads", &[], page, has_more))
    };
    Ok(layout::page(&nav, "Threads", content))
}

fn thread_row(thread: &ThreadRow<'_>, now_ms: u64) -> Markup {
    let last = thread.last;
    html! {
        tr {
            th scope="row" data-label="Thread" { (layout::thread_link(&last.thread_id)) }
            td.title { (layout::run_link(&last.run_id, text::line(&last.title, 90))) }
            td.status { (layout::badge(last.shown_status())) }
            td data-label="Agent" { (text::line(&last.agent_id, 40)) }
            td.num data-label="Runs" { (thread.runs) }
            td.num data-label="Began" { (text::moment(thread.first_ms, now_ms)) }
            td.num data-label="Last" { (text::moment(last.updated_at_ms, now_ms)) }
        }
    }
}

pub(super) async fn one(
    viewer: Viewer,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Markup, Failure> {
    let id = query.get("id").map(String::as_str).unwrap_or_default();
    let filter = RunFilter { thread_id: Some(id.to_owned()), limit: 1, ..RunFilter::default() };
    let newest = viewer.store().runs(filter).await?.into_iter().next().ok_or(Failure::missing("thread"))?;
    // The thread of a child belongs to the run that started it.
    viewer.run(&newest.run_id).await.map_err(|_| Failure::missing("thread"))?;
    let nav = Nav::of(&viewer, Section::Threads).await?;
    let _memory = viewer.shared.host.room_for_thread(id).await?;
    let thread = viewer.store().thread(id).await?;
    let rows = runs::rows(&viewer, &RunListQuery::of_thread(id)).await?.rows;
    let shown_rows = &rows[..rows.len().min(10)];
    let (items, earlier) = conversation::last_messages(&thread.messages, MAX_MESSAGES_BYTES);
    let (owner, short) = owner_and_id(id);
    let heading = html! {
        p.crumbs { a href="/console/threads" { "Threads" } }
        h1 { (text::line(short, 100)) }
        p.lead { @if let Some(owner) = owner { "of " (text::line(owner, 64)) " · " } (text::count(thread.messages.len() as u64, "message")) ", state at revision " (thread.state.revision()) }
    };
    let visible: Vec<_> = thread.state.iter().filter(|(key, _)| viewer.shared.host.shows_key(key)).collect();
    let hidden = thread.state.keys().count() - visible.len();
    let may_continue = super::viewer::is_own(&viewer.principal, id) && viewer.has(crate::Scope::Use);
    let content = html! {
        div.run {
            div.main {
                section.card aria-labelledby="conversation" {
                    h2 #conversation { "Conversation" }
                    @if earlier > 0 { p.muted { (text::count(earlier as u64, "earlier message")) " are on the pages of their runs." } }
                    @if items.is_empty() { p.empty { @if newest.kind == "prompt" { "No turn of the conversation has ended yet." } @else { "No messages: direct calls only." } } }
                    ol.conversation { @for item in &items { (PreEscaped(item)) } }
                    @if may_continue {
                        p { a.button href=(text::href("/console/playground", &[("thread", short), ("agent", &newest.agent_id)])) { "Continue in the playground" } }
                    }
                }
                section.card.flush aria-labelledby="thread-runs" {
                    h2 #thread-runs { "Runs" a.more href=(text::href("/console/runs", &[("thread", id)])) { "All runs" } }
                    (runs::table(shown_rows, "Runs of the thread"))
                }
            }
            aside aria-label="State" { div.facts-card {
                h2 { "State" }
                @if visible.is_empty() { p.muted { "No visible keys." } }
                dl.values { @for (key, value) in visible.iter().take(MAX_KEYS) {
                    dt { code { (text::line(key, 130)) } }
                    dd { code { (text::short_json(value, MAX_VALUE_BYTES)) } }
                } }
                @if visible.len() > MAX_KEYS { p.muted { "and " (visible.len() - MAX_KEYS) " more" } }
                @if hidden > 0 { p.muted { (text::count(hidden as u64, "key")) " not visible; " code { "visible_keys" } " of the configuration shows them." } }
            } }
        }
    };
    Ok(layout::page_with(&nav, &text::one_line(short, 80), heading, content))
}
