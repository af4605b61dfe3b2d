//! One connection to a server, from its beginning to its end.

use super::super::lines::MAX_MESSAGE_BYTES;
use super::changes::Changes;
use super::patient::Patient;
use super::process::{Program, ServerProcess};
use super::runner::{Link, Unasked};
use super::weight::LineWeight;
use crate::config::ServerPlace;
use crate::model::client_for;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ProgressNotificationParam,
    ProtocolVersion, Tool as Listed,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, RequestContext,
    RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;
use tollgate_sandbox::MemoryBudget;

/// The most tools that a server's list may have, over all its pages.
const MAX_LISTED: usize = 1_024;
/// How often a server is looked at, whether it is still there.
const LOOK: Duration = Duration::from_millis(100);
/// The most bytes that a server may send within a second; one that sends more floods.
const MAX_BYTES_PER_SECOND: usize = 64 * 1024 * 1024;

/// Why a server is not there.
#[derive(Debug)]
pub(super) struct Gone {
    /// A sentence without its end.
    pub(super) why: String,
    /// Nothing was there to be spoken to, in whatever way.
    pub(super) nobody: bool,
}

impl Gone {
    pub(super) fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), nobody: false }
    }

    pub(super) fn nobody(why: impl Into<String>) -> Self {
        Self { why: why.into(), nobody: true }
    }
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The server is asked which versions it speaks, and spoken to in the newest that both
    /// know; one that answers that it does not know the question is spoken to as before.
    Newest,
    /// With the handshake of the versions before 2026-07-28. There are servers of those that
    /// end, or say nothing, when anything comes before it.
    Handshake,
}

impl Way {
    pub(super) fn other(self) -> Self {
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

/// A server that is there.
pub(super) struct Connection {
    serving: RunningService<RoleClient, Listener>,
    changes: Changes,
    /// It is ended with the connection.
    process: Option<ServerProcess>,
}

impl Connection {
    /// Connects, and begins to speak.
    pub(super) async fn begin(
        place: &ServerPlace,
        (base_dir, launcher): (&Path, &[OsString]),
        (link, budget): (&Arc<Link>, &MemoryBudget),
        connect_timeout: Duration,
        way: Way,
    ) -> Result<Self, Gone> {
        let changed = Arc::<Notify>::default();
        let listener = Listener { link: Arc::clone(link), changed: Arc::clone(&changed) };
        let gone = |e: ClientInitializeError| Gone::because(e.to_string());
        let (serving, process) = match place {
            ServerPlace::Process { command, args, env } => {
                let mut process = ServerProcess::start(&Program { command, args, env, base_dir, launcher })?;
                let (stdout, stdin) =
                    process.streams().ok_or_else(|| Gone::nobody("it has no standard streams"))?;
                let wire = AsyncRwTransport::new_client(
                    Metered::new(stdout, Arc::clone(link), budget.clone()),
                    stdin,
                )
                .with_max_line_length(MAX_MESSAGE_BYTES);
                let serving = serve_client_with_lifecycle(listener, Patient::new(wire), way.lifecycle());
                (serving.await.map_err(gone)?, Some(process))
            }
            ServerPlace::Http { url, token_env } => {
                let at = url.parse().map_err(|e| Gone::nobody(format!("{url} is no address: {e}")))?;
                let client = client_for(&at, connect_timeout).map_err(Gone::nobody)?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MAX_MESSAGE_BYTES);
                if let Some(name) = token_env {
                    let token = std::env::var(name)
                        .map_err(|_| Gone::nobody(format!("the variable {name} is not set")))?;
                    config = config.auth_header(token);
                }
                let wire = StreamableHttpClientTransport::with_client(client, config);
                let serving = serve_client_with_lifecycle(listener, wire, way.lifecycle());
                (serving.await.map_err(gone)?, None)
            }
        };
        // What it lists is what it lists now.
        serving.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        let changes = Changes::of(link.server(), serving.peer().clone(), changed);
        Ok(Self { serving, changes, process })
    }

    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.serving.peer().clone()
    }

    /// Ends the connection, and the server's process in order.
    pub(super) async fn end(self) {
        let Self { serving, changes, process } = self;
        drop(changes);
        // Closes its input.
        let _ = serving.cancel().await;
        if let Some(process) = process {
            process.end().await;
        }
    }

    /// Has itself told of changes, where that has to be asked for.
    pub(super) async fn subscribe(&mut self) {
        self.changes.subscribe().await;
    }

    /// All its tools, page after page.
    pub(super) async fn list(&self) -> Result<Vec<Listed>, Gone> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let mut page = rmcp::model::PaginatedRequestParams::default();
            page.cursor = cursor;
            let listed =
                self.serving.list_tools(Some(page)).await.map_err(|e| Gone::because(e.to_string()))?;
            all.extend(listed.tools);
            if all.len() > MAX_LISTED {
                return Err(Gone::because(format!("it lists more than {MAX_LISTED} tools")));
            }
            match listed.next_cursor {
                Some(next) if !all.is_empty() => cursor = Some(next),
                _ => return Ok(all),
            }
        }
    }

    /// Waits until its list is another, or until it is gone: then why.
    pub(super) async fn changed_or_gone(&mut self) -> Option<String> {
        let Self { serving, changes, process } = self;
        let mut changed = std::pin::pin!(changes.next());
        loop {
            tokio::select! {
                () = &mut changed => return None,
                () = tokio::time::sleep(LOOK) => {}
            }
            if let Some(status) = process.as_mut().and_then(ServerProcess::ended) {
                return Some(format!("its process ended: {status}"));
            }
            if serving.is_transport_closed() {
                return Some("it closed the connection, or flooded it".to_owned());
            }
        }
    }
}

/// What a server may say without being asked.
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
            // The person is asked, and the call made again with the answer.
            Err(Unasked::Suspended) => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            Err(Unasked::NotAForm) => Err(ErrorData::invalid_params("only forms are shown here", None)),
            Err(Unasked::Unclear) => {
                let words = "it is not known for which call this asks; it is asked for one call at a time";
                Err(ErrorData::invalid_request(words, None))
            }
        }
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.link.progress(params);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// A stream that breaks off when more comes than anybody could mean.
struct Metered<R> {
    read: R,
    link: Arc<Link>,
    since: Instant,
    bytes: usize,
    weight: LineWeight,
}

impl<R> Metered<R> {
    fn new(read: R, link: Arc<Link>, budget: MemoryBudget) -> Self {
        Self { read, link, since: Instant::now(), bytes: 0, weight: LineWeight::new(budget) }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Metered<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let polled = Pin::new(&mut this.read).poll_read(cx, into);
        if this.since.elapsed() >= Duration::from_secs(1) {
            (this.since, this.bytes) = (Instant::now(), 0);
        }
        this.bytes += into.filled().len() - before;
        if let Err(heavy) = this.weight.add(&into.filled()[before..]) {
            this.link.is_too_heavy(heavy);
            return Poll::Ready(Err(io::Error::other("a message of the server is not read")));
        }
        if this.bytes > MAX_BYTES_PER_SECOND {
            this.link.floods();
            return Poll::Ready(Err(io::Error::other("the server floods")));
        }
        polled
    }
}
