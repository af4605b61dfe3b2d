//! A hostile registry. Each misbehaviour ends with a code of its own, before it costs more than
//! its limit.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod artifact;
mod private;
mod pulling;
mod pushing;
mod server;

use artifact::{BUNDLE, INDEX, MANIFEST, Parts, WASM, blob_path, descriptor, manifest_path, path};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use server::{Answer, Body, Seen, Server};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tollgate_registry::{
    Artifact, Client, Code, Credentials, Digest, Error, HostSettings, Reference, Referrers, Settings,
};

fn builder(authorities: &[CertificateDer<'static>]) -> Result<reqwest::ClientBuilder, Error> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for authority in authorities {
        roots.add(authority.clone()).map_err(|e| Error::new(Code::InvalidTrust, e))?;
    }
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(reqwest::Client::builder().tls_backend_preconfigured(tls))
}

fn client(settings: Settings) -> Client {
    Client::new(builder, settings).unwrap()
}

/// The result of a pull.
#[derive(Debug)]
struct Pulled {
    artifact: Artifact,
    wasm: Vec<u8>,
    referrers: Referrers,
    requests: u32,
}

async fn pull_with(settings: Settings, reference: &str) -> Result<Pulled, Error> {
    let reference: Reference = reference.parse()?;
    let mut session = client(settings).session(reference);
    let artifact = session.resolve().await?;
    let wasm = session.component(&artifact).await?;
    let referrers = session.referrers(&artifact.digest).await?;
    Ok(Pulled { artifact, wasm, referrers, requests: session.requests() })
}

async fn pull(server: &Server) -> Result<Pulled, Error> {
    let settings = Settings { timeout: Some(Duration::from_secs(2)), ..Settings::default() };
    pull_with(settings, &format!("{}/acme/weather:1", server.host)).await
}

#[tokio::test]
async fn an_artifact_is_pulled() {
    let server = Server::with(Parts::new().publish()).await;
    let pulled = pull(&server).await.unwrap();
    assert_eq!(pulled.wasm, WASM);
    assert_eq!(pulled.artifact.asks.as_deref(), Some("[asks]\n"));
    assert_eq!(pulled.artifact.annotation("licenses").as_deref(), Some("MIT"));
    assert!(pulled.referrers.bundles.is_empty() && pulled.referrers.faults.is_empty());
    // Manifest, configuration, component, two lists of referrers, and one look for old signatures.
    assert_eq!(pulled.requests, 6);
}

