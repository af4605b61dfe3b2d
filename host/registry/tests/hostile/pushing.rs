//! Publishing to registries that are busy, hostile, or shared with another publisher.

use crate::artifact::{BUNDLE, INDEX, MANIFEST, descriptor, path};
use crate::client;
use crate::server::{Answer, Seen, Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tollgate_registry::{Code, Error, NewArtifact, PublishedArtifact, Reference, Settings};

/// A component without imports and exports.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// The manifests of a registry, by name.
type Manifests = Arc<Mutex<BTreeMap<String, String>>>;

/// Answers as a registry that keeps manifests, and takes all blobs.
fn kept(manifests: &Manifests, seen: &Seen) -> Answer {
    let name = seen.path.strip_prefix(&path("manifests/"));
    match (seen.method.as_str(), name) {
        ("PUT", Some(name)) => {
            manifests.lock().unwrap().insert(name.to_owned(), seen.body.clone());
            Answer::status(201)
        }
        ("GET", Some(name)) => match manifests.lock().unwrap().get(name) {
            Some(text) if text.contains("\"manifests\"") => Answer::ok(INDEX, text.clone()),
            Some(text) => Answer::ok(MANIFEST, text.clone()),
            None => Answer::status(404),
        },
        ("POST", _) => Answer::status(202).with("location", &path("blobs/uploads/1?state=x")),
        ("PUT", None) => Answer::status(201),
        _ => Answer::status(404),
    }
}

async fn publish(server: &Server, bundle: Option<&[u8]>) -> Result<PublishedArtifact, Error> {
    let artifact = NewArtifact::new(COMPONENT.into(), None, &BTreeMap::new(), "1970-01-01T00:00:00Z")?;
    let reference: Reference = format!("{}/acme/weather:1", server.host).parse()?;
    client(Settings::default()).session(reference).publish(&artifact, bundle, false).await
}

#[tokio::test]
async fn a_busy_registry_is_asked_again_unless_an_upload_has_begun() {
    let manifests = Manifests::default();
    // The first of each kind of request fails.
    let busy = Mutex::new(Vec::new());
    let server = Server::start(move |seen| {
        let kind = format!("{} {}", seen.method, seen.path.contains("/manifests/"));
        let mut busy = busy.lock().unwrap();
        if busy.contains(&kind) || kind == "PUT false" {
            return kept(&manifests, seen);
        }
        busy.push(kind);
        Answer::status(503).with("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")
    })
    .await;
    assert_eq!(publish(&server, None).await.unwrap().uploaded, 2);
    let count = |method| server.seen().iter().filter(|seen| seen.method == method).count();
    assert_eq!((count("POST"), count("PUT")), (3, 5), "two blobs, the manifest and its tag");

    let server = Server::start(|seen| match seen.method.as_str() {
        "PUT" => Answer::status(503).with("retry-after", "0"),
        _ => kept(&Manifests::default(), seen),
    })
    .await;
    assert_eq!(publish(&server, None).await.unwrap_err().code, Code::RegistryFailed);
    assert_eq!(server.seen().iter().filter(|seen| seen.method == "PUT").count(), 1);
}

#[tokio::test]
async fn an_upload_goes_to_the_registry_alone() {
    let elsewhere = Server::start(|_: &Seen| Answer::status(201)).await;
    for place in [
        None,
        Some("https://example.com/upload".to_owned()),
        Some(format!("http://{}/upload", elsewhere.host)),
        Some("https://127.0.0.1:1/upload".to_owned()),
        Some("file:///etc/passwd".to_owned()),
        Some("http://[".to_owned()),
    ] {
        let shown = format!("{place:?}");
        let server = Server::start(move |seen| match (seen.method.as_str(), &place) {
            ("POST", Some(place)) => Answer::status(202).with("location", place),
            ("POST", None) => Answer::status(202),
            _ => Answer::status(404),
        })
        .await;
        let error = publish(&server, None).await.expect_err(&shown);
        assert_eq!(error.code, Code::RedirectRefused, "{shown}: {error}");
        assert!(server.seen().iter().all(|seen| seen.method != "PUT"), "{shown}");
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    for (status, code) in [(401, Code::UnsupportedChallenge), (403, Code::CredentialsMissing)] {
        let server = Server::start(move |seen| match seen.method.as_str() {
            "POST" => Answer::status(status),
            _ => Answer::status(404),
        })
        .await;
        let error = publish(&server, None).await.unwrap_err();
        assert_eq!(error.code, code, "{error}");
        let place = format!("log in with permission to push to oci://{}/acme/weather: ", server.host);
        assert_eq!(error.to_string().contains(&place), status == 403, "{error}");
    }
}

#[tokio::test]
async fn blobs_come_before_manifests_and_the_tag_is_last() {
    let manifests = Manifests::default();
    let server = Server::start(move |seen| kept(&manifests, seen)).await;
    publish(&server, Some(b"{}")).await.unwrap();
    let seen = server.seen();
    let wrote: Vec<_> = seen.iter().filter(|seen| seen.method == "PUT").collect();
    let is_manifest = |seen: &Seen| seen.path.starts_with(&path("manifests/"));
    // The configuration, the component, and the configuration and the content of the signature.
    assert_eq!(wrote.iter().filter(|seen| !is_manifest(seen)).count(), 4);
    let manifests: Vec<_> = wrote.iter().filter(|seen| is_manifest(seen)).map(|seen| &seen.path).collect();
    let [artifact, referrer, list, tag] = manifests.as_slice() else { panic!("{manifests:?}") };
    let by_digest = path("manifests/sha256:");
    assert!(artifact.starts_with(&by_digest) && referrer.starts_with(&by_digest), "{manifests:?}");
    assert!(list.starts_with(&path("manifests/sha256-")) && **tag == path("manifests/1"), "{manifests:?}");
    assert_eq!(seen.last().map(|seen| &seen.path), Some(*tag));
    // Each upload is preceded by the question whether the blob is there.
    for at in (0..seen.len()).filter(|at| seen[*at].method == "POST") {
        assert_eq!(seen[at - 1].method, "HEAD");
    }
    let first_manifest = wrote.iter().position(|seen| is_manifest(seen));
    assert_eq!(first_manifest, Some(2), "the artifact's blobs are there before its manifest");
}

/// The digests of a list of referrers.
fn listed(text: &str) -> Vec<String> {
    let index: Value = serde_json::from_str(text).unwrap();
    let entries = index["manifests"].as_array().unwrap().iter();
    entries.map(|entry| entry["digest"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_list_of_signatures_is_written_only_where_the_registry_keeps_none() {
    for keeps_lists in [true, false] {
        let manifests = Manifests::default();
        let kept_here = Arc::clone(&manifests);
        let server = Server::start(move |seen| {
            let answer = kept(&kept_here, seen);
            let is_referrer = seen.method == "PUT" && seen.body.contains("\"subject\"");
            if keeps_lists && is_referrer { answer.with("oci-subject", "sha256:00") } else { answer }
        })
        .await;
        publish(&server, Some(b"{}")).await.unwrap();
        let manifests = manifests.lock().unwrap();
        let list = manifests.iter().find(|(name, _)| name.starts_with("sha256-"));
        assert_eq!(list.is_none(), keeps_lists);
        if let Some((_, text)) = list {
            let (referrer, _) = manifests.iter().find(|(_, text)| text.contains("\"subject\"")).unwrap();
            assert_eq!(listed(text), std::slice::from_ref(referrer));
        }
    }
}

#[tokio::test]
async fn two_publishers_at_the_same_time_lose_nothing() {
    let other = {
        let mut entry = descriptor(MANIFEST, b"the signature of another publisher");
        entry["artifactType"] = json!(BUNDLE);
        entry
    };
    // How often the other publisher overwrites the list with one that it read before.
    for (times, is_kept) in [(1, true), (4, true), (100, false)] {
        let manifests = Manifests::default();
        let (kept_here, entry, left) = (Arc::clone(&manifests), other.clone(), Mutex::new(times));
        let server = Server::start(move |seen| {
            let answer = kept(&kept_here, seen);
            let mut left = left.lock().unwrap();
            if seen.method == "PUT" && seen.path.contains("/sha256-") && *left > 0 {
                *left -= 1;
                let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
                let name = seen.path.rsplit('/').next().unwrap().to_owned();
                kept_here.lock().unwrap().insert(name, index.to_string());
            }
            answer
        })
        .await;
        let published = publish(&server, Some(b"{}")).await;
        let manifests = manifests.lock().unwrap();
        let (_, text) = manifests.iter().find(|(name, _)| name.starts_with("sha256-")).unwrap();
        assert!(listed(text).contains(&other["digest"].as_str().unwrap().to_owned()));
        match is_kept {
            true => assert_eq!((published.is_ok(), listed(text).len()), (true, 2), "{times}"),
            false => assert_eq!(published.unwrap_err().code, Code::RegistryFailed),
        }
    }
}
