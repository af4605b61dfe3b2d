//! One client's session: the server's description, the list of tools, and the handling of
//! requests.

#![expect(deprecated, reason = "the protocol will remove logging, but its current versions have it")]

use super::disconnects::DisconnectToken;
use super::mounted_client::MountedClient;
use super::notifications::Notices;
use super::suspended_calls::PendingCalls;
use super::tool_calls::ToolCallSession;
use super::tool_list::{ListingCache, OfferedNames, PAGE_TOOLS, ToolList, is_hosts_own};
use super::weight::RawArguments;
use super::writer::Backpressure;
use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult, ErrorCode,
    ErrorData, GetTaskParams, GetTaskResult, Implementation, ListToolsResult, LoggingLevel,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscriptionFilter, Tool as Listed, ToolsCapability, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate::Host;
use tollgate_agent::{name, text};
use uuid::Uuid;

/// The maximum number of calls of one session that run at once, and of those that continue after a "no"; further
/// ones wait.
const MAX_CALLS: usize = 128;
const INSTRUCTIONS: &str = "Tools that run in a sandbox, under limits and behind a gate. \
    A call that answers \"approval_required\" waits for a person: once it is approved, repeat the very \
    same call to get its result.";

/// A session. Cheap to clone; clones are the same session.
#[derive(Clone)]
pub(super) struct Server {
    inner: Arc<ServerState>,
}

struct ServerState {
    host: Host,
    offer: Arc<ToolList>,
    own: Conversation,
    /// The conversation of requests without a session, on a transport that has both kinds.
    sessionless: Option<Arc<Conversation>>,
    /// The waiting calls and the list of tools, which the sessions of a server share.
    shared: Arc<SharedParts>,
    level: Mutex<Option<LoggingLevel>>,
    /// Whether another server mounts this one, and puts a [`MountedClient`] into each request.
    is_mounted: bool,
    room: Backpressure,
    calls: Calls,
}

/// The parts that the sessions of a server share.
#[derive(Default)]
pub(super) struct SharedParts {
    listing: ListingCache,
    pending: PendingCalls,
}

/// How long calls may take to end after the server has stopped.
const CALLS_END: Duration = Duration::from_secs(2);

/// The calls in flight, of all sessions of a server.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    under_way: TaskTracker,
    /// Cancels the calls.
    stop: CancellationToken,
}

impl Calls {
    pub(super) fn until(stop: CancellationToken) -> Self {
        Self { under_way: TaskTracker::new(), stop }
    }

    /// Waits until the calls have ended and are recorded. The server has stopped.
    pub(super) async fn ended(&self) {
        self.under_way.close();
        let _ = tokio::time::timeout(CALLS_END, self.under_way.wait()).await;
    }
}

/// A conversation and the limit on its calls. Clients without sessions share one.
#[derive(Debug)]
pub(super) struct Conversation {
    thread_id: Arc<str>,
    calls: Semaphore,
    /// The places for calls that continue after a "no".
    declined: Semaphore,
}

impl Conversation {
    /// Creates a conversation of its own, unless the operator chose one. Up to `calls` of its
    /// calls run at once; `None` if the limits of principals count instead.
    pub(super) fn new(offer: &ToolList, calls: Option<usize>) -> Self {
        let thread_id = offer.thread_id.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        let thread_id = Arc::from(thread_id);
        let calls = Semaphore::new(calls.unwrap_or(MAX_CALLS).clamp(1, MAX_CALLS));
        Self { thread_id, calls, declined: Semaphore::new(MAX_CALLS) }
    }
}

impl Server {
    /// Creates a session with a conversation of its own, unless the operator chose one.
    pub(super) fn new(host: Host, offer: ToolList, room: Backpressure, under_way: Calls) -> Self {
        let own = Conversation::new(&offer, Some(MAX_CALLS));
        Self::of(host, Arc::new(offer), own, None, Arc::default(), (false, room, under_way))
    }

    /// Creates one of several sessions that share the waiting calls and the list of tools, each
    /// with its own limit on calls. Also used for requests without a session.
    pub(super) fn sharing(
        host: Host,
        offer: Arc<ToolList>,
        shared: Arc<SharedParts>,
        sessionless: Arc<Conversation>,
        calls: Option<usize>,
        under_way: Calls,
    ) -> Self {
        let own = Conversation::new(&offer, calls);
        let transport = (calls.is_none(), Backpressure::default(), under_way);
        Self::of(host, offer, own, Some(sessionless), shared, transport)
    }

