//! The MCP servers of a host, for as long as a command uses them.

use crate::session::shutdown;
use crate::terminal::{Exit, Failure, Output};
use tollgate::Host;
use tollgate::config::Config;

/// The MCP servers of a host.
#[cfg(feature = "mcp")]
pub(crate) type Servers = tollgate_mcp::Servers;
/// The servers of a program built without MCP: none.
#[cfg(not(feature = "mcp"))]
pub(crate) struct Servers;

/// Connects the host to the configured servers for as long as the result lives. From here on,
/// signals shut the program down in order.
#[cfg(feature = "mcp")]
pub(crate) async fn with_servers(host: &Host, config: &Config, output: &Output) -> Result<Servers, Failure> {
    shutdown::take_signals();
    let connect = async { Ok::<_, Failure>(Servers::connect(host, config).await) };
    let servers = shutdown::unless_asked(connect).await?;
    servers.failed.iter().for_each(|why| output.warn(why));
    Ok(servers)
}

/// Warns about the servers' tools that are left out, for commands that serve or check all tools.
#[cfg(feature = "mcp")]
pub(crate) fn warn_of_left_out(servers: &Servers, output: &Output) {
    servers.notices.iter().for_each(|notice| output.warn(notice));
}

#[cfg(not(feature = "mcp"))]
pub(crate) fn warn_of_left_out(_servers: &Servers, _output: &Output) {}

#[cfg(not(feature = "mcp"))]
pub(crate) async fn with_servers(
    _host: &Host,
    _config: &Config,
    _output: &Output,
) -> Result<Servers, Failure> {
    shutdown::take_signals();
    Ok(Servers)
}

/// Shuts the servers down in order.
#[cfg(feature = "mcp")]
pub(crate) async fn end_servers(servers: Servers) {
    servers.end().await;
}

#[cfg(not(feature = "mcp"))]
pub(crate) async fn end_servers(_: Servers) {}

/// Shuts down the servers of a host in order and stores pending records, whether the work on the
/// host succeeded or failed.
pub(crate) async fn finish(
    host: &Host,
    servers: Servers,
    work: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let done = work.await;
    end_servers(servers).await;
    match (done, host.store().close().await) {
        (Ok(exit), Ok(())) => Ok(exit),
        (Ok(_), Err(why)) => Err(Failure::failed(format!("the answer above is not recorded: {why}"))),
        (Err(failure), stored) => {
            if let Err(why) = stored {
                tracing::warn!("pending records are lost: {why}");
            }
            Err(failure)
        }
    }
}
