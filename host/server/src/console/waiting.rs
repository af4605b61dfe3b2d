//! Questions that wait for a person: all of them in one list, and each with a page of its own.

use super::cache::Question;
use super::failure::Failure;
use super::form::{Entries, EntryError};
use super::layout::{self, Nav, Section};
use super::live::{self, Fragment};
use super::question::{self, Card};
use super::text;
use super::viewer::{Viewer, may_see};
use crate::Scope;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped, html};
use std::collections::HashMap;
use std::sync::Arc;
use tollgate::store::RunSummary;

/// The maximum number of waiting runs that are looked at.
const MAX_RUNS: usize = 200;
/// The maximum number of bytes of questions on one page.
const MAX_PAGE_BYTES: usize = 44 * 1024;

/// A question with its run.
pub(super) struct Open {
    pub(super) run: RunSummary,
    pub(super) question: Question,
}

/// Returns the open questions that the person may answer, oldest first.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn open_questions(viewer: &Viewer) -> Result<Vec<Open>, Failure> {
    let mut open = Vec::new();
    for run in waiting_runs(viewer).await? {
        let facts = viewer.facts(&run).await?;
        open.extend(
            facts.questions.iter().map(|question| Open { run: run.clone(), question: question.clone() }),
        );
    }
    open.sort_by(|a, b| (a.question.at_ms, &a.run.run_id).cmp(&(b.question.at_ms, &b.run.run_id)));
    Ok(open)
}

/// Returns the number of open questions that the person may answer.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn count(viewer: &Viewer) -> Result<usize, Failure> {
    let mut count = 0;
    for run in waiting_runs(viewer).await? {
        count += viewer.facts(&run).await?.questions.len();
    }
    Ok(count)
}

/// Returns the runs that wait for the person. The question of a child is asked by its parent too,
/// which passes on the answer.
async fn waiting_runs(viewer: &Viewer) -> Result<Vec<RunSummary>, Failure> {
    let filter = tollgate::store::RunFilter {
        status: Some("waiting".to_owned()),
        limit: MAX_RUNS,
        ..Default::default()
    };
    let mut runs = viewer.store().runs(filter).await?;
    runs.retain(|run| run.kind != "child" && viewer.may_decide(&run.thread_id));
    Ok(runs)
}

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
    let nav = Nav::of(viewer, Section::Waiting).await?;
    let open = open_questions(viewer).await?;
    let (cards, shown) = cards(viewer, &open);
    let is_clear = open.is_empty();
    let heading = html! {
        h1 { "Waiting" }
        p.lead { @if is_clear { "No question waits for you." } @else { (text::count(open.len() as u64, "question")) " · oldest first" } }
    };
    let content = html! {
        section aria-label="Questions" data-live=(live::url("waiting", &[], &cards)) {
            (answered.unwrap_or_default())
            div.questions #questions { @for card in &cards { (PreEscaped(&card.html)) } }
            div #clear { @if is_clear {
                div.card.empty { p { "When a tool or a gate asks, its question appears here." } }
            } }
        }
        @if shown < open.len() {
            p.muted { (text::count((open.len() - shown) as u64, "more question")) " follow when these are answered." }
        }
    };
    Ok(layout::page_with(&nav, "Waiting", heading, content))
}

/// Returns the cards of the oldest questions, and their number.
pub(super) fn cards(viewer: &Viewer, open: &[Open]) -> (Vec<Fragment>, usize) {
    let (mut cards, mut bytes) = (Vec::new(), 0);
    for open in open {
        let card = Card::new(&open.run, &open.question, viewer.now_ms).in_list();
        let fragment =
            Fragment::new(&card.id, card.open(&Entries::default(), &[], viewer)).at_end("questions");
        bytes += fragment.html.len();
        if bytes > MAX_PAGE_BYTES && !cards.is_empty() {
            break;
        }
        cards.push(fragment);
    }
    let shown = cards.len();
    (cards, shown)
}

/// Returns the card of a question that was answered; `None` if it is still open, or does not
/// exist.
pub(super) async fn answered_card(
    viewer: &Viewer,
    run_id: &str,
    suspension: &str,
) -> Result<Option<Markup>, Failure> {
    let run = viewer.asking_run(run_id).await?;
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
    let run = viewer.asking_run(run_id).await?;
    let nav = Nav::of(viewer, Section::Waiting).await?;
    let found = find(viewer, &run, suspension).await?;
    let owner = viewer.owner_thread(&run).await?;
    let content = match found {
        Some(question) => {
            Card::new(&run, &question, viewer.now_ms).owned_by(&owner).open(entries, errors, viewer)
        }
        None => match answered_card(viewer, run_id, suspension).await? {
            Some(card) => card,
            None => return Err(Failure::missing("question")),
        },
    };
    let sees_run = may_see(&viewer.principal, &run.thread_id) || viewer.has(Scope::Read);
    let heading = html! {
        p.crumbs { a href="/console/waiting" { "Waiting" } }
        h1 { "Question" }
        @if sees_run { p.lead { "of the run " (layout::run_link(&run.run_id, text::line(&run.title, 100))) } }
    };
    let title = if errors.is_empty() { "Question" } else { "Error: question" };
    Ok((status, layout::page_with(&nav, title, heading, content)).into_response())
}

/// Returns an open question of a run.
pub(super) async fn find(
    viewer: &Viewer,
    run: &RunSummary,
    suspension: &str,
) -> Result<Option<Question>, Failure> {
    let facts: Arc<_> = viewer.facts(run).await?;
    Ok(facts.questions.iter().find(|question| question.asked.suspension_id == suspension).cloned())
}
