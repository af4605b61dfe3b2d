//! Tests of `publish`, `add`, `update`, `remove`, `sync` and `verify` with a real registry.

use crate::place::Place;
use crate::registry::{Registry, copy, lock, make_key, missing, on_a_terminal, publish, version};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use tollgate_artifacts::good;

const ASKS: &str = "[asks]\nhttp = [\"https://api.example.com/\"]\n";

#[test]
fn a_component_is_published_added_checked_restored_and_removed() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let reference = registry.echo("1");
    publish(&place, &reference, 1, None, Some("acme")).ends_with(0).answers("published oci://");
    let seen = place.type_in(&["inspect", &reference, "--json"]).ends_with(0).json();
    assert_eq!(seen["id"], "echo");
    assert!(!place.path().join("tools").exists(), "nothing is stored");

    // There is no signature, and no person to decide.
    place.type_in(&["add", &reference, "--yes"]).ends_with(3).says("a person has to decide");
    assert!(lock(&place).is_empty());
    place.type_in(&["add", &reference, "--key", "acme.pub", "--yes"]).ends_with(0).answers("installed echo");
    place.type_in(&["add", &reference, "--key", "acme.pub"]).ends_with(0).answers("installed already echo");
    let text = lock(&place);
    assert!(
        text.contains(&format!("from = \"oci://{}/acme/echo\"", registry.host))
            && text.contains("by = \"key\""),
        "{text}"
    );
    place.type_in(&["call", "echo", r#"{"text": "hello"}"#]).ends_with(0);
    place.type_in(&["verify"]).ends_with(0).answers("ok echo").answers("signed by key sha256:");
    let tools = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(tools["tools"][0]["recorded"]["signed"]["by"], "key");
    let read = place.type_in(&["audit", "--json"]).ends_with(0).stdout;
    assert!(read.contains("installed from oci://"), "{read}");

    // A changed file is not served, and is restored as it was.
    place.write("tools/echo.wasm", version(9));
    place
        .type_in(&["tools"])
        .ends_with(0)
        .answers("refused tools/echo.wasm: it is not the version that tollgate.lock records");
    place.type_in(&["verify"]).ends_with(1).answers("failed echo");
    place.type_in(&["sync", "--locked"]).ends_with(1);
    place.type_in(&["sync"]).ends_with(0).answers("restored echo");
    assert_eq!(fs::read(place.path().join("tools/echo.wasm")).unwrap(), version(1));
    // The same holds for an added manifest.
    place.write("tools/echo.toml", ASKS);
    place.type_in(&["tools"]).ends_with(0).answers("the manifest of echo.wasm is not the one");
    place.type_in(&["sync"]).ends_with(0);
    place.type_in(&["sync", "--locked"]).ends_with(0).answers("in place echo");

    drop(registry);
    place.type_in(&["verify", "echo"]).ends_with(0);
    place.type_in(&["remove", "echo"]).ends_with(0).answers("removed echo");
    assert!(!place.path().join("tools/echo.wasm").exists() && !lock(&place).contains("echo"));
    assert_eq!(fs::read_dir(place.path().join("tollgate.bundles")).unwrap().count(), 0);
    place.type_in(&["remove", "echo"]).ends_with(2).says("records no component echo");
}

#[test]
fn another_machine_gets_the_same_tools_from_the_lock_file() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let reference = registry.echo("1");
    publish(&place, &reference, 1, Some(ASKS), Some("acme")).ends_with(0);
    let digest = place
        .type_in(&["publish", &reference, "echo.wasm", "--key", "acme.key", "--json"])
        .ends_with(0)
        .json();
    assert_eq!(
        digest["uploaded_blobs"], 0,
        "what is there is not sent again, and the signature is made anew"
    );
    let digest = digest["digest"].as_str().unwrap().to_owned();
    // It requests something, so it cannot be confirmed in advance.
    place.type_in(&["add", &reference, "--key", "acme.pub", "--yes", "--digest", &digest]).ends_with(3);
    // A component that asks for nothing is confirmed by the digest of its bytes.
    publish(&place, &registry.echo("2"), 2, None, Some("acme")).ends_with(0);
    place.type_in(&["add", &registry.echo("2"), "--key", "acme.pub", "--yes"]).ends_with(0);

    let other = Place::new();
    for name in ["tollgate.lock", "tollgate.bundles", "tollgate.approved.toml"] {
        copy(place.path(), other.path(), name);
    }
    other.type_in(&["sync", "--locked"]).ends_with(1).answers("echo.wasm is missing");
    other.type_in(&["sync"]).ends_with(0).answers("restored echo");
    other.type_in(&["verify"]).ends_with(0);
    other.type_in(&["call", "echo", r#"{"text": "hello"}"#]).ends_with(0);
    // An edited lock file does not match the signature.
    let text = lock(&other);
    let wasm = text.lines().find(|line| line.starts_with("wasm = ")).unwrap();
    let edited = text.replace(wasm, &format!("wasm = \"sha256:{}\"", "0".repeat(64)));
    other.write("tollgate.lock", edited);
    other
        .type_in(&["sync"])
        .ends_with(1)
        .answers("the signed manifest of echo differs from the record in tollgate.lock");
}

#[test]
fn the_policy_decides_who_may_sign() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new().with_config(&format!(
        "[trust]\n[[trust.signers]]\nfrom = [\"oci://{}/acme/*\"]\nkey = \"acme.pub\"\n",
        registry.host
    ));
    let Some(()) = make_key(&place, "acme") else { return };
    make_key(&place, "evil").unwrap();
    let add = |tag: &str| place.type_in(&["add", &registry.echo(tag), "--yes"]);
    publish(&place, &registry.echo("unsigned"), 1, None, None).ends_with(0);
    add("unsigned").ends_with(2).says("no signature was found");
    publish(&place, &registry.echo("evil"), 2, None, Some("evil")).ends_with(0);
    add("evil").ends_with(2).says("and a signature by key sha256:");
    publish(&place, &registry.echo("1"), 3, None, Some("acme")).ends_with(0);
    add("1").ends_with(0);
    // The recorded signer is never replaced silently, not even with an option.
    publish(&place, &registry.echo("1"), 4, None, None).ends_with(0);
    place.type_in(&["update", "--yes"]).ends_with(2).says("no signature was found");
    let read = place.type_in(&["audit", "--json"]).ends_with(0).stdout;
    assert!(read.contains("no signature was found"), "{read}");
    place.type_in(&["verify"]).ends_with(0);
}

#[test]
fn an_update_shows_what_changes_and_a_person_decides_about_more() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    make_key(&place, "other").unwrap();
    let reference = registry.echo("1");
    publish(&place, &reference, 1, Some("[asks]\n"), Some("acme")).ends_with(0);
    place.type_in(&["add", &reference, "--key", "acme.pub", "--yes"]).ends_with(0);
    place.type_in(&["update", "--check"]).ends_with(0).says("up to date echo");

    publish(&place, &reference, 2, Some("[asks]\n"), Some("acme")).ends_with(0);
    let before = lock(&place);
    let seen = place.type_in(&["update", "--check", "--json"]).ends_with(1).json();
    assert_eq!(seen["components"][0]["changed"], true);
    assert_eq!(lock(&place), before, "nothing was written");
    place.type_in(&["update", "--yes"]).ends_with(0).says("updated echo");
    assert_eq!(fs::read(place.path().join("tools/echo.wasm")).unwrap(), version(2));

    // A version that requests more.
    publish(&place, &reference, 3, Some(ASKS), Some("acme")).ends_with(0);
    place
        .type_in(&["update", "--yes"])
        .ends_with(3)
        .says("asks to   new: send HTTP requests: https://api.example.com/");
    // A version without the limits that its manifest set.
    publish(&place, &reference, 5, None, Some("acme")).ends_with(0);
    place.type_in(&["update", "--yes"]).ends_with(3).says("new: do whatever it is granted");
    // A version signed with another key, although it requests nothing.
    publish(&place, &reference, 4, Some("[asks]\n"), Some("other")).ends_with(0);
    place.type_in(&["update", "--yes"]).ends_with(3).says("the version before was signed by key sha256:");
    assert_eq!(fs::read(place.path().join("tools/echo.wasm")).unwrap(), version(2));
    place.type_in(&["verify"]).ends_with(0);
}

