//! `tollgate mcp`: serves the tools over the Model Context Protocol.

mod clients;

use crate::globals::Globals;
use crate::session::models::configured_model;
use crate::session::open::agent_of;
use crate::session::{OpenSession, finish, host_with, shutdown, warn_of_left_out, with_servers};
use crate::terminal::{Exit, Failure, Output};
use crate::verbs::run::chosen_agent;
use crate::verbs::store::keep_pruned;
use clap::Args;
use clients::{Client, Connection};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate::Host;
use tollgate::config::Config;
use tollgate::metrics::Metrics;
use tollgate::store::Store;
use tollgate_agent::text::quoted;
use tollgate_mcp::{
    DecideCommand, HTTP_PATH, MountedServer, OfferedAgents, TokenOptions, ToolList, new_token,
    serve_stdio_until,
};
use tollgate_server::Server;

/// Serve the tools to clients of the Model Context Protocol
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpVerb {
    /// Serve over HTTP at this address instead of standard input and output
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// With --http: read the token that clients send from this variable [default: generate one and
    /// print it]
    #[arg(long, value_name = "VAR", requires = "http")]
    token_env: Option<String>,
    /// With --http: allow pages of this origin, such as https://example.com
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
    /// With --http: allow this host name in requests, in addition to localhost
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// Also serve this agent of tollgate.toml as a tool
    #[arg(long, value_name = "ID")]
    agent: Vec<String>,
    /// Use the state of this conversation [default: one conversation per session]
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Print the configuration for this client, and exit. With --http: for a server at that address
    #[arg(long, value_name = "CLIENT")]
    print_config: Option<Client>,
}

/// The variable with the token in printed configurations if no option names one.
const TOKEN_VARIABLE: &str = "TOLLGATE_TOKEN";

const EXAMPLES: &str = "\
Examples:
  tollgate mcp --print-config claude-desktop         what to write into a client's configuration
  tollgate mcp --print-config cursor --http 127.0.0.1:7300 --token-env TOLLGATE_TOKEN
  tollgate mcp                                       one client, over standard input and output
  tollgate mcp --thread work --agent reviewer        state that is kept; an agent as a tool
  tollgate mcp --http 127.0.0.1:7300 --token-env TOLLGATE_TOKEN

Standard output carries only the protocol. At the end of its input, and on SIGINT, SIGTERM or
SIGHUP, the program ends and cancels the calls in progress.";

impl McpVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        if let Some(client) = self.print_config {
            return self.print_config(client, globals, output);
        }
        let token = self.token()?;
        let globals = &Globals { token_variable: self.token_env.clone(), ..globals.clone() };
        let (opened, store) = OpenSession::open_with_store(globals, output).await?;
        opened.warn_of_refused(output);
        opened.warn_of_all(output);
        let (config, sandbox) = (Arc::new(opened.config.clone()), opened.sandbox.clone());
        opened.warn_of_gaps();
        // Keep one client from taking all call slots.
        let session_calls = (config.limits.sandbox.concurrent_calls / 2) as usize;
        let connections = config.serve.limits.connections;
        let (loaded, decide) = (opened.loaded.clone(), Some(decide_command(globals, &config)?));
        let answers_may_be_remembered = config.clients_may_remember;
        let metrics = self.http.is_some().then(|| Metrics::new(sandbox.clone()));
        let (store, shared) = store.opened_shared().await?;
        let host = self.host(opened, metrics.as_ref(), store)?;
        host.record_loaded(loaded.to_audit()).await?;
        let pruning = keep_pruned(globals, &config, &shared).await?;
        let servers = with_servers(&host, &config, output).await?;
        warn_of_left_out(&servers, output);
        let stop = shutdown::take_signals();
        // Load tools that are added or replaced without a restart.
        let (_watch, unwatched) = host.watch(sandbox, config, &loaded);
        if let Some(why) = unwatched {
            output.warn(&why.to_string());
        }
        let agents = OfferedAgents::Named(self.agent);
        let offer = ToolList { agents, thread_id: self.thread, decide, answers_may_be_remembered };
        let work = async {
            offer.check(&host).map_err(|e| Failure::usage(e.to_string()))?;
            match self.http {
                None => {
                    let served = serve_stdio_until(host.clone(), offer, stop).await;
                    served.map_err(|e| Failure::failed(e.to_string()))?;
                }
                Some(address) => {
                    let server = bound(address, self.token_env.is_none().then_some(&token), output).await?;
                    let options = TokenOptions {
                        token,
                        origins: self.allow_origin,
                        hosts: self.allow_host,
                        session_calls,
                    };
                    let protocol =
                        MountedServer::with_token(host.clone(), offer, options, metrics, stop.clone());
                    let served = server.serve_mcp(&protocol, connections, stop).await;
                    served.map_err(|e| Failure::failed(format!("the server failed: {e}")))?;
                }
            }
            // Stop pruning before the pending records are written.
            drop(pruning);
            Ok::<_, Failure>(Exit::Done)
        };
        finish(&host, servers, work).await
    }

    fn print_config(&self, client: Client, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let config = globals.read_config()?;
        let command = self.served_with(&config, globals)?;
        let Some(mut address) = self.http else {
            if config.file.is_none() {
                return Err(Failure::usage(
                    "there is no tollgate.toml here. A client starts the server in another directory, so it needs a \
                     configuration file to find the tools: `touch tollgate.toml` beside them, and try again"
                        .to_owned(),
                ));
            }
            clients::print(
                client,
                &Connection::Stdio { command, variables: variables(&config, globals) },
                output,
            );
            return Ok(Exit::Done);
        };
        if address.port() == 0 {
            let why = "port 0 means another port at each start; name one, such as --http 127.0.0.1:7300";
            return Err(Failure::usage(why));
        }
        let token_variable = self.token_env.clone().unwrap_or_else(|| TOKEN_VARIABLE.to_owned());
        let served_at = address;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let start = from_anywhere(&command, &config)?;
        let url = format!("http://{address}{HTTP_PATH}");
        clients::print(client, &Connection::Http { url, token_variable: token_variable.clone() }, output);
        output.say(&format!("start the server: {start} --http {served_at} --token-env {token_variable}"));
        Ok(Exit::Done)
    }

    fn token(&self) -> Result<String, Failure> {
        let Some(name) = &self.token_env else { return Ok(new_token()) };
        match std::env::var(name) {
            Ok(token) if token.trim().len() >= 16 => Ok(token.trim().to_owned()),
            Ok(_) => Err(Failure::usage(format!(
                "the token in {name} is shorter than 16 characters; make one with `openssl rand -hex 32`"
            ))),
            Err(_) => Err(Failure::usage(format!("the variable {name} is not set; it holds the token"))),
        }
    }

    fn host(
        &self,
        opened: OpenSession,
        metrics: Option<&Metrics>,
        store: Arc<dyn Store>,
    ) -> Result<Host, Failure> {
        let mut agents = Vec::new();
        for id in &self.agent {
            if let Some(agent) = opened.config.agents.get(id) {
                let model = configured_model(id, &opened.config)?;
                agents.push(agent_of(id, agent.clone(), Some(model)));
            }
        }
        let store = match metrics {
            None => store,
            Some(metrics) => metrics.observing(store),
        };
        host_with(opened, None, |builder| {
            agents.into_iter().fold(builder.store(store), |b, agent| b.agent(agent))
        })
    }

    /// Returns the command line that starts the server: from any directory, if there is a configuration file.
    fn served_with(&self, config: &Config, globals: &Globals) -> Result<Vec<String>, Failure> {
        self.agent.iter().try_for_each(|id| chosen_agent(Some(id.clone()), config).map(drop))?;
        let exe = std::env::current_exe()
            .map_err(|e| Failure::failed(format!("cannot determine the path of this program: {e}")))?;
        let mut command = vec![shown(&exe), "mcp".to_owned()];
        if let Some(file) = &config.file {
            command.extend(["--config".to_owned(), absolute(file)?]);
        }
        if let Some(data) = &globals.data {
            command.extend(["--data".to_owned(), absolute(data)?]);
        }
        if let Some(cache) = &globals.cache {
            command.extend(["--cache".to_owned(), absolute(cache)?]);
        }
        if let Some(thread) = &self.thread {
            command.extend(["--thread".to_owned(), thread.clone()]);
        }
        for agent in &self.agent {
            command.extend(["--agent".to_owned(), agent.clone()]);
        }
        Ok(command)
    }
}

