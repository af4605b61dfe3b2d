//! One connection to a server, from start to end.

use super::failure::ConnectionFailure;
use super::http::MeteredClient;
use super::link::{Link, QuestionRefusal};
use super::list_changes::Changes;
use super::meter::{End, Meter, PartialMessage};
use super::process::{Program, ServerProcess};
use super::rewrite::RewrittenLines;
use super::transport::OrderedTransport;
use super::unreached;
use crate::reader::MAX_MESSAGE_BYTES;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ListToolsResult,
    ProtocolVersion, Tool as Listed,
};
use rmcp::service::{
    ClientCacheConfig, ClientLifecycleMode, NotificationContext, Peer, RequestContext, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tollgate::config::ServerPlace;
use tollgate::models::http_client;
use tollgate_sandbox::MemoryBudget;

/// The maximum number of tools in a server's list, over all its pages.
pub const MAX_LISTED: usize = 1_024;
/// How often to check whether a server is still there.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum size of its list as JSON, over all its pages, in bytes.
pub const MAX_LISTED_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of JSON nodes in its list, over all its pages.
pub const MAX_LISTED_NODES: usize = 100_000;

/// The way in which a connection starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartMethod {
    /// The client asks which versions the server speaks, and uses the newest common one. A server
    /// that answers that it does not know the request is used in the older way.
    Newest,
    /// With the handshake of versions before 2026-07-28. Some of those servers end, or send
    /// nothing, if anything precedes it.
    Handshake,
}

impl StartMethod {
    pub(super) fn alternative(self) -> Self {
        match self {
            Self::Newest => Self::Handshake,
            Self::Handshake => Self::Newest,
        }
    }

    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Newest => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: None,
            },
            Self::Handshake => ClientLifecycleMode::Initialize,
        }
    }
}

/// A connected server.
pub(super) struct ServerConnection {
    serving: RunningService<RoleClient, Listener>,
    changes: Changes,
    /// Ended together with the connection.
    process: Option<ServerProcess>,
}

impl ServerConnection {
    /// Connects and starts the protocol.
    pub(super) async fn begin(
        place: &ServerPlace,
        (base_dir, launcher, keeper): (&Path, &[OsString], &[OsString]),
        (link, budget): (&Arc<Link>, &MemoryBudget),
        connect_timeout: Duration,
        way: StartMethod,
    ) -> Result<Self, ConnectionFailure> {
        let changed = Arc::<Notify>::default();
        let listener = Listener { link: Arc::clone(link), changed: Arc::clone(&changed) };
        let meter = Meter::new(Arc::clone(link), budget.clone());
        let (serving, process) = match place {
            ServerPlace::Process { command, args, env } => {
                let program = Program { command, args, env, base_dir, launcher, keeper };
                let mut process = ServerProcess::start(&program)?;
                let (stdout, stdin) = process
                    .streams()
                    .ok_or_else(|| ConnectionFailure::unanswered("it has no standard streams"))?;
                link.output.set(process.output());
                let stdout = process.output().first_of(meter.lines(stdout));
                let stdout = RewrittenLines::new(stdout, MAX_MESSAGE_BYTES);
                let wire =
                    AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE_BYTES);
                let serving = serve_client_with_lifecycle(
                    listener,
                    OrderedTransport::new(wire, Arc::clone(link)),
                    way.lifecycle(),
                );
                match serving.await {
                    Ok(serving) => {
                        process.answered();
                        (serving, Some(process))
                    }
                    Err(why) => return Err(unreached::process(&why, &mut process, link.server()).await),
                }
            }
            ServerPlace::Http { url, token_env } => {
                let at = url.parse().map_err(|e| {
                    ConnectionFailure::unanswered(format!("{url} is not a valid address: {e}"))
                })?;
                let client = http_client(&at, connect_timeout)
                    .map_err(|e| ConnectionFailure::unanswered(e.to_string()))?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MAX_MESSAGE_BYTES);
                let token = token_env.as_ref().map(|name| {
                    std::env::var(name).map_err(|_| {
                        let server = link.server();
                        ConnectionFailure::is_final(format!(
                            "the environment variable {name} is not set; set it to the token, or correct \
                             `token_env` in [mcp.{server}]"
                        ))
                    })
                });
                let token = token.transpose()?;
                let client = MeteredClient::new(client, meter, token.as_deref());
                if let Some(token) = token {
                    config = config.auth_header(token);
                }
                let wire = StreamableHttpClientTransport::with_client(client, config);
                let wire = OrderedTransport::new(wire, Arc::clone(link));
                let serving = serve_client_with_lifecycle(listener, wire, way.lifecycle()).await;
                (serving.map_err(|why| unreached::url(&why, &at, link.server()))?, None)
            }
        };
        // Each listing must be current.
        serving.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        let changes = Changes::of(link.server(), serving.peer().clone(), changed);
        Ok(Self { serving, changes, process })
    }

    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.serving.peer().clone()
    }

    /// Ends the connection, and shuts down the server's process.
    pub(super) async fn end(self) {
        let Self { serving, changes, process } = self;
        drop(changes);
        // Closes its input.
        let _ = serving.cancel().await;
        if let Some(process) = process {
            process.end().await;
        }
    }

    /// Subscribes to changes of the list, if the protocol version requires it.
    pub(super) async fn subscribe(&mut self) {
        self.changes.subscribe().await;
    }

    /// Lists all its tools, page by page.
    pub(super) async fn list(&self) -> Result<Vec<Listed>, ConnectionFailure> {
        let (mut all, mut cursor) = (Vec::new(), None);
        let mut size = ListSize::default();
        loop {
            let mut page = rmcp::model::PaginatedRequestParams::default();
            page.cursor = cursor;
            let listed = self.serving.list_tools(Some(page)).await;
            let listed = listed.map_err(|why| unreached::listing(&why))?;
            size.add(&listed)?;
            all.extend(listed.tools);
            match listed.next_cursor {
                Some(next) if !all.is_empty() => cursor = Some(next),
                _ => return Ok(all),
            }
        }
    }

    /// Returns whether the server has resources.
    pub(super) fn has_resources(&self) -> bool {
        self.serving.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Waits until its list changes, or until the server is gone; returns the reason then.
    pub(super) async fn changed_or_gone(&mut self, link: &Link) -> Option<ConnectionFailure> {
        let Self { serving, changes, process } = self;
        tokio::select! {
            () = changes.next() => None,
            () = refused(link) => None,
            gone = gone(serving, process, link) => Some(gone),
        }
    }

    /// Waits until the server is gone; returns the reason.
    pub(super) async fn gone(&mut self, link: &Link) -> ConnectionFailure {
        gone(&self.serving, &mut self.process, link).await
    }
}