#[test]
fn an_id_and_a_tag_belong_to_one() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    publish(&place, &registry.echo("1"), 1, None, Some("acme")).ends_with(0);
    place.write("echo.wasm", version(2));
    let moved = ["publish", &registry.echo("1"), "echo.wasm", "--key", "acme.key"];
    place.type_in(&moved).ends_with(2).says("move this one: --replace");
    place.type_in(&["add", &registry.echo("1"), "--key", "acme.pub", "--yes"]).ends_with(0);
    let elsewhere = format!("{}/evil/echo:1", registry.host);
    publish(&place, &elsewhere, 3, None, Some("acme")).ends_with(0);
    place
        .type_in(&["add", &elsewhere, "--key", "acme.pub", "--yes"])
        .ends_with(2)
        .says("is installed from oci://");
    place.type_in(&["add", &registry.echo("none"), "--yes"]).ends_with(1).says("was not found");
    // Without a file, the one of this name in the tools directory is published.
    let published =
        place.type_in(&["publish", &registry.echo("2"), "--unsigned", "--json"]).ends_with(0).json();
    let digest = published["digest"].as_str().unwrap();
    let named =
        |digest: &str| place.type_in(&["publish", &format!("{}@{digest}", registry.echo("2")), "--unsigned"]);
    named(digest).ends_with(0);
    named(&format!("sha256:{}", "0".repeat(64))).ends_with(2).says("and the destination names sha256:0000");
    let missing = format!("{}/acme/mail:1", registry.host);
    place.type_in(&["publish", &missing, "--unsigned"]).ends_with(2).says("tools/mail.wasm does not exist");
}

