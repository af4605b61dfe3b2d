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
    /// Returns whether the store can be read and has room for more records, and whether keys can be
    /// looked up.
    pub(crate) async fn of(
        &self,
        store: &Arc<dyn Store>,
        check_keys: impl FnOnce() -> Result<(), String>,
    ) -> bool {
        let mut last = self.0.lock().await;
        if let Some((at, is_ready)) = *last
            && at.elapsed() < KEPT
        {
            return is_ready;
        }
        let asked = async {
            store.tool_health().await?;
            store.admit(None, None, None).await
        };
        let is_ready = match timeout(PATIENCE, asked).await {
            Ok(Ok(())) => check_keys(),
            Ok(Err(why)) => Err(why.to_string()),
            Err(_) => Err(format!("the store does not answer within {} s", PATIENCE.as_secs())),
        };
        let is_ready = is_ready.inspect_err(|why| tracing::warn!("the server is not ready: {why}")).is_ok();
        *last = Some((Instant::now(), is_ready));
        is_ready
    }
}
