//! Tests of what a person sees of a component's origin: its licence and packages, and all changes of
//! an update.

use crate::place::Place;
use crate::registry::{Registry, lock, make_key, on_a_terminal, version};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use tollgate_artifacts::good;
use tollgate_registry::{Digest, Metadata, Package};

fn package(name: &str, version: &str) -> Package {
    Package {
        name: name.to_owned(),
        version: version.to_owned(),
        source: "crates.io".to_owned(),
        is_build: false,
    }
}

/// A version of `echo` that states a licence and packages.
fn stated(number: u8, licence: &str, packages: &[(&str, &str)]) -> Vec<u8> {
    let packages = packages.iter().map(|(name, version)| package(name, version)).collect();
    let metadata =
        Metadata { licence: Some(licence.to_owned()), packages: Some(packages), ..Metadata::default() };
    [version(number), metadata.to_sections(("echo", "1.0.0")).unwrap()].concat()
}

/// The same component with other words of the same length.
fn reworded(wasm: &[u8], before: &str, after: &str) -> Vec<u8> {
    assert_eq!(before.len(), after.len());
    let at = wasm.windows(before.len()).position(|part| part == before.as_bytes()).unwrap();
    [&wasm[..at], after.as_bytes(), &wasm[at + before.len()..]].concat()
}

fn publish(place: &Place, reference: &str, wasm: &[u8], asks: &str) {
    place.write("echo.wasm", wasm);
    place.write("echo.toml", asks);
    place.type_in(&["publish", reference, "echo.wasm", "--key", "acme.key", "--replace"]).ends_with(0);
}

#[test]
fn licence_and_packages_are_shown_before_and_after_installing() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let reference = registry.echo("1");
    publish(&place, &reference, &stated(1, "MIT", &[("serde", "1.0.0"), ("ring", "0.17.0")]), "[asks]\n");
    for file in ["echo.wasm", &reference] {
        let said = place.type_in(&["inspect", file]).ends_with(0);
        said.answers("licence   MIT").answers("packages  2 (ring 0.17.0, serde 1.0.0)");
        let seen = place.type_in(&["inspect", file, "--json"]).ends_with(0).json();
        assert_eq!(seen["metadata"]["licence"], "MIT");
        assert_eq!(seen["metadata"]["packages"][1]["name"], "serde");
    }
    place
        .type_in(&["add", &reference, "--key", "acme.pub", "--yes"])
        .ends_with(0)
        .says("licence   MIT")
        .says("packages  2 (ring 0.17.0, serde 1.0.0)");
    assert!(lock(&place).contains("licence = \"MIT\""), "{}", lock(&place));
    let recorded = format!("origin of echo from oci://{}/acme/echo:1, signed by key sha256:", registry.host);
    place.type_in(&["tools"]).ends_with(0).answers(&recorded).answers(", licence MIT");
    let tools = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(
        (&tools["tools"][0]["origin"]["lock"], &tools["tools"][0]["recorded"]["licence"]),
        (&"recorded".into(), &"MIT".into())
    );
    let from = format!("oci://{}/acme/echo", registry.host);
    let origin = &tools["tools"][0]["origin"];
    assert_eq!((&origin["from"], &origin["tag"]), (&from.as_str().into(), &"1".into()));
    assert!(origin["signer"].as_str().is_some_and(|signer| signer.starts_with("key sha256:")), "{origin}");
    assert_eq!((&origin["licence"], &origin["lock"]), (&"MIT".into(), &"recorded".into()));
    place
        .type_in(&["tools", "echo"])
        .ends_with(0)
        .answers(&format!("origin     {from}:1"))
        .answers("signer     key sha256:")
        .answers("licence    MIT")
        .answers("lock       recorded");
    assert_eq!(&place.type_in(&["tools", "echo", "--json"]).ends_with(0).json()["origin"], origin);
    place.write("tools/adder.wasm", good::ADDER.bytes());
    place
        .type_in(&["tools", "adder"])
        .ends_with(0)
        .answers("origin     not known")
        .answers("lock       not recorded");
    place.type_in(&["tools"]).ends_with(0).answers("origin of adder not recorded");
    // The licence is published as an annotation too, which every client can read.
    let manifest = manifest_of(&registry, "/v2/acme/echo/manifests/1");
    assert!(manifest.contains("\"org.opencontainers.image.licenses\":\"MIT\""), "{manifest}");
}

