//! `[trust]`: whose signature is required for what, and what happens to everything else.

use crate::error::{Code, Error, Result};
use crate::reference::{Reference, Source};
use crate::signature::MAX_KEY_BYTES;
use crate::signature::{Proof, PublicKey, SignerEvidence, TrustedRoot};
use serde::Deserialize;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tollgate_agent::text::clean;

/// The longest trusted root, in bytes.
const MAX_ROOT_BYTES: u64 = 4 << 20;

/// `[trust]` as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawTrust {
    otherwise: DefaultTrust,
    root: Option<PathBuf>,
    signers: Vec<RawSigner>,
}

/// The treatment of a component whose signer no rule names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DefaultTrust {
    /// A person decides.
    #[default]
    Ask,
    /// It is refused.
    Refuse,
    /// It is accepted.
    Allow,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSigner {
    from: Vec<String>,
    github: Option<Github>,
    identity: Option<String>,
    issuer: Option<String>,
    key: Option<PathBuf>,
    #[serde(default)]
    log: bool,
}

/// A workflow of GitHub that signs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Github {
    /// The repository, such as `acme/tools`.
    pub repository: String,
    /// The file of the workflow; any of the repository if it is `None`.
    pub workflow: Option<String>,
    /// The branches and tags that count, such as `refs/tags/*`; any if it is `None`.
    pub refs: Option<String>,
}

impl Github {
    /// Returns all workflows of a repository, on any branch or tag.
    ///
    /// # Errors
    /// The text does not name a repository.
    pub fn any_workflow_of(repository: &str) -> Result<Self> {
        if !is_repository(repository) {
            let what = format!("{} has to be OWNER/REPOSITORY, such as acme/tools", clean(repository, 200));
            return Err(Error::new(Code::InvalidTrust, what));
        }
        Ok(Self { repository: repository.to_owned(), workflow: None, refs: None })
    }
}

/// Returns whether the text is the owner and the name of a repository.
fn is_repository(text: &str) -> bool {
    text.split_once('/').is_some_and(|(owner, name)| {
        let is_part = |part: &str| {
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
            !part.is_empty() && part.bytes().all(is_plain)
        };
        is_part(owner) && is_part(name)
    })
}

/// A signer that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedSigner {
    /// A workflow of GitHub.
    Github(Github),
    /// Another identity of a certificate.
    Identity {
        /// The identity.
        identity: String,
        /// The issuer that vouches for it.
        issuer: String,
    },
    /// A key.
    Key {
        /// The key.
        key: PublicKey,
        /// Whether the transparency log has to have the signature.
        log: bool,
    },
}

/// The policy: whose signature is required for what.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    otherwise: DefaultTrust,
    /// `None` for the embedded one, which is read when it is needed.
    root: Option<TrustedRoot>,
    signers: Vec<(Vec<String>, ExpectedSigner)>,
    files: Vec<PathBuf>,
}

/// The signatures of a component.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Those that verify.
    pub proofs: Vec<Proof>,
    /// Why others do not.
    pub faults: Vec<Error>,
}

/// The policy's verdict on a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is signed as required, or the policy accepts everything of this origin.
    Accepted {
        /// The signer; `None` if the policy accepts it unsigned.
        proof: Option<Proof>,
        /// Whether a rule of the policy, or the person who named a signer, vouches for it.
        vouched: bool,
    },
    /// A person has to decide.
    Ask {
        /// The signer; `None` if it is unsigned.
        proof: Option<Proof>,
        /// Why.
        why: String,
        /// Whether the signer differs from the recorded one, so that a person has to type the id.
        is_held: bool,
    },
}

/// The version before, as the lock file records it.
#[derive(Debug, Clone, Copy)]
pub struct RecordedVersion<'a> {
    /// The signer; `None` if it was not signed.
    pub signed: Option<&'a SignerEvidence>,
    /// Whether a person accepted that version here. The lock file alone does not prove that: it may
    /// have been edited.
    pub is_accepted: bool,
}

