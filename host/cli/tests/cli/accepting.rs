//! Tests of what is accepted: edited lock files, names of files, sources without a registry, older
//! versions, and the records and codes of refusals.

use crate::place::Place;
use crate::registry::{Registry, copy, lock, make_key, publish, version};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use tollgate_artifacts::{good, rust_gate_bytes};
use tollgate_registry::{Digest, SigningKey};

fn digest_of(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

/// The records of refusals, newest first.
fn refusals(place: &Place) -> Vec<Value> {
    let read = place.type_in(&["audit", "--json"]).ends_with(0).json();
    let records = read.as_array().or(read["records"].as_array()).unwrap().clone();
    records.into_iter().filter(|record| record["decision"] == "refused").collect()
}

/// Replaces a line of the lock file.
fn edit(place: &Place, begins: &str, line: &str) {
    let text = lock(place);
    let before = text.lines().find(|line| line.starts_with(begins)).unwrap();
    place.write("tollgate.lock", text.replace(before, line));
}

#[test]
fn a_plain_component_is_installed_under_the_name_that_is_chosen() {
    let Some(registry) = Registry::start() else { return };
    let author = Place::new();
    let Some(()) = make_key(&author, "acme") else { return };
    author.type_in(&["new", "hello", "--lang", "wat"]).ends_with(0);
    author.type_in(&["build", "hello"]).ends_with(0);
    author.write("tools/hello.toml", "[asks]\n");
    let reference = format!("{}/acme/my.tool:1", registry.host);
    author.type_in(&["publish", &reference, "tools/hello.wasm", "--key", "acme.key"]).ends_with(0);
    for (options, id) in [(&["--as", "greet"][..], "greet"), (&[], "my-tool")] {
        let place = Place::new();
        copy(author.path(), place.path(), "acme.pub");
        let add = [&["add", &reference, "--key", "acme.pub", "--yes"], options].concat();
        place.type_in(&add).ends_with(0).answers(&format!("installed {id} as {id}.wasm"));
        place.type_in(&["call", "hello", r#"{"name": "Ada"}"#]).ends_with(0).answers("Hello, Ada!");
        place.type_in(&["verify"]).ends_with(0).answers(&format!("ok {id}"));
        place.type_in(&["update"]).ends_with(0).says(&format!("up to date {id}"));
    }
    author
        .type_in(&["inspect", &reference, "--key", "acme.pub"])
        .ends_with(0)
        .answers("signed    key sha256:");
    author.type_in(&["inspect", &reference]).ends_with(0).answers("unknown key");
    let seen = author.type_in(&["inspect", &reference, "--json"]).ends_with(0).json();
    assert_eq!(seen["faults"][0]["code"], "unknown_key", "{seen}");
    author
        .type_in(&["inspect", "tools/hello.wasm", "--key", "acme.pub"])
        .ends_with(2)
        .says("--key belongs to");
}

#[test]
fn an_edited_lock_file_does_not_say_that_a_person_accepted_something() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    publish(&place, &registry.echo("1"), 1, None, Some("acme")).ends_with(0);
    place.type_in(&["add", &registry.echo("1"), "--key", "acme.pub", "--yes"]).ends_with(0);
    // An attacker without the key puts another component in its place.
    publish(&place, &registry.echo("evil"), 2, None, None).ends_with(0);
    let published = ["publish", &registry.echo("evil"), "echo.wasm", "--unsigned", "--json"];
    let published = place.type_in(&published).ends_with(0).json()["digest"].as_str().unwrap().to_owned();
    let (text, evil) = (lock(&place), digest_of(&version(2)));
    let (unsigned, _) = text.split_once("\n[component.signed]").unwrap();
    place.write("tollgate.lock", unsigned);
    edit(&place, "manifest = ", &format!("manifest = \"{published}\""));
    edit(&place, "wasm = ", &format!("wasm = \"{evil}\""));
    for arguments in [&["sync"][..], &["sync", "--locked"], &["verify"]] {
        let is_sync = arguments[0] == "sync";
        let said = place.type_in(&[arguments, &["--json"]].concat()).ends_with(if is_sync { 2 } else { 1 });
        let code = if is_sync { "not_accepted" } else { "lock_mismatch" };
        assert_eq!(said.json()["components"][0]["code"], code, "{arguments:?}");
    }
    place.type_in(&["sync"]).ends_with(2).answers("tollgate add oci://").answers("tollgate.approved.toml");
    assert_eq!(fs::read(place.path().join("tools/echo.wasm")).unwrap(), version(1));
    let refused = refusals(&place);
    assert!(
        refused[0]["digest"] == evil["sha256:".len()..] && refused[0]["component_id"] == "echo",
        "{refused:?}"
    );
    // An update does not take over where the edited lock file left off.
    place.type_in(&["update", "--yes"]).ends_with(3).says("it has no signature that verifies");

    // A person accepts it, here and for everyone who gets the record of that.
    let accept = ["add", &registry.echo("evil"), "--digest", &published, "--allow-unsigned", "--yes"];
    place.type_in(&accept).ends_with(0);
    place.type_in(&["verify"]).ends_with(0).answers("not signed, accepted by a person");
    let other = Place::new();
    copy(place.path(), other.path(), "tollgate.lock");
    other.type_in(&["sync"]).ends_with(2).answers("no signature was found");
    copy(place.path(), other.path(), "tollgate.approved.toml");
    other.type_in(&["sync"]).ends_with(0).answers("restored echo");
    other.type_in(&["sync", "--locked"]).ends_with(0).answers("in place echo");
}

#[test]
fn what_the_lock_file_says_about_a_component_is_compared_with_it() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    publish(&place, &registry.echo("1"), 1, None, Some("acme")).ends_with(0);
    place.type_in(&["add", &registry.echo("1"), "--key", "acme.pub", "--yes"]).ends_with(0);
    let text = lock(&place);
    let surface = format!("surface = \"{}\"", digest_of(b"something harmless"));
    edit(&place, "surface = ", &surface);
    place.type_in(&["verify"]).ends_with(1).answers("`surface` of echo in tollgate.lock is not that of");
    place.type_in(&["sync", "--locked"]).ends_with(1).answers("`surface` of echo");
    place.write("tollgate.lock", text.replace("surface = ", "licence = \"MIT\"\nsurface = "));
    place.type_in(&["verify"]).ends_with(1).answers("`licence` of echo in tollgate.lock is not that of");
    place.write("tollgate.lock", text);
    place.type_in(&["verify"]).ends_with(0);
}

#[test]
fn a_refusal_is_recorded_with_its_digest_and_has_a_code() {
    let place = Place::new();
    // A component that does not load, one that no one decides about, and a gate.
    let empty = b"\0asm\x0d\0\x01\0";
    let gate = rust_gate_bytes("budget");
    for (bytes, exit, code) in [
        (&empty[..], 2, Some("component_refused")),
        (&version(1), 3, None),
        (&gate, 2, Some("component_refused")),
    ] {
        place.write("from/echo.wasm", bytes);
        let said = place.type_in(&["add", "from/echo.wasm", "--yes", "--json"]).ends_with(exit);
        code.iter().for_each(|code| assert_eq!(said.json()["error"]["code"], *code));
        let refused = refusals(&place);
        assert_eq!(refused[0]["digest"], digest_of(bytes)["sha256:".len()..], "{refused:?}");
        assert!(refused[0]["detail"].as_str().unwrap().starts_with("from/echo.wasm: "), "{refused:?}");
    }
    place.write("words.wasm", "no component");
    let publish = ["publish", "127.0.0.1:1/acme/echo:1", "words.wasm", "--unsigned", "--json"];
    assert_eq!(place.type_in(&publish).ends_with(2).json()["error"]["code"], "not_wasm");
    // The id of an installed component from another origin.
    place.write("echo.wasm", version(1));
    place.write("other.wasm", version(2));
    let add = |file: &str, bytes: &[u8]| {
        let digest = digest_of(bytes);
        place.type_in(&["add", file, "--digest", &digest, "--allow-unsigned", "--yes", "--json"])
    };
    add("echo.wasm", &version(1)).ends_with(0);
    let said = add("other.wasm", &version(2)).ends_with(2).json();
    assert_eq!(said["error"]["code"], "name_taken", "{said}");
    place.type_in(&["update"]).ends_with(0).says("came from a local file; to take a newer one:");
}

/// A web server that serves these bytes, which the test may change.
fn web_server(bytes: &[u8]) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}/tools/echo.wasm", listener.local_addr().unwrap().port());
    let bytes = Arc::new(Mutex::new(bytes.to_vec()));
    let served = Arc::clone(&bytes);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 8_192]);
            let body = served.lock().unwrap().clone();
            let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
            let head =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    (url, bytes)
}

