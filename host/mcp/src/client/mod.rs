//! MCP servers that provide tools. Each stays connected while the host lives, and its tools are
//! called behind the same gate as any other.
//!
//! A server is untrusted. Its tools' descriptions are bounded, sanitized and checked like a
//! component's, and so are its answers. If a server dies, floods, hangs or lies, the calls of its
//! own tools fail with an error that names it, and it is retried after growing pauses.

mod backoff;
mod call_result;
mod connection;
mod failure;
mod http;
mod link;
mod list_changes;
mod meter;
mod negotiate;
mod output;
mod process;
mod questions;
mod reserved_keys;
mod resources;
mod rewrite;
mod runner;
mod tools;
mod transport;
mod unreached;
mod weight;

pub use connection::{MAX_LISTED, MAX_LISTED_BYTES, MAX_LISTED_NODES};
pub use meter::MAX_BYTES_PER_SECOND;
pub use process::is_program;
pub use transport::MAX_UNANSWERED;

use backoff::Backoff;
use connection::{Connector, ServerConnection, StartMethod};
use failure::ConnectionFailure;
use link::Link;
use negotiate::KnownStartMethod;
use runner::RemoteRunner;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate::Host;
use tollgate::blocking::block_in_place;
use tollgate::config::{Config, ServerConfig};
use tollgate_agent::SmolStr;
use tollgate_agent::catalog::{CatalogGrants, Owner, OwnerKind};
use tollgate_agent::text::one_line;

/// How long to wait after the first change of a list before it is read. A list that keeps changing
/// is read after growing pauses, because compiling its schemas takes time.
const SETTLE: Duration = Duration::from_millis(50);

/// How long all servers together may take to end.
const END_WAIT: Duration = Duration::from_secs(4);

/// The servers of a host. Dropping it closes their connections and kills their processes;
/// [`end`](Self::end) shuts them down in order.
#[derive(Debug)]
pub struct Servers {
    kept: Vec<tokio::task::JoinHandle<()>>,
    stop: CancellationToken,
    /// The servers that did not start, each with the reason, for the operator.
    pub failed: Vec<String>,
    /// The tools that are left out, each with the reason, for the operator.
    pub notices: Vec<String>,
}

impl Servers {
    /// Connects to every server of the configuration and adds their tools to the host. A server
    /// that does not start in time is reported, and retried unless its token is missing.
    pub async fn connect(host: &Host, config: &Config) -> Self {
        let reserved: Result<(), std::convert::Infallible> = host.update_toolbox(|toolbox| {
            toolbox.reserve_servers(config.servers.keys().map(String::as_str));
            Ok(())
        });
        let Ok(()) = reserved;
        let mut kept = Vec::new();
        let mut firsts = Vec::new();
        let stop = CancellationToken::new();
        for (name, server) in &config.servers {
            let (first_attempt, mut first) = watch::channel(None);
            let kept_server = ManagedServer {
                host: host.clone(),
                name: name.clone(),
                config: server.clone(),
                base_dir: config.base_dir.clone(),
                launcher: config.launcher.clone(),
                group_keeper: config.group_keeper.clone(),
                stop: stop.clone(),
                link: Arc::new(Link::new(name.clone(), server.answer_bytes)),
                first_attempt,
            };
            kept.push(tokio::spawn(kept_server.keep()));
            firsts.push(async move {
                let attempt = first.wait_for(Option::is_some).await;
                attempt.ok().and_then(|attempt| attempt.clone()).unwrap_or_default()
            });
        }
        let firsts = futures::future::join_all(firsts).await;
        let failed = firsts.iter().filter_map(|first| first.failed.clone()).collect();
        let notices = firsts.into_iter().flat_map(|first| first.notices).collect();
        Self { kept, stop, failed, notices }
    }

