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
        let wrong = |problem: String| source.wrong(name.span(), problem);
        check_name(name.get_ref(), servers.keys()).map_err(wrong)?;
        let config = ServerConfig {
            start_timeout: Duration::from_millis(server.start_timeout_ms),
            timeout_ms: server.timeout_ms,
            answer_bytes: server.answer_bytes,
            place: place(server).map_err(|problem| wrong(problem.to_owned()))?,
        };
        servers.insert(name.into_inner(), config);
    }
    Ok(servers)
}

/// Checks that a server's name can prefix the names of its tools, and that no name of another server or
/// of its tools could be mistaken for it.
fn check_name<'a>(name: &str, mut others: impl Iterator<Item = &'a String>) -> Result<(), String> {
    if !name::is_id(name) || name.len() > MAX_NAME_BYTES || name::is_reserved_id(name) {
        return Err(format!(
            "the server's name must fit [a-z][a-z0-9-]* with at most {MAX_NAME_BYTES} characters, and not be host or tollgate"
        ));
    }
    let folded = name::fold(name);
    let collides = |other: &&String| {
        let other = name::fold(other);
        folded == other
            || folded.starts_with(&name::server_prefix(&other))
            || other.starts_with(&name::server_prefix(&folded))
    };
    match others.find(collides) {
        Some(other) => Err(format!(
            "the server's name looks like that of [mcp.{other}], or begins like its tools; rename one of the two"
        )),
        None => Ok(()),
    }
}

fn place(server: RawServer) -> Result<ServerPlace, &'static str> {
    let RawServer { command, args, env, url, token_env, .. } = server;
    match (command, url) {
        (Some(command), None) if !command.is_empty() => match token_env {
            None => Ok(ServerPlace::Process { command, args, env }),
            Some(_) => Err("`token_env` is for servers with a `url`; set `env`"),
        },
        (None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => {
            match args.is_empty() && env.is_empty() {
                true => Ok(ServerPlace::Http { url, token_env }),
                false => Err("`args` and `env` are for servers with a `command`"),
            }
        }
        (None, Some(_)) => Err("`url` begins with http:// or https://"),
        _ => Err("a server has a `command` that is started, or a `url`, and not both"),
    }
}
