//! Whether the server can use its store, for load balancers.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tollgate::store::Store;

/// How long an answer is given again. Anyone may ask, so the store is not asked each time.
const KEPT: Duration = Duration::from_secs(1);
/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The last answer, and when it was given.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    /// Returns whether the store can be read.
    pub(crate) async fn of(&self, store: &Arc<dyn Store>) -> bool {
        let mut last = self.0.lock().await;
        if let Some((at, is_ready)) = *last
            && at.elapsed() < KEPT
        {
            return is_ready;
        }
        let is_ready = matches!(timeout(PATIENCE, store.tool_health()).await, Ok(Ok(_)));
        *last = Some((Instant::now(), is_ready));
        is_ready
    }
}
