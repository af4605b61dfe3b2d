//! The policy: whose signature is required for what, and what happens to everything else.

use std::path::Path;
use tollgate_registry::{
    Code, Coverage, Digest, Error, Evidence, ExpectedSigner, Github, Proof, RawTrust, RecordedVersion,
    SignerEvidence, Trust, Verdict,
};

fn trust(text: &str) -> Result<Trust, Error> {
    let raw: RawTrust = toml::from_str(text).unwrap();
    Trust::new(&raw, Path::new("."))
}

const ORIGIN: &str = "oci://ghcr.io/acme/weather";

fn github(repository: &str, id: &str, workflow: &str, git_ref: &str) -> Proof {
    let signed = SignerEvidence::Github {
        repository: repository.to_owned(),
        repository_id: id.to_owned(),
        workflow: workflow.to_owned(),
        git_ref: git_ref.to_owned(),
        commit: "ab12".to_owned(),
        at: "2026-11-02T09:00:00Z".to_owned(),
        bundle: Digest::of(b"bundle"),
    };
    Proof { signed, covers: Coverage::Manifest, is_logged: true }
}

fn release() -> Proof {
    github("acme/tools", "1", ".github/workflows/release.yml", "refs/tags/v1")
}

/// A version that a person accepted here, as it is recorded.
fn accepted(signed: Option<&SignerEvidence>) -> Option<RecordedVersion<'_>> {
    Some(RecordedVersion { signed, is_accepted: true })
}

fn by(proofs: Vec<Proof>) -> Evidence {
    Evidence { proofs, faults: Vec::new() }
}

const ACME: &str = "[[signers]]\nfrom = [\"oci://ghcr.io/acme/*\"]\n\
    github = { repository = \"acme/tools\", workflow = \".github/workflows/release.yml\", refs = \"refs/tags/*\" }";

#[test]
fn a_required_signer_is_required() {
    let trust = trust(ACME).unwrap();
    let judge = |evidence: &Evidence| trust.judge(ORIGIN, evidence, None, None);
    assert!(matches!(judge(&by(vec![release()])), Ok(Verdict::Accepted { vouched: true, .. })));
    for proof in [
        github("evil/tools", "1", ".github/workflows/release.yml", "refs/tags/v1"),
        github("acme/tools", "1", ".github/workflows/other.yml", "refs/tags/v1"),
        github("acme/tools", "1", ".github/workflows/release.yml", "refs/heads/main"),
        github("acme/tools-2", "1", ".github/workflows/release.yml", "refs/tags/v1"),
    ] {
        let error = judge(&by(vec![proof])).unwrap_err();
        assert_eq!(error.code, Code::UnexpectedSigner);
        assert!(error.to_string().contains("the required signer is repository acme/tools"), "{error}");
    }
    assert_eq!(judge(&Evidence::default()).unwrap_err().code, Code::Unsigned);
    let fault = Error::new(Code::InvalidSignature, "x");
    let evidence = Evidence { proofs: Vec::new(), faults: vec![fault] };
    assert_eq!(judge(&evidence).unwrap_err().code, Code::InvalidSignature, "not the same as a missing one");
}

#[test]
fn the_longest_pattern_decides_and_its_signers_are_alternatives() {
    let more = "[[signers]]\nfrom = [\"oci://ghcr.io/acme/weather\"]\nidentity = \"a@acme.test\"\nissuer = \"https://i\"\n\
        [[signers]]\nfrom = [\"oci://ghcr.io/acme/weather\"]\nidentity = \"b@acme.test\"\nissuer = \"https://i\"\n";
    let trust = trust(&format!("{ACME}\n{more}")).unwrap();
    assert_eq!(trust.signers_of(ORIGIN).len(), 2);
    assert!(matches!(trust.signers_of("oci://ghcr.io/acme/mail").as_slice(), [ExpectedSigner::Github(_)]));
    for other in [
        "oci://ghcr.io/acme-evil/x",
        "oci://ghcr.io.evil.test/acme/x",
        "oci://ghcr.io/acme",
        "https://ghcr.io/acme/x",
    ] {
        assert!(trust.signers_of(other).is_empty(), "{other}");
    }
    assert_eq!(
        trust.judge(ORIGIN, &by(vec![release()]), None, None).unwrap_err().code,
        Code::UnexpectedSigner
    );
}

