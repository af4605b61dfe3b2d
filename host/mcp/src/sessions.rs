//! Sessions: their use over HTTP, so that an idle session can make room for a new one; the ids of their
//! requests in progress; and the owners of waiting calls and tasks, none of which may push out those of
//! others.

use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of sessions. A session without activity ends after five minutes.
pub const MAX_SESSIONS: usize = 256;
/// A session used within this time is not ended to make room for another.
const RECENT: Duration = Duration::from_secs(2);
/// How long a request waits for an earlier one with its id to end: a client that has read an
/// answer may use the id again before the server is done with it.
const ID_WAIT: Duration = Duration::from_millis(500);
/// How often to check whether the earlier request has ended.
const ID_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The sessions, with the time of each one's last use.
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    uses: Mutex<HashMap<String, Use>>,
    /// The principal of each session of a mounted server.
    owners: Mutex<HashMap<String, Arc<str>>>,
}

struct Use {
    last: Instant,
    /// The session's requests and streams in progress.
    open: usize,
}

/// A request or stream of a session, in progress while this lives.
pub(super) struct SessionUse {
    sessions: Arc<Sessions>,
    id: String,
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, uses: Mutex::default(), owners: Mutex::default() }
    }

    /// Returns whether a session with this id exists, for this principal if the server is mounted.
    pub(super) async fn has(&self, id: &str, owner: Option<&str>) -> bool {
        owner.is_none_or(|owner| self.is_of(id, owner)) && self.manager.sessions.read().await.contains_key(id)
    }

    fn is_of(&self, id: &str, owner: &str) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.get(id).is_some_and(|known| **known == *owner)
    }

    /// Records the principal that began a session, before its client learns the id.
    pub(super) async fn begin(&self, id: &str, owner: &Arc<str>) {
        let sessions = self.manager.sessions.read().await;
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= 2 * MAX_SESSIONS {
            owners.retain(|id, _| sessions.contains_key(id.as_str()));
        }
        owners.insert(id.to_owned(), Arc::clone(owner));
    }

    /// Records that a request or stream of a session begins.
    pub(super) fn use_now(self: &Arc<Self>, id: &str) -> SessionUse {
        self.change(id, |used| used.open += 1);
        SessionUse { sessions: Arc::clone(self), id: id.to_owned() }
    }

    /// Returns whether there is room for another session. If necessary, ends the session that has
    /// been idle for longest. Its client receives an answer that the session has ended, and
    /// starts a new one. A principal with half of the sessions makes room among its own.
    pub(super) async fn make_room(&self, owner: Option<&str>) -> bool {
        let known: Vec<Arc<str>> = self.manager.sessions.read().await.keys().cloned().collect();
        let own = owner.map(|owner| known.iter().filter(|id| self.is_of(id, owner)).cloned().collect());
        let own: Vec<Arc<str>> = own.unwrap_or_default();
        let may_end = if own.len() >= MAX_SESSIONS / 2 { &own } else { &known };
        if known.len() < MAX_SESSIONS && own.len() < MAX_SESSIONS / 2 {
            return true;
        }
        let Some(idlest) = self.idlest(&known, may_end) else { return false };
        self.manager.close_session(&idlest).await.is_ok()
    }

    fn idlest(&self, known: &[Arc<str>], may_end: &[Arc<str>]) -> Option<Arc<str>> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.retain(|id, _| known.iter().any(|known| **known == **id));
        let last = |id: &str| match uses.get(id) {
            Some(used) if used.open > 0 || used.last.elapsed() < RECENT => None,
            // A session without a record has started and done nothing.
            used => Some(used.map(|used| used.last)),
        };
        may_end
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

impl Drop for SessionUse {
    fn drop(&mut self) {
        self.sessions.change(&self.id, |used| used.open = used.open.saturating_sub(1));
    }
}

/// The ids of requests in progress, in all sessions. Two requests of a session with one id could not be
/// told apart, and one of them would never be answered.
#[derive(Debug, Default)]
pub(super) struct RequestIds(Mutex<HashSet<SessionRequest>>);

/// A session and the id of one of its requests.
type SessionRequest = (String, RequestId);

/// An id in use, until this is dropped.
#[derive(Debug)]
pub(super) struct IdInUse {
    ids: Arc<RequestIds>,
    request: SessionRequest,
}

impl RequestIds {
    /// Takes the id for a request of this session; `None` if another request has it.
    pub(super) async fn take(self: &Arc<Self>, session: &str, id: &RequestId) -> Option<Arc<IdInUse>> {
        let request = (session.to_owned(), id.clone());
        let taken = async {
            while !self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.clone()) {
                tokio::time::sleep(ID_POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(ID_WAIT, taken).await.ok()?;
        Some(Arc::new(IdInUse { ids: Arc::clone(self), request }))
    }
}

impl Drop for IdInUse {
    fn drop(&mut self) {
        self.ids.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.request);
    }
}

/// Returns the owner in a stored thread's id: the principal of a mounted server, else the session.
pub(super) fn owner_of(thread_id: &str) -> &str {
    thread_id.split_once('/').map_or(thread_id, |(owner, _)| owner)
}

/// Returns the place of the oldest entry of the owner whose entries are largest together, so that
/// no owner can push out the entries of others.
pub(super) fn oldest_of_largest_owner<'a>(entries: impl Iterator<Item = (&'a str, usize)>) -> usize {
    let mut owners: HashMap<&str, (usize, usize)> = HashMap::new();
    for (at, (owner, size)) in entries.enumerate() {
        owners.entry(owner).or_insert((0, at)).0 += size;
    }
    owners.into_values().max_by_key(|&(size, first)| (size, Reverse(first))).map_or(0, |(_, first)| first)
}