impl Trust {
    /// Reads the policy, with the keys and the root that it names. Relative paths begin at
    /// `base_dir`.
    ///
    /// # Errors
    /// A rule cannot be meant, or a file that it names cannot be used.
    pub fn new(raw: &RawTrust, base_dir: &Path) -> Result<Self> {
        let root = match &raw.root {
            Some(file) => Some(TrustedRoot::from_json(&read_file(&base_dir.join(file), MAX_ROOT_BYTES)?)?),
            None => None,
        };
        let signers = raw.signers.iter().map(|signer| {
            if signer.from.is_empty() {
                return Err(invalid("a rule of [[trust.signers]] has an empty `from`"));
            }
            let from = signer.from.iter().map(|pattern| checked_pattern(pattern)).collect::<Result<_>>()?;
            Ok((from, expected(signer, base_dir)?))
        });
        let signers = signers.collect::<Result<_>>()?;
        let named = raw.signers.iter().filter_map(|signer| signer.key.as_ref()).chain(&raw.root);
        let files = named.map(|file| base_dir.join(file)).collect();
        Ok(Self { otherwise: raw.otherwise, root, signers, files })
    }

    /// Returns the files with the keys and the root that the policy names.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The authorities and logs that are trusted.
    ///
    /// # Errors
    /// The embedded root cannot be read.
    pub fn root(&self) -> Result<TrustedRoot> {
        self.root.clone().map_or_else(TrustedRoot::embedded, Ok)
    }

    /// The keys that the policy requires for an origin.
    #[must_use]
    pub fn keys_of(&self, origin: &str) -> Vec<PublicKey> {
        self.signers_of(origin).iter().filter_map(ExpectedSigner::key).cloned().collect()
    }

    /// All keys of the policy.
    #[must_use]
    pub fn keys(&self) -> Vec<PublicKey> {
        self.signers.iter().filter_map(|(_, expected)| expected.key()).cloned().collect()
    }

    /// The signers that the policy requires for an origin: those of the longest pattern that
    /// matches it. Empty if no rule matches.
    #[must_use]
    pub fn signers_of(&self, origin: &str) -> Vec<ExpectedSigner> {
        let matching = |patterns: &[String]| {
            patterns.iter().filter(|pattern| matches(pattern, origin)).map(String::len).max()
        };
        let longest = self.signers.iter().filter_map(|(patterns, _)| matching(patterns)).max();
        let Some(longest) = longest else { return Vec::new() };
        let of_longest = self.signers.iter().filter(|(patterns, _)| matching(patterns) == Some(longest));
        of_longest.map(|(_, expected)| expected.clone()).collect()
    }

    /// Judges the signatures of a component. `named` is the signer that a person named for it, in
    /// addition to the policy. `recorded` is what is known about the version before.
    ///
    /// # Errors
    /// The component is refused.
    pub fn judge(
        &self,
        origin: &str,
        evidence: &Evidence,
        named: Option<&ExpectedSigner>,
        recorded: Option<RecordedVersion<'_>>,
    ) -> Result<Verdict> {
        let required = self.signers_of(origin);
        let by_policy = find(&required, &evidence.proofs);
        if !required.is_empty() && by_policy.is_none() {
            return Err(missing(&required, evidence));
        }
        let by_name = named.map(|named| {
            let named = std::slice::from_ref(named);
            find(named, &evidence.proofs).ok_or_else(|| missing(named, evidence))
        });
        let by_name = by_name.transpose()?;
        let vouched = by_name.or(by_policy);
        if self.otherwise == DefaultTrust::Refuse && by_policy.is_none() {
            let (code, what) = match preferred(&evidence.proofs, None) {
                Some(proof) => (Code::UnexpectedSigner, format!("it is signed by {}", proof.signed)),
                None => (Code::Unsigned, unsigned(evidence)),
            };
            let why = "and [trust] refuses everything that no rule is about";
            return Err(Error::new(code, format!("{what}, {why}")));
        }
        let signer = recorded.and_then(|recorded| recorded.signed);
        let proof = vouched.or_else(|| preferred(&evidence.proofs, signer)).cloned();
        if let Some(why) = changed(signer, proof.as_ref()) {
            return Ok(Verdict::Ask { proof, why, is_held: true });
        }
        if vouched.is_some() {
            return Ok(Verdict::Accepted { proof, vouched: true });
        }
        let is_allowed = self.otherwise == DefaultTrust::Allow;
        if recorded.is_some_and(|recorded| recorded.is_accepted || is_allowed) {
            // By the signer of the version before, or unsigned as that one, or better.
            return Ok(Verdict::Accepted { proof, vouched: signer.is_some() });
        }
        if is_allowed {
            return Ok(Verdict::Accepted { proof, vouched: false });
        }
        let why = match &proof {
            Some(proof) => format!("no rule of [trust] names its signer: {}", proof.signed),
            None => unsigned(evidence),
        };
        Ok(Verdict::Ask { proof, why, is_held: false })
    }
}