/// One misbehaviour, and the code with which a pull of it ends.
type Case = (&'static str, Code, Box<dyn Fn(&mut Parts)>);

fn case(name: &'static str, code: Code, change: impl Fn(&mut Parts) + 'static) -> Case {
    (name, code, Box::new(change))
}

/// Answers the request for the manifest in another way.
fn answers(name: &'static str, code: Code, answer: Answer) -> Case {
    case(name, code, move |parts| drop(parts.answers.insert(manifest_path(), answer.clone())))
}

/// Changes the manifest.
fn manifest(name: &'static str, code: Code, change: impl Fn(&mut Value) + 'static) -> Case {
    case(name, code, move |parts| change(&mut parts.manifest))
}

fn challenge(text: &str) -> Answer {
    Answer::status(401).with("www-authenticate", text)
}

fn failing_requests() -> Vec<Case> {
    let busy = |status, after: &str| Answer::status(status).with("retry-after", after);
    vec![
        answers("nothing of this name", Code::NotFound, Answer::status(404)),
        answers("a challenge of no kind", Code::UnsupportedChallenge, Answer::status(401)),
        answers("a challenge of another kind", Code::UnsupportedChallenge, challenge("Negotiate")),
        answers("a challenge without a realm", Code::UnsupportedChallenge, challenge("Bearer service=\"x\"")),
        answers(
            "a password, of which there is none",
            Code::CredentialsMissing,
            challenge("Basic realm=\"x\""),
        ),
        answers("a forbidden artifact", Code::CredentialsMissing, Answer::status(403)),
        answers(
            "a token server without https",
            Code::UnsupportedChallenge,
            challenge("Bearer realm=\"http://example.com/\""),
        ),
        answers(
            "a token server at a cloud's metadata",
            Code::AddressRefused,
            challenge("Bearer realm=\"https://169.254.169.254/\""),
        ),
        answers(
            "a token server with a password",
            Code::UnsupportedChallenge,
            challenge("Bearer realm=\"https://a:b@example.com/\""),
        ),
        answers("a failure", Code::RegistryFailed, Answer::status(500)),
        answers("a registry that is always busy", Code::RegistryFailed, busy(503, "0")),
        answers("a wait of an hour", Code::RateLimited, busy(429, "3600")),
        answers("a status without a meaning", Code::UnexpectedStatus, Answer::status(418)),
        answers("a redirect to itself", Code::TooManyRedirects, Answer::redirect(&manifest_path())),
        answers("a redirect away from https", Code::RedirectRefused, Answer::redirect("http://example.com/")),
        answers("a redirect to a file", Code::RedirectRefused, Answer::redirect("file:///etc/passwd")),
        answers(
            "a redirect with a password",
            Code::RedirectRefused,
            Answer::redirect("https://a:b@example.com/"),
        ),
        answers(
            "a redirect to a cloud's metadata",
            Code::AddressRefused,
            Answer::redirect("https://169.254.169.254/"),
        ),
        answers(
            "a redirect to a private network",
            Code::AddressRefused,
            Answer::redirect("https://[fd00::1]/"),
        ),
        answers("a redirect to nowhere", Code::RedirectRefused, Answer::status(302)),
    ]
}

fn failing_bodies() -> Vec<Case> {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let with_body = |body| Answer::status(200).with("content-type", MANIFEST).body(body);
    vec![
        answers("a web page", Code::NotWasm, Answer::ok("text/html", "<html>log in</html>")),
        answers("invalid JSON", Code::InvalidJson, Answer::ok(MANIFEST, "{\"schemaVersion\"")),
        answers("a deep text", Code::InvalidJson, Answer::ok(MANIFEST, deep)),
        answers(
            "a key twice",
            Code::InvalidJson,
            Answer::ok(MANIFEST, format!("{{\"mediaType\":\"{MANIFEST}\",\"mediaType\":\"{INDEX}\"}}")),
        ),
        answers("a manifest without an end", Code::TooLarge, with_body(Body::Endless)),
        answers("a manifest of a gigabyte", Code::TooLarge, with_body(Body::Declared(Vec::new(), 1 << 30))),
        answers(
            "a manifest that breaks off",
            Code::Unreachable,
            with_body(Body::Declared(b"{".to_vec(), 100)),
        ),
        answers("a manifest byte by byte", Code::TimedOut, with_body(Body::Drip)),
        answers(
            "a compressed manifest",
            Code::EncodedResponse,
            Answer::ok(MANIFEST, "x").with("content-encoding", "gzip"),
        ),
        case("a manifest with two types", Code::MediaTypeConflict, |parts| {
            parts.manifest_type = INDEX.to_owned()
        }),
        case("another component of this length", Code::DigestMismatch, |parts| {
            let other = Answer::ok("application/octet-stream", vec![b'x'; WASM.len()]);
            parts.answers.insert(blob_path(WASM), other);
        }),
        case("a component that is longer than declared", Code::TooLarge, |parts| {
            let other = Answer::ok("application/octet-stream", [WASM, b"and more"].concat());
            parts.answers.insert(blob_path(WASM), other);
        }),
        case("a component without an end", Code::TooLarge, |parts| {
            parts.answers.insert(blob_path(WASM), Answer::status(200).body(Body::Endless));
        }),
        case("a component that is shorter than declared", Code::SizeMismatch, |parts| {
            parts.answers.insert(blob_path(WASM), Answer::ok("application/octet-stream", &WASM[1..]));
        }),
        case("a missing component", Code::NotFound, |parts| {
            parts.answers.insert(blob_path(WASM), Answer::status(404));
        }),
        case("a configuration of another artifact", Code::DigestMismatch, |parts| {
            let length = parts.config.to_string().len();
            let at = blob_path(parts.config.to_string().as_bytes());
            parts.answers.insert(at, Answer::ok("application/octet-stream", vec![b' '; length]));
        }),
    ]
}

fn wrong_manifests() -> Vec<Case> {
    vec![
        manifest("a container image", Code::NotWasm, |manifest| {
            manifest["layers"][0]["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar+gzip");
        }),
        manifest("no layer", Code::NotWasm, |manifest| manifest["layers"] = json!([])),
        manifest("two layers", Code::SeveralLayers, |manifest| {
            let layer = manifest["layers"][0].clone();
            manifest["layers"] = json!([layer, layer]);
        }),
        manifest("a layer on another server", Code::ForeignLayer, |manifest| {
            manifest["layers"][0]["urls"] = json!(["https://example.com/"]);
        }),
        manifest("a weak digest", Code::UnsupportedDigest, |manifest| {
            manifest["layers"][0]["digest"] = json!("md5:d41d8cd98f00b204e9800998ecf8427e");
        }),
        manifest("a digest that is a path", Code::UnsupportedDigest, |manifest| {
            manifest["layers"][0]["digest"] = json!("sha256:../../../other/manifests/1");
        }),
        manifest("a component of a terabyte", Code::TooLarge, |manifest| {
            manifest["layers"][0]["size"] = json!(1_u64 << 40);
        }),
        manifest("a size below zero", Code::InvalidJson, |manifest| {
            manifest["layers"][0]["size"] = json!(-1)
        }),
        manifest("asks without an end", Code::AsksTooLarge, |manifest| {
            manifest["annotations"]["dev.tollgate.asks"] = json!("#".repeat(65 << 10));
        }),
        manifest("an empty configuration with content", Code::SizeMismatch, |manifest| {
            manifest["config"] = descriptor("application/vnd.oci.empty.v1+json", b"{ }");
        }),
        manifest("a configuration of a gigabyte", Code::TooLarge, |manifest| {
            let mut config = descriptor(artifact::CONFIG, b"{}");
            config["size"] = json!(1 << 30);
            manifest["config"] = config;
        }),
        manifest("another type of manifest", Code::NotWasm, |manifest| {
            manifest["mediaType"] = json!("application/vnd.docker.distribution.manifest.v2+json");
        })
        .with_type("application/vnd.docker.distribution.manifest.v2+json"),
        case("a configuration without the layer", Code::UnlistedLayer, |parts| {
            parts.config["layerDigests"] = json!([Digest::of(b"other").to_string()]);
        }),
        case("an index with two components", Code::SeveralManifests, |parts| {
            let platform = json!({ "architecture": "wasm", "os": "wasip2" });
            let mut one = descriptor(MANIFEST, b"one");
            one["platform"] = platform.clone();
            let mut two = descriptor(MANIFEST, b"two");
            two["platform"] = platform;
            set_index(parts, vec![one, two]);
        }),
        case("an index without a component", Code::NotWasm, |parts| {
            set_index(parts, vec![descriptor(MANIFEST, b"image")]);
        }),
        case("an index whose manifest was exchanged", Code::DigestMismatch, |parts| {
            let content = parts.manifest_bytes();
            let mut entry = descriptor(MANIFEST, &vec![b' '; content.len()]);
            entry["platform"] = json!({ "architecture": "wasm", "os": "wasip2" });
            let at = path(&format!("manifests/{}", entry["digest"].as_str().unwrap()));
            parts.answers.insert(at, Answer::ok(MANIFEST, content));
            set_index(parts, vec![entry]);
        }),
    ]
}

fn set_index(parts: &mut Parts, manifests: Vec<Value>) {
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    parts.answers.insert(manifest_path(), Answer::ok(INDEX, index.to_string()));
}

trait WithType {
    fn with_type(self, media_type: &'static str) -> Self;
}

impl WithType for Case {
    fn with_type(self, media_type: &'static str) -> Self {
        let (name, code, change) = self;
        case(name, code, move |parts| {
            change(parts);
            parts.manifest_type = media_type.to_owned();
        })
    }
}

fn wrong_referrers() -> Vec<Case> {
    let lists = |name, code, answer: Answer| {
        case(name, code, move |parts: &mut Parts| {
            let digest = Digest::of(&parts.manifest_bytes());
            parts.answers.insert(path(&format!("referrers/{digest}")), answer.clone());
        })
    };
    let many: Vec<_> =
        (0..10_000).map(|number| descriptor(MANIFEST, format!("{number}").as_bytes())).collect();
    let many = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": many }).to_string();
    vec![
        lists("ten thousand referrers", Code::TooManyReferrers, Answer::ok(INDEX, many)),
        lists("referrers without an end", Code::TooLarge, Answer::status(200).body(Body::Endless)),
        lists("referrers in invalid JSON", Code::InvalidJson, Answer::ok(INDEX, "<html>")),
        lists("referrers behind a login", Code::CredentialsMissing, Answer::status(403)),
    ]
}

#[tokio::test]
async fn every_misbehaviour_ends_with_its_code() {
    let cases: Vec<_> = [failing_requests(), failing_bodies(), wrong_manifests(), wrong_referrers()]
        .into_iter()
        .flatten()
        .collect();
    assert!(cases.len() >= 30, "{}", cases.len());
    for (name, code, change) in cases {
        let mut parts = Parts::new();
        change(&mut parts);
        let server = Server::with(parts.publish()).await;
        let error = pull(&server).await.map(|pulled| pulled.artifact.digest).expect_err(name);
        assert_eq!(error.code, code, "{name}: {error}");
        let words = error.to_string();
        assert!(words.contains("; "), "{name} does not end with what fixes it: {words}");
        assert!(server.seen().len() < 12, "{name} costs {} requests", server.seen().len());
    }
}

#[tokio::test]
async fn a_busy_registry_is_asked_again() {
    let answers = Parts::new().publish();
    let count = AtomicU32::new(0);
    let server = Server::start(move |seen| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::status(429).with("retry-after", "0"),
        1 => Answer::status(503).with("retry-after", "0"),
        _ => answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404)),
    })
    .await;
    assert_eq!(pull(&server).await.unwrap().wasm, WASM);
}

