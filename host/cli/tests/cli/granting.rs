//! Tests of `grant`, `revoke`, `grants`, and of manifests with requests.

use crate::place::Place;
use std::fs;
use tollgate_artifacts::{Expectation, Guest, good};

fn place() -> Place {
    Place::new().with_tools(&[good::ECHO])
}

fn config(place: &Place) -> String {
    fs::read_to_string(place.path().join("tollgate.toml")).unwrap_or_default()
}

#[test]
fn what_is_granted_is_written_shown_and_revoked() {
    let place = place().with_config("# ours\n[limits] # kept\nfuel = 1_000_000\n");
    let typed = ["grant", "echo", "--http", "https://a.test/", "--setting", "units=metric", "--env", "LANG"];
    place.type_in(&typed).ends_with(0).answers(
        "echo has: http https://a.test/ (reading requests to a.test); units = metric; variable LANG",
    );
    let text = config(&place);
    assert!(text.starts_with("# ours\n[limits] # kept\nfuel = 1_000_000\n"), "{text}");
    assert!(text.contains("[grants.echo]\nhttp = [\"https://a.test/\"]\n"), "{text}");
    let shown = place.type_in(&["grants", "--json"]).ends_with(0).json();
    assert_eq!(shown["echo"]["grants"]["settings"]["units"], "metric");
    place.type_in(&["tools"]).ends_with(0).answers("http https://a.test/");
    place
        .type_in(&["revoke", "echo", "--http", "https://a.test/"])
        .ends_with(0)
        .answers("echo has: units = metric");
    place.type_in(&["revoke", "echo", "--all"]).ends_with(0).answers("echo has: nothing");
    assert!(!config(&place).contains("grants.echo"));
}

#[test]
fn k14_a_grant_that_a_component_can_never_use_is_a_warning() {
    let place = place();
    let words = "echo has grants without effect (http, settings): it imports nothing that uses them";
    let typed = ["grant", "echo", "--http", "https://a.test/", "--setting", "units=metric"];
    place.type_in(&typed).ends_with(0).says(words);
    place.type_in(&["tools"]).ends_with(0).says(words);
    place.type_in(&["revoke", "echo", "--all"]).ends_with(0);
    let tools = place.type_in(&["tools"]).ends_with(0);
    assert!(!tools.stderr.contains("without effect"), "{}", tools.stderr);
}

#[test]
fn a_grant_that_no_manifest_asks_for_is_a_warning() {
    let place = place();
    place.write("tools/echo.toml", "[asks]\nsettings = [\"units\"]\n");
    let typed =
        ["grant", "echo", "--http", "https://a.test/", "--setting", "units=metric", "--setting", "x=y"];
    let words = "echo has grants without effect (https://a.test/, x): its manifest does not ask for them";
    place.type_in(&typed).ends_with(0).says(words);
    place.type_in(&["tools"]).ends_with(0).says(words);
    place.type_in(&["revoke", "echo", "--http", "https://a.test/", "--setting", "x"]).ends_with(0);
    let tools = place.type_in(&["tools"]).ends_with(0);
    assert!(!tools.stderr.contains("its manifest"), "{}", tools.stderr);
}

#[test]
fn a_grant_that_cannot_be_meant_changes_nothing() {
    let place = place();
    for (typed, words) in [
        (vec!["grant", "echo", "--http", "a.test"], "write \"https://a.test\""),
        (vec!["grant", "echo", "--address", "10.0.0.1/8"], "write \"10.0.0.0/8\""),
        (vec!["grant", "echo", "--secret", "key"], "[secrets.key]"),
        (vec!["grant", "echo", "--action", "reboot"], "known: \"add-context\""),
        (vec!["grant", "echo"], "no grant is named"),
        (vec!["grant", "Echo!", "--env", "LANG"], "not a component id"),
        (vec!["grant", "echo", "--read", "docs"], "docs=/docs"),
        (vec!["revoke", "echo", "--env", "LANG"], "was not granted to echo"),
        (vec!["revoke", "echo"], "--all"),
        (vec!["revoke", "echo", "--all"], "error: nothing was granted to echo; nothing was changed"),
    ] {
        place.type_in(&typed).ends_with(2).says(words);
    }
    assert_eq!(config(&place), "");
}

