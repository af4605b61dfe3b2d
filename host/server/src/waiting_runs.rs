//! The runs of a principal that wait for a person. Each stays in the store until it is answered or cancelled,
//! and lists of the open runs of others have to pass over it, so their number is bounded.

use crate::problem::Problem;
use axum::http::StatusCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate::store::{RunFilter, Store};

/// The maximum number of runs and calls of one principal that wait for a person. Those that are in progress
/// when they are counted may exceed it.
const MAX_WAITING: usize = 1_000;

/// An upper estimate of the runs of one principal that wait: those that did when they were counted last,
/// and all that have begun since in this process. They are counted only if it reaches the maximum.
#[derive(Debug)]
pub(crate) struct WaitingEstimate(AtomicUsize);

impl Default for WaitingEstimate {
    /// They are not counted yet.
    fn default() -> Self {
        Self(AtomicUsize::new(MAX_WAITING))
    }
}

impl WaitingEstimate {
    /// Checks that another run or call of the principal with this name may begin, although it may have to
    /// wait for a person.
    ///
    /// # Errors
    /// The principal has the maximum of runs that wait: 429. Or the store cannot be read.
    pub(crate) async fn check(&self, store: &dyn Store, name: &str) -> Result<(), Problem> {
        if self.0.fetch_add(1, Ordering::Relaxed) < MAX_WAITING {
            return Ok(());
        }
        let filter = RunFilter {
            status: Some("waiting".to_owned()),
            thread_prefix: Some(format!("{name}/")),
            limit: MAX_WAITING,
            ..RunFilter::default()
        };
        let waiting = store.runs(filter).await?.len();
        self.0.store(waiting + 1, Ordering::Relaxed);
        if waiting < MAX_WAITING {
            return Ok(());
        }
        let detail = format!(
            "{MAX_WAITING} runs and calls of this principal wait for a person; answer or cancel some of them, \
             which GET /api/v1/questions lists"
        );
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail))
    }
}