impl ExpectedSigner {
    /// The key, if it is one.
    #[must_use]
    pub fn key(&self) -> Option<&PublicKey> {
        match self {
            Self::Key { key, .. } => Some(key),
            _ => None,
        }
    }

    fn accepts(&self, proof: &Proof) -> bool {
        match (self, &proof.signed) {
            (Self::Github(expected), SignerEvidence::Github { repository, workflow, git_ref, .. }) => {
                // Names of repositories do not depend on case.
                expected.repository.eq_ignore_ascii_case(repository)
                    && expected.workflow.as_ref().is_none_or(|expected| expected == workflow)
                    && expected.refs.as_ref().is_none_or(|pattern| is_ref(pattern, git_ref))
            }
            (
                Self::Identity { identity, issuer },
                SignerEvidence::Identity { identity: i, issuer: by, .. },
            ) => (identity, issuer) == (i, by),
            (Self::Key { key, log }, SignerEvidence::Key { key: id, .. }) => {
                key.id() == id && (!log || proof.is_logged)
            }
            _ => false,
        }
    }
}

impl fmt::Display for ExpectedSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Github(Github { repository, workflow, refs }) => {
                write!(f, "repository {repository}")?;
                workflow.iter().try_for_each(|workflow| write!(f, ", workflow {workflow}"))?;
                refs.iter().try_for_each(|refs| write!(f, ", {refs}"))
            }
            Self::Identity { identity, issuer } => write!(f, "{identity} (vouched for by {issuer})"),
            Self::Key { key, log } => {
                write!(f, "key {}", key.id())?;
                if *log { f.write_str(", with an entry of the transparency log") } else { Ok(()) }
            }
        }
    }
}

/// Reads a public key from a file.
///
/// # Errors
/// The file cannot be read, or is not a public key.
pub fn read_key(file: &Path) -> Result<PublicKey> {
    let key = PublicKey::from_pem(&read_file(file, MAX_KEY_BYTES)?);
    key.map_err(|why| invalid(&format!("{}: {}", file.display(), why.message())))
}

fn find<'a>(expected: &[ExpectedSigner], proofs: &'a [Proof]) -> Option<&'a Proof> {
    proofs.iter().find(|proof| expected.iter().any(|expected| expected.accepts(proof)))
}

/// Of several signatures, the one by the recorded signer, or else one with a certificate.
fn preferred<'a>(proofs: &'a [Proof], recorded: Option<&SignerEvidence>) -> Option<&'a Proof> {
    let same = |proof: &&Proof| recorded.is_some_and(|recorded| proof.signed.is_same_signer(recorded));
    let by_certificate = |proof: &&Proof| !matches!(proof.signed, SignerEvidence::Key { .. });
    proofs.iter().find(same).or_else(|| proofs.iter().find(by_certificate)).or(proofs.first())
}

/// Returns why a version needs a person's decision: its signer differs from the recorded one. `None` if
/// it does not.
fn changed(recorded: Option<&SignerEvidence>, proof: Option<&Proof>) -> Option<String> {
    let recorded = recorded?;
    match proof {
        Some(proof) if proof.signed.is_same_signer(recorded) => None,
        Some(proof) => {
            Some(format!("it is signed by {}, and the version before by {recorded}", proof.signed))
        }
        None => Some(format!("it is not signed, and the version before was signed by {recorded}")),
    }
}

/// Returns the error for a component that none of the expected signers signed.
fn missing(expected: &[ExpectedSigner], evidence: &Evidence) -> Error {
    let expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
    let expected = clean(&expected.join(", or "), 500);
    match (evidence.proofs.first(), evidence.faults.first()) {
        (Some(proof), _) => {
            let what = format!("it is signed by {}, and the required signer is {expected}", proof.signed);
            Error::new(Code::UnexpectedSigner, what)
        }
        (None, Some(fault)) => {
            let fault_in_words = fault.message();
            Error::new(fault.code, format!("{fault_in_words}, and a signature by {expected} is required"))
        }
        (None, None) => {
            Error::new(Code::Unsigned, format!("no signature was found, and one by {expected} is required"))
        }
    }
}