#[test]
fn what_no_rule_names_is_asked_about_refused_or_allowed() {
    let unsigned = Evidence::default();
    let ask = trust("").unwrap();
    assert!(matches!(
        ask.judge(ORIGIN, &unsigned, None, None),
        Ok(Verdict::Ask { is_held: false, proof: None, .. })
    ));
    let signed = ask.judge(ORIGIN, &by(vec![release()]), None, None);
    assert!(matches!(signed, Ok(Verdict::Ask { is_held: false, proof: Some(_), .. })));
    let refuse = trust("otherwise = \"refuse\"").unwrap();
    assert_eq!(refuse.judge(ORIGIN, &unsigned, None, None).unwrap_err().code, Code::Unsigned);
    let error = refuse.judge(ORIGIN, &by(vec![release()]), None, None).unwrap_err();
    assert_eq!(error.code, Code::UnexpectedSigner);
    // Neither an edited lock file nor an option bypasses the policy.
    let SignerEvidence::Github { .. } = release().signed else { unreachable!() };
    assert!(refuse.judge(ORIGIN, &by(vec![release()]), None, accepted(Some(&release().signed))).is_err());
    assert!(refuse.judge(ORIGIN, &unsigned, None, accepted(None)).is_err());
    // Nor does the lock file alone say that a person accepted a version.
    let signed = release().signed;
    for (evidence, signer) in [(unsigned.clone(), None), (by(vec![release()]), Some(&signed))] {
        let edited = RecordedVersion { signed: signer, is_accepted: false };
        let verdict = ask.judge(ORIGIN, &evidence, None, Some(edited));
        assert!(matches!(verdict, Ok(Verdict::Ask { is_held: false, .. })), "{verdict:?}");
        let verdict = ask.judge(ORIGIN, &evidence, None, accepted(signer));
        assert!(matches!(verdict, Ok(Verdict::Accepted { .. })), "{verdict:?}");
    }
    let allow = trust("otherwise = \"allow\"").unwrap();
    assert!(matches!(
        allow.judge(ORIGIN, &unsigned, None, None),
        Ok(Verdict::Accepted { vouched: false, .. })
    ));
}

#[test]
fn a_signer_that_a_person_names_is_required_too() {
    let trust = trust("").unwrap();
    let named =
        ExpectedSigner::Github(Github { repository: "acme/tools".to_owned(), workflow: None, refs: None });
    let accepted = trust.judge(ORIGIN, &by(vec![release()]), Some(&named), None);
    assert!(matches!(accepted, Ok(Verdict::Accepted { vouched: true, .. })));
    let other = github("evil/tools", "1", "x", "refs/tags/v1");
    assert_eq!(
        trust.judge(ORIGIN, &by(vec![other]), Some(&named), None).unwrap_err().code,
        Code::UnexpectedSigner
    );
    assert_eq!(
        trust.judge(ORIGIN, &Evidence::default(), Some(&named), None).unwrap_err().code,
        Code::Unsigned
    );
}

#[test]
fn a_version_by_another_signer_is_held_whatever_the_policy_says() {
    let before = release().signed;
    let held = |text: &str, evidence: &Evidence| {
        let verdict = trust(text).unwrap().judge(ORIGIN, evidence, None, accepted(Some(&before))).unwrap();
        matches!(verdict, Verdict::Ask { is_held: true, .. })
    };
    let same = github("acme/tools", "1", ".github/workflows/release.yml", "refs/tags/v2");
    assert!(!held("", &by(vec![same.clone()])));
    for text in ["", "otherwise = \"allow\""] {
        assert!(held(text, &Evidence::default()), "no signature");
        // Another owner has registered the name again.
        assert!(held(
            text,
            &by(vec![github("acme/tools", "2", ".github/workflows/release.yml", "refs/tags/v2")])
        ));
        let key = SignerEvidence::Key { key: Digest::of(b"key"), bundle: Digest::of(b"bundle") };
        let key = Proof { signed: key, covers: Coverage::Manifest, is_logged: false };
        assert!(held(text, &by(vec![key])), "a weaker kind");
    }
    assert!(held(
        ACME,
        &by(vec![github("acme/tools", "2", ".github/workflows/release.yml", "refs/tags/v2")])
    ));
    let both = by(vec![github("acme/other", "7", "x", "refs/tags/v1"), same]);
    assert!(!held("", &both), "one of two signatures is by the recorded signer");
}