#[test]
fn a_person_accepts_what_a_component_asks_for_and_another_signer() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    make_key(&place, "other").unwrap();
    let reference = registry.echo("1");
    publish(&place, &reference, 1, Some(ASKS), Some("acme")).ends_with(0);
    let add = ["add", &reference, "--key", "acme.pub"];
    let Some(shown) = on_a_terminal(&place, &add, "\n") else { return };
    assert!(shown.contains("nothing was installed") && lock(&place).is_empty(), "{shown}");
    let shown = on_a_terminal(&place, &add, "y\n").unwrap();
    assert!(shown.contains("send HTTP requests: https://api.example.com/"), "{shown}");
    let first = lock(&place);
    assert!(first.contains("id = \"echo\""), "{shown}");

    publish(&place, &reference, 2, Some(ASKS), Some("other")).ends_with(0);
    let add = ["add", &reference, "--key", "other.pub"];
    let shown = on_a_terminal(&place, &add, "y\n").unwrap();
    assert!(shown.contains("Type the id echo to accept the new signer"), "{shown}");
    assert_eq!(lock(&place), first, "yes is not enough");
    let shown = on_a_terminal(&place, &add, "echo\n").unwrap();
    assert_ne!(lock(&place), first, "{shown}");
    place.type_in(&["verify"]).ends_with(0).answers("ok echo");
}

#[test]
fn a_signature_of_another_artifact_is_not_published() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let workflow = include_bytes!("../../../registry/tests/fixtures/github-workflow.sigstore.json");
    place.write("other.sigstore.json", workflow);
    place.write("echo.wasm", version(1));
    let publish = ["publish", &registry.echo("1"), "echo.wasm", "--bundle", "other.sigstore.json"];
    place.type_in(&publish).ends_with(2).says("the signature is about another artifact");
    place.type_in(&["add", &registry.echo("1"), "--yes"]).ends_with(1).says("was not found");
}

