//! Questions that wait for a person: all of them in one list, and each with a page of its own.

use super::cache::Question;
use super::failure::Failure;
use super::form::{Entries, EntryError};
use super::fragment::{self, Fragment};
use super::layout;
use super::nav::{Nav, Section};
use super::open_questions::{self, ListedQuestion};
use super::question::{self, Card};
use super::text;
use super::viewer::{SeenRun, Viewer};
use crate::Scope;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped, html};
use std::collections::HashMap;
use tollgate::store::RunSummary;

/// The maximum total size of the cards on one page, in bytes. The first card may exceed it.
const MAX_PAGE_BYTES: usize = 42 * 1024;

pub(super) async fn list(
    viewer: Viewer,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Failure> {
    let answered = match (query.get("run"), query.get("s")) {
        (Some(run_id), Some(suspension)) => answered_card(&viewer, run_id, suspension).await?,
        _ => None,
    };
    Ok(page(&viewer, answered).await?.into_response())
}

/// Returns the list, with the card of a question that was answered before it.
pub(super) async fn page(viewer: &Viewer, answered: Option<Markup>) -> Result<Markup, Failure> {
    let open = open_questions::all(viewer).await?;
    let nav = Nav::new(viewer, Section::Waiting, open.len());
    let cards = cards(viewer, &open).await;
    let shown = cards.len();
    let is_clear = open.is_empty();
    let heading = html! {
        h1 { "Waiting" }
        p.lead { @if is_clear { "No question waits for you." } @else { (text::count(open.len() as u64, "question")) " · oldest first" } }
    };
    let content = html! {
        section aria-label="Questions" data-live=(fragment::url("waiting", &[], &cards)) {
            (answered.unwrap_or_default())
            div.questions #questions { @for card in &cards { (PreEscaped(&card.html)) } }
            div #clear { @if is_clear {
                div.card.empty { p { "When a tool or a gate asks, its question appears here." } }
            } }
        }
        @if shown < open.len() {
            p.muted { "Answer these to see " (text::count((open.len() - shown) as u64, "more question")) "." }
        }
    };
    Ok(layout::page_with(&nav, "Waiting", heading, content))
}

/// Returns the cards of the oldest questions, as many as fit on one page.
pub(super) async fn cards(viewer: &Viewer, open: &[ListedQuestion]) -> Vec<Fragment> {
    let (mut cards, mut bytes) = (Vec::new(), 0);
    for ListedQuestion { run, suspension_id, .. } in open {
        // The question may have been answered meanwhile.
        let Some(question) = find(viewer, run, suspension_id).await else { continue };
        let card = Card::new(run, &question, viewer.now_ms).answerable(true).in_list();
        let fragment =
            Fragment::new(&card.id, card.open(&Entries::default(), &[], viewer)).at_end("questions");
        bytes += fragment.html.len();
        if bytes > MAX_PAGE_BYTES && !cards.is_empty() {
            break;
        }
        cards.push(fragment);
    }
    cards
}

/// Returns the card of a question that was answered; `None` if it is still open, or does not
/// exist.
pub(super) async fn answered_card(
    viewer: &Viewer,
    run_id: &str,
    suspension: &str,
) -> Result<Option<Markup>, Failure> {
    let run = viewer.asking_run(run_id).await?.summary;
    let _memory = viewer.shared.host.room_for_record(&run.run_id).await?;
    let events = viewer.store().record(&run.run_id).await?.events;
    Ok(question::answered(&run, &events, suspension, viewer.now_ms))
}

/// Shows one question, open or answered.
pub(super) async fn one(
    viewer: Viewer,
    Path(run_id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Failure> {
    let suspension = query.get("s").map(String::as_str).unwrap_or_default();
    one_page(&viewer, &run_id, suspension, &Entries::default(), &[], StatusCode::OK).await
}

/// Returns the page of one question, with the entries of a form that is shown again.
pub(super) async fn one_page(
    viewer: &Viewer,
    run_id: &str,
    suspension: &str,
    entries: &Entries,
    errors: &[EntryError],
    status: StatusCode,
) -> Result<Response, Failure> {
    let SeenRun { summary: run, visible } = viewer.asking_run(run_id).await?;
    let nav = Nav::of(viewer, Section::Waiting).await?;
    let content = match find(viewer, &run, suspension).await {
        Some(question) => {
            let card = Card::new(&run, &question, viewer.now_ms);
            card.answerable(viewer.may_decide(&visible)).open(entries, errors, viewer)
        }
        None => match answered_card(viewer, run_id, suspension).await? {
            Some(card) => card,
            None => return Err(Failure::missing("question")),
        },
    };
    let sees_run = visible.is_own || viewer.has(Scope::Read);
    let heading = html! {
        p.crumbs { a href="/console/waiting" { "Waiting" } }
        h1 { "Question" }
        @if sees_run { p.lead { "of the run " (layout::run_link(&run.run_id, text::line(&run.title, 100))) } }
    };
    let title = if errors.is_empty() { "Question" } else { "Error: question" };
    Ok((status, layout::page_with(&nav, title, heading, content)).into_response())
}

/// Returns an open question of a run; `None` if it is not open.
pub(super) async fn find(viewer: &Viewer, run: &RunSummary, suspension: &str) -> Option<Question> {
    if !run.is_open() {
        return None;
    }
    let questions = viewer.questions(run).await;
    questions.iter().find(|question| question.asked.suspension_id == suspension).cloned()
}