/// Fetches a manifest as any client does.
fn manifest_of(registry: &Registry, path: &str) -> String {
    let mut stream = TcpStream::connect(&registry.host).unwrap();
    let accept = "application/vnd.oci.image.manifest.v1+json";
    write!(stream, "GET {path} HTTP/1.1\r\nhost: registry\r\naccept: {accept}\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Fetches JSON as any client does.
fn json_of(registry: &Registry, path: &str) -> Value {
    let answer = manifest_of(registry, path);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[test]
fn an_artifact_has_the_layout_of_wasm_and_the_time_of_its_build() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let metadata = Metadata {
        licence: Some("MIT".to_owned()),
        source: Some("https://example.com/acme/echo".to_owned()),
        homepage: Some("https://example.com".to_owned()),
        authors: Some("Ada".to_owned()),
        description: Some("Echoes.".to_owned()),
        revision: Some("ab12".to_owned()),
        ..Metadata::default()
    };
    let wasm = [version(1), metadata.to_sections(("echo", "1.0.0")).unwrap()].concat();
    place.write("echo.wasm", &wasm);
    place.write("echo.toml", "[asks]\n");
    let wasm_digest = Digest::of(&wasm).to_string();
    for (tag, epoch, created) in
        [("1", None, "1970-01-01T00:00:00Z"), ("2", Some("1700000000"), "2023-11-14T22:13:20Z")]
    {
        let mut publish = place.tollgate(&["publish", &registry.echo(tag), "echo.wasm", "--unsigned"]);
        publish.env_remove("SOURCE_DATE_EPOCH").envs(epoch.map(|epoch| ("SOURCE_DATE_EPOCH", epoch)));
        publish.assert().success();
        let manifest = json_of(&registry, &format!("/v2/acme/echo/manifests/{tag}"));
        let config = manifest["config"]["digest"].as_str().unwrap();
        let config = json_of(&registry, &format!("/v2/acme/echo/blobs/{config}"));
        let component = &config["component"];
        assert!(component["exports"].as_array().is_some_and(|exports| !exports.is_empty()), "{config}");
        let expected = json!({
            "created": created, "architecture": "wasm", "os": "wasip2", "layerDigests": [wasm_digest],
            "component": { "exports": component["exports"], "imports": component["imports"] },
        });
        assert_eq!(config, expected);
        let annotation = |name: &str| format!("org.opencontainers.image.{name}");
        let expected = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.wasm.config.v0+json",
                "digest": manifest["config"]["digest"],
                "size": config.to_string().len(),
            },
            "layers": [{ "mediaType": "application/wasm", "digest": wasm_digest, "size": wasm.len() }],
            "annotations": {
                "dev.tollgate.asks": "[asks]\n",
                (annotation("title")): "echo",
                (annotation("version")): manifest["annotations"][annotation("version")],
                (annotation("licenses")): "MIT",
                (annotation("source")): "https://example.com/acme/echo",
                (annotation("url")): "https://example.com",
                (annotation("authors")): "Ada",
                (annotation("description")): "Echoes.",
                (annotation("revision")): "ab12",
            },
        });
        assert_eq!(manifest, expected);
    }
}

#[test]
fn a_list_of_packages_that_expands_without_end_is_said_not_to_be_known() {
    let place = Place::new();
    let broken = [&version(1)[..], &[0, 9, 7], b".dep-v0", b"x"].concat();
    place.write("echo.wasm", broken);
    place.type_in(&["inspect", "echo.wasm"]).ends_with(0).answers("packages  not known");
}

#[test]
fn an_update_shows_everything_that_it_changes_and_refusing_it_leaves_the_old_version() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let reference = registry.echo("1");
    let old = stated(1, "MIT", &[("serde", "1.0.0"), ("ring", "0.16.0")]);
    publish(&place, &reference, &old, "[asks]\n");
    place.type_in(&["add", &reference, "--key", "acme.pub", "--yes"]).ends_with(0);
    let installed = lock(&place);

    let new = stated(2, "GPL-3.0-only", &[("serde", "1.0.0"), ("ring", "0.17.0"), ("rand", "0.9.0")]);
    let new = reworded(&new, "as they were sent", "with your secrets");
    publish(&place, &reference, &new, "[asks]\nhttp = [\"https://api.example.com/\"]\n");
    let differences = [
        "licence   MIT is now GPL-3.0-only",
        "can newly send HTTP requests: https://api.example.com/",
        "echo has new words:",
        "- Answers with its arguments, as they were sent.",
        "+ Answers with its arguments, with your secrets.",
        "built of  rand 0.9.0",
        "package   ring 0.16.0 is now 0.17.0",
        "size      ",
        "digest    sha256:",
    ];
    let shown = place.type_in(&["update", "--check"]).ends_with(1);
    for line in differences {
        assert!(shown.stderr.contains(line), "{line:?} is not in:\n{}", shown.stderr);
    }
    let seen = place.type_in(&["update", "--check", "--json"]).ends_with(1).json();
    let seen = &seen["components"][0]["differences"];
    assert_eq!(seen["licence"]["after"], "GPL-3.0-only");
    assert_eq!(seen["packages"]["gained"][0], "rand 0.9.0");
    assert_eq!(
        seen["powers"]["gained"][0],
        "send HTTP requests: https://api.example.com/ (reading requests to api.example.com)"
    );
    assert_eq!(seen["changed_tools"][0]["words"]["before"], "Answers with its arguments, as they were sent.");

    // Without a terminal it is not accepted, and then a person refuses it.
    place.type_in(&["update", "--yes"]).ends_with(3);
    let Some(said) = on_a_terminal(&place, &["update"], "\n") else { return };
    assert!(said.contains("can newly send HTTP requests"), "{said}");
    assert!(said.contains("echo stays as it is"), "{said}");
    assert_eq!(lock(&place), installed);
    assert_eq!(fs::read(place.path().join("tools/echo.wasm")).unwrap(), old);
    assert_eq!(fs::read_to_string(place.path().join("tools/echo.toml")).unwrap(), "[asks]\n");
    place.type_in(&["verify"]).ends_with(0);
    place.type_in(&["call", "echo", "{}"]).ends_with(0);

    // A person accepts it.
    let said = on_a_terminal(&place, &["update"], "y\n").unwrap();
    assert_eq!(fs::read(place.path().join("tools/echo.wasm")).unwrap(), new, "{said}");
    place.type_in(&["update", "--check"]).ends_with(0).says("up to date echo");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let reference = registry.echo("1");
    publish(&place, &reference, &version(1), "[asks]\n");
    place.type_in(&["add", &reference, "--key", "acme.pub", "--yes"]).ends_with(0);
    publish(&place, &reference, &version(2), "[asks]\n");
    place.write("tools/echo.wasm", version(9));
    place.type_in(&["update", "--check"]).ends_with(1).says("restore them: tollgate sync");
}
