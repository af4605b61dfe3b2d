//! `tollgate demo --serve`: the tour in the console of `tollgate serve`, with a run that waits for a
//! decision.

use super::tour::{self, recorded, unwritable};
use crate::render::narrate::Narrator;
use crate::session::follow::follow;
use crate::session::open::agent_of;
use crate::session::operator::Operator;
use crate::session::{OpenSession, finish, host_with, shutdown, with_servers};
use crate::terminal::output::{BOLD, DIM};
use crate::terminal::{Exit, Failure, Output, program};
use crate::verbs::serve::operator;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tollgate::config::{DEFAULT_LISTEN, LimitSource};
use tollgate::metrics::Metrics;
use tollgate::store::{SqliteStore, Store};
use tollgate::{CallRequest, Host, HostBuilder, RunRequest};
use tollgate_server::{AccessDatabase, Parts, Server, ServerOptions, ServerState, router};

/// The direct calls that the console shows besides the runs.
const CALLS: [(&str, &str); 4] = [
    ("word_count", r#"{"path": "/repo/CHANGELOG.md"}"#),
    ("json_query", r#"{"filter": ".days | add", "text": "{\"days\": [3, 4]}"}"#),
    ("markdown_outline", r#"{"path": "/repo/README.md"}"#),
    ("regex_extract", r#"{"pattern": "^root.*$", "path": "/etc/passwd"}"#),
];

/// Records the tour, a run that waits and some calls, and serves them until the program is asked to
/// end. `place` is a temporary directory with the tools in `tools`.
pub(super) async fn serve(
    repository: &Path,
    place: &Path,
    listen: Option<SocketAddr>,
    output: &Output,
) -> Result<Exit, Failure> {
    let (data, files) = (place.join("data"), place.join("files"));
    for directory in [&data, &files] {
        fs::create_dir(directory).map_err(|e| unwritable(directory, &e))?;
    }
    let config = tour::with_writer(tour::config(repository, &place.join("tools")), &files)
        .map_err(|why| Failure::failed(why.to_string()))?;
    let opened = OpenSession::load(config, output).await?;
    opened.warn_of_refused(output);
    let (config, sandbox, loaded) =
        (Arc::new(opened.config.clone()), opened.sandbox.clone(), opened.loaded.clone());
    let permissions = opened.permissions.clone();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&data)?);
    let metrics = Metrics::new(sandbox.clone());
    let store = metrics.observing(store);
    let models = [
        (tour::AGENT, recorded(place, "turns.toml", tour::TURNS)?),
        (tour::WRITER, recorded(place, "writer.toml", tour::WRITER_TURNS)?),
    ];
    let host = host_with(opened, None, |builder| {
        let agents = models.into_iter().filter_map(|(id, model)| {
            let agent = config.agents.get(id)?.clone();
            Some(agent_of(id, agent, Some(Arc::new(model.starting_again()))))
        });
        agents.fold(builder, HostBuilder::agent).store(store).gate(tour::KeepNotes)
    })?;
    let servers = with_servers(&host, &config, output).await?;
    let stop = shutdown::take_signals();
    let (watch, _) = host.watch(sandbox, Arc::clone(&config), &loaded);
    let work = async {
        record(&host, output).await?;
        let access = AccessDatabase::open(&data).map_err(|e| Failure::failed(e.to_string()))?;
        let (server, address) = bind(listen).await?;
        let code = access.add_code(&operator()).map_err(|e| Failure::failed(e.to_string()))?;
        say_where(address, &code, &data, output);
        let facts = Operator {
            served: watch.served(),
            locked: config.locked,
            config_file: place.join("tollgate.toml"),
            direct_timeout: LimitSource::Default,
            permissions,
            #[cfg(feature = "postgres")]
            shared: None,
        };
        let options = ServerOptions {
            address,
            metrics: Some(metrics),
            operator: Some(Arc::new(facts)),
            stop,
            ..ServerOptions::default()
        };
        let state = ServerState::new(host.clone(), access, config.serve.clone(), options);
        let routes = router(Arc::clone(&state), &Parts::all());
        server.serve(state, routes).await.map_err(|e| Failure::failed(format!("the server failed: {e}")))?;
        Ok::<_, Failure>(Exit::Done)
    };
    finish(&host, servers, work).await
}

/// Binds the address. Without one it is the usual address, or a free port if that is taken.
async fn bind(listen: Option<SocketAddr>) -> Result<(Server, SocketAddr), Failure> {
    let wanted = listen.unwrap_or(DEFAULT_LISTEN);
    if !wanted.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "refusing to listen on {wanted}: the tour is for this machine; choose an address such as 127.0.0.1:7300"
        )));
    }
    let bound = match Server::bind(wanted).await {
        Err(e) if listen.is_none() && e.kind() == io::ErrorKind::AddrInUse => {
            Server::bind((Ipv4Addr::LOCALHOST, 0).into()).await
        }
        bound => bound,
    };
    let server = bound.map_err(|e| {
        Failure::usage(format!("cannot listen on {wanted}: {e}; choose another address with --listen"))
    })?;
    let address = server.address().map_err(|e| Failure::failed(e.to_string()))?;
    Ok((server, address))
}

/// Runs everything that the console shows.
async fn record(host: &Host, output: &Output) -> Result<(), Failure> {
    let name = operator().name;
    let principal = Some(name.as_str().into());
    for (tool, arguments) in CALLS {
        let mut call = CallRequest::from_json(tool, arguments).on_thread(format!("{name}/try-{tool}"));
        call.principal.clone_from(&principal);
        host.start_call(call).await?.wait().await?;
    }
    for (agent, prompt, thread) in
        [(tour::AGENT, tour::PROMPT, "tour"), (tour::WRITER, tour::WRITER_PROMPT, "figures")]
    {
        output.say(&format!("\n{BOLD}{agent}:{BOLD:#} {prompt}\n"));
        let mut run = RunRequest::new(agent, prompt).on_thread(format!("{name}/{thread}"));
        run.principal.clone_from(&principal);
        let mut narrator = Narrator::new(output);
        let end = follow(host.run(run).await?, &mut narrator).await?;
        narrator.finish(&end);
    }
    Ok(())
}

fn say_where(address: SocketAddr, code: &str, data: &Path, output: &Output) {
    let program = program();
    output.say(&format!(
        "\n{BOLD}the console{BOLD:#} {DIM}(the link works once, for 5 minutes; Ctrl-C ends the server){DIM:#}"
    ));
    output.line(&format!("http://{address}/sign-in#{code}"));
    output.say(&format!(
        "\n{DIM}One question waits for you under Waiting. Under Playground the recorded agents answer again.\n\
         another link: {program} sign-in --data {} --url http://{address}{DIM:#}",
        data.display()
    ));
}