#[tokio::test]
async fn signatures_are_found_and_wrong_referrers_do_not_count() {
    let mut parts = Parts::new();
    parts.refer(b"{\"the\":\"bundle\"}", None);
    let server = Server::with(parts.publish()).await;
    let referrers = pull(&server).await.unwrap().referrers;
    assert_eq!(referrers.bundles.len(), 1);
    assert_eq!(referrers.bundles[0].bytes.as_ref(), b"{\"the\":\"bundle\"}");
    let large = vec![b' '; (1 << 20) + 1];
    for (bundle, subject) in [(&b"{}"[..], Some(descriptor(MANIFEST, b"another artifact"))), (&large, None)] {
        let mut parts = Parts::new();
        parts.refer(bundle, subject);
        let server = Server::with(parts.publish()).await;
        let referrers = pull(&server).await.unwrap().referrers;
        assert!(referrers.bundles.is_empty());
        assert_eq!(referrers.faults[0].code, Code::InvalidReferrer);
    }
}

#[tokio::test]
async fn signatures_are_found_under_the_tag_that_stands_in_for_the_list() {
    let mut parts = Parts::new();
    parts.refer(b"{}", None);
    let digest = Digest::of(&parts.manifest_bytes());
    let list = parts.answers.remove(&path(&format!("referrers/{digest}"))).unwrap();
    // GitHub's registry answers so, with a wrong type.
    let Body::Bytes(list) = list.body else { panic!("a list") };
    let list = String::from_utf8(list).unwrap().replace(
        &format!("\"artifactType\":\"{BUNDLE}\""),
        "\"artifactType\":\"application/vnd.oci.empty.v1+json\"",
    );
    parts
        .answers
        .insert(path(&format!("manifests/{}", digest.as_str().replace(':', "-"))), Answer::ok(INDEX, list));
    let server = Server::with(parts.publish()).await;
    assert_eq!(pull(&server).await.unwrap().referrers.bundles.len(), 1);
}

