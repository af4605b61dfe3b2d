//! Statements about digests, as in-toto defines them.

use super::bundle::Envelope;
use super::proof::{Coverage, Subjects};
use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tollgate_agent::text::clean;

const V1: &str = "https://in-toto.io/Statement/v1";
const V0_1: &str = "https://in-toto.io/Statement/v0.1";
/// The predicate type of a plain signature without further claims, as cosign writes it.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

#[derive(Deserialize)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
}

#[derive(Serialize, Deserialize)]
struct Subject {
    #[serde(default)]
    name: String,
    digest: BTreeMap<String, String>,
}

/// Returns the part of the artifact that the statement in an envelope covers. If it covers several,
/// the manifest takes precedence.
pub(super) fn covers(envelope: &Envelope, subjects: Subjects<'_>) -> Result<Coverage> {
    let invalid =
        |why: &str| Error::new(Code::InvalidBundle, format!("the signed statement cannot be read: {why}"));
    let statement: Statement =
        serde_json::from_slice(&envelope.payload).map_err(|e| invalid(&e.to_string()))?;
    if !matches!(statement.kind.as_str(), V1 | V0_1) {
        return Err(invalid(&format!("it has the type {}", clean(&statement.kind, 100))));
    }
    let names = |digest: &Digest| {
        let (algorithm, hex) = digest.as_str().split_once(':').unwrap_or_default();
        statement
            .subject
            .iter()
            .any(|subject| subject.digest.get(algorithm).is_some_and(|found| found == hex))
    };
    let mut found = subjects.digests().filter(|(_, digest)| names(digest));
    found
        .next()
        .map(|(covers, _)| covers)
        .ok_or_else(|| Error::new(Code::OtherSubject, "the signature is about another artifact"))
}

/// Builds the statement that this artifact was signed.
pub(super) fn about(name: &str, digest: &Digest) -> Result<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct StatementBody {
        #[serde(rename = "_type")]
        kind: &'static str,
        subject: [Subject; 1],
        predicate_type: &'static str,
        predicate: BTreeMap<String, String>,
    }
    let digest = BTreeMap::from([("sha256".to_owned(), digest.hex().to_owned())]);
    let subject = [Subject { name: name.to_owned(), digest }];
    let statement = StatementBody { kind: V1, subject, predicate_type: SIGNED, predicate: BTreeMap::new() };
    serde_json::to_vec(&statement)
        .map_err(|e| Error::new(Code::Io, format!("a statement cannot be written: {e}")))
}