#[test]
fn a_directory_is_granted_by_where_it_is() {
    let place = place();
    fs::create_dir(place.path().join("docs")).unwrap();
    place.type_in(&["grant", "echo", "--read", "docs=/docs"]).ends_with(0).answers("/docs is docs (read)");
    place
        .type_in(&["grant", "echo", "--write", "docs=/docs"])
        .ends_with(0)
        .answers("/docs is docs (read-write)");
    assert_eq!(config(&place).matches("/docs").count(), 1);
    place.type_in(&["tools"]).ends_with(0);
    place.type_in(&["revoke", "echo", "--files", "/docs"]).ends_with(0).answers("echo has: nothing");
}

/// The configuration and the audit call this power `files`.
#[test]
fn a_directory_is_granted_and_revoked_by_all_of_its_options() {
    let place = place();
    fs::create_dir(place.path().join("docs")).unwrap();
    for (grant, revoke) in [("--files", "--read"), ("--write", "--write"), ("--read", "--files")] {
        place.type_in(&["grant", "echo", grant, "docs=/docs"]).ends_with(0).answers("/docs is docs (read");
        place.type_in(&["revoke", "echo", revoke, "/docs"]).ends_with(0).answers("echo has: nothing");
    }
}

#[test]
fn what_a_manifest_asks_for_is_shown_with_the_line_that_grants_it() {
    let place = place();
    place.write(
        "tools/echo.toml",
        "[asks]\nwhy = \"To \\u001b[2Jecho\"\nhttp = [\"https://a.test/\"]\nsettings = [\"units\"]\n",
    );
    let said = place.type_in(&["inspect", "tools/echo.wasm"]).ends_with(0);
    let said =
        said.answers("send HTTP requests: https://a.test/").answers("in its own words: \"To [2Jecho\"");
    said.says("grant echo --http 'https://a.test/'").says("grant echo --setting units=VALUE");
    place.type_in(&["grants"]).ends_with(0).says("grant echo --http 'https://a.test/'");
    place
        .type_in(&["grant", "echo", "--asked"])
        .ends_with(0)
        .answers("http https://a.test/")
        .says("units=VALUE");
    let shown = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(shown["tools"][0]["to_grant"].as_array().unwrap().len(), 1);
    let record = fs::read_to_string(place.path().join("tollgate.approved.toml")).unwrap();
    assert!(record.contains("[echo]") && record.contains("decision = \"approved\""), "{record}");
}

#[test]
fn a_version_that_asks_for_more_waits_for_approval() {
    let place = place();
    place.write("tools/echo.toml", "[asks]\nhttp = [\"https://a.test/\"]\n");
    place.type_in(&["grant", "echo", "--asked"]).ends_with(0);
    place.write("tools/echo.toml", "[asks]\nhttp = [\"https://a.test/\", \"POST https://b.test/\"]\n");
    let said = place.type_in(&["tools"]).ends_with(0);
    said.answers("it asks for more than was approved: send HTTP requests: POST https://b.test/")
        .answers("tollgate grant echo --asked");
    place.type_in(&["call", "echo", "{}"]).ends_with(1);
    place.type_in(&["grant", "echo", "--asked"]).ends_with(0);
    place.type_in(&["call", "echo", "{}"]).ends_with(0);
    fs::remove_file(place.path().join("tools/echo.toml")).unwrap();
    let shown = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(shown["tools"][0]["asks"]["http"].as_array().unwrap().len(), 2, "still what was approved");
}

/// A grant applies to the version that the person has seen.
#[test]
fn what_was_there_when_something_was_granted_measures_later_versions() {
    let place = place();
    place.write("tools/echo.toml", "[asks]\nhttp = [\"https://a.test/\"]\n");
    place.type_in(&["grant", "echo", "--http", "* https://*"]).ends_with(0);
    place.write("tools/echo.toml", "[asks]\nhttp = [\"* https://*\"]\n");
    place.type_in(&["tools"]).ends_with(0).answers("it asks for more than was approved: send HTTP requests");
    place.type_in(&["grant", "echo", "--env", "LANG"]).ends_with(0);
    place.type_in(&["call", "echo", "{}"]).ends_with(1);
    fs::remove_file(place.path().join("tools/echo.toml")).unwrap();
    let shown = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(shown["tools"][0]["asks"]["http"], serde_json::json!(["https://a.test/"]));
    // A grant that cannot be given does not get around it, either.
    place.write("tools/adder.wasm", good::ADDER.bytes());
    place.write("tools/adder.toml", "[asks]\nfiles = [{ guest = \"/x\" }]\n");
    fs::create_dir(place.path().join("docs")).unwrap();
    place.type_in(&["grant", "adder", "--read", "docs=/x"]).ends_with(0);
    fs::remove_dir(place.path().join("docs")).unwrap();
    place.type_in(&["tools"]).ends_with(0).answers("cannot be granted");
    fs::create_dir(place.path().join("notes")).unwrap();
    place.type_in(&["grant", "adder", "--write", "notes=/x"]).ends_with(0);
    place.write("tools/adder.toml", "[asks]\nfiles = [{ guest = \"/x\", access = \"read-write\" }]\n");
    place.type_in(&["tools"]).ends_with(0).answers("approved: read, change and delete");
}

