//! Audit records outside of any run.

use crate::audit;
use crate::commit::CommitFailure;
use crate::connect::{Busy, params, query, run};
use crate::database::Database;
use crate::settings::check_copied;
use std::collections::HashMap;
use tollgate_store::{AuditRecord, StoreError};
use uuid::Uuid;

impl Database {
    /// Stores records, and sends them again with the same id until the result is known.
    pub(crate) async fn record_audit(&self, records: &[AuditRecord]) -> Result<(), StoreError> {
        let id = Uuid::now_v7().to_string();
        Ok(self.until_stored(|client| self.record_audit_once(client, records, &id)).await?)
    }

    async fn record_audit_once(
        &self,
        client: Busy,
        records: &[AuditRecord],
        id: &str,
    ) -> Result<(), CommitFailure> {
        check_copied(&client, &self.address).await?;
        client.batch_execute(&self.begin).await?;
        let mut new: Vec<AuditRecord> = Vec::with_capacity(records.len());
        for record in records {
            let last = match &record.file {
                // A record that precedes this one in the same list counts too.
                Some(file) => match new.iter().rev().find(|new| new.file.as_ref() == Some(file)) {
                    Some(last) => Some(last.clone()),
                    None => {
                        let rows =
                            query(&client, &audit::last_of_file(), params![(file.clone(), TEXT)]).await?;
                        rows.first().map(audit::read_row).transpose()?
                    }
                },
                None => None,
            };
            if record.file.is_none() || record.is_news_after(last.as_ref()) {
                new.push(record.clone());
            }
        }
        let health = audit::tools_of(&new);
        let mut before = HashMap::new();
        if !health.is_empty() {
            let sql =
                "SELECT tool_name, component_id, digest, traps FROM tool_health WHERE tool_name = ANY($1)";
            let rows = query(&client, sql, params![(health, TEXT_ARRAY)]).await?;
            before.extend(rows.iter().map(|row| (row.get(0), audit::read_health(row))));
        }
        let mut rows = audit::rows(&new);
        rows.extend(params![(id.to_owned(), TEXT)]);
        // If an earlier sending was stored and its answer was lost, no row is new.
        if run(&client, &audit::insert_once(), rows).await? > 0 {
            for (tool, health) in audit::health_after(&new, before) {
                run(&client, audit::set_health(&health), audit::health_row(&tool, &health)).await?;
            }
        }
        client.batch_execute("COMMIT").await?;
        client.finish();
        Ok(())
    }
}
