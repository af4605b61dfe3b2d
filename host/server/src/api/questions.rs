//! The questions of all runs that wait for a person, and their answers.

use super::pages::{MAX_PAGE_BYTES, Page, cursor, limit, place};
use crate::access::Principal;
use crate::body::JsonBody;
use crate::idempotency::{DecisionKey, KeyedRequest, REPLAYED, decision_id};
use crate::operations::VisibleRun;
use crate::parameters::{PathParameters, QueryParameters};
use crate::problem::Problem;
use crate::runs::{QuestionDocument, folded, questions};
use crate::scope::Scope;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate::Decision;
use tollgate::store::RunFilter;
use tollgate_agent::json::written_bytes;
use utoipa::{IntoParams, ToSchema};

/// The maximum number of runs that are read for one page.
const RUNS_PER_PAGE: usize = 200;
/// The maximum number of answers in one request.
const MAX_ANSWERS: usize = 64;
/// The maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 2_000;

/// The questions to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct QuestionQuery {
    /// Only questions of runs of this status: a run that is at work may have open questions, too.
    #[param(inline)]
    status: Option<AskingStatus>,
    /// Only questions of this agent's runs.
    agent: Option<String>,
    /// Only questions about calls of this tool.
    tool: Option<String>,
    /// The cursor of the page before.
    #[param(pattern = "^[0-9a-f]+$", max_length = 2008)]
    after: Option<String>,
    /// The maximum number of runs whose questions are returned, from 1 to 200 [default: 50].
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// The status of a run with open questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AskingStatus {
    /// It waits for the answers.
    Waiting,
    /// It executes other calls meanwhile.
    Running,
}

impl AskingStatus {
    /// Every status, in the order of the list.
    const ALL: [Self; 2] = [Self::Waiting, Self::Running];

    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
        }
    }
}

/// A position in the list: the status that is being listed, and the last run.
type ListPosition = (usize, Option<String>);

/// List the questions that wait for a person, of own runs or, with `decide_any` or `read`, of all
#[utoipa::path(get, path = "/api/v1/questions", tag = "questions", params(QuestionQuery),
    security(("key" = ["use"]), ("key" = ["decide"]), ("key" = ["decide_any"]), ("key" = ["read"])),
    responses((status = 200, description = "A page of questions, those of the newest runs first", body = Page<QuestionDocument>)))]
pub(super) async fn list(
    State(state): State<Shared>,
    principal: Principal,
    uri: Uri,
    QueryParameters(query): QueryParameters<QuestionQuery>,
) -> Result<Response, Problem> {
    let sees_all = principal.has(Scope::DecideAny) || principal.has(Scope::Read);
    let filter = RunFilter {
        agent_id: query.agent.clone(),
        thread_prefix: (!sees_all).then(|| format!("{}/", principal.name)),
        ..RunFilter::default()
    };
    let digested = (&filter, &query.tool, query.status);
    let limit = limit(query.limit)?;
    let (mut at, mut before): ListPosition = place(&digested, query.after.as_deref())?.unwrap_or_default();
    let (mut items, mut asking, mut read, mut bytes) = (Vec::new(), 0, 0, 0);
    while let Some(status) = AskingStatus::ALL.get(at) {
        if query.status.is_some_and(|wanted| wanted != *status) {
            (at, before) = (at + 1, None);
            continue;
        }
        let asked = RunFilter {
            status: Some(status.as_str().to_owned()),
            before: before.clone(),
            limit: limit.min(RUNS_PER_PAGE),
            ..filter.clone()
        };
        let page = state.store().runs(asked).await?;
        let is_last = page.len() < limit.min(RUNS_PER_PAGE);
        for summary in page {
            before = Some(summary.run_id.clone());
            read += 1;
            // The question of a child is asked by its parent.
            if summary.kind != "child" {
                let found =
                    open_questions(&state, &principal, &summary.run_id, query.tool.as_deref()).await?;
                asking += usize::from(!found.is_empty());
                bytes += written_bytes(&found) as u64;
                items.extend(found);
            }
            if asking >= limit || read >= RUNS_PER_PAGE || bytes > MAX_PAGE_BYTES {
                let next = Some(cursor(&digested, &(at, &before)));
                return Ok(Page { items, next }.answer(&uri));
            }
        }
        if is_last {
            (at, before) = (at + 1, None);
        }
    }
    Ok(Page { items, next: None }.answer(&uri))
}

async fn open_questions(
    state: &Shared,
    principal: &Principal,
    run_id: &str,
    tool: Option<&str>,
) -> Result<Vec<QuestionDocument>, Problem> {
    let run: VisibleRun = match state.visible_run(principal, run_id, &[Scope::DecideAny]).await {
        Ok(run) => run,
        // It was started without a principal, or is gone.
        Err(problem) if problem.status == StatusCode::NOT_FOUND => return Ok(Vec::new()),
        Err(problem) => return Err(problem),
    };
    let mut found = questions(state, principal, &run, &folded(state, principal, run_id).await?);
    found.retain(|question| tool.is_none_or(|tool| question.tool == tool));
    Ok(found)
}