    fn of(
        host: Host,
        offer: Arc<ToolList>,
        own: Conversation,
        sessionless: Option<Arc<Conversation>>,
        shared: Arc<SharedParts>,
        (is_mounted, room, calls): (bool, Backpressure, Calls),
    ) -> Self {
        let level = Mutex::default();
        let inner = ServerState { host, offer, own, sessionless, shared, level, is_mounted, room, calls };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the conversation of a request.
    fn conversation_of(&self, context: &RequestContext<RoleServer>) -> &Conversation {
        let has_session = || context.protocol_version().is_none_or(|v| v < ProtocolVersion::V_2026_07_28);
        match &self.inner.sessionless {
            Some(shared) if !has_session() => shared,
            _ => &self.inner.own,
        }
    }

    /// Returns the client of a request to a mounted server; `None` if the server is not mounted.
    fn client<'a>(
        &self,
        context: &'a RequestContext<RoleServer>,
    ) -> Result<Option<&'a MountedClient>, ErrorData> {
        let client = of_request::<MountedClient>(context);
        if self.inner.is_mounted && client.is_none() {
            return Err(ErrorData::internal_error("the request has no client", None));
        }
        Ok(client)
    }

    /// Returns the parts of the session that a request needs, without notifications.
    fn calling<'a>(
        &'a self,
        context: &'a RequestContext<RoleServer>,
    ) -> Result<ToolCallSession<'a>, ErrorData> {
        let ServerState { host, offer, shared, .. } = &*self.inner;
        let pending = &shared.pending;
        let Conversation { thread_id, calls, declined } = self.conversation_of(context);
        let client = self.client(context)?;
        // The session belongs to one principal, whose calls in all sessions share their places.
        let thread_id = client.map_or_else(|| Arc::clone(thread_id), |client| client.thread_id(thread_id));
        let (calls, declined) =
            client.map_or((calls, declined), |client| (&*client.calls, &*client.declined));
        let (notices, is_agent) = (None, false);
        Ok(ToolCallSession {
            host,
            thread_id,
            pending,
            calls,
            declined,
            context,
            notices,
            offer,
            client,
            is_agent,
        })
    }

    /// Returns the tools and agents that are offered now.
    fn offered(&self) -> Arc<OfferedNames> {
        self.inner.shared.listing.of(&self.inner.host, &self.inner.offer)
    }

    fn tools(&self) -> Arc<Vec<Listed>> {
        Arc::clone(&self.offered().listed)
    }

    /// Notifies this client whenever the list of tools changes, until it disconnects.
    async fn notify_of_changes(self, peer: Peer<RoleServer>) {
        let mut published = self.inner.host.published();
        let mut known = self.tools();
        while !peer.is_transport_closed() && published.changed().await.is_ok() {
            let tools = self.tools();
            if *tools != *std::mem::replace(&mut known, Arc::clone(&tools))
                && peer.notify_tool_list_changed().await.is_err()
            {
                return;
            }
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        let capabilities =
            ServerCapabilities::builder().enable_logging().enable_tools_with(tools).enable_tasks().build();
        let this = Implementation::new("tollgate", env!("CARGO_PKG_VERSION")).with_title("Tollgate");
        ServerConfig::new(capabilities).with_server_info(this).with_instructions(INSTRUCTIONS)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.clone().notify_of_changes(context.peer).await;
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.inner.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.tools_list_changed = requested.tools_list_changed;
        Some(accepted)
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let client = self.client(subscription.request_context())?;
        let streams = client.map(|client| client.streams.try_acquire());
        let _place = streams.transpose().map_err(|_| {
            let words = "too many event streams of this principal are open; end one";
            ErrorData::invalid_request(words, None)
        })?;
        let mut published = self.inner.host.published();
        let mut known = self.tools();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                changed = published.changed() => if changed.is_err() { return Ok(()) },
            }
            let tools = self.tools();
            if *tools != *std::mem::replace(&mut known, Arc::clone(&tools))
                && subscription.accepted().tools_list_changed == Some(true)
                && subscription.sink().notify_tool_list_changed().await.is_err()
            {
                return Ok(());
            }
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools_of(&self.offered(), self.client(&context)?);
        let from = match request.and_then(|request| request.cursor) {
            None => 0,
            Some(cursor) => tools.iter().position(|tool| tool.name == cursor).ok_or_else(|| {
                let words = "the cursor is invalid, or the list has changed; start again without a cursor";
                ErrorData::invalid_params(words, None)
            })?,
        };
        let mut page =
            ListToolsResult::with_all_items(tools[from..].iter().take(PAGE_TOOLS).cloned().collect());
        page.next_cursor = tools.get(from + PAGE_TOOLS).map(|tool| tool.name.to_string());
        Ok(page)
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ServerState { level, room, calls, .. } = &*self.inner;
        let _under_way = calls.under_way.token();
        let tool_name = params.name.as_ref();
        // The target is the one that the list of this moment has under the name.
        let offered = self.offered();
        let is_agent = offered.has_agent(tool_name);
        let client = self.client(&context)?;
        let tool = offered.toolbox.catalog().tool(tool_name);
        let is_unknown = !is_agent && tool.is_none_or(|tool| is_hosts_own(tool));
        if is_unknown || !may_use(&offered, client, tool_name) {
            return Err(unknown(&offered, client, tool_name));
        }
        let level = *level.lock().unwrap_or_else(PoisonError::into_inner);
        let notices = Notices::wanted(&context, level, room, tool_name);
        let arguments = match sent(&context) {
            Some(raw) => Arc::clone(&raw.0),
            None => Arc::from(written(params.arguments.as_ref())),
        };
        let mut calling = ToolCallSession { notices, is_agent, ..self.calling(&context)? };
        let call = calling.call(params, arguments);
        let gone = of_request::<DisconnectToken>(&context)
            .map(|DisconnectToken(gone)| gone.clone())
            .unwrap_or_default();
        let mut call = std::pin::pin!(call);
        tokio::select! {
            answered = &mut call => return answered,
            () = gone.cancelled() => {}
            () = calls.stop.cancelled() => {}
        }
        context.ct.cancel();
        call.await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.calling(&context)?.read_task(&request.task_id).await.map(GetTaskResult::new)
    }

    /// Accepts and ignores input for a known task: a task asks its client for nothing.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.calling(&context)?.read_task(&request.task_id).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.calling(&context)?.cancel_task(&request.task_id).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // Requests of known methods arrive here if their parameters are invalid.
        const KNOWN: [&str; 8] = [
            "tools/call",
            "tools/list",
            "logging/setLevel",
            "initialize",
            "subscriptions/listen",
            "tasks/get",
            "tasks/update",
            "tasks/cancel",
        ];
        let method = text::clean(&request.method, 100);
        Err(if KNOWN.contains(&method.as_str()) {
            ErrorData::invalid_params(format!("invalid parameters for {method}"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None)
        })
    }
}

