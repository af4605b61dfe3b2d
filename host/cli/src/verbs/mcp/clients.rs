//! Configuration files of well-known clients.

use crate::terminal::Output;
use clap::ValueEnum;
use serde_json::{Value, json};

/// A client whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// Cursor
    Cursor,
    /// Gemini CLI
    GeminiCli,
    /// opencode
    Opencode,
    /// Visual Studio Code
    Vscode,
    /// Windsurf
    Windsurf,
    /// Zed
    Zed,
}

/// The way in which a client reaches the server.
#[derive(Debug)]
pub(super) enum Connection {
    /// The client starts this command, with these environment variables.
    Stdio { command: Vec<String>, variables: Vec<String> },
    /// The server runs at this address; the variable holds the token that it expects.
    Http { url: String, token_variable: String },
}

/// Prints the configuration on standard output, and on standard error where it belongs.
pub(super) fn print(client: Client, connection: &Connection, output: &Output) {
    output.say(&format!("add this to {} and restart the client:", place(client)));
    output.line(&text(client, connection));
    let variables = match connection {
        Connection::Stdio { variables, .. } => variables.join(", "),
        Connection::Http { token_variable, .. } => token_variable.clone(),
    };
    match client {
        _ if variables.is_empty() => {}
        Client::ClaudeDesktop | Client::Zed => {
            output
                .say(&format!("this client does not read variables: write the values of {variables} there"));
        }
        _ => output.say(&format!("the client takes {variables} from its own environment")),
    }
}

fn place(client: Client) -> &'static str {
    let mac = cfg!(target_os = "macos");
    match client {
        Client::ClaudeDesktop if mac => "~/Library/Application Support/Claude/claude_desktop_config.json",
        Client::ClaudeDesktop => "~/.config/Claude/claude_desktop_config.json",
        Client::ClaudeCode => ".mcp.json in your project",
        Client::Codex => "~/.codex/config.toml",
        Client::Cursor => "~/.cursor/mcp.json",
        Client::GeminiCli => "~/.gemini/settings.json",
        Client::Opencode => "opencode.json in your project",
        Client::Vscode => ".vscode/mcp.json in your project",
        Client::Windsurf => "~/.codeium/windsurf/mcp_config.json",
        Client::Zed => "~/.config/zed/settings.json",
    }
}

fn text(client: Client, connection: &Connection) -> String {
    let config = match (client, connection) {
        (Client::Codex, _) => return codex(connection),
        (_, Connection::Stdio { command, variables }) => stdio(client, command, variables),
        (_, Connection::Http { url, token_variable }) => http(client, url, token_variable),
    };
    indented(&config)
}

/// Returns the text in which this client inserts the value of a variable, or in which its user does.
fn value_of(client: Client, variable: &str) -> String {
    match client {
        Client::ClaudeCode | Client::GeminiCli => format!("${{{variable}}}"),
        Client::Cursor | Client::Vscode | Client::Windsurf => format!("${{env:{variable}}}"),
        Client::Opencode => format!("{{env:{variable}}}"),
        Client::ClaudeDesktop | Client::Zed | Client::Codex => format!("VALUE OF {variable}"),
    }
}

fn stdio(client: Client, command: &[String], variables: &[String]) -> Value {
    let (program, arguments) = command.split_first().map_or(("tollgate", command), |(p, a)| (p.as_str(), a));
    let mut server = json!({"command": program, "args": arguments});
    if !variables.is_empty() {
        let values = variables.iter().map(|name| (name.clone(), json!(value_of(client, name))));
        server["env"] = Value::Object(values.collect());
    }
    match client {
        Client::ClaudeCode | Client::Vscode => server["type"] = json!("stdio"),
        Client::Zed => server["source"] = json!("custom"),
        Client::Opencode => {
            let environment = server["env"].take();
            server = json!({"type": "local", "command": command, "enabled": true});
            if !environment.is_null() {
                server["environment"] = environment;
            }
        }
        _ => {}
    }
    named(client, &server)
}

fn http(client: Client, url: &str, token_variable: &str) -> Value {
    let headers = json!({"Authorization": format!("Bearer {}", value_of(client, token_variable))});
    let server = match client {
        // Its file describes only programs; this one connects to a URL.
        Client::ClaudeDesktop => json!({
            "command": "npx",
            "args": ["-y", "mcp-remote", url, "--header", "Authorization:${TOLLGATE_HEADER}"],
            "env": {"TOLLGATE_HEADER": headers["Authorization"]},
        }),
        Client::ClaudeCode | Client::Vscode => json!({"type": "http", "url": url, "headers": headers}),
        Client::Windsurf => json!({"serverUrl": url, "headers": headers}),
        Client::GeminiCli => json!({"httpUrl": url, "headers": headers}),
        Client::Opencode => {
            json!({"type": "remote", "url": url, "headers": headers, "oauth": false, "enabled": true})
        }
        Client::Cursor | Client::Zed | Client::Codex => json!({"url": url, "headers": headers}),
    };
    named(client, &server)
}

