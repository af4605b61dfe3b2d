//! The host's own files, programs and keys, and the protection against changes by others.

use crate::place::{Place, Said};
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use tollgate_artifacts::good;

/// A public key of no one.
const A_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEv2M4vzgnQHqIrCLr1nxJLyarUTJ5\n\
    lNeLcQhGTpTORFMzsxO3HnhZkVi2EU48ltABkU/EEu0rt12edPhKYVEWkw==\n\
    -----END PUBLIC KEY-----\n";

fn place() -> Place {
    Place::new().with_tools(&[good::ECHO])
}

fn config(place: &Place) -> String {
    fs::read_to_string(place.path().join("tollgate.toml")).unwrap_or_default()
}

/// Returns why the component in the tools directory is not served.
fn refusal(place: &Place) -> String {
    let tools = place.type_in(&["tools", "--json"]).ends_with(0).json();
    tools["refused"][0]["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn z24_grants_of_many_processes_at_once_are_all_kept() {
    const PROCESSES: usize = 6;
    let place = place().with_config("# ours\n");
    place.type_in(&["tools"]).ends_with(0);
    let start = |number: usize| {
        let (variable, setting) = (format!("VAR_{number}"), format!("setting-{number}=x"));
        let grant = ["grant", "echo", "--env", &variable, "--setting", &setting];
        place.program(&grant).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = (0..PROCESSES).map(start).collect();
    for process in started {
        let ended = process.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let text = config(&place);
    assert!(text.starts_with("# ours\n"), "{text}");
    for number in 0..PROCESSES {
        assert!(text.contains(&format!("\"VAR_{number}\"")), "VAR_{number} is lost:\n{text}");
        assert!(text.contains(&format!("setting-{number}")), "setting-{number} is lost:\n{text}");
    }
}

#[test]
fn z24_a_configuration_behind_a_link_is_read_and_not_changed() {
    let place = place();
    let real = place.write("elsewhere/real.toml", "# real\n");
    symlink("elsewhere/real.toml", place.path().join("tollgate.toml")).unwrap();
    place.type_in(&["grants"]).ends_with(0);
    let said = place.type_in(&["grant", "echo", "--env", "LANG"]).ends_with(2);
    said.says("tollgate.toml is a symbolic link")
        .says("cp --remove-destination ./elsewhere/real.toml tollgate.toml");
    assert_eq!(fs::read_to_string(real).unwrap(), "# real\n");
}

#[test]
fn z19_what_is_the_hosts_own_is_refused_when_it_is_granted_and_when_it_is_loaded() {
    let place = place();
    for directory in ["gates", "cache", "data", "keys", "docs", "links"] {
        fs::create_dir_all(place.path().join(directory)).unwrap();
    }
    fs::set_permissions(place.path().join("cache"), Permissions::from_mode(0o700)).unwrap();
    place.write("keys/key", "12345678");
    place.write("scripts/run.sh", "#!/bin/sh\n");
    place.write("bin/helper", "");
    symlink("../scripts", place.path().join("links/scripts")).unwrap();
    place.write("password/of-store", "12345678");
    place.write("trusted/authority.pem", "");
    place.write("signers/a.pub", A_KEY);
    let base = "[registries.\"registry.test\"]\nca = \"trusted/authority.pem\"\n\
                [[trust.signers]]\nfrom = [\"oci://registry.test/*\"]\nkey = \"signers/a.pub\"\n\
                [secrets.key]\nfile = \"keys/key\"\nto = \"https://a.test\"\nheader = \"x-key\"\n\
                [mcp.one]\ncommand = \"sh\"\nargs = [\"links/scripts/run.sh\"]\n\
                [mcp.two]\ncommand = \"bin/helper\"\nargs = [\"yet/to/come.js\", \"docs\"]\n";
    fs::create_dir_all(place.path().join("yet/to")).unwrap();
    for (directory, option, words) in [
        ("tools", "--read", "the tools directory"),
        ("gates", "--read", "the gates directory"),
        ("cache", "--read", "the cache"),
        ("data", "--read", "the data directory"),
        (".", "--read", "which no tool may see"),
        ("keys", "--read", "a secret"),
        ("trusted", "--write", "a certificate authority, which no tool may change"),
        ("signers", "--write", "a file of [trust], which no tool may change"),
        ("scripts", "--write", "a program of [mcp.one], which no tool may change"),
        ("links", "--write", "a program of [mcp.one], which no tool may change"),
        ("bin", "--write", "a program of [mcp.two], which no tool may change"),
        ("yet/to", "--write", "a program of [mcp.two], which no tool may change"),
    ] {
        place.write("tollgate.toml", base);
        let grant = format!("{directory}=/d");
        place.type_in(&["grant", "echo", option, &grant]).ends_with(2).says(words);
        assert_eq!(config(&place), base, "{directory}");
        let access = if option == "--read" { "read" } else { "read-write" };
        let by_hand = format!(
            "{base}[grants.echo]\nfiles = [{{ host = \"{directory}\", guest = \"/d\", access = \"{access}\" }}]\n"
        );
        place.write("tollgate.toml", by_hand);
        let reason = refusal(&place);
        assert!(reason.contains(words), "{directory}: {reason}");
    }
    let store =
        "[store]\nurl = \"postgresql://nobody@localhost/none\"\npassword_file = \"password/of-store\"\n";
    place.write("tollgate.toml", store);
    place
        .type_in(&["grant", "echo", "--read", "password=/d"])
        .ends_with(2)
        .says("a secret, which no tool may see");
    place.write("tollgate.toml", base);
    let mut grant = place.tollgate(&["grant", "echo", "--read", "password=/d"]);
    Said::of(&grant.env("PGPASSFILE", "password/of-store").assert())
        .ends_with(2)
        .says("the passwords of databases, which no tool may see");
    place.type_in(&["grant", "echo", "--read", "scripts=/s", "--write", "docs=/d"]).ends_with(0);
    assert_eq!(refusal(&place), "");
}

#[test]
fn z19_a_variable_that_an_option_names_is_not_given_to_a_tool() {
    let place = place().with_config("[grants.echo]\nenvironment = [\"DOOR\"]\n");
    let mut server = place
        .program(&["mcp", "--http", "127.0.0.1:0", "--token-env", "DOOR"])
        .env("DOOR", "0123456789abcdef")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut said = String::new();
    for line in lines {
        said.push_str(&line);
        if line.contains("127.0.0.1") || line.contains("DOOR") {
            break;
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(said.contains("the variable DOOR, which holds the token of --token-env"), "{said}");
    for name in ["OPENAI_API_KEY", "OTEL_EXPORTER_OTLP_HEADERS"] {
        place.type_in(&["grant", "echo", "--env", name]).ends_with(2).says("which no tool may see");
    }
}

#[test]
fn z19_sources_that_a_tool_can_change_are_not_compiled() {
    let place = place();
    place.type_in(&["new", "hello", "--lang", "wat"]).ends_with(0);
    fs::create_dir_all(place.path().join("hello/notes")).unwrap();
    let granted = |host: &str, access: &str| {
        let files = format!("files = [{{ host = \"{host}\", guest = \"/d\", access = \"{access}\" }}]");
        place.write("tollgate.toml", format!("[grants.echo]\n{files}\n"));
    };
    for host in ["hello", "hello/notes"] {
        granted(host, "read-write");
        let said = place.type_in(&["build", "hello"]).ends_with(2);
        said.says("is not compiled: the component echo may change it").says("revoke echo --files /d");
    }
    granted("hello", "read");
    place.type_in(&["build", "hello"]).ends_with(0);
}

fn modes_below(directory: &Path) -> Vec<(String, u32)> {
    let mut modes = vec![(directory.display().to_string(), mode(directory))];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => modes.extend(modes_below(&path)),
            false => modes.push((path.display().to_string(), mode(&path))),
        }
    }
    modes
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Calls a tool in a process whose umask is 0.
fn call_without_a_mask(place: &Place) -> Said {
    let mut command = Command::new("sh");
    let script = "umask 000; exec \"$0\" call echo '{}' --thread t";
    command.args(["-c", script, env!("CARGO_BIN_EXE_tollgate")]).current_dir(place.path());
    command.env("TOLLGATE_DATA", place.path().join("data")).env("TOLLGATE_CACHE", place.path().join("cache"));
    Said::of(&assert_cmd::Command::from_std(command).assert())
}

#[test]
fn z17_nobody_else_may_read_what_is_kept() {
    let place = place();
    call_without_a_mask(&place).ends_with(0);
    let all = || [modes_below(&place.path().join("data")), modes_below(&place.path().join("cache"))].concat();
    let open = |modes: Vec<(String, u32)>| -> Vec<_> {
        modes.into_iter().filter(|(_, mode)| mode & 0o077 != 0).collect()
    };
    assert!(all().len() > 3);
    assert_eq!(open(all()), []);
    let data = place.path().join("data");
    for file in ["tollgate.db", "tollgate.lock"] {
        fs::set_permissions(data.join(file), Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    call_without_a_mask(&place).ends_with(0);
    assert_eq!(open(all()), [], "it is closed at the next start");
}

#[test]
fn z17_the_directory_in_which_somebody_works_is_not_closed() {
    let place = place();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let said = place.type_in(&["call", "echo", "{}", "--data", "."]).ends_with(1);
    said.says("is open to other users (mode 0755)").says(&format!("chmod 700 {}", place.path().display()));
    assert_eq!(mode(place.path()), 0o755);
    assert!(!place.path().join("tollgate.db").exists(), "nothing was made there");
}
