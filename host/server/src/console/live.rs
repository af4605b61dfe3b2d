//! Live updates: a stream that sends the elements of a page again when they change, rendered by
//! the functions that render the page.

use super::failure::Failure;
use super::filters::Filters;
use super::fragment::{Fragment, LIVE_TEXT, digest_of_all, live_text};
use super::open_questions::{self, ListedQuestion};
use super::viewer::{SeenRun, Viewer};
use super::{layout, overview, playground, question, run, runs, waiting};
use crate::Shared;
use crate::event_stream;
use crate::load::ClientShare;
use crate::run_changes::Changes;
use axum::Extension;
use axum::extract::Query;
use axum::response::Response;
use axum::response::sse::Event;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::sync::mpsc;
use tollgate::store::now_ms;
use tollgate::{EventStream, LiveContent, RunUpdate};

/// The time in which changes are collected before elements are rendered again.
const COLLECT: Duration = Duration::from_millis(120);
/// The same for the overview, which sums up a day.
const COLLECT_DAY: Duration = Duration::from_secs(2);
/// The maximum duration of a stream. The browser then opens another, which is authenticated anew.
const MAX_DURATION: Duration = Duration::from_secs(600);
/// The maximum number of elements that wait for a slow reader.
const MAX_QUEUED: usize = 64;

/// Returns the run that the page shows.
fn followed(query: &HashMap<String, String>) -> Option<&str> {
    query.get("run").map(String::as_str).filter(|run_id| !run_id.is_empty())
}

/// One open stream.
struct LiveStream {
    viewer: Viewer,
    query: HashMap<String, String>,
    sender: mpsc::Sender<Event>,
    /// The digest of each element that the browser has.
    sent: BTreeMap<String, u64>,
    /// The open questions that the browser shows, as pairs of run and suspension.
    questions: Vec<(String, String)>,
    /// Whether pieces of a reply were sent that is not stored yet.
    has_text: bool,
}