/// Signs a component with a key of a place, as the publisher of a web server does.
fn sign(place: &Place, bytes: &[u8], file: &str) {
    let key = fs::read_to_string(place.path().join("acme.key")).unwrap();
    let bundle = SigningKey::from_pem(&key).unwrap().sign("echo", &Digest::of(bytes)).unwrap();
    place.write(file, bundle);
}

#[test]
fn a_web_server_is_a_source_whose_signatures_the_user_brings() {
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let (url, served) = web_server(&version(1));
    sign(&place, &version(1), "one.json");
    let add = ["add", &url, "--key", "acme.pub", "--yes"];
    place.type_in(&add).ends_with(2).says("no signature was found, and one by key sha256:");
    place
        .type_in(&["add", &url, "--github", "acme/tools", "--yes"])
        .ends_with(2)
        .says("repository acme/tools");
    place
        .type_in(&["add", &url, "--github", "acme"])
        .ends_with(2)
        .says("acme has to be OWNER/REPOSITORY, such as acme/tools");
    place.type_in(&[&add[..], &["--bundle", "one.json"]].concat()).ends_with(0).answers("installed echo");
    // The same again changes nothing, whether its signature comes with it or is the kept one.
    let before = (lock(&place), refusals(&place).len());
    place.type_in(&["add", &url]).ends_with(0).answers("installed already echo as echo.wasm");
    let again = ["add", &url, "--key", "acme.pub", "--bundle", "one.json"];
    place.type_in(&again).ends_with(0).answers("installed already echo as echo.wasm");
    place.type_in(&add).ends_with(0).answers("installed already echo as echo.wasm");
    place.type_in(&["inspect", &url]).ends_with(0).answers("signed    key sha256:");
    assert_eq!(place.type_in(&["add", &url, "--json"]).ends_with(0).json()["changed"], false);
    assert_eq!((lock(&place), refusals(&place).len()), before);
    make_key(&place, "other").unwrap();
    let other = ["add", &url, "--key", "other.pub", "--yes"];
    place
        .type_in(&other)
        .ends_with(2)
        .says("it is signed by key sha256:")
        .says("the required signer is key sha256:");
    fs::remove_file(place.path().join("tools/echo.wasm")).unwrap();
    place.type_in(&["sync"]).ends_with(0).answers("restored echo");
    place.type_in(&["update", "--check"]).ends_with(0).says("up to date echo");

    // A new version without its signature is held, and with it is not.
    *served.lock().unwrap() = version(2);
    place
        .type_in(&["update", "--yes"])
        .ends_with(3)
        .says("it is not signed, and the version before was signed by");
    sign(&place, &version(2), "two.json");
    place.type_in(&["update", "--yes", "--bundle", "two.json"]).ends_with(2).says("--bundle belongs to one");
    place.type_in(&["update", "echo", "--yes", "--bundle", "two.json"]).ends_with(0).says("updated echo");
    place.type_in(&["verify"]).ends_with(0).answers("signed by key sha256:");
    // A lost file cannot be restored if the server has another version now.
    *served.lock().unwrap() = version(3);
    fs::remove_file(place.path().join("tools/echo.wasm")).unwrap();
    place.type_in(&["sync"]).ends_with(1).answers("look at the new version: ").answers(" update echo");
    // The server lost it.
    served.lock().unwrap().clear();
    let seen = place.type_in(&["update", "--json"]).ends_with(1).json();
    assert_eq!(seen["components"][0]["code"], "not_found", "{seen}");
    assert!(seen["components"][0]["message"].as_str().unwrap().ends_with("check its address"), "{seen}");
}

