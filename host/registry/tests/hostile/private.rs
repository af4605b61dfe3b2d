//! Private registries: their own certificate authorities, identity tokens, and lists in pages.

use crate::artifact::{BUNDLE, INDEX, MANIFEST, Parts, WASM, blob_path, descriptor, path};
use crate::server::{Answer, Seen, Server};
use crate::{challenge, client, pull_with};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tollgate_registry::{
    Code, Credentials, Digest, Entry, HostSettings, Reference, Settings, Source, is_current,
};

/// Runs openssl; `None` if it is not installed. CI has it.
fn openssl(folder: &Path, arguments: &[&str]) -> Option<()> {
    match Command::new("openssl").args(arguments).current_dir(folder).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "openssl {arguments:?}: {errors}");
            Some(())
        }
        Err(_) if std::env::var_os("CI").is_none() => {
            eprintln!("NOT TESTED: openssl is not installed: apt-get install openssl");
            None
        }
        Err(e) => panic!("openssl cannot be run: {e}; apt-get install openssl"),
    }
}

/// Makes a certificate authority, and a certificate by it for this machine.
fn authority(folder: &Path, name: &str) -> Option<PathBuf> {
    let file = |end: &str| format!("{name}{end}");
    let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let (key, ca) = (file("-ca.key"), file("-ca.pem"));
    let subject = format!("/CN={name}");
    let own = ["req", "-x509", "-keyout", &key, "-out", &ca, "-subj", &subject, "-days", "3650"];
    openssl(folder, &[&own[..], &new_key].concat())?;
    let (server_key, request, server) = (file(".key"), file(".csr"), file(".pem"));
    let wanted = ["req", "-keyout", &server_key, "-out", &request, "-subj", "/CN=127.0.0.1"];
    openssl(folder, &[&wanted[..], &new_key].concat())?;
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    let signing = ["-CA", &ca, "-CAkey", &key, "-CAcreateserial", "-days", "3650", "-extfile", "names"];
    openssl(folder, &[&["x509", "-req", "-in", &request, "-out", &server], &signing[..]].concat())?;
    Some(folder.join(ca))
}

fn acceptor(folder: &Path, name: &str) -> TlsAcceptor {
    let chain = CertificateDer::from_pem_file(folder.join(format!("{name}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth().with_single_cert(vec![chain], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn of_host(host: &str, settings: HostSettings) -> Settings {
    Settings { hosts: BTreeMap::from([(host.to_owned(), settings)]), ..Settings::default() }
}

fn with_ca(ca: PathBuf) -> HostSettings {
    HostSettings { ca: Some(ca), ..HostSettings::default() }
}

#[tokio::test]
async fn a_registry_is_reached_by_its_own_authority_and_by_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let Some(ca) = authority(folder.path(), "ours") else { return };
    let other = authority(folder.path(), "other").unwrap();
    let answers = Parts::new().publish();
    let respond = move |seen: &Seen| answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404));
    let server = Server::secure(acceptor(folder.path(), "ours"), respond).await;
    let reference = format!("{}/acme/weather:1", server.host);
    let pulled = pull_with(of_host(&server.host, with_ca(ca.clone())), &reference).await.unwrap();
    assert_eq!(pulled.wasm, WASM);
    let seen = server.seen().len();
    let secure = HostSettings { plain_http: Some(false), ..HostSettings::default() };
    for settings in [secure, with_ca(other)] {
        let error = pull_with(of_host(&server.host, settings), &reference).await.unwrap_err();
        assert_eq!(error.code, Code::Unreachable, "{error}");
    }
    // The authority of one registry does not vouch for another.
    let settings = of_host("registry.example.com", with_ca(ca));
    let settings = Settings {
        hosts: settings
            .hosts
            .into_iter()
            .chain([(
                server.host.clone(),
                HostSettings { plain_http: Some(false), ..HostSettings::default() },
            )])
            .collect(),
        ..settings
    };
    assert_eq!(pull_with(settings, &reference).await.unwrap_err().code, Code::Unreachable);
    assert_eq!(server.seen().len(), seen, "no request was sent");
}