#[test]
fn other_clients_see_the_same_digest() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let reference = registry.echo("1");
    place.write("echo.wasm", version(1));
    let published = place
        .type_in(&["publish", &reference, "echo.wasm", "--key", "acme.key", "--json"])
        .ends_with(0)
        .json();
    let copied = format!("docker://{}/copied/echo:1", registry.host);
    let skopeo = |arguments: &[&str]| {
        let output = Command::new("skopeo").args(arguments).output();
        output
            .inspect(|output| assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)))
    };
    let source = format!("docker://{reference}");
    let copy = [
        "--insecure-policy",
        "copy",
        "--preserve-digests",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        &source,
        &copied,
    ];
    if skopeo(&copy).is_err() {
        return missing("skopeo");
    }
    let raw = skopeo(&["inspect", "--raw", "--tls-verify=false", &copied]).unwrap().stdout;
    let digest: &Value = &published["digest"];
    assert_eq!(digest.as_str().unwrap(), tollgate_registry::Digest::of(&raw).to_string());
}

#[test]
fn local_files_and_the_lock_mode_for_all_files() {
    let place = Place::new().with_config("[tools]\nlocked = \"all\"\n").with_tools(&[good::ADDER]);
    place.type_in(&["tools"]).ends_with(0).answers("it is not in tollgate.lock");
    place.write("elsewhere/echo.wasm", version(1));
    let digest = tollgate_registry::Digest::of(&version(1)).to_string();
    let add = ["add", "elsewhere/echo.wasm", "--digest", &digest, "--yes"];
    place.type_in(&add).ends_with(3);
    place.type_in(&[&add[..], &["--allow-unsigned"]].concat()).ends_with(0);
    place.type_in(&["add", "elsewhere/echo.wasm"]).ends_with(0).answers("installed already echo");
    place.type_in(&["tools"]).ends_with(0).answers("echo.wasm");
    place.type_in(&["verify"]).ends_with(0).answers("not signed, accepted by a person");
    place.type_in(&["sync", "--locked"]).ends_with(1).says("adder.wasm is not in the lock file");
    let wrong = format!("sha256:{}", "0".repeat(64));
    let place = Place::new();
    place.write("echo.wasm", version(1));
    place
        .type_in(&["add", "echo.wasm", "--digest", &wrong, "--yes", "--allow-unsigned"])
        .ends_with(2)
        .says("another one was asked for");
}

#[test]
fn a_lock_file_that_cannot_be_read_serves_nothing() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.write("tollgate.lock", "version = 1\n<<<<<<< HEAD\n");
    place.type_in(&["tools"]).ends_with(2).says("tollgate.lock, line 2: a merge left a conflict");
    assert_eq!(place.type_in(&["tools", "--json"]).ends_with(2).json()["error"]["code"], "invalid_lock");
    place.write("tollgate.lock", "version = 1\ncolour = \"red\"\n");
    place.type_in(&["sync"]).ends_with(2).says("line 2: ").says("restore the file from version control");
    place.write("tollgate.lock", "version = 2\n");
    place.type_in(&["tools"]).ends_with(2).says("update tollgate");
}

/// Returns the port of a registry that answers every request like this.
fn registry_that_answers(answer: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 8_192]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn a_registry_that_is_busy_is_waited_for_aloud_and_quoted_on_one_line() {
    let body = r#"{"errors":[{"code":"BUSY","message":"Later.\nerror: type this"}]}"#;
    let port = registry_that_answers(format!(
        "HTTP/1.1 429 Busy\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let place = Place::new().with_config("");
    let reference = format!("127.0.0.1:{port}/acme/weather:1");
    for verb in ["add", "inspect"] {
        let said = place.type_in(&[verb, &reference, "--json"]).ends_with(1);
        let said = said.says("answered 429; asking again in 1 s");
        let error = said.json()["error"].clone();
        assert_eq!(error["code"], "rate_limited", "{error}");
        assert!(error["message"].as_str().unwrap().contains("(BUSY Later. error: type this)"), "{error}");
    }
}
