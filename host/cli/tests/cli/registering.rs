//! Tests of `publish`, `add`, `update`, `remove`, `sync` and `verify` with a real registry:
//! Debian's `docker-registry`, which does not list referrers itself.

use crate::place::{Place, Said};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tollgate_artifacts::good;

/// A registry on this machine that ends with the test.
struct Registry {
    host: String,
    child: Child,
    _storage: TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reports that a program is missing, which is a failure in CI.
fn missing(program: &str) {
    let line = format!("{program} is not installed: apt-get install {program}");
    assert!(std::env::var_os("CI").is_none(), "{line}");
    eprintln!("NOT TESTED: {line}");
}

impl Registry {
    fn start() -> Option<Self> {
        let storage = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '127.0.0.1:{port}'}}\n",
            storage.path().display()
        );
        let file = storage.path().join("config.yml");
        fs::write(&file, config).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            missing("docker-registry");
            return None;
        };
        let registry = Self { host: format!("127.0.0.1:{port}"), child, _storage: storage };
        let begun = Instant::now();
        while TcpStream::connect(&registry.host).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the registry does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(registry)
    }

    fn echo(&self, tag: &str) -> String {
        format!("{}/acme/echo:{tag}", self.host)
    }
}

/// Returns a version of the component `echo`: the same component with a custom section.
fn version(number: u8) -> Vec<u8> {
    [&good::ECHO.bytes()[..], &[0, 3, 1, b'v', number]].concat()
}

/// Creates a key in this place, as a publisher does. `None` if openssl is not installed.
fn make_key(place: &Place, name: &str) -> Option<()> {
    let run = |arguments: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(place.path()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map(|status| assert!(status.success(), "{arguments:?}"))
    };
    let (key, public) = (format!("{name}.key"), format!("{name}.pub"));
    let curve = ["-pkeyopt", "ec_paramgen_curve:P-256"];
    if run(&[&["genpkey", "-algorithm", "EC", "-out", &key], &curve[..]].concat()).is_err() {
        missing("openssl");
        return None;
    }
    run(&["pkey", "-in", &key, "-pubout", "-out", &public]).unwrap();
    Some(())
}

/// Publishes a version, signed with a key or not at all.
fn publish(place: &Place, reference: &str, number: u8, asks: Option<&str>, key: Option<&str>) -> Said {
    place.write("echo.wasm", version(number));
    let manifest = place.path().join("echo.toml");
    match asks {
        Some(asks) => fs::write(&manifest, asks).unwrap(),
        None => drop(fs::remove_file(&manifest)),
    }
    let key = key.map(|key| format!("{key}.key"));
    let how = key.as_deref().map_or(vec!["--unsigned"], |key| vec!["--key", key]);
    place.type_in(&[&["publish", reference, "echo.wasm", "--replace"], &how[..]].concat())
}

fn lock(place: &Place) -> String {
    fs::read_to_string(place.path().join("tollgate.lock")).unwrap_or_default()
}

fn copy(from: &Path, to: &Path, name: &str) {
    let target = to.join(name);
    if from.join(name).is_dir() {
        fs::create_dir_all(&target).unwrap();
        for entry in fs::read_dir(from.join(name)).unwrap() {
            copy(&from.join(name), &target, entry.unwrap().file_name().to_str().unwrap());
        }
    } else {
        fs::copy(from.join(name), target).unwrap();
    }
}

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
        .answers("refused tools/echo.wasm: echo.wasm is not the version that tollgate.lock records");
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
    place.type_in(&["remove", "echo"]).ends_with(1).says("records no component echo");
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
    for name in ["tollgate.lock", "tollgate.bundles"] {
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
        .answers("the signed manifest of echo is not what tollgate.lock records");
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
    add("evil").ends_with(2).says("expected was a signature by key sha256:");
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
    place.type_in(&moved).ends_with(2).says("add --replace");
    place.type_in(&["add", &registry.echo("1"), "--key", "acme.pub", "--yes"]).ends_with(0);
    let elsewhere = format!("{}/evil/echo:1", registry.host);
    publish(&place, &elsewhere, 3, None, Some("acme")).ends_with(0);
    place
        .type_in(&["add", &elsewhere, "--key", "acme.pub", "--yes"])
        .ends_with(2)
        .says("is installed from oci://");
    place.type_in(&["add", &registry.echo("none"), "--yes"]).ends_with(1).says("was not found");
}

/// Runs the program on a terminal with this input, and returns its output. `None` if no program
/// that creates a terminal is installed.
fn on_a_terminal(place: &Place, arguments: &[&str], typed: &str) -> Option<String> {
    let line = format!("{} {}", env!("CARGO_BIN_EXE_tollgate"), arguments.join(" "));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(place.path());
    command.env("TOLLGATE_DATA", place.path().join("data")).env("TOLLGATE_CACHE", place.path().join("cache"));
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        missing("script");
        return None;
    };
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    Some(String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned())
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
    assert!(shown.contains("type the id echo to accept the new signer"), "{shown}");
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
    place.type_in(&["tools"]).ends_with(0).answers("adder.wasm is not in tollgate.lock");
    place.write("elsewhere/echo.wasm", version(1));
    let digest = tollgate_registry::Digest::of(&version(1)).to_string();
    let add = ["add", "elsewhere/echo.wasm", "--digest", &digest, "--yes"];
    place.type_in(&add).ends_with(3);
    place.type_in(&[&add[..], &["--allow-unsigned"]].concat()).ends_with(0);
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
    place.write("tollgate.lock", "version = 2\n");
    place.type_in(&["tools"]).ends_with(2).says("update tollgate");
}
