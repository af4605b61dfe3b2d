//! `tollgate serve`: serves agents, tools and questions over HTTP.

use crate::globals::Globals;
use crate::session::data::data_dir;
use crate::session::database::request_keys;
use crate::session::grants::file_of;
use crate::session::models::configured_model;
use crate::session::open::agent_of;
use crate::session::operator::Operator;
#[cfg(feature = "postgres")]
use crate::session::served::ServedAgents;
use crate::session::{
    OpenSession, finish, host_with, served_address, shutdown, warn_of_left_out, with_servers,
};
use crate::terminal::{Exit, Failure, Output, program};
use crate::verbs::store::keep_pruned;
use clap::Args;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
#[cfg(feature = "postgres")]
use tokio_util::sync::{CancellationToken, DropGuard};
use tollgate::config::{Config, LimitSource};
use tollgate::metrics::Metrics;
use tollgate::{DIRECT_AGENT, Host};
use tollgate_server::{
    AccessDatabase, Part, Parts, Principal, Scope, Server, ServerOptions, ServerState, access_audit, router,
};

/// Serve agents, tools and questions over HTTP
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeVerb {
    /// Listen at this address [default: `listen` in [serve], or 127.0.0.1:7300]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Leave out these parts: console, openai, ai-sdk, ag-ui, a2a, mcp
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    without: Vec<Part>,
    /// Accept connections of the TLS proxy at this address, and of this machine
    #[arg(long, value_name = "IP")]
    behind_proxy: Option<IpAddr>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate keys add me --scope use,decide,read       make the first key
  tollgate serve                                     serve at http://127.0.0.1:7300
  tollgate serve --listen 0.0.0.0:7300 --behind-proxy 10.0.0.2
  curl -H \"Authorization: Bearer $KEY\" http://127.0.0.1:7300/api/v1/me

Every request needs a key or a session; /openapi.json describes the API. On SIGINT, SIGTERM or
SIGHUP, the program ends in order: streams end, and running work is cancelled and recorded. With a
shared database, other hosts continue it.";

/// The name of the person to whom the link at the start belongs.
const OPERATOR: &str = "operator";

fn address(typed: &str) -> Result<SocketAddr, String> {
    typed.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:7400".to_owned())
}

impl ServeVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let (opened, store) = OpenSession::open_with_store(globals, output).await?;
        opened.warn_of_refused(output);
        opened.warn_of_notices(output);
        opened.warn_of_gaps();
        let (config, sandbox) = (Arc::new(opened.config.clone()), opened.sandbox.clone());
        let address = self.address(&config)?;
        let (loaded, permissions) = (opened.loaded.clone(), opened.permissions.clone());
        let metrics = Metrics::new(sandbox.clone());
        let (store, shared) = store.opened_shared().await?;
        let store = metrics.observing(store);
        #[cfg(feature = "postgres")]
        let served = ServedAgents::find(&config, &loaded);
        let (agents, models) = agents_with_models(&config, output);
        let host = host_with(opened, None, |builder| {
            agents.into_iter().fold(builder.store(store), |builder, agent| builder.agent(agent))
        })?;
        host.note_loaded(loaded.to_audit()).await?;
        if shared.is_none() {
            host.end_abandoned().await?;
        }
        let pruning = keep_pruned(globals, &config, &shared).await?;
        let servers = with_servers(&host, &config, output).await?;
        warn_of_left_out(&servers, output);
        let stop = shutdown::take_signals();
        #[cfg(feature = "postgres")]
        let working = shared.clone().map(|shared| {
            let announced = served.announce(&host, shared);
            tokio::spawn(work(host.clone(), served.ids, stop.clone(), announced))
        });
        // Load tools that are added or replaced without a restart.
        let (watch, unwatched) = host.watch(sandbox, Arc::clone(&config), &loaded);
        if let Some(why) = unwatched {
            output.warn(&why.to_string());
        }
        let options = ServerOptions {
            address,
            hands_over: shared.is_some(),
            behind_proxy: self.behind_proxy.map(|ip| ip.to_canonical()),
            metrics: Some(metrics),
            // Keep one principal from taking all call slots.
            calls: (config.limits.sandbox.concurrent_calls / 2).max(1) as usize,
            models,
            request_keys: request_keys(&shared),
            operator: Some(Arc::new(Operator {
                served: watch.served(),
                locked: config.locked,
                config_file: file_of(&config),
                direct_timeout: direct_timeout(&config),
                permissions,
                #[cfg(feature = "postgres")]
                shared,
            })),
            clients_may_remember: config.clients_may_remember,
            stop,
        };
        let parts = Parts::all().without(self.without.iter().copied());
        let work = async {
            serve(&host, globals, &config, options, &parts, output).await?;
            // Stop pruning before the pending records are written.
            drop(pruning);
            #[cfg(feature = "postgres")]
            if let Some(working) = working {
                // It ends with the signal that ended the server.
                let _ = working.await;
            }
            Ok::<_, Failure>(Exit::Done)
        };
        finish(&host, servers, work).await
    }

    /// Returns where to listen, unless keys would cross a network unencrypted.
    fn address(&self, config: &Config) -> Result<SocketAddr, Failure> {
        let address = self.listen.unwrap_or(config.serve.listen);
        if !address.ip().is_loopback() && self.behind_proxy.is_none() {
            return Err(Failure::usage(format!(
                "refusing to listen on {address}: keys would cross the network unencrypted; put a TLS proxy in front and \
                 name it with --behind-proxy IP, or listen on 127.0.0.1"
            )));
        }
        Ok(address)
    }
}