pub(super) async fn stream(
    viewer: Viewer,
    share: Option<Extension<ClientShare>>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Failure> {
    // It is one of the principal's event streams while the browser reads it.
    let place = share.map(|Extension(share)| share.stream()).transpose()?;
    let (sender, receiver) = mpsc::channel(MAX_QUEUED);
    let follow = match followed(&query) {
        Some(run_id) => {
            let run = viewer.run(run_id).await?.summary;
            Some(viewer.shared.host.follow(&run.run_id, run.events).await?)
        }
        None => None,
    };
    let changes = viewer.shared.run_changes.subscribe(viewer.store()).await;
    let shared = Shared::clone(&viewer.shared);
    let live =
        LiveStream { viewer, query, sender, sent: BTreeMap::new(), questions: Vec::new(), has_text: false };
    tokio::spawn(async move { tokio::time::timeout(MAX_DURATION, live.serve(changes, follow)).await });
    let events = futures::stream::unfold((receiver, place), |(mut receiver, place)| async move {
        receiver.recv().await.map(|event| (event, (receiver, place)))
    });
    Ok(event_stream::answer(&shared.pulse, events))
}

impl LiveStream {
    async fn serve(mut self, mut changes: Changes, mut follow: Option<EventStream>) {
        let seen = self.query.get("seen").cloned().unwrap_or_default();
        let Ok((first, open)) = self.fragments().await else { return };
        self.questions = open.iter().map(pair).collect();
        if format!("{:016x}", digest_of_all(&first)) == seen {
            self.sent = first.iter().map(|fragment| (fragment.id.clone(), fragment.digest)).collect();
        } else if self.send(first, &open).await.is_none() {
            return;
        }
        loop {
            tokio::select! {
                () = self.sender.closed() => return,
                _ = changes.next() => self.follow_again(&mut follow).await,
                update = next(&mut follow) => match update {
                    Some(RunUpdate::Live(live)) => {
                        match self.live(live.piece).await {
                            Some(()) => continue,
                            None => return,
                        }
                    }
                    Some(_) => {}
                    None => follow = None,
                },
            }
            if self.collect(&mut changes, &mut follow).await.is_none() {
                return;
            }
            let Ok((mut fragments, open)) = self.fragments().await else { return };
            if std::mem::take(&mut self.has_text) {
                self.sent.remove(LIVE_TEXT);
                fragments.push(Fragment::new(LIVE_TEXT, live_text()));
            }
            if self.send(fragments, &open).await.is_none() {
                return;
            }
        }
    }

    /// Follows a run again that continues after a decision.
    async fn follow_again(&self, follow: &mut Option<EventStream>) {
        if follow.is_none()
            && let Some(run_id) = followed(&self.query)
            && let Ok(SeenRun { summary: run, .. }) = self.viewer.run(run_id).await
            && run.status == "running"
        {
            *follow = self.viewer.shared.host.follow(run_id, run.events).await.ok();
        }
    }

    /// Collects further changes for a moment, and passes on pieces of text; `None` if the browser
    /// has left.
    async fn collect(&mut self, changes: &mut Changes, follow: &mut Option<EventStream>) -> Option<()> {
        let is_day = self.query.get("view").is_some_and(|view| view == "overview");
        let until = tokio::time::Instant::now() + if is_day { COLLECT_DAY } else { COLLECT };
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => {
                    changes.skip();
                    return Some(());
                }
                update = next(follow) => match update {
                    Some(RunUpdate::Live(live)) => self.live(live.piece).await?,
                    Some(_) => {}
                    None => *follow = None,
                },
            }
        }
    }

    async fn live(&mut self, piece: LiveContent) -> Option<()> {
        let LiveContent::TextDelta { text } = piece else { return Some(()) };
        self.has_text = true;
        self.text(&text).await
    }

    async fn text(&self, text: &str) -> Option<()> {
        let data = serde_json::json!({"id": LIVE_TEXT, "text": tollgate_agent::text::shown(text, 64 * 1024)});
        self.sender.send(Event::default().event("text").data(data.to_string())).await.ok()
    }

    /// Returns the elements of the page as they are now, and the open questions.
    async fn fragments(&mut self) -> Result<(Vec<Fragment>, Vec<ListedQuestion>), Failure> {
        self.viewer.now_ms = now_ms();
        let viewer = &self.viewer;
        let open = open_questions::all(viewer).await?;
        let word = |name: &str| self.query.get(name).map(String::as_str).unwrap_or_default();
        let fragments = match word("view") {
            "waiting" => waiting::cards(viewer, &open).await,
            "runs" => runs::rows(viewer, &runs::RunListQuery::read(&Filters::of(&self.query))?).await?.rows,
            "run" => run::fragments(viewer, word("run"), word("from")).await?,
            "playground" => playground::fragments(viewer, word("run"), word("thread")).await?,
            _ => overview::fragments(viewer, &open).await?,
        };
        Ok((fragments, open))
    }

    /// Sends the elements that the browser does not have in this form; `None` if it has left.
    async fn send(&mut self, mut fragments: Vec<Fragment>, open: &[ListedQuestion]) -> Option<()> {
        let is_waiting = self.query.get("view").is_some_and(|view| view == "waiting");
        if is_waiting {
            fragments.extend(self.answered(open).await);
        }
        fragments.push(Fragment::new("nav-waiting", layout::waiting_link(open.len(), is_waiting)));
        for fragment in fragments {
            let before = self.sent.insert(fragment.id.clone(), fragment.digest);
            if before != Some(fragment.digest) {
                self.sender.send(fragment.event()).await.ok()?;
            }
        }
        Some(())
    }

    /// Returns the cards of questions that the browser shows as open, and that are answered now.
    async fn answered(&mut self, open: &[ListedQuestion]) -> Vec<Fragment> {
        let before = std::mem::replace(&mut self.questions, open.iter().map(pair).collect());
        let mut answered = Vec::new();
        for (run_id, suspension) in before {
            if self.questions.contains(&(run_id.clone(), suspension.clone())) {
                continue;
            }
            if let Ok(Some(card)) = waiting::answered_card(&self.viewer, &run_id, &suspension).await {
                answered.push(Fragment::new(question::element_id(&run_id, &suspension), card));
            }
        }
        answered
    }
}

/// Returns the run and the suspension of a question.
fn pair(open: &ListedQuestion) -> (String, String) {
    (open.run.run_id.clone(), open.suspension_id.clone())
}

async fn next(follow: &mut Option<EventStream>) -> Option<RunUpdate> {
    match follow {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
