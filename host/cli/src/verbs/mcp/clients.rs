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

/// Prints the configuration on standard output, and on standard error where it belongs.
pub(super) fn print(client: Client, command: &[String], output: &Output) {
    output.say(&format!("add this to {} and restart the client:", place(client)));
    output.line(&text(client, command));
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

fn text(client: Client, command: &[String]) -> String {
    let (program, arguments) = command.split_first().map_or(("tollgate", command), |(p, a)| (p.as_str(), a));
    let server = json!({"command": program, "args": arguments});
    let typed = json!({"type": "stdio", "command": program, "args": arguments});
    let config = match client {
        Client::ClaudeDesktop | Client::Cursor | Client::GeminiCli | Client::Windsurf => {
            json!({"mcpServers": {"tollgate": server}})
        }
        Client::ClaudeCode => json!({"mcpServers": {"tollgate": typed}}),
        Client::Vscode => json!({"servers": {"tollgate": typed}}),
        Client::Zed => {
            json!({"context_servers": {"tollgate": {"source": "custom", "command": program, "args": arguments}}})
        }
        Client::Opencode => {
            json!({"mcp": {"tollgate": {"type": "local", "command": command, "enabled": true}}})
        }
        Client::Codex => return codex(program, arguments),
    };
    indented(&config)
}

fn codex(program: &str, arguments: &[String]) -> String {
    let mut server = toml_edit::Table::new();
    server["command"] = toml_edit::value(program);
    server["args"] = toml_edit::value(arguments.iter().collect::<toml_edit::Array>());
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

    #[test]
    fn every_client_gets_a_configuration_that_parses_and_starts_the_command() {
        let command: Vec<String> =
            ["/opt/a \"b\"/tollgate", "mcp", "--config", "/x/tollgate.toml"].map(str::to_owned).to_vec();
        for client in Client::value_variants() {
            let text = text(*client, &command);
            let read: Value = match client {
                Client::Codex => toml::from_str(&text).unwrap(),
                _ => serde_json::from_str(&text).unwrap(),
            };
            let server = read.as_object().unwrap().values().next().unwrap()["tollgate"].clone();
            let (program, arguments) = match client {
                Client::Opencode => (server["command"][0].clone(), server["command"].clone()),
                _ => (server["command"].clone(), server["args"].clone()),
            };
            assert_eq!(program, json!(command[0]), "{client:?}");
            assert!(arguments.as_array().unwrap().ends_with(&[json!("/x/tollgate.toml")]), "{client:?}");
        }
    }
}