/// Returns which place of the configuration sets the timeout of direct calls.
fn direct_timeout(config: &Config) -> LimitSource {
    config.agents.get(DIRECT_AGENT).map(|direct| direct.timeout_source).unwrap_or_default()
}

async fn serve(
    host: &Host,
    globals: &Globals,
    config: &Config,
    mut options: ServerOptions,
    parts: &Parts,
    output: &Output,
) -> Result<(), Failure> {
    let data_dir = data_dir(globals)?;
    let access = AccessDatabase::open(&data_dir).map_err(|e| Failure::failed(e.to_string()))?;
    let wanted = options.address;
    let server = Server::bind(wanted).await.map_err(|e| {
        Failure::usage(format!("cannot listen on {wanted}: {e}; choose another address with --listen"))
    })?;
    options.address = server.address().map_err(|e| Failure::failed(e.to_string()))?;
    let recorded = served_address::record(&data_dir, options.address);
    if let Err(why) = &recorded {
        output.warn(&format!("`tollgate sign-in` will print the configured address: {why}"));
    }
    output.say(&format!("serving at http://{}", options.address));
    if std::io::stderr().is_terminal() && parts.has(Part::Console) {
        let code = access.add_code(&operator()).map_err(|e| Failure::failed(e.to_string()))?;
        host.store().record_audit(vec![access_audit::link_made(OPERATOR)]).await?;
        output.say(&format!("sign in within 5 minutes: http://{}/sign-in#{code}", options.address));
    }
    if access.keys().is_ok_and(|keys| keys.is_empty()) {
        output.say(&format!("there is no key yet; make one: {} keys add NAME --scope use,decide", program()));
    }
    let state = ServerState::new(host.clone(), access, config.serve.clone(), options);
    let routes = router(Arc::clone(&state), parts);
    server.serve(state, routes).await.map_err(|e| Failure::failed(format!("the server failed: {e}")))
}

/// How long claimed runs may go on after the server was asked to stop.
#[cfg(feature = "postgres")]
const GRACE: std::time::Duration = std::time::Duration::from_secs(5);
/// The maximum number of claimed runs at a time.
#[cfg(feature = "postgres")]
const CLAIMED_AT_ONCE: usize = 16;

/// Drives queued and interrupted runs of a shared database, as `tollgate work` does: the runs of a host
/// that is gone continue on any other.
#[cfg(feature = "postgres")]
async fn work(host: Host, agents: Vec<String>, stop: CancellationToken, _announced: DropGuard) {
    let options = tollgate::WorkOptions { agents, concurrency: CLAIMED_AT_ONCE, grace: GRACE };
    host.work(&options, &stop).await;
}

/// Returns the person at the terminal, who may do everything except reading metrics.
pub(crate) fn operator() -> Principal {
    Principal::new(OPERATOR, Scope::ALL.into_iter().filter(|scope| *scope != Scope::Metrics))
}

/// Returns the configured agents with their models, and the models' names. An agent whose model
/// cannot be used is served without one, so that its runs say why they fail.
fn agents_with_models(config: &Config, output: &Output) -> (Vec<tollgate::Agent>, BTreeMap<String, String>) {
    let (mut agents, mut names) = (Vec::new(), BTreeMap::new());
    for (id, agent) in config.agents.iter().filter(|(id, _)| *id != DIRECT_AGENT) {
        if agent.made_of.is_some() {
            continue;
        }
        match configured_model(id, config) {
            Ok(model) => {
                if let Some(name) = config.model_of(id).and_then(|model| model.model.clone()) {
                    names.insert(id.clone(), name);
                }
                agents.push(agent_of(id, agent.clone(), Some(model)));
            }
            Err(why) if config.model.is_some() || agent.model.is_some() || agent.remote.is_some() => {
                output.warn(&format!("the agent {id} cannot answer: {why}"));
            }
            Err(_) => {}
        }
    }
    (agents, names)
}