#[tokio::test]
async fn an_authority_does_not_vouch_for_the_host_of_a_redirect() {
    let folder = tempfile::tempdir().unwrap();
    let Some(ca) = authority(folder.path(), "ours") else { return };
    let respond = |_: &Seen| Answer::ok("application/wasm", WASM);
    let elsewhere = Server::secure(acceptor(folder.path(), "ours"), respond).await;
    let mut parts = Parts::new();
    parts.answers.insert(blob_path(WASM), Answer::redirect(&format!("https://{}/there", elsewhere.host)));
    let answers = parts.publish();
    let respond = move |seen: &Seen| answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404));
    let server = Server::secure(acceptor(folder.path(), "ours"), respond).await;
    let reference = format!("{}/acme/weather:1", server.host);
    let error = pull_with(of_host(&server.host, with_ca(ca.clone())), &reference).await.unwrap_err();
    assert!(matches!(error.code, Code::Unreachable | Code::AddressRefused), "{error}");
    assert!(elsewhere.seen().is_empty());
    // A registry that is reached by TLS does not lead back to plain HTTP, not even on this machine.
    let mut parts = Parts::new();
    parts.answers.insert(blob_path(WASM), Answer::redirect(&format!("http://{}/there", elsewhere.host)));
    let answers = parts.publish();
    let respond = move |seen: &Seen| answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404));
    let server = Server::secure(acceptor(folder.path(), "ours"), respond).await;
    let reference = format!("{}/acme/weather:1", server.host);
    let error = pull_with(of_host(&server.host, with_ca(ca)), &reference).await.unwrap_err();
    assert_eq!(error.code, Code::RedirectRefused, "{error}");
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let plain = |plain_http| HostSettings { plain_http: Some(plain_http), ..HostSettings::default() };
    let checked = |host: &str, settings: HostSettings| settings.checked(host, Path::new("/base"));
    for (host, settings, words) in [
        ("registry.example.com", plain(true), "only for registries on this machine"),
        ("10.0.0.1:5000", plain(true), "only for registries on this machine"),
        ("https://ghcr.io", plain(false), "not the host of a registry"),
        ("ghcr.io/acme", plain(false), "write the host as ghcr.io"),
        ("", plain(false), "not the host of a registry"),
        ("index.docker.io", plain(false), "write the host as docker.io"),
        ("localhost:5000", HostSettings { ca: Some("ca.pem".into()), ..plain(true) }, "exclude each other"),
    ] {
        let error = checked(host, settings).unwrap_err();
        assert!(error.code == Code::InvalidTrust && error.to_string().contains(words), "{host}: {error}");
    }
    assert_eq!(checked("ghcr.io", with_ca("ca.pem".into())).unwrap().ca, Some("/base/ca.pem".into()));
    assert!(checked("localhost:5000", plain(true)).is_ok() && checked("[::1]:5000", plain(true)).is_ok());
}

#[test]
fn a_file_without_an_authority_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let broken = "-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n";
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for text in [None, Some(""), Some(broken), Some(no_certificate)] {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let settings = of_host("registry.example.com", with_ca(file.clone()));
        let error = tollgate_registry::Client::new(crate::builder, settings).unwrap_err();
        assert_eq!(error.code, Code::InvalidTrust, "{error}");
    }
}

