//! Tests of the command line itself: help, mistakes, completions, and a reader that closes the
//! pipe.

use crate::place::Place;
use std::process::{Command, Stdio};
use tollgate_artifacts::good;

#[test]
fn help_and_version_are_answers() {
    let place = Place::new();
    place.type_in(&["--help"]).ends_with(0).answers("Examples:").answers("Exit codes:");
    place.type_in(&["--version"]).ends_with(0).answers("tollgate 0.");
    for verb in ["demo", "run", "call", "tools", "inspect", "new", "build", "completions"] {
        place.type_in(&[verb, "--help"]).ends_with(0).answers("Example");
    }
}

#[test]
fn what_cannot_be_meant_ends_with_2_and_says_what_can() {
    let place = Place::new();
    place.type_in(&[]).ends_with(2).says("Usage: tollgate");
    place.type_in(&["tolls"]).ends_with(2).says("unrecognized subcommand 'tolls'").says("'tools'");
    let said = place.type_in(&["demoo"]).ends_with(2).stderr;
    assert!(said.contains("exist: 'demo'") || said.contains("exists: 'demo'"), "{said}");
    place.type_in(&["call"]).ends_with(2).says("<TOOL>");
    place.type_in(&["tools", "--jsn"]).ends_with(2).says("--json");
    place.type_in(&["new", "x", "--lang", "cobol"]).ends_with(2).says("possible values: rust");
}

/// Names of things that do not exist, and values of another form, end with 2 and say what is right.
#[test]
fn names_of_nothing_end_with_2_and_say_so() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config("[agents.assistant]\n");
    place.write("limits.toml", "[limits]\ntimeout = 1\n");
    place.write("model.toml", "[model]\nprovider = \"opnai\"\nmodel = \"m\"\n");
    for (arguments, words) in [
        (&["add", "./x.wasm"] as &[&str], "./x.wasm does not exist"),
        (&["publish", "localhost:1/x:1", "x.wasm", "--unsigned"], "x.wasm does not exist"),
        (&["remove", "nope"], "records no component nope"),
        (&["verify", "nope"], "records no component nope"),
        (&["state", "export", "nothere"], "there is no thread nothere"),
        (&["mcp", "--print-config", "claude-code", "--agent", "asistant"], "did you mean `assistant`?"),
        (&["serve", "--listen", "7400"], "such as 127.0.0.1:7400"),
        (&["call", "echo", "name=Ada"], "write an object in quotes, such as '{\"name\": \"Ada\"}'"),
        (&["tools", "ecko"], "there is no tool ecko; did you mean `echo`? See: "),
        (
            &["grant", "echo", "--http", "example.com"],
            "nothing was granted to echo: \"example.com\" has no scheme",
        ),
        (&["grant", "echo", "--http", "https//x.test"], "write \"https://x.test\""),
        (&["enable", "ech"], "there is no tool \"ech\"; did you mean `echo`?"),
        (&["show", "lst"], "there is no run lst; did you mean `last`?"),
        (&["inspect", "tools/ecko.wasm"], "did you mean tools/echo.wasm?"),
        (&["tools", "--config", "tolgate.toml"], "did you mean tollgate.toml?"),
        (&["tools", "--config", "limits.toml"], "unknown key `timeout`; did you mean `timeout_ms`?"),
        (&["tools", "--config", "model.toml"], "did you mean \"openai\"?"),
        (&["grant", "ecko", "--read", ".=/x"], "no component `ecko` is in tools; did you mean `echo`?"),
    ] {
        place.type_in(arguments).ends_with(2).says(words);
    }
    for (arguments, words) in [
        (&["verify"] as &[&str], "nothing is installed"),
        (&["update"], "nothing is installed"),
        (&["enable", "echo"], "echo is not disabled; nothing was changed"),
    ] {
        place.type_in(arguments).ends_with(0).says(words);
    }
    place.type_in(&["call", "echo", "{}"]).ends_with(0);
    place.type_in(&["call", "echo", "{}"]).ends_with(0);
    place
        .type_in(&["runs", "--limit", "1"])
        .ends_with(0)
        .says("older runs are not shown; list more: --limit 10");
    let all = place.type_in(&["runs", "--limit", "2"]).ends_with(0);
    assert!(!all.stderr.contains("older runs"), "{all:?}");
}

/// A client's configuration names the variables that the server reads, and holds no value.
#[test]
fn a_clients_configuration_names_variables_and_not_their_values() {
    let config = "[model]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_env = \"MY_KEY\"\n\
                  [mcp.web]\nurl = \"https://b.test\"\ntoken_env = \"WEB\"\n\
                  [secrets.key]\nenv = \"HELD\"\nto = \"https://a.test\"\nheader = \"x-key\"\n";
    let place = Place::new().with_config(config);
    let print = |client: &str, more: &[&str]| {
        let arguments = [&["mcp", "--print-config", client], more].concat();
        let mut command = place.tollgate(&arguments);
        command.env("MY_KEY", "sesame").env("TOLLGATE_STORE", "postgres://u:sesame@h/d");
        let said = crate::place::Said::of(&command.assert());
        assert!(!said.stdout.contains("sesame") && !said.stderr.contains("sesame"), "{said:?}");
        said
    };
    let server = &print("cursor", &[]).ends_with(0).json()["mcpServers"]["tollgate"];
    for name in ["MY_KEY", "WEB", "HELD", "TOLLGATE_STORE"] {
        assert_eq!(server["env"][name], format!("${{env:{name}}}"), "{server}");
    }
    assert!(server["args"].to_string().contains("--cache"), "TOLLGATE_CACHE: {server}");
    let at = ["--http", "0.0.0.0:7300", "--token-env", "T"];
    let said = print("claude-code", &at).ends_with(0).says("--http 0.0.0.0:7300 --token-env T");
    let server = &said.json()["mcpServers"]["tollgate"];
    assert_eq!(server["url"], "http://127.0.0.1:7300/mcp");
    assert_eq!(server["headers"]["Authorization"], "Bearer ${T}");
    print("zed", &["--http", "127.0.0.1:0"]).ends_with(2).says("name one, such as");
    std::fs::remove_file(place.path().join("tollgate.toml")).unwrap();
    print("cursor", &[]).ends_with(2).says("A client starts the server in another directory");
    // Nothing starts a server over HTTP but the person who reads this.
    let said = print("cursor", &at).ends_with(0).says(&format!("cd {} && ", place.path().display()));
    assert_eq!(said.json()["mcpServers"]["tollgate"]["url"], "http://127.0.0.1:7300/mcp");
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        Place::new().type_in(&["completions", shell]).ends_with(0).answers("tollgate");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(words, "");
}