#[test]
fn a_component_without_a_manifest_is_approved_by_what_it_says_of_itself() {
    let version = |descriptor: &str| {
        let source = format!(";; A version.\n;;\n;; descriptor: {descriptor}\n;; expects: succeeds\n");
        let source = Box::leak(source.into_boxed_str());
        Guest { name: "version", attack: "", limit: "", expects: Expectation::Succeeds, source }.bytes()
    };
    let place = Place::new();
    place.write("tools/version.wasm", version("{\"tools\": [{\"description\": \"Counts.\"}]}"));
    place.type_in(&["grant", "version", "--asked"]).ends_with(0);
    place.type_in(&["grant", "nobody", "--asked"]).ends_with(2).says("no loadable component nobody");
    let curious = "{\"state\": [{\"key\": \"mail.box\", \"read\": true, \"write\": false}], \
                   \"tools\": [{\"description\": \"Counts, and tells.\"}]}";
    place.write("tools/version.wasm", version(curious));
    place.type_in(&["call", "version", "{}"]).ends_with(1);
    place.type_in(&["tools"]).ends_with(0).answers("to read the state key `mail.box`");
    let waits = place.type_in(&["grants", "--json"]).ends_with(0).json();
    assert_eq!(waits["version"]["waits_for_approval"], true);
    place.type_in(&["grant", "version", "--asked"]).ends_with(0);
    place.type_in(&["call", "version", "{}"]).ends_with(0);
    let other = "{\"tools\": [{\"description\": \"Counts, and tells others.\"}]}";
    place.write("tools/version.wasm", version(other));
    let words = "descriptions that differ from the approved ones, of version";
    place.type_in(&["call", "version", "{}"]).ends_with(0).says(words);
    let loads = place.type_in(&["audit", "--kind", "load", "--json"]).ends_with(0).json();
    assert_eq!(loads[0]["detail"], words);
    place.type_in(&["grant", "version", "--asked"]).ends_with(0);
    assert!(!place.type_in(&["call", "version", "{}"]).ends_with(0).stderr.contains(words));
}

#[test]
fn a_manifest_that_cannot_be_meant_keeps_its_component_out() {
    let place = place();
    place.write("tools/echo.toml", "[asks]\nhttp = [\"everything\"]\n");
    place.type_in(&["tools"]).ends_with(0).answers("its manifest tools/echo.toml is refused");
    place.type_in(&["inspect", "tools/echo.wasm"]).ends_with(1).answers("has no scheme");
}

#[test]
fn no_grant_holds_what_is_the_hosts_own() {
    let place = place()
        .with_config("[secrets.key]\nfile = \"private/key\"\nto = \"https://a.test\"\nheader = \"x-key\"\n");
    place.write("private/key", "0123456789");
    place.write("data/x", "");
    for (dir, words) in
        [("private", "holds a secret"), (".", "which no tool may see"), ("data", "holds the data directory")]
    {
        place.type_in(&["grant", "echo", "--read", &format!("{dir}=/x")]).ends_with(2).says(words);
    }
}

