//! Servers of the protocol that bring tools: each is kept connected while the host
//! lives, and its tools are called behind the same gate as any other.
//!
//! A server is a stranger. What it says of its tools is bounded, cleaned and checked
//! like a component's; what it answers is, too. One that dies, floods, hangs or lies
//! fails the calls of its own tools, by its name, and is tried again after pauses
//! that grow.

mod answered;
mod connection;
mod runner;
mod tools;

use crate::Host;
use crate::config::{Config, ServerConfig};
use connection::{Connection, Gone};
use runner::{Link, RemoteRunner};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tollgate_agent::SmolStr;
use tollgate_agent::catalog::{CatalogGrants, Owner, OwnerKind};

/// The first pause before a server is tried again; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// A server that stayed for so long is tried again at once.
const STAYED: Duration = Duration::from_secs(30);

/// The servers of a host. Dropping it ends their connections and processes.
#[derive(Debug)]
pub struct Servers {
    kept: Vec<tokio::task::JoinHandle<()>>,
    /// What is wrong with servers and their tools, for the operator.
    pub notices: Vec<String>,
}

impl Servers {
    /// Connects to every server of the configuration and adds their tools to the host.
    /// One that does not begin in its time is noted, and tried again.
    pub async fn connect(host: &Host, config: &Config) -> Self {
        let mut kept = Vec::new();
        let mut firsts = Vec::new();
        for (name, server) in &config.servers {
            let (tell, mut first) = watch::channel(None);
            let kept_server = Kept {
                host: host.clone(),
                name: name.clone(),
                config: server.clone(),
                base_dir: config.base_dir.clone(),
                link: Arc::new(Link::new(name.clone(), server.answer_bytes)),
                tell,
            };
            kept.push(tokio::spawn(kept_server.keep()));
            firsts.push(async move {
                let told = first.wait_for(Option::is_some).await;
                told.ok().and_then(|told| told.clone()).unwrap_or_default()
            });
        }
        let notices = futures::future::join_all(firsts).await.concat();
        Self { kept, notices }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.kept.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// One server that is kept connected.
struct Kept {
    host: Host,
    name: String,
    config: ServerConfig,
    base_dir: PathBuf,
    link: Arc<Link>,
    /// What came of the first try.
    tell: watch::Sender<Option<Vec<String>>>,
}

impl Kept {
    async fn keep(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = tokio::time::Instant::now();
            let why = match self.begin().await {
                Ok(connection) => self.stay(connection).await,
                Err(Gone(why)) => why,
            };
            tracing::warn!("the server {} is gone: {why}", self.name);
            self.link.lost(&why);
            self.tell.send_if_modified(|told| {
                let first = told.is_none();
                told.get_or_insert_with(|| vec![format!("the server {} does not begin: {why}", self.name)]);
                first
            });
            if began.elapsed() >= STAYED {
                pause = FIRST_PAUSE;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn begin(&self) -> Result<Connection, Gone> {
        let begun =
            Connection::begin(&self.config.place, &self.base_dir, &self.link, self.config.start_timeout);
        tokio::time::timeout(self.config.start_timeout, begun).await.unwrap_or_else(|_| {
            Err(Gone(format!("it did not begin within {} ms", self.config.start_timeout.as_millis())))
        })
    }

    /// Offers the server's tools for as long as it is there; why it is not any more.
    async fn stay(&self, mut connection: Connection) -> String {
        loop {
            match tokio::time::timeout(self.config.start_timeout, connection.list()).await {
                Ok(Ok(listed)) => {
                    let notices = self.offer(&listed);
                    self.link.found(connection.peer());
                    self.tell.send_replace(Some(notices));
                }
                Ok(Err(Gone(why))) => return why,
                Err(_) => return "it did not list its tools in time".to_owned(),
            }
            if let Some(why) = connection.changed_or_gone().await {
                return why;
            }
        }
    }

    /// Puts the tools as they are now in the place of those before.
    fn offer(&self, listed: &[rmcp::model::Tool]) -> Vec<String> {
        let taken = tools::taken(&self.name, listed, self.config.timeout_ms);
        let mut notices = taken.notices;
        let owner = Owner {
            id: SmolStr::new(&self.name),
            kind: OwnerKind::Mcp,
            origin: format!("the server {}", self.name),
            version: taken.version.into(),
        };
        let changed = self.host.amend(|toolbox| {
            toolbox.remove(&self.name);
            let Some(descriptor) = taken.descriptor else { return Ok(()) };
            let runner = Arc::new(RemoteRunner::new(Arc::clone(&self.link), taken.names));
            toolbox.add(owner, descriptor, &CatalogGrants::default(), runner)
        });
        if let Err(why) = changed {
            notices.push(format!("the server {} is not served: {why}", self.name));
        }
        notices
    }
}
