//! A server that plays a scripted story to clients of every protocol:
//! `cargo run -p tollgate-server --example story -- TOOLS_DIR [AGENT=URL]...`
//!
//! It serves the tools of a directory on a free port of the loopback interface, and prints its
//! address, a key of a client and a key with all scopes. Each further argument is an agent of
//! another server, reached by A2A. `scripts/clients` and `scripts/openapi-check` run real clients
//! against it.

#[path = "../tests/protocols/server.rs"]
#[allow(unreachable_pub)]
mod server;

use tollgate::a2a::RemoteAgent;
use tollgate::{Agent, Host, Toolbox};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tools = std::env::args().nth(1).ok_or("missing directory of tools; pass it as an argument")?;
    let toolbox = Toolbox::load(std::path::Path::new(&tools)).await?;
    let mut builder = server::with_story(Host::builder().toolbox(toolbox));
    for remote in std::env::args().skip(2) {
        let (id, url) = remote.split_once('=').ok_or("write a remote agent as AGENT=URL")?;
        builder = builder.agent(Agent::remote(id, RemoteAgent::new(url)?));
    }
    let host = builder.build()?;
    let data = tempfile::tempdir()?;
    let server = server::serve(host, data.path()).await?;
    println!("serving at http://{}", server.address);
    println!("key {}", server.keys["ada"]);
    println!("operator key {}", server.keys["operator"]);
    Ok(server.serving.await??)
}