#[tokio::test]
async fn signatures_in_an_old_format_are_named() {
    let mut parts = Parts::new();
    let digest = Digest::of(&parts.manifest_bytes());
    let old = path(&format!("manifests/{}.sig", digest.as_str().replace(':', "-")));
    parts.answers.insert(old, Answer::ok(MANIFEST, "{}"));
    let server = Server::with(parts.publish()).await;
    assert_eq!(pull(&server).await.unwrap().referrers.faults[0].code, Code::OldSignature);
}

/// Docker's file of credentials, with the user `ada` and the password `secret` for a host.
fn login(host: &str) -> (tempfile::TempDir, Credentials) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    let auths = json!({ "auths": { host: { "auth": "YWRhOnNlY3JldA==" } } });
    std::fs::write(&file, auths.to_string()).unwrap();
    (folder, Credentials { docker_config: Some(file) })
}

const BASIC: &str = "Basic YWRhOnNlY3JldA==";

/// A registry that wants a token of this token server.
async fn guarded(realm: String, answers: BTreeMap<String, Answer>) -> Server {
    Server::start(move |seen: &Seen| match seen.authorization.as_deref() {
        Some("Bearer the-token") => answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404)),
        _ => challenge(&format!("Bearer realm=\"{realm}\",service=\"registry\"")),
    })
    .await
}