#[test]
fn an_agent_is_asked_for_granted_shown_and_revoked() {
    let place = place().with_config("[agents.default]\n[agents.reviewer]\n");
    place
        .type_in(&["grant", "echo", "--delegate", "reviewer"])
        .ends_with(0)
        .answers("echo has: runs the agent reviewer");
    assert!(config(&place).contains("delegates = [{ agent = \"reviewer\" }]"), "{}", config(&place));
    let shown = place.type_in(&["grants", "--json"]).ends_with(0).json();
    assert!(shown["echo"]["grants"]["delegates"]["reviewer"].is_object(), "{shown}");
    place.type_in(&["grants"]).ends_with(0).answers("runs the agent reviewer");
    place.type_in(&["grant", "echo", "--delegate", "nobody"]).ends_with(2).says("there is no agent `nobody`");
    place.type_in(&["revoke", "echo", "--delegate", "reviewer"]).ends_with(0).answers("echo has: nothing");
    place
        .type_in(&["revoke", "echo", "--delegate", "reviewer"])
        .ends_with(2)
        .says("reviewer was not granted to echo");
    place.write("tools/echo.toml", "[asks]\ndelegates = [\"reviewer\", \"nobody\"]\n");
    place.type_in(&["grants"]).ends_with(0).says("grant echo --delegate reviewer");
    place
        .type_in(&["grant", "echo", "--asked"])
        .ends_with(0)
        .answers("echo has: runs the agent reviewer")
        .says("run the agent nobody");
}

#[test]
fn a_quota_is_granted_and_stays_until_another_is() {
    let place = place();
    fs::create_dir(place.path().join("notes")).unwrap();
    let typed = ["grant", "echo", "--write", "notes=/notes", "--quota", "5000"];
    place.type_in(&typed).ends_with(0).answers("/notes is notes (read-write, 5000 bytes)");
    place.type_in(&["grant", "echo", "--read", "notes=/notes"]).ends_with(0).answers("(read)");
    place
        .type_in(&["grant", "echo", "--write", "notes=/notes"])
        .ends_with(0)
        .answers("/notes is notes (read-write, 5000 bytes)");
    assert_eq!(config(&place).matches("quota_bytes = 5000").count(), 1, "{}", config(&place));
    place.type_in(&["grant", "echo", "--read", "notes=/notes", "--quota", "5"]).ends_with(2).says("--write");
}

#[test]
fn a_variable_that_holds_a_secret_is_granted_to_nobody() {
    let text = "[secrets.key]\nenv = \"HELD\"\nto = \"https://a.test\"\nheader = \"x-key\"\n";
    let place = place().with_config(text);
    place
        .type_in(&["grant", "echo", "--env", "HELD"])
        .ends_with(2)
        .says("the variable HELD holds the secret of [secrets.key], which no tool may see");
    place.write("tools/echo.toml", "[asks]\nenvironment = [\"HELD\"]\n");
    place
        .type_in(&["tools"])
        .ends_with(0)
        .answers("it asks for the variable HELD, which holds the secret of [secrets.key]");
    place.type_in(&["grant", "echo", "--asked"]).ends_with(2);
    assert_eq!(config(&place), text);
}

#[test]
fn r1_a_person_says_which_of_two_files_has_an_id() {
    let place = place();
    for file in ["a", "b"] {
        let source = Box::leak(format!(";; Version {file}.\n;;\n;; expects: succeeds\n").into_boxed_str());
        let guest = Guest { name: "version", attack: "", limit: "", expects: Expectation::Succeeds, source };
        place.write(&format!("tools/{file}.wasm"), guest.bytes());
    }
    place
        .type_in(&["tools"])
        .ends_with(0)
        .answers("none of them is approved, so none is served")
        .answers("tollgate grant version --asked --file tools/a.wasm")
        .answers("tollgate grant version --asked --file tools/b.wasm");
    for typed in [&["--asked"][..], &["--env", "LANG"][..]] {
        let typed = [&["grant", "version"][..], typed].concat();
        place.type_in(&typed).ends_with(2).says("several files claim the id version");
    }
    let approve = |file: &str| place.type_in(&["grant", "version", "--asked", "--file", file]);
    approve("tools/echo.wasm").ends_with(2).says("tools/echo.wasm is not a file of the tools directory");
    for file in ["tools/b.wasm", "tools/a.wasm"] {
        approve(file).ends_with(0);
        let shown = place.type_in(&["tools", "--json"]).ends_with(0).json();
        assert_eq!(
            (&shown["tools"][1]["name"], &shown["tools"][1]["file"]),
            (&"version".into(), &file.into())
        );
        place.type_in(&["call", "version"]).ends_with(0);
    }
}