    /// Ends the connections and shuts down the processes. Each has its input closed, is then
    /// terminated, and then killed together with its child processes.
    pub async fn end(mut self) {
        self.stop.cancel();
        let kept = futures::future::join_all(std::mem::take(&mut self.kept));
        let _ = tokio::time::timeout(END_WAIT, kept).await;
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.kept.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// A server that is kept connected.
struct ManagedServer {
    host: Host,
    name: String,
    config: ServerConfig,
    base_dir: PathBuf,
    launcher: Vec<OsString>,
    group_keeper: Vec<OsString>,
    stop: CancellationToken,
    link: Arc<Link>,
    /// The result of the first attempt.
    first_attempt: watch::Sender<Option<FirstAttempt>>,
}

/// The result of the first attempt to connect a server.
#[derive(Debug, Clone, Default)]
struct FirstAttempt {
    /// Why the server did not start.
    failed: Option<String>,
    /// Problems with its tools.
    notices: Vec<String>,
}

impl ManagedServer {
    async fn keep(self) {
        let (mut backoff, mut methods) = (Backoff::new(), KnownStartMethod::default());
        loop {
            let begun = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                begun = self.begin(&mut methods) => begun,
            };
            let (gone, mut stayed) = match begun {
                Ok(mut connection) => {
                    let began = Instant::now();
                    let gone = tokio::select! {
                        biased;
                        () = self.stop.cancelled() => return connection.end().await,
                        gone = self.stay(&mut connection) => gone,
                    };
                    (gone, began.elapsed())
                }
                Err(gone) => (gone, Duration::ZERO),
            };
            let why = gone.why;
            if gone.exceeds || self.link.has_flooded() {
                // A server that exceeds its limits is not a working one, however long it was
                // connected.
                stayed = Duration::ZERO;
                self.withdraw();
            }
            let is_reported = self.link.lost(&why);
            let is_notice = self.first_attempt.send_if_modified(|attempt| {
                let is_first = attempt.is_none();
                attempt.get_or_insert_with(|| FirstAttempt {
                    failed: Some(format!("the server {} failed to start: {why}", self.name)),
                    notices: Vec::new(),
                });
                is_first
            });
            // Notices are shown elsewhere, and a call in progress ends with the reason.
            if !is_notice && is_reported {
                tracing::info!("the server {} is gone: {why}", self.name);
            } else if !is_notice {
                tracing::warn!("the server {} is gone: {why}", self.name);
            }
            if gone.is_permanent {
                return;
            }
            if self.stop.run_until_cancelled(tokio::time::sleep(backoff.after(stayed))).await.is_none() {
                return;
            }
        }
    }

    /// Connects within the server's start timeout, by the method that is known to work. If none is
    /// known, tries both.
    async fn begin(&self, methods: &mut KnownStartMethod) -> Result<ServerConnection, ConnectionFailure> {
        let whole = self.config.start_timeout;
        let begun = async {
            match methods.known() {
                Some(method) => Ok((self.begin_by(method).await?, Some(method))),
                None => self.begin_by_either(whole / 2).await,
            }
        };
        match tokio::time::timeout(whole, begun).await {
            Ok(Ok((connection, method))) => {
                if let Some(method) = method {
                    methods.works(method);
                }
                Ok(connection)
            }
            Ok(Err(gone)) => {
                if !gone.is_unanswered {
                    methods.failed();
                }
                Err(gone)
            }
            Err(_) => {
                methods.timed_out();
                Err(ConnectionFailure::because(format!(
                    "it did not start within {} ms{}; correct [mcp.{}], or give it longer with `start_timeout_ms`",
                    whole.as_millis(),
                    self.link.output.shown(),
                    self.name
                )))
            }
        }
    }

    /// Connects by the newest method, and with the handshake if that fails. If the newest method gets
    /// no answer for the time `silent`, the handshake is tried in parallel, so that a slow server
    /// is connected by whichever is answered first. Returns the method that worked, unless the
    /// newest may work as well.
    async fn begin_by_either(
        &self,
        silent: Duration,
    ) -> Result<(ServerConnection, Option<StartMethod>), ConnectionFailure> {
        let mut newest = std::pin::pin!(self.begin_by(StartMethod::Newest));
        let newest_failed = match tokio::time::timeout(silent, &mut newest).await {
            Ok(Ok(connection)) => return Ok((connection, Some(StartMethod::Newest))),
            Ok(Err(gone)) if gone.is_unanswered => return Err(gone),
            Ok(Err(_)) => true,
            Err(_) => false,
        };
        let mut handshake = std::pin::pin!(self.begin_by(StartMethod::Handshake));
        if !newest_failed {
            tokio::select! {
                biased;
                begun = &mut newest => if let Ok(connection) = begun {
                    return Ok((connection, Some(StartMethod::Newest)));
                },
                begun = &mut handshake => return match begun {
                    Ok(connection) => Ok((connection, None)),
                    Err(_) => Ok((newest.await?, Some(StartMethod::Newest))),
                },
            }
        }
        Ok((handshake.await?, Some(StartMethod::Handshake)))
    }

    async fn begin_by(&self, method: StartMethod) -> Result<ServerConnection, ConnectionFailure> {
        let connector = Connector {
            base_dir: &self.base_dir,
            launcher: &self.launcher,
            keeper: &self.group_keeper,
            link: &self.link,
            budget: self.host.memory_budget(),
            connect_timeout: self.config.start_timeout,
            method,
        };
        connector.connect(&self.config.place).await
    }

    /// Offers the server's tools until it disconnects; returns the reason.
    async fn stay(&self, connection: &mut ServerConnection) -> ConnectionFailure {
        connection.subscribe().await;
        let mut backoff = Backoff::beginning_with(SETTLE);
        loop {
            let read = Instant::now();
            match tokio::time::timeout(self.config.start_timeout, connection.list()).await {
                Ok(Ok(listed)) => {
                    let notices = self.offer(&listed, connection.has_resources());
                    if self.first_attempt.borrow().is_some() {
                        notices.iter().for_each(|notice| tracing::warn!("{notice}"));
                    }
                    self.link.found(connection.peer());
                    self.first_attempt.send_replace(Some(FirstAttempt { failed: None, notices }));
                }
                Ok(Err(gone)) => return gone,
                Err(_) => return ConnectionFailure::because("it did not list its tools in time"),
            }
            if let Some(gone) = connection.changed_or_gone(&self.link).await {
                return gone;
            }
            let pause = tokio::time::sleep(backoff.after(read.elapsed()));
            tokio::pin!(pause);
            tokio::select! {
                () = &mut pause => {}
                gone = connection.gone(&self.link) => return gone,
            }
        }
    }

    /// Replaces the server's tools with the current ones.
    fn offer(&self, listed: &[rmcp::model::Tool], resources: bool) -> Vec<String> {
        let refused = self.link.refused_tools();
        let offered = tools::ServerOffer { tools: listed, resources, refused: &refused };
        // Compiling a server's schemas can take long, and is done before any call waits for it.
        let taken = block_in_place(|| tools::taken(&self.name, &offered, self.config.timeout_ms));
        let mut notices = taken.notices;
        let owner = Owner {
            id: SmolStr::new(&self.name),
            kind: OwnerKind::Mcp,
            origin: format!("the server {}", self.name),
            version: taken.version.into(),
        };
        let changed = self.host.update_toolbox(|toolbox| {
            toolbox.remove(&self.name);
            let Some(prepared) = taken.prepared else { return Ok(()) };
            let runner = Arc::new(RemoteRunner::new(
                Arc::clone(&self.link),
                taken.names,
                self.host.memory_budget().clone(),
            ));
            toolbox.add_prepared(owner, prepared, &CatalogGrants::default(), runner)
        });
        if let Err(why) = changed {
            let why = one_line(&why.to_string(), 500);
            notices.push(format!("the server {} is not served: {why}", self.name));
        }
        notices
    }

    /// Removes the server's tools; calls of them end like those of any unknown tool.
    fn withdraw(&self) {
        let Ok(()) = self.host.update_toolbox(|toolbox| {
            toolbox.remove(&self.name);
            Ok::<(), Infallible>(())
        });
    }
}