#[test]
fn a_policy_that_cannot_be_meant_is_an_error_at_start() {
    for text in [
        "[[signers]]\nfrom = []\nidentity = \"a\"\nissuer = \"b\"",
        "[[signers]]\nfrom = [\"oci://ghcr.io/*/x\"]\nidentity = \"a\"\nissuer = \"b\"",
        "[[signers]]\nfrom = [\"oci://ghcr.io/acme*\"]\nidentity = \"a\"\nissuer = \"b\"",
        "[[signers]]\nfrom = [\"ghcr.io/acme/*\"]\nidentity = \"a\"\nissuer = \"b\"",
        "[[signers]]\nfrom = [\"oci://ghcr.io/\"]",
        "[[signers]]\nfrom = [\"oci://ghcr.io/\"]\nidentity = \"a\"",
        "[[signers]]\nfrom = [\"oci://ghcr.io/\"]\nkey = \"there-is-none.pub\"",
        "[[signers]]\nfrom = [\"oci://ghcr.io/\"]\ngithub = { repository = \"acme\" }",
        "[[signers]]\nfrom = [\"oci://ghcr.io/\"]\ngithub = { repository = \"acme/tools\" }\nlog = true",
        "root = \"there-is-none.json\"",
    ] {
        assert_eq!(trust(text).unwrap_err().code, Code::InvalidTrust, "{text}");
    }
}

/// A policy with one rule, for the components that a pattern matches.
fn about(pattern: &str) -> Result<Trust, Error> {
    trust(&format!("[[signers]]\nfrom = [\"{pattern}\"]\nidentity = \"a\"\nissuer = \"b\""))
}

#[test]
fn a_pattern_that_could_match_nothing_is_an_error() {
    for (pattern, why) in [
        ("oci://ghcr.io/acme/hello:1", "names a tag or a digest"),
        (&format!("oci://ghcr.io/acme/hello@{}", Digest::of(b"x")), "names a tag or a digest"),
        ("oci://127.0.0.1:5931", "for all of a registry, write oci://127.0.0.1:5931/*"),
        ("oci://ghcr.io/Acme/*", "does not name a valid repository"),
        ("oci://acme/hello", "does not begin with the host of a registry"),
        ("http://tools.example.com/", "use https"),
        ("https://ada:secret@tools.example.com/", "holds credentials"),
        ("file:./tools/weather.wasm", "without its directory"),
        ("file:", "without its directory"),
    ] {
        let error = about(pattern).expect_err(pattern);
        assert_eq!(error.code, Code::InvalidTrust, "{pattern}");
        assert!(error.to_string().contains(why), "{pattern}: {error}");
    }
}

#[test]
fn a_pattern_in_another_spelling_matches_the_same() {
    for (pattern, origins) in [
        ("oci://LOCALHOST:5931/acme/*", &["oci://localhost:5931/acme/hello"][..]),
        ("oci://GHCR.io:443/acme/hello", &["oci://ghcr.io/acme/hello"]),
        ("oci://index.docker.io/*", &["oci://docker.io/library/hello", "oci://docker.io/acme/hello"]),
        ("oci://docker.io/hello", &["oci://docker.io/library/hello"]),
        ("https://Tools.example.com:443/a/", &["https://tools.example.com/a/weather.wasm"]),
        ("file:weather.wasm", &["file:weather.wasm"]),
    ] {
        let trust = about(pattern).unwrap();
        for origin in origins {
            assert_eq!(trust.signers_of(origin).len(), 1, "{pattern}: {origin}");
        }
        assert!(trust.signers_of("oci://ghcr.io/acme/hello-2").is_empty(), "{pattern}");
    }
}
