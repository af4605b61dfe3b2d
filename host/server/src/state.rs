//! The state that every route shares.

use crate::access::{AccessDatabase, DirectoryKeys};
use crate::load::{Load, ShareSizes};
use crate::operator::OperatorData;
use crate::pricing::Price;
use crate::pulse::Pulse;
use crate::readiness::Readiness;
use crate::run_changes::RunChanges;
use crate::written_events::WrittenEvents;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tollgate::Host;
use tollgate::config::{DEFAULT_LISTEN, ServeConfig};
use tollgate::metrics::Metrics;
use tollgate::store::{RequestKeyStore, Store};
use tollgate::tools::RefusedFile;
use tollgate_mcp::{MountedServer, OfferedAgents, ToolList, connections_within};

/// The number of direct calls of one principal at a time, unless the options say otherwise.
const CALLS: usize = 64;

/// The parts that every route of the server works with.
pub struct ServerState {
    /// Runs agents and calls tools.
    pub host: Host,
    /// The keys, sessions and sign-in codes.
    pub access: Arc<AccessDatabase>,
    /// `[serve]` of the configuration.
    pub config: ServeConfig,
    /// The address on which the server listens.
    pub address: SocketAddr,
    /// The address of the proxy that speaks TLS; `None` if clients connect directly.
    pub behind_proxy: Option<IpAddr>,
    /// The metrics of the process; `None` if it has none.
    pub metrics: Option<Metrics>,
    /// Cancelled when the server shuts down.
    pub stop: CancellationToken,
    /// Whether other hosts continue the runs of this server when it shuts down.
    pub hands_over: bool,
    /// The name of each agent's model, by which its cost is computed.
    pub models: BTreeMap<String, String>,
    /// The operator's process; `None` if the server knows no more than its host.
    pub operator: Option<Arc<dyn OperatorData>>,
    pub(crate) load: Load,
    /// The service of the Model Context Protocol.
    pub(crate) mcp: MountedServer,
    /// The idempotency keys of requests.
    pub(crate) request_keys: Arc<dyn RequestKeyStore>,
    /// Requests with idempotency keys that are in progress.
    pub(crate) requests: RequestTurns,
    pub(crate) readiness: Readiness,
    /// The signs of life of quiet streams.
    pub(crate) pulse: Pulse,
    /// The latest events of runs, as streams write them.
    pub(crate) written: WrittenEvents,
    /// Changes of runs, for streams that tell clients what to read again.
    pub(crate) run_changes: Arc<RunChanges>,
}

/// The state as the routes share it.
pub type Shared = Arc<ServerState>;

/// The settings of a server beyond its configuration.
#[derive(Clone)]
pub struct ServerOptions {
    /// The address on which the server listens.
    pub address: SocketAddr,
    /// The address of the proxy that speaks TLS; `None` if clients connect directly.
    pub behind_proxy: Option<IpAddr>,
    /// The metrics of the process; `None` if it has none.
    pub metrics: Option<Metrics>,
    /// The maximum number of direct calls of one principal that run at a time. A value below the
    /// sandbox's limit leaves room for other principals.
    pub calls: usize,
    /// The name of each agent's model, by which its cost is computed.
    pub models: BTreeMap<String, String>,
    /// The operator's process; `None` if the server knows no more than its host.
    pub operator: Option<Arc<dyn OperatorData>>,
    /// The idempotency keys that the hosts of a shared store have in common; `None` if only the
    /// processes of the data directory get the same requests.
    pub request_keys: Option<Arc<dyn RequestKeyStore>>,
    /// Whether clients of the Model Context Protocol may have an answer to a question of the
    /// permission rules remembered.
    pub clients_may_remember: bool,
    /// Cancelled when the server shuts down.
    pub stop: CancellationToken,
    /// Whether other hosts continue the runs of this server when it shuts down. Otherwise they are
    /// cancelled and recorded, as direct calls always are.
    pub hands_over: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: DEFAULT_LISTEN,
            behind_proxy: None,
            metrics: None,
            calls: CALLS,
            models: BTreeMap::new(),
            operator: None,
            request_keys: None,
            clients_may_remember: false,
            stop: CancellationToken::new(),
            hands_over: false,
        }
    }
}

impl ServerState {
    /// Creates the state of a server.
    #[must_use]
    pub fn new(
        host: Host,
        access: AccessDatabase,
        mut config: ServeConfig,
        options: ServerOptions,
    ) -> Shared {
        config.limits.connections = connections_within(config.limits.connections);
        let budget = host.memory_budget().clone();
        let sizes = ShareSizes {
            calls: options.calls,
            streams: config.limits.streams_per_key,
            connections: config.limits.connections.div_ceil(2),
        };
        let load = Load::new(sizes, budget);
        let offer = ToolList {
            agents: OfferedAgents::All,
            answers_may_be_remembered: options.clients_may_remember,
            ..ToolList::default()
        };
        let mcp = MountedServer::new(host.clone(), offer, options.stop.clone());
        let access = Arc::new(access);
        let request_keys =
            options.request_keys.unwrap_or_else(|| Arc::new(DirectoryKeys(Arc::clone(&access))));
        let ServerOptions { address, behind_proxy, metrics, models, operator, stop, hands_over, .. } =
            options;
        let (requests, readiness) = (RequestTurns::default(), Readiness::default());
        Arc::new(Self {
            host,
            access,
            config,
            address,
            behind_proxy,
            metrics,
            stop,
            hands_over,
            models,
            operator,
            load,
            mcp,
            request_keys,
            requests,
            readiness,
            pulse: Pulse::new(behind_proxy.is_some()),
            written: WrittenEvents::default(),
            run_changes: Arc::default(),
        })
    }

    /// Returns the store of the host.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        self.host.store()
    }

    /// Returns the commands that get a refused file served; `None` if the reason says all.
    pub(crate) fn commands_for(&self, refused: &RefusedFile) -> Option<String> {
        self.operator.as_ref()?.commands_for(refused)
    }

    /// Returns the price of a model's tokens, if it is configured.
    pub(crate) fn price(&self, model: &str) -> Option<Price> {
        self.config.prices.get(model).map(|price| Price { input: price.input, output: price.output })
    }

    /// Returns whether clients reach the server through a proxy that speaks TLS.
    #[must_use]
    pub fn is_behind_proxy(&self) -> bool {
        self.behind_proxy.is_some()
    }

    /// Returns the name of the session's cookie. Browsers send a cookie to every port of a host,
    /// so on the loopback its name contains the port.
    #[must_use]
    pub fn cookie_name(&self) -> String {
        match self.behind_proxy {
            Some(_) => "__Host-tollgate".to_owned(),
            None => format!("tollgate-{}", self.address.port()),
        }
    }
}

/// The order of requests with the same idempotency key in this process: one after another.
#[derive(Debug, Default)]
pub(crate) struct RequestTurns(Mutex<HashMap<[u8; 32], Weak<tokio::sync::Mutex<()>>>>);

impl RequestTurns {
    /// Waits until no other request with the same key is in progress.
    pub(crate) async fn turn(&self, digest: [u8; 32]) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let lock = locks.get(&digest).and_then(Weak::upgrade).unwrap_or_default();
            locks.insert(digest, Arc::downgrade(&lock));
            lock
        };
        lock.lock_owned().await
    }
}