/// Returns whether the key of a mounted server's client is valid for a tool or an agent.
fn may_use(offered: &OfferedNames, client: Option<&MountedClient>, name: &str) -> bool {
    client.is_none_or(|client| match offered.has_agent(name) {
        true => client.access.may_run(name),
        false => client.access.may_call(name),
    })
}

/// Returns the tools that a client may use.
fn tools_of(offered: &OfferedNames, client: Option<&MountedClient>) -> Arc<Vec<Listed>> {
    let may_use = |tool: &&Listed| may_use(offered, client, &tool.name);
    if offered.listed.iter().all(|tool| may_use(&tool)) {
        return Arc::clone(&offered.listed);
    }
    Arc::new(offered.listed.iter().filter(may_use).cloned().collect())
}

/// Returns the error for an unknown tool. It is a protocol error, because nothing was called.
fn unknown(offered: &OfferedNames, client: Option<&MountedClient>, tool_name: &str) -> ErrorData {
    let tools = tools_of(offered, client);
    let near = name::nearest(tool_name, tools.iter().map(|tool| tool.name.as_ref()));
    let hint = if near.is_empty() { String::new() } else { format!("; the nearest: {}", near.join(", ")) };
    ErrorData::invalid_params(format!("Unknown tool: {}{hint}", text::clean(tool_name, 100)), None)
}

/// Returns the arguments as they arrived, on either transport.
fn sent(context: &RequestContext<RoleServer>) -> Option<&RawArguments> {
    context.extensions.get::<RawArguments>().or_else(|| of_request(context))
}

/// Returns an extension of the HTTP request.
fn of_request<T: Send + Sync + 'static>(context: &RequestContext<RoleServer>) -> Option<&T> {
    context.extensions.get::<Parts>()?.extensions.get::<T>()
}

fn written(arguments: Option<&serde_json::Map<String, serde_json::Value>>) -> String {
    arguments.and_then(|arguments| serde_json::to_string(arguments).ok()).unwrap_or_default()
}
