//! The audit in PostgreSQL, and the tools that trap.

use crate::connect::{Params, int8, params};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use tollgate_agent::SmolStr;
use tollgate_agent::health::HealthSign;
use tollgate_store::{AuditFilter, AuditKind, AuditRecord, StoreError, ToolHealth};

const COLUMNS: &str = "at_ms, kind, who, decision, file, component_id, digest, tool_name, power, detail, run_id, \
    call_id, usage, model";

/// Adds records in their order.
pub(crate) const INSERT: &str = "INSERT INTO audit (at_ms, kind, who, decision, file, component_id, digest, \
    tool_name, power, detail, run_id, call_id, usage, model) \
    SELECT a::bigint, b, c, d, e, f, g, h, i, j, k, l, m, n FROM \
    unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
    WITH ORDINALITY AS x(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) ORDER BY o";

/// Returns the statement that adds records in their order, unless records with this id exist: it has the
/// parameters of [`INSERT`], and the id.
pub(crate) fn insert_once() -> String {
    let insert = INSERT.replacen("model) SELECT", "model, note) SELECT", 1);
    insert.replacen(", n FROM", ", n, $15 || '/' || o FROM", 1) + " ON CONFLICT DO NOTHING"
}

/// Returns the parameters of [`INSERT`].
pub(crate) fn rows(records: &[AuditRecord]) -> Params {
    let records: Vec<_> = records.iter().map(fields).collect();
    let column = |at: usize| records.iter().map(|fields| fields[at].clone()).collect::<Vec<_>>();
    (0..FIELDS).flat_map(|at| params![(column(at), TEXT_ARRAY)]).collect()
}

/// The number of columns of a record.
pub(crate) const FIELDS: usize = 14;

/// Returns the values of a record, in the order of [`INSERT`].
pub(crate) fn fields(record: &AuditRecord) -> [Option<String>; FIELDS] {
    let text = |text: Option<&str>| text.map(str::to_owned);
    [
        Some(int8(record.at_ms).to_string()),
        text(Some(record.kind.as_str())),
        text(Some(record.who.as_str())),
        text(Some(record.decision.as_str())),
        text(record.file.as_deref()),
        text(record.component_id.as_deref()),
        text(record.digest.as_deref()),
        text(record.tool_name.as_deref()),
        text(record.power.as_deref()),
        text(record.detail.as_deref()),
        text(record.run_id.as_deref()),
        text(record.call_id.as_deref()),
        record.usage.and_then(|usage| serde_json::to_string(&usage).ok()),
        text(record.model.as_deref()),
    ]
}

/// Returns the tools whose health the records may change.
pub(crate) fn tools_of(records: &[AuditRecord]) -> Vec<String> {
    let of_tools = records.iter().filter(|record| record.health_sign() != HealthSign::Neutral);
    let mut tools: Vec<String> =
        of_tools.filter_map(|record| record.tool_name.as_ref()).map(ToString::to_string).collect();
    tools.sort();
    tools.dedup();
    tools
}

/// Returns the health of each tool that the records change; `None` for a tool that recovered.
pub(crate) fn health_after(
    records: &[AuditRecord],
    before: HashMap<String, ToolHealth>,
) -> Vec<(String, Option<ToolHealth>)> {
    let mut now: HashMap<String, Option<ToolHealth>> =
        before.iter().map(|(tool, health)| (tool.clone(), Some(health.clone()))).collect();
    for record in records.iter().filter(|record| record.health_sign() != HealthSign::Neutral) {
        let Some(tool) = &record.tool_name else { continue };
        let health = now.entry(tool.to_string()).or_default();
        *health = ToolHealth::after(health.as_ref(), record);
    }
    let mut changed: Vec<_> =
        now.into_iter().filter(|(tool, health)| before.get(tool) != health.as_ref()).collect();
    // Concurrent commits lock the rows in one order.
    changed.sort_by(|(a, _), (b, _)| a.cmp(b));
    changed
}

/// Returns the statement that stores a tool's health.
pub(crate) fn set_health(health: &Option<ToolHealth>) -> &'static str {
    match health {
        // A concurrent first trap of the same version counts too.
        Some(_) => {
            "INSERT INTO tool_health AS t (tool_name, component_id, digest, traps) VALUES ($1, $2, $3, $4)
             ON CONFLICT (tool_name) DO UPDATE SET component_id = excluded.component_id, digest = excluded.digest,
                traps = CASE WHEN t.component_id = excluded.component_id AND t.digest = excluded.digest
                    THEN greatest(t.traps + 1, excluded.traps) ELSE excluded.traps END"
        }
        None => "DELETE FROM tool_health WHERE tool_name = $1",
    }
}