#[tokio::test]
async fn credentials_go_to_a_token_server_that_is_configured_and_to_no_other() {
    let token_server = || async {
        Server::start(|seen: &Seen| match seen.authorization.as_deref() {
            Some(BASIC) => Answer::ok("application/json", "{\"token\":\"the-token\"}"),
            _ => Answer::status(401),
        })
        .await
    };
    let tokens = token_server().await;
    let server = guarded(format!("http://{}/token", tokens.host), Parts::new().publish()).await;
    let (_folder, credentials) = login(&server.host);
    let reference = format!("{}/acme/weather:1", server.host);
    let settings = Settings { credentials, ..Settings::default() };
    let error = pull_with(settings.clone(), &reference).await.unwrap_err();
    assert_eq!(error.code, Code::CredentialsWithheld, "{error}");
    assert!(error.to_string().contains(&format!("token_host = \"{}\"", tokens.host)), "{error}");
    assert!(tokens.seen().iter().all(|seen| seen.authorization.is_none()));

    let named = HostSettings { token_host: Some(tokens.host.clone()), ..HostSettings::default() };
    let settings = Settings { hosts: BTreeMap::from([(server.host.clone(), named)]), ..settings };
    let pulled = pull_with(settings, &reference).await.unwrap();
    assert_eq!(pulled.wasm, WASM);
    // One request without a token, one for it, and the five of a pull with one for old signatures.
    assert_eq!(pulled.requests, 8);
    assert!(server.seen().iter().all(|seen| seen.authorization.as_deref() != Some(BASIC)));
}

#[tokio::test]
async fn a_registry_that_is_never_satisfied_is_asked_twice() {
    let server = Server::start(|_: &Seen| challenge("Basic realm=\"x\"")).await;
    let (_folder, credentials) = login(&server.host);
    let settings = Settings { credentials, ..Settings::default() };
    let error = pull_with(settings, &format!("{}/acme/weather:1", server.host)).await.unwrap_err();
    assert_eq!(error.code, Code::AccessDenied, "{error}");
    let seen: Vec<_> = server.seen().into_iter().map(|seen| seen.authorization).collect();
    assert_eq!(seen, [None, Some(BASIC.to_owned())]);
}

