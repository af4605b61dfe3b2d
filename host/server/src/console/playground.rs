//! The playground: a conversation with an agent, with its questions inline.

use super::conversation;
use super::failure::Failure;
use super::form::Entries;
use super::fragment::{self, Fragment};
use super::layout;
use super::nav::{Nav, Section};
use super::question::Card;
use super::run::OpenedRun;
use super::run_facts::open_questions;
use super::text;
use super::timeline::Row;
use super::viewer::{Viewer, is_own};
use crate::operations::RunStart;
use crate::{Problem, Scope};
use axum::body::Bytes;
use axum::extract::Query;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, PreEscaped, html};
use std::collections::HashMap;
use tollgate::DIRECT_AGENT;
use tollgate::store::RunFilter;

/// The maximum number of bytes of messages on the page.
const MAX_MESSAGES_BYTES: usize = 36 * 1024;
/// The longest id of a thread, in bytes.
const MAX_THREAD_BYTES: usize = 100;
/// The longest message, in bytes.
const MAX_MESSAGE_BYTES: usize = 100_000;

pub(super) async fn page(
    viewer: Viewer,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Markup, Failure> {
    viewer.principal.require(Scope::Use)?;
    let word = |name: &str| query.get(name).map(|word| word.trim()).unwrap_or_default();
    show(&viewer, word("agent"), word("thread"), "", None).await
}

async fn show(
    viewer: &Viewer,
    agent: &str,
    thread: &str,
    message: &str,
    problem: Option<&str>,
) -> Result<Markup, Failure> {
    let nav = Nav::of(viewer, Section::Playground).await?;
    let agents: Vec<String> = viewer
        .shared
        .host
        .agents()
        .map(|agent| agent.spec.view.id.clone())
        .filter(|id| id != DIRECT_AGENT && viewer.principal.may_use_agent(id))
        .collect();
    let run_id = newest_run(viewer, thread).await?;
    let elements = match &run_id {
        Some(run_id) => fragments(viewer, run_id, thread).await?,
        None => Vec::new(),
    };
    let live = run_id
        .as_ref()
        .map(|run_id| fragment::url("playground", &[("run", run_id), ("thread", thread)], &elements));
    let html = |id: &str| {
        let found = elements.iter().find(|element| element.id == id);
        PreEscaped(found.map_or("", |element| element.html.as_str()))
    };
    let content = html! {
        section.card.chat aria-label="Conversation" data-live=[live] {
            @if run_id.is_none() { p.empty { "A message starts a run of the agent. It uses the same gates, limits and record as any other." } }
            (html("earlier"))
            ol.conversation #messages { @for element in elements.iter().filter(|element| element.id.starts_with("message-")) { (PreEscaped(&element.html)) } }
            (fragment::live_text())
            (html("activity"))
        }
        form.card.compose method="post" action="/console/playground" {
            @if let Some(problem) = problem { p.error role="alert" { (text::line(problem, 500)) } }
            div.row {
                div.field { label for="agent" { "Agent" } select #agent name="agent" required {
                    @for id in &agents { option value=(id) selected[id == agent] { (text::line(id, 64)) } }
                } }
                div.field { label for="thread" { "Thread" } input #thread name="thread" type="text" required maxlength=(MAX_THREAD_BYTES) value=(thread_or_new(viewer, thread)); }
            }
            div.field { label for="message" { "Message" } textarea #message name="message" rows="3" required { "\n" (message) } }
            button.primary type="submit" { "Send" }
            @if run_id.is_some() { " " a.button href=(text::href("/console/playground", &[("agent", agent)])) { "New thread" } }
        }
    };
    Ok(layout::page(&nav, "Playground", content))
}

fn thread_or_new(viewer: &Viewer, thread: &str) -> String {
    if !thread.is_empty() {
        return thread.to_owned();
    }
    format!("chat-{}", text::zoned(viewer.now_ms).strftime("%m%d-%H%M%S"))
}

/// Returns the thread as it is stored.
fn stored(viewer: &Viewer, thread: &str) -> String {
    format!("{}/{thread}", viewer.principal.name)
}

async fn newest_run(viewer: &Viewer, thread: &str) -> Result<Option<String>, Failure> {
    if thread.is_empty() {
        return Ok(None);
    }
    let filter = RunFilter { thread_id: Some(stored(viewer, thread)), limit: 1, ..RunFilter::default() };
    Ok(viewer.store().runs(filter).await?.into_iter().next().map(|run| run.run_id))
}

/// Returns the elements of the conversation that change.
///
/// # Errors
/// The person may not see the run, or the store cannot be read.
pub(super) async fn fragments(viewer: &Viewer, run_id: &str, thread: &str) -> Result<Vec<Fragment>, Failure> {
    let opened = OpenedRun::open(viewer, run_id).await?;
    let thread_id = stored(viewer, thread);
    if opened.summary.thread_id != thread_id || !is_own(&viewer.principal, &thread_id) {
        return Err(Failure::missing("thread"));
    }
    let _memory = viewer.shared.host.room_for_thread(&thread_id).await?;
    let messages = viewer.store().thread(&thread_id).await?.messages;
    let (items, earlier) = conversation::last_messages(&messages, MAX_MESSAGES_BYTES);
    let mut elements = vec![Fragment::new(
        "earlier",
        html! {
            p.muted #earlier { @if earlier > 0 { (text::count(earlier as u64, "earlier message")) " are on the page of the thread." } }
        },
    )];
    for (index, item) in items.into_iter().enumerate() {
        let id = format!("message-{}", earlier + index);
        let item = item.replacen("<li ", &format!("<li id=\"{id}\" "), 1);
        elements.push(Fragment::new(id, PreEscaped(item)).at_end("messages"));
    }
    elements.push(Fragment::new("activity", activity(&opened, viewer)));
    Ok(elements)
}

/// Renders what the run does now: calls that have not ended, questions, and how it ended.
fn activity(opened: &OpenedRun, viewer: &Viewer) -> Markup {
    let run = &opened.summary;
    let questions = open_questions(&opened.run, &opened.events);
    let may_decide = viewer.may_decide(&opened.visible);
    let open_calls: Vec<_> = opened
        .timeline
        .rows
        .iter()
        .filter_map(|row| if let Row::Call(call) = row { Some(call) } else { None })
        .filter(|call| call.end.is_none() && !call.is_waiting())
        .collect();
    html! {
        div.activity #activity {
            @for call in open_calls { p.working { span.tool { (text::line(&call.tool_name, 64)) } " " (call.is_at().unwrap_or("running")) } }
            div.questions { @for question in &questions {
                (Card::new(run, question, viewer.now_ms).answerable(may_decide).in_list().back_to("playground").open(&Entries::default(), &[], viewer))
            } }
            p.muted.status { (layout::badge(run.shown_status())) " " (layout::run_link(&run.run_id, html! { "Run " code { (text::short_id(&run.run_id)) } }))
                @if opened.is_driven { noscript { " " a href=(text::href("/console/playground", &[("agent", &run.agent_id), ("thread", super::viewer::owner_and_id(&run.thread_id).1)])) { "Refresh" } } }
            }
        }
    }
}

/// Sends a message to an agent.
pub(super) async fn send(viewer: Viewer, body: Bytes) -> Result<Response, Failure> {
    viewer.principal.require(Scope::Use)?;
    let entries = Entries::read(&body);
    let (agent, thread) = (entries.word("agent"), entries.word("thread"));
    let message = entries.get("message").unwrap_or_default().replace("\r\n", "\n");
    if let Some(problem) = problem_with(&viewer, agent, thread, &message) {
        let page = show(&viewer, agent, thread, &message, Some(&problem)).await?;
        return Ok((axum::http::StatusCode::UNPROCESSABLE_ENTITY, page).into_response());
    }
    let start = RunStart {
        agent: agent.to_owned(),
        input: message.trim().to_owned(),
        thread_id: Some(thread.to_owned()),
        detached: true,
        ..RunStart::default()
    };
    match viewer.shared.start_run(&viewer.principal, &viewer.share(), start).await {
        Ok(started) => started.leave(),
        Err(Problem { status, detail, .. }) => {
            let page = show(&viewer, agent, thread, &message, Some(&detail)).await?;
            return Ok((status, page).into_response());
        }
    }
    Ok(Redirect::to(&text::href("/console/playground", &[("agent", agent), ("thread", thread)]))
        .into_response())
}

fn problem_with(viewer: &Viewer, agent: &str, thread: &str, message: &str) -> Option<String> {
    let is_agent = |id: &str| viewer.shared.host.agents().any(|agent| agent.spec.view.id == id);
    if agent == DIRECT_AGENT || !is_agent(agent) || !viewer.principal.may_use_agent(agent) {
        return Some("there is no such agent; choose one from the list".to_owned());
    }
    let is_plain =
        |thread: &str| thread.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if thread.is_empty() || thread.len() > MAX_THREAD_BYTES || !is_plain(thread) {
        return Some("name the thread with letters, digits, hyphens, dots and underscores".to_owned());
    }
    match message.trim().len() {
        0 => Some("write a message".to_owned()),
        1..=MAX_MESSAGE_BYTES => None,
        _ => Some(format!("the message is longer than {MAX_MESSAGE_BYTES} bytes; shorten it")),
    }
}
