//! `[mcp.SERVER]`: servers of the Model Context Protocol whose tools are called like any other.

use super::ConfigError;
use super::error::Source;
use super::raw::RawServer;
use std::collections::BTreeMap;
use std::time::Duration;
use tollgate_agent::name;
use toml::Spanned;

/// The maximum length of a server's name, which leaves room for the tool's in a full name.
const MAX_NAME_BYTES: usize = 24;

/// A server that provides tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// How to reach it.
    pub place: ServerPlace,
    /// How long it may take to start.
    pub start_timeout: Duration,
    /// How long one of its calls may take; `None` for the run's limit.
    pub timeout_ms: Option<u32>,
    /// The maximum size of one answer, in bytes.
    pub answer_bytes: usize,
}

/// The way to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerPlace {
    /// A child process, over its standard input and output.
    Process {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment variables, in addition to `PATH` and `HOME`. It sees no others of
        /// the host's.
        env: BTreeMap<String, String>,
    },
    /// An HTTP endpoint.
    Http {
        /// The URL of the endpoint.
        url: String,
        /// The variable with the bearer token, if the server requires one.
        token_env: Option<String>,
    },
}

pub(super) fn check(
    source: &Source<'_>,
    raw: BTreeMap<Spanned<String>, RawServer>,
) -> Result<BTreeMap<String, ServerConfig>, ConfigError> {
    let mut servers = BTreeMap::new();
    for (name, server) in raw {
        let span = name.span();
        let fits = name::is_id(name.get_ref()) && name.get_ref().len() <= MAX_NAME_BYTES;
        if !fits || name::is_reserved_id(name.get_ref()) {
            let problem = format!(
                "the server's name must fit [a-z][a-z0-9-]* with at most {MAX_NAME_BYTES} characters, and not be host or tollgate"
            );
            return Err(source.wrong(span, problem));
        }
        let taken = |other: &&String| {
            let (one, other) = (name::fold(name.get_ref()), name::fold(other));
            let begins = |one: &str, other: &str| one.starts_with(&name::server_prefix(other));
            one == other || begins(&one, &other) || begins(&other, &one)
        };
        if let Some(other) = servers.keys().find(taken) {
            let problem = format!(
                "the server's name looks like that of [mcp.{other}], or begins like its tools; rename one of the two"
            );
            return Err(source.wrong(span, problem));
        }
        let place =
            place(server.command, server.url).map_err(|problem| source.wrong(span.clone(), problem))?;
        let place = match place {
            ServerAddress::Command(command) if server.token_env.is_none() => {
                ServerPlace::Process { command, args: server.args, env: server.env }
            }
            ServerAddress::Url(url) if server.args.is_empty() && server.env.is_empty() => {
                ServerPlace::Http { url, token_env: server.token_env }
            }
            ServerAddress::Command(_) => {
                return Err(source.wrong(span, "`token_env` is for servers with a `url`; set `env`"));
            }
            ServerAddress::Url(_) => {
                return Err(source.wrong(span, "`args` and `env` are for servers with a `command`"));
            }
        };
        let config = ServerConfig {
            place,
            start_timeout: Duration::from_millis(server.start_timeout_ms),
            timeout_ms: server.timeout_ms,
            answer_bytes: server.answer_bytes,
        };
        servers.insert(name.into_inner(), config);
    }
    Ok(servers)
}

enum ServerAddress {
    Command(String),
    Url(String),
}

fn place(command: Option<String>, url: Option<String>) -> Result<ServerAddress, &'static str> {
    match (command, url) {
        (Some(command), None) if !command.is_empty() => Ok(ServerAddress::Command(command)),
        (None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => {
            Ok(ServerAddress::Url(url))
        }
        (None, Some(_)) => Err("`url` begins with http:// or https://"),
        _ => Err("a server has a `command` that is started, or a `url`, and not both"),
    }
}
