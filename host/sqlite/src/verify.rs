//! Checking the whole store for damage.

use super::explain::explain;
use super::read::Reader;
use std::sync::Arc;
use tollgate_store::{DamagedRun, StoreError, VerifyReport};

/// The number of runs checked per query.
const RUNS_AT_ONCE: i64 = 500;

impl Reader<'_> {
    /// Checks the file and the record of every run.
    pub(super) fn verify(&self) -> Result<VerifyReport, StoreError> {
        let failed = |e: rusqlite::Error| explain("read", self.file, &e);
        let mut verified =
            VerifyReport { database: self.check_file().map_err(failed)?, ..VerifyReport::default() };
        let mut last = 0;
        loop {
            let runs = self.runs_after(last).map_err(failed)?;
            let Some((id, _)) = runs.last() else { return Ok(verified) };
            last = *id;
            for (_, run_id) in runs {
                let run_id: Arc<str> = Arc::from(run_id);
                let record = self.record(&run_id)?;
                verified.runs += 1;
                verified.events += record.events.len() as u64;
                verified.without_checksum += record.without_checksum;
                if let Some(problem) = record.damage {
                    verified.damaged.push(DamagedRun { run_id: run_id.to_string(), problem });
                }
            }
        }
    }

    /// Returns the problems that SQLite finds in its file.
    fn check_file(&self) -> rusqlite::Result<Vec<String>> {
        let mut check = self.connection.prepare("PRAGMA integrity_check(20)")?;
        let found = check.query_map([], |row| row.get::<_, String>(0))?;
        let mut found: Vec<String> = found.collect::<rusqlite::Result<_>>()?;
        found.retain(|line| line != "ok");
        Ok(found)
    }

    fn runs_after(&self, id: i64) -> rusqlite::Result<Vec<(i64, String)>> {
        let mut runs = self.connection.prepare_cached(
            "SELECT id, run_id FROM runs WHERE id > ?1 AND +run_id < x'' ORDER BY id LIMIT ?2",
        )?;
        runs.query_map([id, RUNS_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }
}
