//! The client of a request, as the server that mounts the protocol has authenticated it.

use super::memory_share::MemoryShare;
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The rights of a client of a [`MountedServer`](crate::MountedServer).
pub trait ClientAccess: Send + Sync {
    /// Returns whether the client may call the tool.
    fn may_call(&self, tool_name: &str) -> bool;

    /// Returns whether the client may run the agent.
    fn may_run(&self, agent_id: &str) -> bool;

    /// Returns whether the client's person may answer questions of its own calls. Otherwise the
    /// client is never asked, and a person decides elsewhere.
    fn may_decide(&self) -> bool;

    /// Admits another call of the client. Fails with a message for the client if too many of its calls wait
    /// for a person.
    fn admit(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// The client of one request to a [`MountedServer`](crate::MountedServer), as an extension of the
/// request.
#[derive(Clone)]
pub struct MountedClient {
    /// The principal, to which sessions, runs and threads belong. Threads are stored as
    /// `<principal>/<id>`.
    pub principal: Arc<str>,
    /// The rights of its credential.
    pub access: Arc<dyn ClientAccess>,
    /// The places for calls of the principal, in all its sessions; further calls wait.
    pub calls: Arc<Semaphore>,
    /// The places for calls that continue after a "no", which does not wait for one of `calls`.
    pub declined: Arc<Semaphore>,
    /// The places for runs of agents of the principal; further runs wait.
    pub runs: Arc<Semaphore>,
    /// The places for streams of the principal. A subscription beyond them is refused.
    pub streams: Arc<Semaphore>,
    /// The memory of the principal's parsed messages. A message beyond it is refused.
    pub bodies: MemoryShare,
    /// The address of the page on which people answer questions.
    pub decide_url: Arc<str>,
}

impl MountedClient {
    /// Returns the id under which a thread of this client is stored.
    pub(super) fn thread_id(&self, id: &str) -> Arc<str> {
        Arc::from(format!("{}/{id}", self.principal))
    }
}

impl fmt::Debug for MountedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountedClient").field("principal", &self.principal).finish_non_exhaustive()
    }
}