#[tokio::test]
async fn an_authorization_does_not_follow_a_redirect_to_another_host() {
    let elsewhere =
        Server::with(BTreeMap::from([("/there".to_owned(), Answer::ok("application/wasm", WASM))])).await;
    let mut parts = Parts::new();
    parts.answers.insert(blob_path(WASM), Answer::redirect(&format!("http://{}/there", elsewhere.host)));
    let answers = parts.publish();
    let server = Server::start(move |seen: &Seen| match seen.authorization.as_deref() {
        Some(BASIC) => answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404)),
        _ => challenge("Basic realm=\"x\""),
    })
    .await;
    let (_folder, credentials) = login(&server.host);
    let settings = Settings { credentials, ..Settings::default() };
    let pulled = pull_with(settings, &format!("{}/acme/weather:1", server.host)).await.unwrap();
    assert_eq!(pulled.wasm, WASM);
    assert!(elsewhere.seen().iter().all(|seen| seen.authorization.is_none()) && !elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_token_server_that_misbehaves_gets_its_code() {
    for (answer, code) in [
        (Answer::ok("text/html", "<html>"), Code::InvalidToken),
        (Answer::ok("application/json", "{}"), Code::InvalidToken),
        (Answer::ok("application/json", "{\"token\":\"\"}"), Code::InvalidToken),
        (Answer::ok("application/json", "{\"token\":\"a\\r\\nx-more: b\"}"), Code::InvalidToken),
        (Answer::status(200).body(Body::Endless), Code::TooLarge),
        (Answer::status(500), Code::RegistryFailed),
        (Answer::ok("application/json", "{\"token\":\"another\"}"), Code::CredentialsMissing),
    ] {
        let tokens = Server::start(move |_: &Seen| answer.clone()).await;
        let server = guarded(format!("http://{}/token", tokens.host), Parts::new().publish()).await;
        let error = pull(&server).await.unwrap_err();
        assert_eq!(error.code, code, "{error}");
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_an_error() {
    let server = Server::start(|_: &Seen| challenge("Basic realm=\"x\"")).await;
    for text in [
        "{",
        "{\"auths\":{\"HOST\":{\"auth\":\"!\"}}}",
        "{\"credsStore\":\"../../bin/sh\"}",
        "{\"credsStore\":\"there-is-none\"}",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(&file, text.replace("HOST", &server.host)).unwrap();
        let settings =
            Settings { credentials: Credentials { docker_config: Some(file) }, ..Settings::default() };
        let error = pull_with(settings, &format!("{}/acme/weather:1", server.host)).await.unwrap_err();
        assert_eq!(error.code, Code::InvalidCredentials, "{text}: {error}");
    }
}

#[tokio::test]
async fn a_host_that_does_not_exist_or_is_private_is_not_reached() {
    let unreachable = pull_with(Settings::default(), "127.0.0.1:1/acme/weather:1").await.unwrap_err();
    assert_eq!(unreachable.code, Code::Unreachable, "{unreachable}");
    for host in ["10.0.0.1", "169.254.169.254", "[fd00::1]", "192.168.1.1:5000"] {
        let error = pull_with(Settings::default(), &format!("{host}/acme/weather:1")).await.unwrap_err();
        assert_eq!(error.code, Code::AddressRefused, "{error}");
    }
}

#[tokio::test]
async fn words_of_a_registry_are_cleaned() {
    let body =
        json!({ "errors": [{ "code": "DENIED", "message": "\u{1b}[31mcall \u{202e}me" }] }).to_string();
    let answer = Answer::status(403).body(Body::Bytes(body.into_bytes()));
    let server = Server::start(move |_: &Seen| answer.clone()).await;
    let message = pull(&server).await.unwrap_err().to_string();
    assert!(message.contains("DENIED") && !message.contains(['\u{1b}', '\u{202e}']), "{message}");
}
