//! The audit in SQLite, and the tools that trap.

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, params_from_iter};
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_store::{AuditFilter, AuditKind, AuditRecord, ToolHealth};

const COLUMNS: &str = "at_ms, kind, who, decision, file, component_id, digest, tool_name, power, detail, run_id, \
    call_id, usage, model";

/// Adds a record, unless it repeats the last one, and updates the tool's health. `bytes` is the length
/// for which its thread and component were charged.
pub(super) fn write(
    connection: &Connection,
    record: &AuditRecord,
    bytes: Option<usize>,
) -> rusqlite::Result<()> {
    if let Some(file) = &record.file {
        let last = connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM audit WHERE file = ?1 ORDER BY id DESC LIMIT 1"))?
            .query_row([file], read_row)
            .optional()?;
        if !record.is_news_after(last.as_ref()) {
            return Ok(());
        }
    }
    let usage = record.usage.and_then(|usage| serde_json::to_string(&usage).ok());
    connection
        .prepare_cached(&format!(
            "INSERT INTO audit ({COLUMNS}, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
        ))?
        .execute(params![
            record.at_ms.cast_signed(),
            record.kind.as_str(),
            record.who.as_str(),
            record.decision.as_str(),
            record.file,
            record.component_id.as_deref(),
            record.digest.as_deref(),
            record.tool_name.as_deref(),
            record.power,
            record.detail,
            record.run_id.as_deref(),
            record.call_id.as_deref(),
            usage,
            record.model.as_deref(),
            bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
        ])?;
    record.tool_name.as_ref().map_or(Ok(()), |tool_name| write_health(connection, tool_name, record))
}

fn write_health(connection: &Connection, tool_name: &str, record: &AuditRecord) -> rusqlite::Result<()> {
    let before = connection
        .prepare_cached(
            "SELECT tool_name, component_id, digest, traps FROM tool_health WHERE tool_name = ?1",
        )?
        .query_row([tool_name], read_health)
        .optional()?;
    match (ToolHealth::after(before.as_ref(), record), before) {
        (None, None) => {}
        (None, Some(_)) => {
            connection
                .prepare_cached("DELETE FROM tool_health WHERE tool_name = ?1")?
                .execute([tool_name])?;
        }
        (Some(after), _) => {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO tool_health (tool_name, component_id, digest, traps) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![
                    after.tool_name.as_str(),
                    after.component_id.as_str(),
                    after.digest.as_str(),
                    after.traps
                ])?;
        }
    }
    Ok(())
}

/// Returns the matching records, newest first.
pub(super) fn read(connection: &Connection, filter: &AuditFilter) -> rusqlite::Result<Vec<AuditRecord>> {
    let (query, values) = query_of(filter);
    let mut statement = connection.prepare_cached(&query)?;
    statement.query_map(params_from_iter(values), read_row)?.collect()
}

fn query_of(filter: &AuditFilter) -> (String, Vec<Box<dyn ToSql>>) {
    let mut conditions = vec!["at_ms >= ?".to_owned()];
    let mut values: Vec<Box<dyn ToSql>> = vec![Box::new(filter.since_ms.cast_signed())];
    if let Ok(until) = i64::try_from(filter.until_ms) {
        conditions.push("at_ms < ?".to_owned());
        values.push(Box::new(until));
    }
    let kind = filter.kind.map(|kind| kind.as_str().to_owned());
    // The planner does not know which filter lets the fewest records through. The last one here does,
    // except that of a run. Most records have the usual kind or decision, so no index has these.
    let mut index = "audit_by_time";
    for (column, wanted, of_column, usual) in [
        ("kind", &kind, "audit_by_kind", Some("call")),
        ("decision", &filter.decision, "audit_by_decision", Some("success")),
        ("power", &filter.power, "audit_by_power", None),
        ("component_id", &filter.component_id, "audit_by_component", None),
        ("tool_name", &filter.tool_name, "audit_by_tool", None),
    ] {
        let Some(wanted) = wanted else { continue };
        conditions.push(format!("{column} = ?"));
        values.push(Box::new(wanted.clone()));
        if usual == Some(wanted.as_str()) {
            continue;
        }
        index = of_column;
        // The condition of the index.
        conditions.extend(usual.map(|usual| format!("{column} <> '{usual}'")));
    }
    if let Some(prefix) = &filter.run_id_prefix {
        index = "audit_by_run";
        conditions.push("run_id >= ? AND run_id < ?".to_owned());
        values
            .extend([Box::new(prefix.clone()) as Box<dyn ToSql>, Box::new(format!("{prefix}{}", char::MAX))]);
    }
    for count in [filter.limit, filter.skip] {
        values.push(Box::new(i64::try_from(count).unwrap_or(i64::MAX)));
    }
    let conditions = conditions.join(" AND ");
    let query = format!(
        "SELECT {COLUMNS} FROM audit INDEXED BY {index} WHERE {conditions}
         ORDER BY at_ms DESC, id DESC LIMIT ? OFFSET ?"
    );
    (query, values)
}