#[tokio::test]
async fn a_version_that_is_installed_costs_one_request_or_none() {
    let server = Server::with(Parts::new().publish()).await;
    let manifest = Digest::of(&Parts::new().manifest_bytes());
    let entry = |manifest: &Digest| Entry {
        id: "weather".to_owned(),
        file: "weather.wasm".to_owned(),
        from: format!("oci://{}/acme/weather", server.host),
        tag: Some("1".to_owned()),
        manifest: Some(manifest.clone()),
        wasm: Digest::of(WASM),
        asks: None,
        surface: Digest::of(b"surface"),
        licence: None,
        signed: None,
    };
    let client = client(Settings::default());
    let source = |rest: &str| format!("{}/acme/weather{rest}", server.host).parse::<Source>().unwrap();
    let other = Digest::of(b"another manifest");
    for (rest, recorded, expected, requests) in [
        (":1".to_owned(), &manifest, true, 1),
        (":1".to_owned(), &other, false, 1),
        (format!("@{manifest}"), &manifest, true, 0),
        (format!("@{manifest}"), &other, false, 0),
    ] {
        let before = server.seen().len();
        assert_eq!(is_current(&client, &source(&rest), &entry(recorded)).await, Ok(expected), "{rest}");
        assert_eq!(server.seen().len() - before, requests, "{rest}");
    }
    let elsewhere = Entry { from: "oci://ghcr.io/acme/weather".to_owned(), ..entry(&manifest) };
    assert_eq!(is_current(&client, &source(":1"), &elsewhere).await, Ok(false), "another origin");
}

/// Docker's file of credentials with an identity token for a host.
fn identity_token(host: &str) -> (tempfile::TempDir, Credentials) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    let auths = json!({ "auths": { host: { "auth": "YWRhOg==", "identitytoken": "the identity" } } });
    std::fs::write(&file, auths.to_string()).unwrap();
    (folder, Credentials { docker_config: Some(file) })
}

/// A registry that wants a token of this token server.
async fn guarded(realm: String) -> Server {
    let answers = Parts::new().publish();
    Server::start(move |seen: &Seen| match seen.authorization.as_deref() {
        Some("Bearer the-token") => answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404)),
        _ => challenge(&format!("Bearer realm=\"{realm}\",service=\"registry\"")),
    })
    .await
}

#[tokio::test]
async fn an_identity_token_is_exchanged_in_a_body_and_only_at_the_configured_host() {
    let tokens = Server::start(|seen: &Seen| {
        let is_exchange = seen.body.contains("grant_type=refresh_token")
            && seen.body.contains("refresh_token=the+identity")
            && seen.body.contains("service=registry")
            && seen.body.contains("scope=repository%3Aacme%2Fweather%3Apull");
        match is_exchange {
            true => {
                Answer::ok("application/json", "{\"access_token\":\"the-token\",\"refresh_token\":\"new\"}")
            }
            false => Answer::status(401),
        }
    })
    .await;
    let server = guarded(format!("http://{}/token", tokens.host)).await;
    let (_folder, credentials) = identity_token(&server.host);
    let reference = format!("{}/acme/weather:1", server.host);
    let settings = Settings { credentials, ..Settings::default() };
    let error = pull_with(settings.clone(), &reference).await.unwrap_err();
    assert_eq!(error.code, Code::CredentialsWithheld, "{error}");
    let has_token = |seen: &Seen| format!("{seen:?}").contains("identity");
    assert!(!tokens.seen().iter().any(has_token), "it is not sent to a host that is not configured");

    let named = HostSettings { token_host: Some(tokens.host.clone()), ..HostSettings::default() };
    let settings = Settings { hosts: BTreeMap::from([(server.host.clone(), named)]), ..settings };
    assert_eq!(pull_with(settings, &reference).await.unwrap().wasm, WASM);
    assert!(!server.seen().iter().any(has_token), "the registry itself does not see it");
    assert!(tokens.seen().iter().all(|seen| !seen.query.contains("identity")), "no URL holds it");
}

#[tokio::test]
async fn an_identity_token_is_no_password() {
    let server = Server::start(|_: &Seen| challenge("Basic realm=\"x\"")).await;
    let (_folder, credentials) = identity_token(&server.host);
    let settings = Settings { credentials, ..Settings::default() };
    let error = pull_with(settings, &format!("{}/acme/weather:1", server.host)).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidCredentials, "{error}");
    assert!(server.seen().iter().all(|seen| seen.authorization.is_none()));
}

