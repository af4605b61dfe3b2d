//! Decisions that a person makes with a form: answers to questions, and the end of a run.

use super::failure::Failure;
use super::form::{Entries, EntryError, Form};
use super::text;
use super::viewer::{SeenRun, Viewer};
use super::waiting;
use crate::Scope;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use tollgate::blocking::block_in_place;
use tollgate::store::RunSummary;
use tollgate_agent::gate::permissions::{self, Scope as Remembered};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, DecisionAnswer};

/// The longest reason, in bytes.
const MAX_REASON_BYTES: usize = 4_000;
/// The time within which a decision is in the record, unless the store is busy.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

/// Answers a question with the entries of its form, and redirects to the page that showed it.
pub(super) async fn decide(
    viewer: Viewer,
    Path(run_id): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let entries = Entries::read(&body);
    let SeenRun { summary: run, visible } = viewer.asking_run(&run_id).await?;
    viewer.shared.may_decide(&viewer.principal, visible.owner())?;
    let suspension = entries.word("s").to_owned();
    let Some(question) = waiting::find(&viewer, &run, &suspension).await else {
        return already_answered(&viewer, &run, &suspension).await;
    };
    viewer.shared.may_answer(&viewer.principal, &visible, &question.asked)?;
    let answer = match answer(&question.asked, &entries) {
        Ok(answer) => answer,
        Err(errors) => {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            return waiting::one_page(&viewer, &run_id, &suspension, &entries, &errors, status).await;
        }
    };
    let reason = entries.word("reason");
    if reason.len() > MAX_REASON_BYTES {
        return Err(Failure::invalid(format!(
            "the reason is longer than {MAX_REASON_BYTES} bytes; shorten it"
        )));
    }
    let decision = decision(&viewer, &run, &suspension, answer, reason);
    let rule = match &decision.answer {
        DecisionAnswer::Resume(value) => {
            permissions::answered(viewer.shared.host.toolbox().catalog(), &question.asked, value)
        }
        DecisionAnswer::Cancel => None,
    };
    match viewer.shared.decide(&viewer.principal, &run.run_id, vec![decision]).await {
        Ok(mut continued) => {
            // The next page shows the answer, so it has to be in the record by then.
            let _ = tokio::time::timeout(RECORDED_WITHIN, continued.handle.events.next()).await;
            continued.keep_running();
        }
        Err(why) => {
            // Another person may have answered meanwhile.
            let run = viewer.asking_run(&run_id).await?.summary;
            if waiting::find(&viewer, &run, &suspension).await.is_none() {
                return already_answered(&viewer, &run, &suspension).await;
            }
            return Err(why.into());
        }
    }
    // A permanent answer changes the configuration of everyone. From others it counts for the thread.
    if let Some((Remembered::Always, rule)) = rule
        && viewer.has(Scope::Operate)
        && viewer.data.keeps_rules()
    {
        viewer.data.keep_rule(&rule)?;
    }
    Ok(Redirect::to(&back(&entries, &run, &suspension)).into_response())
}

/// Answers a decision that came too late with the answer that was given.
async fn already_answered(viewer: &Viewer, run: &RunSummary, suspension: &str) -> Result<Response, Failure> {
    let Some(card) = waiting::answered_card(viewer, &run.run_id, suspension).await? else {
        return Err(Failure::missing("question"));
    };
    let page = waiting::page(viewer, Some(card)).await?;
    Ok((StatusCode::CONFLICT, page).into_response())
}

/// Returns the answer that the entries make, if it fits the question.
fn answer(asked: &SuspendedCall, entries: &Entries) -> Result<DecisionAnswer, Vec<EntryError>> {
    let refused = |problem: String| vec![EntryError { pointer: String::new(), problem }];
    let permits = permissions::asks_to_permit(asked) && entries.get("permit").is_some();
    match entries.word("do") {
        "no" => return Ok(DecisionAnswer::Cancel),
        "answer" => {}
        _ if permits => {}
        // Without the button, the entries may be those of a "no": an empty form can be a valid yes.
        _ => return Err(refused("The form came without its button. Press the button again.".to_owned())),
    }
    let value = Form::of(asked).value(entries)?;
    let violations = block_in_place(|| asked.violations(&value)).map_err(|why| refused(why.to_string()))?;
    if violations.is_empty() {
        return Ok(DecisionAnswer::Resume(value));
    }
    let errors = violations
        .into_iter()
        .map(|violation| EntryError { pointer: violation.pointer, problem: violation.problem });
    Err(errors.collect())
}

/// Returns the decision. Its id follows from its content, so that the same click twice is one
/// decision.
fn decision(
    viewer: &Viewer,
    run: &RunSummary,
    suspension: &str,
    answer: DecisionAnswer,
    reason: &str,
) -> Decision {
    let content = serde_json::json!([viewer.principal.name, run.run_id, suspension, answer, reason]);
    let digest = Sha256::digest(content.to_string().as_bytes());
    let id: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let decision = match answer {
        DecisionAnswer::Resume(value) => Decision::resume(suspension, value),
        DecisionAnswer::Cancel => Decision::cancel(suspension),
    };
    let decision = decision.with_id(id);
    if reason.is_empty() { decision } else { decision.because(reason) }
}

/// Returns the page to show after a decision.
fn back(entries: &Entries, run: &RunSummary, suspension: &str) -> String {
    match entries.word("back") {
        "run" => format!("/console/runs/{}", super::layout::segment(&run.run_id)),
        "playground" => text::href(
            "/console/playground",
            &[("agent", run.agent_id.as_str()), ("thread", super::viewer::owner_and_id(&run.thread_id).1)],
        ),
        _ => text::href("/console/waiting", &[("run", run.run_id.as_str()), ("s", suspension)]),
    }
}

/// Cancels a run.
pub(super) async fn cancel(
    viewer: Viewer,
    Path(run_id): Path<String>,
    body: Bytes,
) -> Result<Redirect, Failure> {
    let reason = text::one_line(Entries::read(&body).word("reason"), MAX_REASON_BYTES);
    let reason = (!reason.is_empty()).then_some(reason);
    viewer.shared.cancel(&viewer.principal, &run_id, reason).await?;
    Ok(Redirect::to(&format!("/console/runs/{}", super::layout::segment(&run_id))))
}