/// Returns the parameters of [`set_health`].
pub(crate) fn health_row(tool: &str, health: &Option<ToolHealth>) -> Params {
    match health {
        Some(health) => params![
            (tool.to_owned(), TEXT),
            (health.component_id.to_string(), TEXT),
            (health.digest.to_string(), TEXT),
            (i32::try_from(health.traps).unwrap_or(i32::MAX), INT4),
        ],
        None => params![(tool.to_owned(), TEXT)],
    }
}

pub(crate) fn read_health(row: &Row) -> ToolHealth {
    ToolHealth {
        tool_name: row.get::<_, &str>(0).into(),
        component_id: row.get::<_, &str>(1).into(),
        digest: row.get::<_, &str>(2).into(),
        traps: u32::try_from(row.get::<_, i32>(3)).unwrap_or_default(),
    }
}

/// Returns the query for a filter.
pub(crate) fn listing(filter: &AuditFilter) -> (String, Params) {
    let mut conditions = vec!["at_ms >= $1".to_owned()];
    let mut values = params![(int8(filter.since_ms), INT8)];
    let kind = filter.kind.map(|kind| kind.as_str().to_owned());
    // Most records have the usual kind or decision, so no index has these.
    for (column, wanted, usual) in [
        ("kind", &kind, Some("call")),
        ("component_id", &filter.component_id, None),
        ("tool_name", &filter.tool_name, None),
        ("decision", &filter.decision, Some("success")),
        ("power", &filter.power, None),
    ] {
        let Some(wanted) = wanted else { continue };
        values.push((Box::new(wanted.clone()) as Box<dyn ToSql + Sync + Send>, Type::TEXT));
        conditions.push(format!("{column} = ${}", values.len()));
        if let Some(usual) = usual.filter(|usual| usual != wanted) {
            // The condition of the index.
            conditions.push(format!("{column} <> '{usual}'"));
        }
    }
    if let Some(prefix) = &filter.run_id_prefix {
        values.extend(params![(prefix.clone(), TEXT), (after_prefix(prefix), TEXT)]);
        let to = values.len();
        conditions.push(format!("run_id >= ${} AND run_id < ${to}", to - 1));
    }
    values.extend(params![(int8(filter.until_ms), INT8)]);
    conditions.push(format!("at_ms < ${}", values.len()));
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    values.extend(params![(count(filter.limit), INT8), (count(filter.skip), INT8)]);
    let (conditions, skip) = (conditions.join(" AND "), values.len());
    let limit = skip - 1;
    let sql = format!(
        "SELECT {COLUMNS} FROM audit WHERE {conditions} ORDER BY at_ms DESC, id DESC LIMIT ${limit}
            OFFSET ${skip}"
    );
    (sql, values)
}

/// Returns the query for the last record about a file.
pub(crate) fn last_of_file() -> String {
    format!("SELECT {COLUMNS} FROM audit WHERE file = $1 ORDER BY id DESC LIMIT 1")
}

/// Returns the statement that removes the first records of a run, at most a number of them. It returns each record,
/// and whether it was part of a commit.
pub(crate) fn remove_of_run() -> String {
    format!(
        "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE run_id = $1 ORDER BY id LIMIT $2)
            RETURNING {COLUMNS}, note IS NULL"
    )
}

/// Returns a text after all that start with this one, in the order of bytes.
pub(crate) fn after_prefix(prefix: &str) -> String {
    format!("{prefix}{}", char::MAX)
}

pub(crate) fn read_row(row: &Row) -> Result<AuditRecord, StoreError> {
    let small = |at: usize| row.get::<_, Option<&str>>(at).map(SmolStr::new);
    let text = |at: usize| row.get::<_, Option<String>>(at);
    let kind: &str = row.get(1);
    let known = AuditKind::ALL.iter().copied().find(|known| known.as_str() == kind);
    Ok(AuditRecord {
        at_ms: row.get::<_, i64>(0).cast_unsigned(),
        kind: known.ok_or_else(|| {
            StoreError::damaged(format!(
                "the audit has a record of the unknown kind {kind}; use the newer version that wrote it"
            ))
        })?,
        who: row.get::<_, &str>(2).into(),
        decision: row.get::<_, &str>(3).into(),
        file: text(4),
        component_id: small(5),
        digest: small(6),
        tool_name: small(7),
        power: text(8),
        detail: text(9),
        run_id: row.get::<_, Option<&str>>(10).map(Arc::from),
        call_id: small(11),
        model: small(13),
        usage: row.get::<_, Option<&str>>(12).and_then(|text| serde_json::from_str(text).ok()),
    })
}
