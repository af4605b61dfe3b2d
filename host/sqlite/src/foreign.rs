//! Hints of commits by other processes. SQLite sends no notifications, so the file is checked.

use crate::thread_cache::ThreadCache;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tollgate_store::{Hint, HintSender};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Looks for commits of other processes while the store is watched.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForeignCommits {
    is_looking: Arc<Mutex<bool>>,
}

impl ForeignCommits {
    /// Begins to look, unless a task does already. Outside a runtime there is no task, and receivers
    /// look by themselves.
    pub(crate) fn begin(&self, known: &Arc<ThreadCache>, hints: &HintSender) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut is_looking = self.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_looking, true) {
            // Read now: what is committed after the caller watches is news, however late the task begins.
            let seen = known.version();
            runtime.spawn(self.clone().watch(Arc::downgrade(known), hints.clone(), seen));
        }
    }

    async fn watch(self, known: Weak<ThreadCache>, hints: HintSender, mut seen: Option<i64>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(known) = known.upgrade() else { return };
            if !hints.is_watched() {
                let mut is_looking = self.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
                // A watcher that began meanwhile is counted; the next one begins another task.
                if !hints.is_watched() {
                    *is_looking = false;
                    return;
                }
            }
            let version = known.version();
            if version.is_none() || version != seen {
                seen = version;
                hints.send(Hint::Any);
            }
        }
    }
}
