//! Notifications of a changed tool list. A server sends them by itself or, in newer versions of
//! the protocol, to subscribers.

use super::backoff::Backoff;
use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{Peer, Subscription};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tollgate_agent::text::one_line;

/// How long a server may take to accept a subscription.
const TAKES: Duration = Duration::from_secs(3);

/// Notifications of changes, in either way.
pub(super) struct Changes {
    server: String,
    peer: Peer<RoleClient>,
    /// Notified by the server itself.
    changed: Arc<Notify>,
    /// The subscription and when it began; `None` if there is none at present.
    subscription: Option<(Subscription, Instant)>,
    /// The pauses before a subscription that ended or was refused is made again.
    backoff: Backoff,
}

impl Changes {
    /// Listens for notifications that the server sends by itself, until [`Self::subscribe`].
    pub(super) fn of(server: &str, peer: Peer<RoleClient>, changed: Arc<Notify>) -> Self {
        Self { server: server.to_owned(), peer, changed, subscription: None, backoff: Backoff::new() }
    }

    /// Waits until the list may have changed. A subscription that ended is made again, after
    /// pauses that grow for as long as it is refused; meanwhile the server stays in use.
    pub(super) async fn next(&mut self) {
        if !self.are_subscribed_to() {
            return self.changed.notified().await;
        }
        let mut stayed = Duration::ZERO;
        if let Some((subscription, since)) = &mut self.subscription {
            tokio::select! {
                () = self.changed.notified() => return,
                next = subscription.next() => if matches!(next, Ok(Some(_))) { return },
            }
            // A proxy in between may have closed it for its age.
            stayed = since.elapsed();
            self.subscription = None;
        }
        loop {
            tokio::select! {
                () = self.changed.notified() => return,
                () = tokio::time::sleep(self.backoff.after(stayed)) => {}
            }
            stayed = Duration::ZERO;
            self.subscribe().await;
            if self.subscription.is_some() {
                // The list may have changed meanwhile.
                return;
            }
        }
    }

    fn are_subscribed_to(&self) -> bool {
        let Some(info) = self.peer.peer_info() else { return false };
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
        info.protocol_version >= ProtocolVersion::V_2026_07_28 && tells == Some(true)
    }

    /// Subscribes if the version requires it. If a server announces list changes but refuses the
    /// subscription, its changes go unnoticed for a while.
    pub(super) async fn subscribe(&mut self) {
        if !self.are_subscribed_to() {
            return;
        }
        let mut wanted = SubscriptionFilter::new();
        wanted.tools_list_changed = Some(true);
        let server = &self.server;
        match tokio::time::timeout(TAKES, self.peer.listen(wanted)).await {
            Ok(Ok(subscription)) => self.subscription = Some((subscription, Instant::now())),
            Ok(Err(why)) => {
                let why = one_line(&why.to_string(), 500);
                tracing::warn!("the server {server} sends no list changes: {why}");
            }
            Err(_) => tracing::warn!(
                "the server {server} sends no list changes: it did not accept the subscription"
            ),
        }
    }
}
