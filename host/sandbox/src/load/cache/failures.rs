//! Records components that failed to compile, or that are refused for their bytes or their description, so
//! that not every command retries them. A record has the reason only.

use super::{Cache, seconds};
use crate::error::{CompileFailure, FailureLifetime};
use crate::load::Fingerprint;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::SystemTime;
use tollgate_agent::text::clean;

/// The file name suffix of these records.
const FAILURE: &str = ".failed";
/// The maximum size in bytes of a record that is read.
const MAX_FAILURE_BYTES: u64 = 16 << 10;
/// The maximum number of records; the oldest are removed first.
const MAX_FAILURES: usize = 1_000;
/// The terms of a refusal: the limits of this version of the host.
const OF_REFUSAL: &str = concat!("refusal, tollgate ", env!("CARGO_PKG_VERSION"));
/// The longest reason that is recorded, in bytes.
const MAX_REASON_BYTES: usize = 4 << 10;
/// The lifetime of a failure that may be temporary.
const TRIED_AGAIN_AFTER_S: i64 = 600;

#[derive(Serialize, Deserialize)]
struct Failure {
    /// The limits under which it failed.
    terms: String,
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until_s: Option<i64>,
}

impl Cache {
    /// Returns why the component of these bytes failed to compile under these limits, if it did.
    pub(crate) fn failure(&self, of: &Fingerprint, terms: &str) -> Option<String> {
        let (_, bytes) = self.dir.read(&self.failure_name(of), MAX_FAILURE_BYTES).ok()?;
        let (tag, text) = bytes.split_first_chunk::<32>()?;
        if !super::same(&self.tag(of, &[b"failure", text]), tag) {
            return None;
        }
        let failure: Failure = serde_json::from_slice(text).ok()?;
        let is_over = failure.until_s.is_some_and(|until_s| until_s <= seconds(SystemTime::now()));
        (failure.terms == terms && !is_over).then_some(failure.why)
    }

    /// Records that the component of these bytes failed to compile under these limits.
    pub(crate) fn keep_failure(
        &self,
        of: &Fingerprint,
        terms: &str,
        failure: &CompileFailure,
    ) -> io::Result<()> {
        let until_s = match failure.lasts {
            FailureLifetime::Always => None,
            FailureLifetime::ForNow => Some(seconds(SystemTime::now()).saturating_add(TRIED_AGAIN_AFTER_S)),
            FailureLifetime::No => return Ok(()),
        };
        self.write_failure(of, &Failure { terms: terms.to_owned(), why: failure.why.clone(), until_s })
    }

    /// Returns why the component of these bytes, or its description, is refused, if it is.
    pub(crate) fn refusal(&self, of: &Fingerprint) -> Option<String> {
        self.failure(of, OF_REFUSAL)
    }

    /// Records why the component of these bytes, or its description, is refused.
    pub(crate) fn keep_refusal(&self, of: &Fingerprint, why: &str) -> io::Result<()> {
        let why = clean(why, MAX_REASON_BYTES);
        self.write_failure(of, &Failure { terms: OF_REFUSAL.to_owned(), why, until_s: None })
    }

    fn write_failure(&self, of: &Fingerprint, failure: &Failure) -> io::Result<()> {
        let text = serde_json::to_vec(failure)?;
        let tag = self.tag(of, &[b"failure", &text]);
        self.dir.write(&self.failure_name(of), &[&tag, &text], true)?;
        let mut failures = self.dir.list()?;
        failures.retain(|file| file.name.ends_with(FAILURE));
        failures.sort_by_key(|file| file.modified_s);
        let excess = failures.len().saturating_sub(MAX_FAILURES);
        failures.iter().take(excess).for_each(|file| self.dir.remove(&file.name));
        Ok(())
    }

    pub(super) fn failure_name(&self, of: &Fingerprint) -> String {
        format!("{of}-{}{FAILURE}", self.compatibility.short())
    }
}
