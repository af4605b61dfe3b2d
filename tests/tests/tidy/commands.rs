//! Messages of library crates name no commands, options or tables of the configuration: their users may
//! have neither a command line nor a `tollgate.toml`. The program adds commands to what it shows
//! (`host/cli/src/terminal/remedy.rs`). Places of limits come from the embedding program
//! (`tollgate_agent::limit_places`); those of `tollgate.toml` are in `host/src/config/limits.rs`.

use crate::{TextFile, assert_none, text_files};

/// The sources of library crates. Those of the server are left out: its pages and answers are part
/// of the program, which people operate by its commands.
const LIBRARIES: &[&str] = &[
    "host/agent/src/",
    "host/sandbox/src/",
    "host/registry/src/",
    "host/store/src/",
    "host/models/src/",
    "host/sqlite/src/",
    "host/postgres/src/",
    "host/src/",
    "host/mcp/src/",
];

/// A file, words in it that look like a command or an option, and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("host/registry/src/lock.rs", "`tollgate ", "the head of a file that the program writes and people read"),
    (
        "host/src/grants/approvals.rs",
        "tollgate grant",
        "the head of a file that the program writes and people read",
    ),
    (
        "host/src/grants/requests.rs",
        "--",
        "the arguments that grant a power are data, for a command or a page",
    ),
    ("host/src/config/change.rs", "--remove-destination", "an option of `cp`"),
    ("host/sandbox/src/load/census.rs", "componentize", "options of compilers for components"),
];

/// The parts of libraries whose input is `tollgate.toml`, so that their messages are about it. Models and
/// clients of MCP servers are made of its tables, and the questions in forms follow its rules.
const CONFIGURATION_READERS: &[&str] = &[
    "host/mcp/src/client/",
    "host/mcp/src/form.rs",
    "host/models/src/config/",
    "host/models/src/providers/",
    "host/registry/src/",
    "host/src/config/",
    "host/src/gates/directory.rs",
    "host/src/grants/",
    "host/src/registry.rs",
    "host/src/tools/directory/",
];

/// The tables of `tollgate.toml`.
const TABLES: &[&str] = &[
    "agents",
    "gates",
    "grants",
    "limits",
    "mcp",
    "model",
    "permissions",
    "registries",
    "secrets",
    "serve",
    "state",
    "store",
    "tools",
    "trust",
];

#[test]
fn library_messages_name_no_configuration() {
    let files = text_files();
    let starts = |file: &TextFile, list: &[&str]| list.iter().any(|start| file.path.starts_with(start));
    let sources = files.iter().filter(|file| file.is_rust() && !file.is_test());
    let sources = sources.filter(|file| starts(file, LIBRARIES) && !starts(file, CONFIGURATION_READERS));
    let lines = sources.flat_map(|file| lines_of_code(file).map(move |line| (file, line)));
    let found = lines.filter(|(_, (_, line))| names_configuration(line));
    assert_none(
        "Name the setting alone; the place of a limit comes from `LimitPlaces`:",
        found.map(|(file, (number, line))| format!("{}:{number}: {}", file.path, line.trim())),
    );
    for reader in CONFIGURATION_READERS {
        assert!(files.iter().any(|file| file.path.starts_with(reader)), "{reader} does not exist");
    }
}

#[test]
fn configuration_is_found_where_it_is() {
    for named in [
        "\"add it to tollgate.toml\"",
        "\"under [limits]\"",
        "\"in [tools.{name}.limits]\"",
        "[[trust.signers]]",
    ] {
        assert!(names_configuration(named), "{named}");
    }
    for other in ["let [limits, calls] = x;", "self.limits[at]", "#[model]", "places[state.at]", "&[tools]"] {
        assert!(!names_configuration(other), "{other}");
    }
}

/// Returns whether the text names the configuration file or one of its tables, such as `[limits]` or
/// `[tools.NAME.limits]`.
fn names_configuration(text: &str) -> bool {
    let is_table = |(at, _): (usize, &str)| {
        let is_code =
            text[..at].ends_with(|before: char| before.is_alphanumeric() || "_&#])".contains(before));
        let name = text[at + 1..].split(|next: char| !next.is_ascii_lowercase()).next().unwrap_or_default();
        let follows = &text[at + 1 + name.len()..];
        !is_code && TABLES.contains(&name) && (follows.starts_with(']') || follows.starts_with('.'))
    };
    text.contains("tollgate.toml") || text.match_indices('[').any(is_table)
}

#[test]
fn library_messages_name_no_commands() {
    let mut found = Vec::new();
    let mut used = vec![false; ALLOWED.len()];
    let files = text_files();
    let sources = files.iter().filter(|file| file.is_rust() && !file.is_test());
    for file in sources.filter(|file| LIBRARIES.iter().any(|library| file.path.starts_with(library))) {
        for (number, line) in lines_of_code(file).filter(|(_, line)| names_a_command(line)) {
            let mut allowed = ALLOWED.iter().enumerate();
            match allowed.find(|(_, (path, words, _))| file.path == *path && line.contains(words)) {
                Some((at, _)) => used[at] = true,
                None => found.push(format!("{}:{number}: {}", file.path, line.trim())),
            }
        }
    }
    let needless = ALLOWED.iter().zip(&used).filter(|(_, used)| !**used);
    found.extend(needless.map(|((path, words, _), _)| format!("{path}: it has `{words}` no longer")));
    assert_none(
        "Say in the library what to do, and add the command in host/cli/src/terminal/remedy.rs:",
        found,
    );
}

#[test]
fn commands_are_found_where_they_are() {
    for named in
        ["\"run `tollgate store init`\"", "restore it: tollgate sync", "queue (--queue)", "\"--data\""]
    {
        assert!(names_a_command(named), "{named}");
    }
    for other in
        ["tollgate.lock", "`tollgate_agent` x", "use tollgate::{A, B};", "a -- b", "n--;", "tollgate {name}"]
    {
        assert!(!names_a_command(other), "{other}");
    }
}

/// Returns the lines of the code with their numbers, without comments and tests.
fn lines_of_code(file: &TextFile) -> impl Iterator<Item = (usize, &str)> {
    let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Returns whether the text has `tollgate VERB` or `--option` as words of their own.
fn names_a_command(text: &str) -> bool {
    ["tollgate ", "--"].iter().any(|start| {
        text.match_indices(start).any(|(at, _)| {
            let begins_word =
                !text[..at].ends_with(|before: char| before.is_alphanumeric() || "_-.:/".contains(before));
            begins_word && text[at + start.len()..].starts_with(|next: char| next.is_ascii_lowercase())
        })
    })
}
