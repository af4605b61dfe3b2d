//! The governed call: a library host with its gate and its in-memory store, tools loaded from a
//! directory, and [`Host::call`].

use std::fs;
use std::sync::Arc;
use tollgate::config::Config;
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::store::{MemoryStore, SqliteStore, Store};
use tollgate::tools::{Toolbox, directory};
use tollgate::{Agent, CallRequest, Host, RunRequest};
use tollgate_agent::run::{CallEnd, RunLimits, RunStatus};
use tollgate_artifacts::{Guest, good};
use tollgate_sandbox::Sandbox;

/// The guest that fills a directory; its name has room for a number.
const FILLER: Guest = Guest { name: "filler-0000", ..good::ECHO };

/// Loads a directory with `tools` tools: these components and fillers.
pub(crate) async fn toolbox(sandbox: &Sandbox, components: &[(&str, &[u8])], tools: usize) -> Toolbox {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in components {
        fs::write(folder.path().join(name).with_extension("wasm"), bytes).unwrap();
    }
    let filler = FILLER.bytes();
    for number in components.len()..tools {
        let name = format!("filler-{number:04}");
        let path = folder.path().join(&name).with_extension("wasm");
        fs::write(path, renamed(&filler, FILLER.name, &name)).unwrap();
    }
    let config = Config { tools_dir: folder.path().to_owned(), ..Config::default() };
    let loaded = directory::load(sandbox, &config, &|_, _, _| ()).await.unwrap();
    assert!(loaded.toolbox.refused().is_empty(), "{:?}", loaded.toolbox.refused());
    assert_eq!(loaded.toolbox.catalog().tools().count(), tools.max(components.len()));
    loaded.toolbox
}

/// Returns the bytes with one name replaced by another of the same length.
fn renamed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while at + from.len() <= bytes.len() {
        if &bytes[at..at + from.len()] == from.as_bytes() {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        at += 1;
    }
    bytes
}

/// Creates a host for a toolbox. Its store keeps every call, so each round needs a new one.
pub(crate) fn host(toolbox: &Toolbox) -> Host {
    Host::builder().toolbox(toolbox.clone()).build().unwrap()
}

/// Calls the tool like a user of the library and returns the length of the answer.
pub(crate) async fn call(host: &Host, tool: &str, arguments: &str) -> usize {
    let end = host.call(CallRequest::from_json(tool, arguments)).await.unwrap();
    match end.last_call.unwrap().end.clone() {
        CallEnd::Result(result) => result.data.as_str().map_or(0, str::len),
        CallEnd::Fault(fault) => panic!("{fault:?}"),
    }
}

/// Creates a host whose agent requests this many turns with this many calls each.
pub(crate) fn agent_host(toolbox: &Toolbox, tool: &str, arguments: &str, turns: usize, calls: usize) -> Host {
    agent_on(Arc::new(MemoryStore::new()), toolbox, tool, arguments, (turns, calls))
}

/// Creates a host with this store whose agent requests this many turns with one call each.
pub(crate) fn durable_host(
    toolbox: &Toolbox,
    tool: &str,
    arguments: &str,
    turns: usize,
    store: Arc<SqliteStore>,
) -> Host {
    agent_on(store, toolbox, tool, arguments, (turns, 1))
}

fn agent_on(
    store: Arc<dyn Store>,
    toolbox: &Toolbox,
    tool: &str,
    arguments: &str,
    (turns, calls): (usize, usize),
) -> Host {
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
    let asks = || ScriptedTurn::calls((0..calls).map(|_| (tool, arguments.clone())));
    let turns_of_model = (0..turns).map(|_| asks()).chain([ScriptedTurn::text("It is done.")]).collect();
    let limits = RunLimits {
        model_turns: u32::MAX,
        tool_calls: u32::MAX,
        identical_turns: u32::MAX,
        ..RunLimits::default()
    };
    let agent = Agent::new("default", Arc::new(ScriptedModel::new(turns_of_model))).with_tools(["*"]);
    let builder = Host::builder().toolbox(toolbox.clone()).agent(agent.with_limits(limits));
    builder.store(store).build().unwrap()
}

/// Runs the agent of [`agent_host`] to completion.
pub(crate) async fn run(host: &Host) -> u32 {
    let end = host.run(RunRequest::new("default", "Go on.")).await.unwrap().wait().await.unwrap();
    assert_eq!(end.status, Some(RunStatus::Completed));
    end.usage.calls
}