/// Returns the tools whose last calls trapped.
pub(super) fn tool_health(connection: &Connection) -> rusqlite::Result<Vec<ToolHealth>> {
    let mut statement = connection.prepare_cached(
        "SELECT tool_name, component_id, digest, traps FROM tool_health ORDER BY tool_name",
    )?;
    statement.query_map([], read_health)?.collect()
}

fn read_health(row: &Row<'_>) -> rusqlite::Result<ToolHealth> {
    Ok(ToolHealth {
        tool_name: text(row, 0)?,
        component_id: text(row, 1)?,
        digest: text(row, 2)?,
        traps: row.get(3)?,
    })
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<SmolStr> {
    Ok(row.get_ref(column)?.as_str()?.into())
}

fn text_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<SmolStr>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(SmolStr::new))
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<AuditRecord> {
    let kind: String = row.get(1)?;
    let usage: Option<String> = row.get(12)?;
    Ok(AuditRecord {
        at_ms: row.get::<_, i64>(0)?.cast_unsigned(),
        kind: AuditKind::ALL.iter().copied().find(|known| known.as_str() == kind).ok_or_else(|| {
            let unknown = format!("there is no record of the kind {kind}");
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, unknown.into())
        })?,
        who: text(row, 2)?,
        decision: text(row, 3)?,
        file: row.get(4)?,
        component_id: text_or_none(row, 5)?,
        digest: text_or_none(row, 6)?,
        tool_name: text_or_none(row, 7)?,
        power: row.get(8)?,
        detail: row.get(9)?,
        run_id: row.get::<_, Option<String>>(10)?.map(Arc::from),
        call_id: text_or_none(row, 11)?,
        model: text_or_none(row, 13)?,
        usage: usage.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::open;

    /// Returns SQLite's query plan.
    fn plan_of(filter: &AuditFilter) -> String {
        let data = tempfile::tempdir().unwrap();
        let (_, connection) = open::prepare(data.path()).unwrap();
        let (query, values) = query_of(filter);
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let steps = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn the_records_of_a_run_are_found_and_not_searched_for() {
        let of_run = AuditFilter { run_id_prefix: Some("0199".to_owned()), ..AuditFilter::default() };
        let plan = plan_of(&of_run);
        assert!(plan.contains("audit_by_run (run_id>? AND run_id<?)") && !plan.contains("SCAN"), "{plan}");
        let of_tool = AuditFilter { tool_name: Some("echo".to_owned()), ..of_run };
        assert!(!plan_of(&of_tool).contains("SCAN"));
    }

    #[test]
    fn z3_each_filter_of_the_audit_reads_an_index_in_the_order_of_the_list() {
        let text = || Some("x".to_owned());
        let all = AuditFilter::default;
        for (filter, index) in [
            (all(), "audit_by_time (at_ms>?"),
            (AuditFilter { until_ms: 9, ..all() }, "audit_by_time (at_ms>? AND at_ms<?"),
            (AuditFilter { kind: Some(AuditKind::Grant), ..all() }, "audit_by_kind (kind=? AND at_ms>?"),
            (AuditFilter { kind: Some(AuditKind::Call), ..all() }, "audit_by_time (at_ms>?"),
            (AuditFilter { decision: Some("success".to_owned()), ..all() }, "audit_by_time (at_ms>?"),
            (AuditFilter { decision: text(), ..all() }, "audit_by_decision (decision=? AND at_ms>?"),
            (AuditFilter { power: text(), ..all() }, "audit_by_power (power=? AND at_ms>?"),
            (AuditFilter { component_id: text(), ..all() }, "audit_by_component (component_id=? AND at_ms>?"),
            (AuditFilter { tool_name: text(), ..all() }, "audit_by_tool (tool_name=? AND at_ms>?"),
            (
                AuditFilter { kind: Some(AuditKind::Denial), tool_name: text(), decision: text(), ..all() },
                "audit_by_tool (tool_name=? AND at_ms>?",
            ),
        ] {
            let plan = plan_of(&filter);
            assert!(plan.contains(&format!("SEARCH audit USING INDEX {index}")), "{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
