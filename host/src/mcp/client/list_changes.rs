//! How word of a changed list comes from a server: by itself, or, in newer versions of
//! the protocol, to whoever subscribed.

use super::backoff::Pauses;
use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{Peer, Subscription};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tollgate_agent::text::one_line;

/// How long a server may take to take a subscription.
const TAKES: Duration = Duration::from_secs(3);

/// Word of changes, by whichever way it comes.
pub(super) struct Changes {
    server: String,
    peer: Peer<RoleClient>,
    /// By itself.
    told: Arc<Notify>,
    /// To who subscribed, and since when; none where nothing comes that way just now.
    subscription: Option<(Subscription, Instant)>,
    /// Before one that ended, or was not taken, is made again.
    pauses: Pauses,
}

impl Changes {
    /// What comes by itself, until [`Self::subscribe`].
    pub(super) fn of(server: &str, peer: Peer<RoleClient>, told: Arc<Notify>) -> Self {
        Self { server: server.to_owned(), peer, told, subscription: None, pauses: Pauses::new() }
    }

    /// Waits until the list may be another. A subscription that ended is made again, after
    /// pauses that grow for as long as it is not taken; the server works meanwhile.
    pub(super) async fn next(&mut self) {
        if !self.are_subscribed_to() {
            return self.told.notified().await;
        }
        let mut stayed = Duration::ZERO;
        if let Some((subscription, since)) = &mut self.subscription {
            tokio::select! {
                () = self.told.notified() => return,
                next = subscription.next() => if matches!(next, Ok(Some(_))) { return },
            }
            // Whatever lies between may have closed it for its age.
            stayed = since.elapsed();
            self.subscription = None;
        }
        loop {
            tokio::select! {
                () = self.told.notified() => return,
                () = tokio::time::sleep(self.pauses.after(stayed)) => {}
            }
            stayed = Duration::ZERO;
            self.subscribe().await;
            if self.subscription.is_some() {
                // It may have changed meanwhile.
                return;
            }
        }
    }

    fn are_subscribed_to(&self) -> bool {
        let Some(info) = self.peer.peer_info() else { return false };
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
        info.protocol_version >= ProtocolVersion::V_2026_07_28 && tells == Some(true)
    }

    /// Subscribes where that is how it is done. A server that does not take the
    /// subscription though it says that its list changes is not heard for a while.
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
                tracing::warn!("the server {server} tells of no changes: {why}");
            }
            Err(_) => tracing::warn!("the server {server} tells of no changes: it takes no subscription"),
        }
    }
}