/// Divides the list of referrers into pages, each of which names the next one.
fn in_pages(pages: Option<usize>, next: impl Fn(usize) -> String + Send + Sync + 'static) -> (Parts, Digest) {
    let mut parts = Parts::new();
    let manifest = parts.manifest_bytes();
    let digest = Digest::of(&manifest);
    for page in 0..pages.unwrap_or(100) {
        let bundle = format!("{{\"bundle\":{page}}}");
        let referrer = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
            "config": descriptor("application/vnd.oci.empty.v1+json", b"{}"),
            "layers": [descriptor(BUNDLE, bundle.as_bytes())],
            "subject": descriptor(MANIFEST, &manifest),
        })
        .to_string();
        let mut listed = descriptor(MANIFEST, referrer.as_bytes());
        listed["artifactType"] = json!(BUNDLE);
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [listed] }).to_string();
        let answer = Answer::ok(INDEX, index);
        let is_last = pages.is_some_and(|pages| page + 1 == pages);
        let answer = if is_last { answer } else { answer.with("link", &next(page + 1)) };
        parts.answers.insert(format!("{}?page={page}", path(&format!("referrers/{digest}"))), answer);
        parts.answers.insert(
            path(&format!("manifests/{}", Digest::of(referrer.as_bytes()))),
            Answer::ok(MANIFEST, referrer),
        );
        parts.answers.insert(blob_path(bundle.as_bytes()), Answer::ok("application/octet-stream", bundle));
    }
    (parts, digest)
}

/// Serves answers by path and query; the first page has no query.
async fn paged(parts: Parts, digest: Digest) -> Server {
    let answers = parts.publish();
    let list = path(&format!("referrers/{digest}"));
    Server::start(move |seen: &Seen| {
        let query = if seen.path == list && seen.query.is_empty() { "page=0" } else { seen.query.as_str() };
        let name = if query.is_empty() { seen.path.clone() } else { format!("{}?{query}", seen.path) };
        answers.get(&name).cloned().unwrap_or_else(|| Answer::status(404))
    })
    .await
}

async fn referrers_of(server: &Server, digest: &Digest) -> Result<usize, Code> {
    let reference: Reference = format!("{}/acme/weather:1", server.host).parse().unwrap();
    let found = client(Settings::default()).session(reference).referrers(digest).await;
    found.map(|found| found.bundles.len()).map_err(|error| error.code)
}

#[tokio::test]
async fn a_list_of_signatures_in_pages_is_read_to_its_end() {
    let (parts, digest) = in_pages(Some(3), |page| format!("<?page={page}>; rel=\"next\""));
    let server = paged(parts, digest.clone()).await;
    assert_eq!(referrers_of(&server, &digest).await, Ok(3));
    let list = path(&format!("referrers/{digest}"));
    let (parts, digest) = in_pages(Some(2), move |page| format!("<{list}?page={page}>; x=y; rel=next"));
    let server = paged(parts, digest.clone()).await;
    assert_eq!(referrers_of(&server, &digest).await, Ok(2));
}

#[tokio::test]
async fn a_list_without_a_last_page_and_a_page_elsewhere_are_refused() {
    let (parts, digest) = in_pages(None, |page| format!("<?page={page}>; rel=\"next\""));
    let server = paged(parts, digest.clone()).await;
    assert_eq!(referrers_of(&server, &digest).await, Err(Code::TooManyReferrers));
    assert!(server.seen().len() <= 16, "{}", server.seen().len());
    let elsewhere = Server::start(|_: &Seen| Answer::status(404)).await;
    for next in [
        format!("<http://{}/v2/acme/weather/referrers/x>; rel=\"next\"", elsewhere.host),
        "</v2/other/repository/referrers/x>; rel=\"next\"".to_owned(),
        "<https://169.254.169.254/>; rel=\"next\"".to_owned(),
    ] {
        let (parts, digest) = in_pages(Some(2), move |_| next.clone());
        let server = paged(parts, digest.clone()).await;
        assert_eq!(referrers_of(&server, &digest).await, Err(Code::RedirectRefused));
    }
    assert!(elsewhere.seen().is_empty());
    // A page that names itself has an end too.
    let (parts, digest) = in_pages(None, |_| "<?page=0>; rel=\"next\"".to_owned());
    let server = paged(parts, digest.clone()).await;
    assert_eq!(referrers_of(&server, &digest).await, Err(Code::TooManyReferrers));
}
