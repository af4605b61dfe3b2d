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
/// The maximum size of a server's list as JSON, over all its pages, in bytes.
pub const MAX_LISTED_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of JSON nodes in a server's list, over all its pages.
pub const MAX_LISTED_NODES: usize = 100_000;
/// The interval at which a connection is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The method by which a connection starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartMethod {
    /// The client asks which versions the server speaks, and uses the newest common one. If the server
    /// answers that it does not know the request, the handshake follows.
    Newest,
    /// The client begins with the handshake of versions before 2026-07-28. Some of those servers end, or
    /// send nothing, if anything precedes it.
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

/// Connects to one server by one method.
pub(super) struct Connector<'a> {
    pub(super) base_dir: &'a Path,
    /// See [`Config::launcher`](tollgate::config::Config::launcher).
    pub(super) launcher: &'a [OsString],
    /// See [`Config::group_keeper`](tollgate::config::Config::group_keeper).
    pub(super) keeper: &'a [OsString],
    pub(super) link: &'a Arc<Link>,
    pub(super) budget: &'a MemoryBudget,
    /// The time limit for a connection over HTTP.
    pub(super) connect_timeout: Duration,
    pub(super) method: StartMethod,
}

impl Connector<'_> {
    /// Connects to a server and starts the protocol.
    pub(super) async fn connect(&self, place: &ServerPlace) -> Result<ServerConnection, ConnectionFailure> {
        let changed = Arc::<Notify>::default();
        let listener = Listener { link: Arc::clone(self.link), changed: Arc::clone(&changed) };
        let (serving, process) = match place {
            ServerPlace::Process { command, args, env } => {
                let (base_dir, launcher, keeper) = (self.base_dir, self.launcher, self.keeper);
                let program = Program { command, args, env, base_dir, launcher, keeper };
                let (serving, process) = self.start_process(&program, listener).await?;
                (serving, Some(process))
            }
            ServerPlace::Http { url, token_env } => {
                (self.connect_http(url, token_env.as_deref(), listener).await?, None)
            }
        };
        // Each listing must be current.
        serving.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        let changes = Changes::of(self.link.server(), serving.peer().clone(), changed);
        Ok(ServerConnection { serving, changes, process })
    }

    async fn start_process(
        &self,
        program: &Program<'_>,
        listener: Listener,
    ) -> Result<(RunningService<RoleClient, Listener>, ServerProcess), ConnectionFailure> {
        let mut process = ServerProcess::start(program)?;
        let (stdout, stdin) =
            process.streams().ok_or_else(|| ConnectionFailure::unanswered("it has no standard streams"))?;
        self.link.output.set(process.output());
        let stdout = process.output().first_of(self.meter().lines(stdout));
        let stdout = RewrittenLines::new(stdout, MAX_MESSAGE_BYTES);
        let wire = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE_BYTES);
        let wire = OrderedTransport::new(wire, Arc::clone(self.link));
        match serve_client_with_lifecycle(listener, wire, self.method.lifecycle()).await {
            Ok(serving) => {
                process.answered();
                Ok((serving, process))
            }
            Err(why) => Err(unreached::process(&why, &mut process, self.link.server()).await),
        }
    }

    async fn connect_http(
        &self,
        url: &str,
        token_env: Option<&str>,
        listener: Listener,
    ) -> Result<RunningService<RoleClient, Listener>, ConnectionFailure> {
        let server = self.link.server();
        let at: reqwest::Url = url
            .parse()
            .map_err(|e| ConnectionFailure::unanswered(format!("{url} is not a valid address: {e}")))?;
        let client = http_client(&at, self.connect_timeout)
            .map_err(|e| ConnectionFailure::unanswered(e.to_string()))?;
        let mut config =
            StreamableHttpClientTransportConfig::with_uri(url).max_sse_event_size(MAX_MESSAGE_BYTES);
        let token = token_env.map(|name| {
            std::env::var(name).map_err(|_| {
                ConnectionFailure::permanent(format!(
                    "the environment variable {name} is not set; set it to the token, or correct `token_env` \
                     in [mcp.{server}]"
                ))
            })
        });
        let token = token.transpose()?;
        let client = MeteredClient::new(client, self.meter(), token.as_deref());
        if let Some(token) = token {
            config = config.auth_header(token);
        }
        let wire = StreamableHttpClientTransport::with_client(client, config);
        let wire = OrderedTransport::new(wire, Arc::clone(self.link));
        let serving = serve_client_with_lifecycle(listener, wire, self.method.lifecycle()).await;
        serving.map_err(|why| unreached::url(&why, &at, server))
    }

    fn meter(&self) -> Meter {
        Meter::new(Arc::clone(self.link), self.budget.clone())
    }
}

/// A connected server.
pub(super) struct ServerConnection {
    serving: RunningService<RoleClient, Listener>,
    changes: Changes,
    /// The server's process, which ends with the connection; `None` over HTTP.
    process: Option<ServerProcess>,
}

impl ServerConnection {
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

    /// Lists all tools of the server, page by page.
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
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Returns whether the server has resources.
    pub(super) fn has_resources(&self) -> bool {
        self.serving.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Waits until the list of tools may have changed, or the server is gone. Returns the reason if it is
    /// gone.
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

/// Waits until the server is gone; returns the reason.
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
    /// Adds a page. An empty page counts as one entry, which bounds the number of empty pages.
    ///
    /// # Errors
    /// The list exceeds one of its limits.
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
