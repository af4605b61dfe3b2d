//! Hints of commits by other processes. SQLite sends no notifications, so the file is checked.

use crate::thread_cache::ThreadCache;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tollgate_store::{Hint, HintSender};

/// The interval at which the file is checked.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// Checks for commits of other processes while the store is watched.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForeignCommits {
    is_checking: Arc<Mutex<bool>>,
}

impl ForeignCommits {
    /// Starts a task that checks, unless there is one. Outside a runtime there is no task, and receivers
    /// check by themselves.
    pub(crate) fn begin(&self, cache: &Arc<ThreadCache>, hints: &HintSender) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut is_checking = self.is_checking.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_checking, true) {
            // Read now: what is committed after the caller watches is news, however late the task begins.
            let seen = cache.version();
            runtime.spawn(self.clone().watch(Arc::downgrade(cache), hints.clone(), seen));
        }
    }

    async fn watch(self, cache: Weak<ThreadCache>, hints: HintSender, mut seen: Option<i64>) {
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let Some(cache) = cache.upgrade() else { return };
            if !hints.is_watched() {
                let mut is_checking = self.is_checking.lock().unwrap_or_else(PoisonError::into_inner);
                // A watcher that began meanwhile is counted; the next one begins another task.
                if !hints.is_watched() {
                    *is_checking = false;
                    return;
                }
            }
            let version = cache.version();
            if version.is_none() || version != seen {
                seen = version;
                hints.send(Hint::Any);
            }
        }
    }
}
