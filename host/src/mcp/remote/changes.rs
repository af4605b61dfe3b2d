//! How word of a changed list comes from a server: by itself, or, in newer versions of
//! the protocol, to whoever subscribed.

use super::connection::Gone;
use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{Peer, Subscription};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long to wait before a subscription that ended is made again.
const PAUSE: Duration = Duration::from_millis(500);

/// Word of changes, by whichever way it comes.
pub(super) struct Changes {
    peer: Peer<RoleClient>,
    /// By itself.
    told: Arc<Notify>,
    /// To who subscribed; none where nothing comes that way.
    subscription: Option<Subscription>,
}

impl Changes {
    /// Subscribes where that is how it is done. A server that does not take the
    /// subscription though it says that its list changes has a list that is read once.
    pub(super) async fn of(server: &str, peer: Peer<RoleClient>, told: Arc<Notify>) -> Self {
        let mut changes = Self { peer, told, subscription: None };
        if changes.are_subscribed_to() {
            match changes.subscribe().await {
                Ok(subscription) => changes.subscription = Some(subscription),
                Err(Gone { why, .. }) => tracing::warn!("the server {server} tells of no changes: {why}"),
            }
        }
        changes
    }

    /// Waits until the list may be another.
    ///
    /// # Errors
    /// A subscription ended and cannot be made again: the server is gone.
    pub(super) async fn next(&mut self) -> Result<(), Gone> {
        let Some(subscription) = &mut self.subscription else {
            self.told.notified().await;
            return Ok(());
        };
        tokio::select! {
            () = self.told.notified() => return Ok(()),
            next = subscription.next() => if matches!(next, Ok(Some(_))) { return Ok(()) },
        }
        // Whatever lies between may have closed it for its age.
        tokio::time::sleep(PAUSE).await;
        self.subscription = Some(self.subscribe().await?);
        // It may have changed meanwhile.
        Ok(())
    }

    fn are_subscribed_to(&self) -> bool {
        let Some(info) = self.peer.peer_info() else { return false };
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
        info.protocol_version >= ProtocolVersion::V_2026_07_28 && tells == Some(true)
    }

    async fn subscribe(&self) -> Result<Subscription, Gone> {
        let mut wanted = SubscriptionFilter::new();
        wanted.tools_list_changed = Some(true);
        self.peer.listen(wanted).await.map_err(|e| Gone::because(format!("its changes cannot be had: {e}")))
    }
}