fn unsigned(evidence: &Evidence) -> String {
    match evidence.faults.first() {
        Some(fault) => format!("it has no signature that verifies: {}", fault.message()),
        None => "no signature was found".to_owned(),
    }
}

fn expected(signer: &RawSigner, base_dir: &Path) -> Result<ExpectedSigner> {
    if signer.log && signer.key.is_none() {
        return Err(invalid("`log` in [[trust.signers]] belongs to `key`"));
    }
    match (&signer.github, &signer.identity, &signer.issuer, &signer.key) {
        (Some(github), None, None, None) => {
            if !is_repository(&github.repository) {
                return Err(invalid(
                    "`repository` of `github` in [[trust.signers]] has to be OWNER/REPOSITORY",
                ));
            }
            Ok(ExpectedSigner::Github(github.clone()))
        }
        (None, Some(identity), Some(issuer), None) => {
            Ok(ExpectedSigner::Identity { identity: identity.clone(), issuer: issuer.clone() })
        }
        (None, None, None, Some(key)) => {
            Ok(ExpectedSigner::Key { key: read_key(&base_dir.join(key))?, log: signer.log })
        }
        _ => {
            Err(invalid("a rule of [[trust.signers]] has to name one of: github, identity with issuer, key"))
        }
    }
}

/// A pattern is an origin, or one that ends in `/` or `/*` and matches everything below it. The result
/// has the form that origins have, because one in another form would match nothing.
fn checked_pattern(pattern: &str) -> Result<String> {
    let invalid = |why: &str| invalid(&format!("the pattern {} {why}", clean(pattern, 200)));
    let exact = pattern.strip_suffix('*').unwrap_or(pattern);
    if exact.contains('*') || (pattern.ends_with('*') && !exact.ends_with('/')) {
        return Err(invalid("has a `*` elsewhere than after the last `/`"));
    }
    if exact.starts_with("https://") || exact.starts_with("http://") {
        return Ok(exact.parse::<Source>().map_err(|e| invalid(&format!("matches nothing: {e}")))?.origin());
    }
    if let Some(name) = exact.strip_prefix("file:") {
        return match name.is_empty() || name.contains('/') {
            true => Err(invalid("has to name a file without its directory, such as file:weather.wasm")),
            false => Ok(exact.to_owned()),
        };
    }
    let Some(rest) = exact.strip_prefix("oci://") else {
        return Err(invalid("has to begin with oci://, https:// or file:"));
    };
    let Some((_, path)) = rest.split_once('/') else {
        return Err(invalid(&format!("names no repository; for all of a registry, write {exact}/*")));
    };
    if path.contains([':', '@']) {
        return Err(invalid("names a tag or a digest, and a rule is about all versions; leave it out"));
    }
    // Two parts, because Docker's registry puts a repository of one part elsewhere.
    let below = if exact.ends_with('/') { "x/x" } else { "" };
    let reference: Reference =
        format!("{exact}{below}").parse().map_err(|e| invalid(&format!("matches nothing: {e}")))?;
    let origin = reference.origin();
    Ok(origin.strip_suffix(below).unwrap_or(&origin).to_owned())
}

fn matches(pattern: &str, origin: &str) -> bool {
    origin == pattern || (pattern.ends_with('/') && origin.starts_with(pattern))
}

fn is_ref(pattern: &str, git_ref: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => git_ref.starts_with(start),
        None => git_ref == pattern,
    }
}

fn invalid(why: &str) -> Error {
    Error::new(Code::InvalidTrust, why)
}

/// Reads a file that the configuration names.
pub(crate) fn read_file(file: &Path, limit: u64) -> Result<String> {
    let failed = |why: &dyn fmt::Display| invalid(&format!("{} cannot be read: {why}", file.display()));
    let found = std::fs::metadata(file).map_err(|e| failed(&e))?;
    if !found.is_file() {
        return Err(failed(&"it is not a regular file"));
    }
    let mut text = String::new();
    let open = std::fs::File::open(file).map_err(|e| failed(&e))?;
    open.take(limit + 1).read_to_string(&mut text).map_err(|e| failed(&e))?;
    if text.len() as u64 > limit {
        Err(failed(&format!("it is larger than {limit} bytes")))
    } else {
        Ok(text)
    }
}
