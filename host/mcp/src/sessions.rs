//! Use of HTTP sessions, so that an idle session can make room for a new one.

use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of sessions. A session without activity ends after five minutes.
pub const MAX_SESSIONS: usize = 256;
/// A session used within this time is not ended to make room for another.
const RECENT: Duration = Duration::from_secs(2);

/// The sessions, with the time of each one's last use.
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    uses: Mutex<HashMap<String, Use>>,
}

struct Use {
    last: Instant,
    /// The session's requests and streams in progress.
    open: usize,
}

/// A request or stream of a session, in progress while this lives.
pub(super) struct InUse {
    sessions: Arc<Sessions>,
    id: String,
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, uses: Mutex::default() }
    }

    /// Returns whether a session with this id exists.
    pub(super) async fn has(&self, id: &str) -> bool {
        self.manager.sessions.read().await.contains_key(id)
    }

    /// Records that a request or stream of a session begins.
    pub(super) fn use_now(self: &Arc<Self>, id: &str) -> InUse {
        self.change(id, |used| used.open += 1);
        InUse { sessions: Arc::clone(self), id: id.to_owned() }
    }

    /// Returns whether there is room for another session. If necessary, ends the session that has
    /// been idle for longest. Its client receives an answer that the session has ended, and
    /// starts a new one.
    pub(super) async fn make_room(&self) -> bool {
        let known: Vec<Arc<str>> = self.manager.sessions.read().await.keys().cloned().collect();
        if known.len() < MAX_SESSIONS {
            return true;
        }
        let Some(idlest) = self.idlest(&known) else { return false };
        self.manager.close_session(&idlest).await.is_ok()
    }

    fn idlest(&self, known: &[Arc<str>]) -> Option<Arc<str>> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.retain(|id, _| known.iter().any(|known| **known == **id));
        let last = |id: &str| match uses.get(id) {
            Some(used) if used.open > 0 || used.last.elapsed() < RECENT => None,
            // A session without a record has started and done nothing.
            used => Some(used.map(|used| used.last)),
        };
        known
            .iter()
            .filter_map(|id| Some((last(id)?, id)))
            .min_by_key(|(last, _)| *last)
            .map(|(_, id)| Arc::clone(id))
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Use)) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if !uses.contains_key(id) && uses.len() >= 2 * MAX_SESSIONS {
            uses.retain(|_, used| used.open > 0 || used.last.elapsed() < RECENT);
        }
        let used = uses.entry(id.to_owned()).or_insert(Use { last: Instant::now(), open: 0 });
        used.last = Instant::now();
        change(used);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.sessions.change(&self.id, |used| used.open = used.open.saturating_sub(1));
    }
}