/// Returns the client's file with this server in it.
fn named(client: Client, server: &Value) -> Value {
    let table = match client {
        Client::Vscode => "servers",
        Client::Zed => "context_servers",
        Client::Opencode => "mcp",
        _ => "mcpServers",
    };
    json!({table: {"tollgate": server}})
}

fn codex(connection: &Connection) -> String {
    let mut server = toml_edit::Table::new();
    match connection {
        Connection::Stdio { command, variables } => {
            let (program, arguments) =
                command.split_first().map_or(("tollgate", &command[..]), |(p, a)| (p, a));
            server["command"] = toml_edit::value(program);
            server["args"] = toml_edit::value(arguments.iter().collect::<toml_edit::Array>());
            if !variables.is_empty() {
                server["env_vars"] = toml_edit::value(variables.iter().collect::<toml_edit::Array>());
            }
        }
        Connection::Http { url, token_variable } => {
            server["url"] = toml_edit::value(url);
            server["bearer_token_env_var"] = toml_edit::value(token_variable);
        }
    }
    let mut servers = toml_edit::Table::new();
    servers.set_implicit(true);
    servers["tollgate"] = toml_edit::Item::Table(server);
    let mut file = toml_edit::DocumentMut::new();
    file["mcp_servers"] = toml_edit::Item::Table(servers);
    file.to_string().trim_end().to_owned()
}

fn indented(config: &Value) -> String {
    serde_json::to_string_pretty(config).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Reads the text as its client does, and returns the server's entry.
    fn entry(client: Client, connection: &Connection) -> Value {
        let text = text(client, connection);
        let read: Value = match client {
            Client::Codex => toml::from_str(&text).unwrap(),
            _ => serde_json::from_str(&text).unwrap(),
        };
        read.as_object().unwrap().values().next().unwrap()["tollgate"].clone()
    }

    #[test]
    fn every_client_gets_a_configuration_that_parses_and_starts_the_command() {
        let command: Vec<String> =
            ["/opt/a \"b\"/tollgate", "mcp", "--config", "/x/tollgate.toml"].map(str::to_owned).to_vec();
        for client in Client::value_variants() {
            let start = |variables: &[&str]| Connection::Stdio {
                command: command.clone(),
                variables: variables.iter().map(|name| (*name).to_owned()).collect(),
            };
            let server = entry(*client, &start(&["MY_KEY"]));
            let (program, arguments) = match client {
                Client::Opencode => (server["command"][0].clone(), server["command"].clone()),
                _ => (server["command"].clone(), server["args"].clone()),
            };
            assert_eq!(program, json!(command[0]), "{client:?}");
            assert!(arguments.as_array().unwrap().ends_with(&[json!("/x/tollgate.toml")]), "{client:?}");
            let (member, value) = match client {
                Client::Codex => ("env_vars", json!(["MY_KEY"])),
                Client::Opencode => ("environment", json!({"MY_KEY": "{env:MY_KEY}"})),
                Client::ClaudeCode | Client::GeminiCli => ("env", json!({"MY_KEY": "${MY_KEY}"})),
                Client::ClaudeDesktop | Client::Zed => ("env", json!({"MY_KEY": "VALUE OF MY_KEY"})),
                _ => ("env", json!({"MY_KEY": "${env:MY_KEY}"})),
            };
            assert_eq!(server[member], value, "{client:?}");
            assert_eq!(entry(*client, &start(&[])).get(member), None, "{client:?}");
        }
    }

    #[test]
    fn every_client_gets_a_configuration_for_http_with_its_token() {
        let url = "http://127.0.0.1:7300/mcp".to_owned();
        let connection = Connection::Http { url: url.clone(), token_variable: "T".to_owned() };
        for client in Client::value_variants() {
            let server = entry(*client, &connection);
            let member = match client {
                Client::GeminiCli => "httpUrl",
                Client::Windsurf => "serverUrl",
                _ => "url",
            };
            match client {
                Client::ClaudeDesktop => {
                    assert!(server["args"].as_array().unwrap().contains(&json!(url)), "{server}");
                    assert_eq!(server["env"]["TOLLGATE_HEADER"], "Bearer VALUE OF T");
                }
                Client::Codex => assert_eq!(server, json!({"url": url, "bearer_token_env_var": "T"})),
                _ => {
                    assert_eq!(server[member], json!(url), "{client:?}");
                    let header = format!("Bearer {}", value_of(*client, "T"));
                    assert_eq!(server["headers"]["Authorization"], json!(header), "{client:?}");
                }
            }
        }
    }
}
