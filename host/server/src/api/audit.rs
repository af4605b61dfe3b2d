//! The audit.

use super::pages::{Page, cursor, limit, place, time};
use crate::parameters::QueryParameters;
use crate::problem::Problem;
use crate::state::Shared;
use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate::store::{AuditFilter, AuditKind, AuditRecord, now_ms};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};

/// The records to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Only records of this kind: load, refusal, removal, call, denial, grant, revocation, enabling,
    /// decision, sign_in, key.
    #[param(schema_with = kinds)]
    kind: Option<String>,
    /// Only records of this component.
    component: Option<String>,
    /// Only records of this tool.
    tool: Option<String>,
    /// Only records of runs whose id starts with this.
    run: Option<String>,
    /// Only records with this decision.
    decision: Option<String>,
    /// Only records about this power.
    power: Option<String>,
    /// Only records of this time or later, in milliseconds since the Unix epoch.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    from: Option<u64>,
    /// The cursor of the page before.
    #[param(pattern = "^[0-9a-f]+$", max_length = 2008)]
    after: Option<String>,
    /// The maximum number of entries, from 1 to 200 [default: 50].
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

fn kinds() -> Object {
    let kinds = AuditKind::ALL.iter().map(|kind| kind.as_str());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(kinds)).build()
}

/// A record of the audit.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditDocument {
    /// When, in milliseconds since the Unix epoch.
    at_ms: u64,
    /// The kind of the record.
    kind: &'static str,
    /// The actor: `host`, `person`, `person NAME`, `key NAME`, `agent ID`, or `agent ID for NAME`.
    who: String,
    /// The decision, or the code with which a call ended.
    decision: String,
    /// The name of the file, if something was loaded from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The component, or another provider of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    component_id: Option<String>,
    /// The version of the component.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    /// The power that was used, granted or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    power: Option<String>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    /// The model whose reply asked for the call, as the provider calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The resources used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
}

impl From<AuditRecord> for AuditDocument {
    fn from(record: AuditRecord) -> Self {
        // The directory is the operator's business.
        let file = record.file.map(|file| file.rsplit('/').next().unwrap_or_default().to_owned());
        Self {
            at_ms: record.at_ms,
            kind: record.kind.as_str(),
            who: record.who.into(),
            decision: record.decision.into(),
            file,
            component_id: record.component_id.map(Into::into),
            digest: record.digest.map(Into::into),
            tool_name: record.tool_name.map(Into::into),
            power: record.power,
            detail: record.detail,
            run_id: record.run_id.as_deref().map(str::to_owned),
            call_id: record.call_id.map(Into::into),
            model: record.model.map(Into::into),
            usage: record.usage.map(|usage| json!(usage)),
        }
    }
}

/// The content type of one JSON text per line.
const LINES: &str = "application/x-ndjson";

/// List audit records, newest first
///
/// With `Accept: application/x-ndjson` the answer has one record per line. The header `Link` leads to
/// the next page, as it does for JSON.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", security(("key" = ["read"])), params(AuditQuery),
    responses((status = 200, description = "A page of records", content(
        (Page<AuditDocument> = "application/json"), (String = "application/x-ndjson")))))]
pub(super) async fn audit(
    State(state): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    QueryParameters(query): QueryParameters<AuditQuery>,
) -> Result<Response, Problem> {
    let kind = match &query.kind {
        None => None,
        Some(typed) => {
            let known = AuditKind::ALL.iter().copied().find(|kind| kind.as_str() == typed);
            let unknown = || {
                let known: Vec<&str> = AuditKind::ALL.iter().map(|kind| kind.as_str()).collect();
                Problem::bad_request(format!("there is no such kind of record; known: {}", known.join(", ")))
            };
            Some(known.ok_or_else(unknown)?)
        }
    };
    let filter = AuditFilter {
        kind,
        component_id: query.component,
        tool_name: query.tool,
        run_id_prefix: query.run,
        decision: query.decision,
        power: query.power,
        since_ms: time(query.from)?.unwrap_or_default(),
        ..AuditFilter::default()
    };
    let limit = limit(query.limit)?;
    // Records that are added later do not move the pages.
    let (until_ms, skip): (u64, usize) =
        place(&filter, query.after.as_deref())?.unwrap_or_else(|| (now_ms() + 1, 0));
    let asked = AuditFilter { until_ms, skip, limit: limit + 1, ..filter.clone() };
    let mut records = state.store().audit(asked).await?;
    let has_more = records.len() > limit;
    records.truncate(limit);
    let next = has_more.then(|| cursor(&filter, &(until_ms, skip.saturating_add(limit))));
    let items: Vec<AuditDocument> = records.into_iter().map(Into::into).collect();
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let wants_lines = accept.is_some_and(|accept| accept.contains(LINES));
    let page = Page { items, next };
    Ok(if wants_lines { page.lines(&uri, LINES) } else { page.answer(&uri) })
}