#[test]
fn what_a_signature_does_not_cover_is_marked() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let asks = "[asks]\nhttp = [\"https://api.example.com/\"]\n";
    publish(&place, &registry.echo("1"), 1, Some(asks), None).ends_with(0);
    sign(&place, &version(1), "one.json");
    let add = ["add", &registry.echo("1"), "--key", "acme.pub", "--bundle", "one.json"];
    let said = place.type_in(&add).ends_with(3);
    assert!(
        said.stderr.contains("https://api.example.com/") && said.stderr.contains(" (not signed)"),
        "{said:?}"
    );
    said.says("imports   ");
    // A signature of the manifest covers what it asks for.
    publish(&place, &registry.echo("2"), 1, Some(asks), Some("acme")).ends_with(0);
    let said = place.type_in(&["add", &registry.echo("2"), "--key", "acme.pub"]).ends_with(3);
    assert!(!said.stderr.contains("(not signed)"), "{said:?}");
    publish(&place, &registry.echo("3"), 1, Some("[asks]\n"), None).ends_with(0);
    let add = ["add", &registry.echo("3"), "--key", "acme.pub", "--bundle", "one.json", "--yes", "--json"];
    let seen = place.type_in(&add).ends_with(0).json();
    assert_eq!(seen["signature_covers"], "component", "{seen}");
    assert!(seen["imports"].is_array(), "{seen}");
}

#[test]
fn an_older_version_is_taken_only_by_its_name() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    // The same component with a lower version of the same length.
    let new = good::ECHO.bytes();
    let described = place.write("new.wasm", &new);
    let seen = place.type_in(&["inspect", described.to_str().unwrap(), "--json"]).ends_with(0).json();
    let number = seen["version"].as_str().unwrap().to_owned();
    let lower = "0".repeat(number.len() - number.trim_start_matches(char::is_numeric).len());
    let lower = format!("{lower}{}", number.trim_start_matches(char::is_numeric));
    assert!(lower < number, "{number}");
    let at = new.windows(number.len()).position(|part| part == number.as_bytes()).unwrap();
    let old = [&new[..at], lower.as_bytes(), &new[at + number.len()..]].concat();
    let publish = |tag: &str, bytes: &[u8]| {
        place.write("echo.wasm", bytes);
        place.write("echo.toml", "[asks]\n");
        let publish = ["publish", &registry.echo(tag), "echo.wasm", "--key", "acme.key", "--replace"];
        place.type_in(&publish).ends_with(0);
    };
    publish("old", &old);
    publish("1", &new);
    place.type_in(&["add", &registry.echo("1"), "--key", "acme.pub", "--yes"]).ends_with(0);
    publish("1", &old);
    place.type_in(&["update", "--yes"]).ends_with(3).says("is lower than the installed one");
    place.type_in(&["update", "echo", "--to", "old", "--yes"]).ends_with(0).says("updated echo");
    place.type_in(&["verify"]).ends_with(0);
}