/// Waits until the server refuses to call a tool that it lists.
async fn refused(link: &Link) {
    while !link.takes_refusal() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn gone(
    serving: &RunningService<RoleClient, Listener>,
    process: &mut Option<ServerProcess>,
    link: &Link,
) -> ConnectionFailure {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if link.has_flooded() {
            return ConnectionFailure::exceeds("it flooded the connection");
        }
        if let Some(process) = process
            && (process.has_ended() || serving.is_transport_closed())
            && let Some(status) = process.ended_soon().await
        {
            let output = process.output().shown();
            return ConnectionFailure::because(format!(
                "its process ended ({}){output}",
                unreached::how(status)
            ));
        }
        if serving.is_transport_closed() {
            return ConnectionFailure::because("it closed the connection");
        }
    }
}

/// The total size of a list's pages.
#[derive(Default)]
struct ListSize {
    entries: usize,
    bytes: usize,
    nodes: usize,
}

impl ListSize {
    /// Adds a page. An empty page counts as one entry, or there could be any number.
    fn add(&mut self, page: &ListToolsResult) -> Result<(), ConnectionFailure> {
        let text = serde_json::to_vec(page).map_err(|e| ConnectionFailure::because(e.to_string()))?;
        let mut message = PartialMessage::new(End::Stream);
        let read = message.read(&text);
        self.entries += page.tools.len().max(1);
        self.bytes += text.len();
        self.nodes += message.nodes;
        for (what, has, limit) in [
            ("entries", self.entries, MAX_LISTED),
            ("bytes", self.bytes, MAX_LISTED_BYTES),
            ("JSON nodes", self.nodes, MAX_LISTED_NODES),
        ] {
            if has > limit {
                return Err(ConnectionFailure::exceeds(format!(
                    "its list of tools has more than {limit} {what}"
                )));
            }
        }
        read.map_err(|_| ConnectionFailure::exceeds("a page of its list is too large"))
    }
}

/// The handler of messages that a server sends by itself.
struct Listener {
    link: Arc<Link>,
    changed: Arc<Notify>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let forms = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        let capabilities = ClientCapabilities::builder().enable_elicitation_with(forms).build();
        ClientConfig::new(capabilities, Implementation::new("tollgate", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.link.asks(&request) {
            Ok(answer) => Ok(ElicitResult::new(ElicitationAction::Accept).with_content(answer)),
            // The person is asked, and the call is made again with the answer.
            Err(QuestionRefusal::Suspended) => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            Err(QuestionRefusal::NotAForm) => {
                Err(ErrorData::invalid_params("only forms are supported", None))
            }
            Err(QuestionRefusal::Unclear) => {
                let words = "it is not known which call this question belongs to; questions are supported for one call at a time";
                Err(ErrorData::invalid_request(words, None))
            }
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