/// An answer to a question.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    /// `{"resume": VALUE}` to continue with a value that fits the question, or `"cancel"`.
    answer: Answer,
    /// The reason, for the record and for the model.
    #[serde(default)]
    #[schema(max_length = 2000)]
    reason: Option<String>,
}

/// The choice.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// Continue the call with this value.
    Resume(Value),
    /// End the call without running it.
    Cancel,
}

/// Answers to several questions of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswersBody {
    /// The answers; all are taken, or none.
    #[schema(min_items = 1, max_items = 64)]
    answers: Vec<NamedAnswer>,
}

/// An answer with its question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedAnswer {
    /// The question's id.
    suspension_id: String,
    /// `{"resume": VALUE}` or `"cancel"`.
    answer: Answer,
    /// The reason, for the record and for the model.
    #[serde(default)]
    #[schema(max_length = 2000)]
    reason: Option<String>,
}

/// The run that was decided about.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DecisionDocument {
    /// The run.
    run_id: String,
    /// Its status after the decision.
    status: String,
}

/// Answer a question
#[utoipa::path(post, path = "/api/v1/runs/{id}/questions/{suspension}", tag = "questions",
    security(("key" = ["decide"]), ("key" = ["decide_any"])),
    params(("id" = String, Path, description = "The run's id"),
        ("suspension" = String, Path, description = "The question's id"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$",
            description = "A key with which the request may be repeated")),
    request_body = AnswerBody,
    responses((status = 202, description = "The run continues", body = DecisionDocument)))]
pub(super) async fn decide(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters((id, suspension)): PathParameters<(String, String)>,
    headers: HeaderMap,
    body: JsonBody<AnswerBody>,
) -> Result<Response, Problem> {
    let AnswerBody { answer, reason } = body.value;
    let route = format!("POST /runs/{id}/questions/{suspension}");
    let answers = vec![NamedAnswer { suspension_id: suspension, answer, reason }];
    let request = KeyedRequest { principal: &principal, route: &route, headers: &headers, body: &body.sent };
    decided(&state, request, &id, answers).await
}

/// Answer several questions of a run, all or none
#[utoipa::path(post, path = "/api/v1/runs/{id}/questions", tag = "questions",
    security(("key" = ["decide"]), ("key" = ["decide_any"])),
    params(("id" = String, Path, description = "The run's id"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$",
            description = "A key with which the request may be repeated")),
    request_body = AnswersBody,
    responses((status = 202, description = "The run continues", body = DecisionDocument)))]
pub(super) async fn decide_all(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(id): PathParameters<String>,
    headers: HeaderMap,
    body: JsonBody<AnswersBody>,
) -> Result<Response, Problem> {
    let answers = body.value.answers;
    if answers.is_empty() || answers.len() > MAX_ANSWERS {
        return Err(Problem::unprocessable(format!("`answers` has from 1 to {MAX_ANSWERS} entries")));
    }
    let route = format!("POST /runs/{id}/questions");
    let request = KeyedRequest { principal: &principal, route: &route, headers: &headers, body: &body.sent };
    decided(&state, request, &id, answers).await
}

async fn decided(
    state: &Shared,
    request: KeyedRequest<'_>,
    run_id: &str,
    answers: Vec<NamedAnswer>,
) -> Result<Response, Problem> {
    let mut decisions = Vec::with_capacity(answers.len());
    for NamedAnswer { suspension_id, answer, reason } in answers {
        if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS) {
            return Err(Problem::unprocessable(format!(
                "`reason` has at most {MAX_REASON_CHARS} characters"
            )));
        }
        let place = format!("{run_id}/{suspension_id}");
        let mut decision = match answer {
            Answer::Resume(value) => Decision::resume(suspension_id, value),
            Answer::Cancel => Decision::cancel(suspension_id),
        };
        decision.id = decision_id(request.headers, request.principal, &place)?;
        decision.reason = reason;
        decisions.push(decision);
    }
    let key = DecisionKey::take(state, request, run_id).await?;
    match (state.decide(request.principal, run_id, decisions).await, &key) {
        (Ok(continued), _) => continued.keep_running(),
        (Err(problem), Some(key)) => {
            key.release(state).await;
            return Err(problem);
        }
        (Err(problem), None) => return Err(problem),
    }
    let summary = state.host.summary(run_id).await?.ok_or_else(|| Problem::not_found("run"))?;
    let answer = DecisionDocument { status: summary.shown_status().to_owned(), run_id: summary.run_id };
    let mut response = (StatusCode::ACCEPTED, Json(answer)).into_response();
    if key.is_some_and(|key| key.is_repeated()) {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}