/// Returns the environment variables that the server reads: those that the configuration names, and
/// the program's own that are set now and are not options of the command.
fn variables(config: &Config, globals: &Globals) -> Vec<String> {
    let mut names: BTreeSet<&str> = config.variables();
    // A database's URL may contain a password, which is not written into a file.
    names.extend(globals.store.as_ref().map(|_| "TOLLGATE_STORE"));
    names.extend(std::env::var_os("TOLLGATE_LOG").map(|_| "TOLLGATE_LOG"));
    names.into_iter().map(str::to_owned).collect()
}

/// Binds the address and prints how clients reach it. `token` is the one to print.
async fn bound(wanted: SocketAddr, token: Option<&String>, output: &Output) -> Result<Server, Failure> {
    let server = Server::bind(wanted)
        .await
        .map_err(|e| Failure::usage(format!("cannot listen on {wanted}: {e}; choose another address")))?;
    let address = server.address().map_err(|e| Failure::failed(e.to_string()))?;
    output.say(&format!("serving at http://{address}{HTTP_PATH}"));
    if let Some(token) = token {
        output.say(&format!("clients send the header `Authorization: Bearer {token}`"));
    }
    if !address.ip().is_loopback() {
        output.warn("traffic is not encrypted; put a TLS proxy in front");
    }
    Ok(server)
}

/// Returns the command line that decides about a waiting call from any directory: with this
/// program, this configuration and this store.
fn decide_command(globals: &Globals, config: &Config) -> Result<DecideCommand, Failure> {
    let program = std::env::current_exe().map_or_else(|_| "tollgate".to_owned(), |exe| shown(&exe));
    let mut words = vec![program];
    if let Some(file) = &config.file {
        words.extend(["--config".to_owned(), absolute(file)?]);
    }
    if let Some(data) = &globals.data {
        words.extend(["--data".to_owned(), absolute(data)?]);
    }
    words.push("decide".to_owned());
    let command = from_anywhere(&words, config)?;
    Ok(DecideCommand { command, resume: "--resume".to_owned(), cancel: "--cancel".to_owned() })
}

/// Returns a command line of this program, which names the configuration file if there is one, so that it can be
/// typed in any directory.
fn from_anywhere(words: &[String], config: &Config) -> Result<String, Failure> {
    let line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    // Without a configuration file, the tools directory is relative to the working directory.
    Ok(match &config.file {
        Some(_) => line,
        None => format!("cd {} && {line}", quoted(&absolute(&config.base_dir)?)),
    })
}

fn absolute(path: &Path) -> Result<String, Failure> {
    let whole: Result<PathBuf, _> = std::path::absolute(path);
    whole.map(|path| shown(&path)).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
