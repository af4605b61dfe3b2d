//! The listener of the server.

use crate::auth::look_for_changes;
use crate::state::Shared;
use axum::Router;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tollgate_mcp::{ClientConnection, LimitedListener, MountedServer, connections_within};

/// How long open requests may take to finish when the server shuts down.
const GRACE: Duration = Duration::from_secs(5);
/// The reason in the records of runs that are cancelled then.
const SHUTDOWN: &str = "the server shut down";
/// How often the last uses of keys and sessions are stored.
const STORE_USES: Duration = Duration::from_secs(30);

/// A server that is bound to its address but does not serve yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Binds the address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is not available.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await? })
    }

    /// Returns the address on which it listens.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the Model Context Protocol alone until `stop` is cancelled, on at most this many
    /// connections: the routes check the token that its clients share.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve_mcp(
        self,
        protocol: &MountedServer,
        connections: usize,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let listener = LimitedListener::new(self.listener, connections_within(connections));
        let routes = protocol.router::<()>().into_make_service_with_connect_info::<ClientConnection>();
        let served = tokio::select! {
            served = axum::serve(listener, routes) => served,
            () = stop.cancelled() => Ok(()),
        };
        protocol.ended().await;
        served
    }

    /// Serves until [`stop`](crate::ServerState::stop) is cancelled. Streams end then, the host's calls
    /// are cancelled, and so are its runs unless other hosts continue them. Other requests have five
    /// seconds to finish.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(self, state: Shared, routes: Router) -> io::Result<()> {
        let listener = LimitedListener::new(self.listener, state.config.limits.connections);
        let routes = routes.into_make_service_with_connect_info::<ClientConnection>();
        let stop = state.stop.clone();
        let served = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
        let grace = async {
            stop.cancelled().await;
            // Requests that wait for a run are answered with its end.
            tokio::join!(tokio::time::sleep(GRACE), end_runs(&state));
        };
        let served = tokio::select! {
            served = served => served,
            () = grace => Ok(()),
            () = store_uses(&state) => Ok(()),
            () = look_for_changes(&state) => Ok(()),
            () = state.pulse.beat() => Ok(()),
        };
        // Other runs have no request that waits for them.
        end_runs(&state).await;
        state.mcp.ended().await;
        if let Err(e) = state.access.store_uses() {
            tracing::warn!("the last uses of keys are not stored: {e}");
        }
        served
    }
}

/// Cancels the calls of the host, and its runs unless other hosts continue them.
async fn end_runs(state: &Shared) {
    match state.hands_over {
        true => state.host.cancel_calls(SHUTDOWN, GRACE).await,
        false => state.host.cancel_all(SHUTDOWN, GRACE).await,
    }
}

/// Stores from time to time when keys and sessions were last used.
async fn store_uses(state: &Shared) {
    loop {
        tokio::time::sleep(STORE_USES).await;
        let state = Shared::clone(state);
        let stored = tokio::task::spawn_blocking(move || state.access.store_uses()).await;
        if let Ok(Err(e)) = stored {
            tracing::warn!("the last uses of keys are not stored: {e}");
        }
    }
}
