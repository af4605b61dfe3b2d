//! Audit records outside of any run.

use crate::audit;
use crate::connect::{Busy, EXCHANGE, no_answer, params, query, run};
use crate::database::{Database, PAUSE};
use crate::error::{Failure, explain, failure};
use crate::settings::check_copied;
use std::collections::HashMap;
use std::time::Instant;
use tollgate_store::{AuditRecord, StoreError};
use uuid::Uuid;

/// The reason why records were not stored.
enum NotNoted {
    Database(tokio_postgres::Error),
    Refused(StoreError),
}

impl From<tokio_postgres::Error> for NotNoted {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for NotNoted {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Database {
    /// Stores records, and sends them again with the same id until the result is known.
    pub(crate) async fn note(&self, records: &[AuditRecord]) -> Result<(), StoreError> {
        let (id, until) = (Uuid::now_v7().to_string(), Instant::now() + self.patience);
        loop {
            let failed = match self.client().await {
                Err(why) => why,
                Ok(client) => {
                    match tokio::time::timeout(EXCHANGE, self.note_once(client, records, &id)).await {
                        Ok(Ok(())) => return Ok(()),
                        Ok(Err(NotNoted::Refused(why))) => return Err(why),
                        Ok(Err(NotNoted::Database(why))) => match failure(&why) {
                            Failure::Repeat => continue,
                            Failure::Lost => explain("write to", &self.address, &why),
                            _ => return Err(explain("write to", &self.address, &why)),
                        },
                        Err(_) => no_answer(&self.address),
                    }
                }
            };
            if Instant::now() >= until {
                return Err(failed);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn note_once(&self, client: Busy, records: &[AuditRecord], id: &str) -> Result<(), NotNoted> {
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
