#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::SigningKey;
use std::os::unix::fs::symlink;
use std::path::Path;

fn files(folder: &Path) -> Files {
    Files {
        lock: folder.join("tollgate.lock"),
        bundles: folder.join("tollgate.bundles"),
        tools: folder.join("tools"),
    }
}

fn key() -> SigningKey {
    let random = ring::rand::SystemRandom::new();
    let pkcs8 = ring::signature::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pkcs8.as_ref());
    SigningKey::from_pem(&format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"))
        .unwrap()
}

/// A signed version of the component `weather`.
struct Version {
    entry: Entry,
    wasm: Vec<u8>,
    asks: Option<String>,
    bundle: Vec<u8>,
    key: PublicKey,
}

fn version(number: u32, asks: Option<&str>, key: &SigningKey) -> Version {
    let wasm = format!("component {number}").into_bytes();
    let bundle = key.sign("weather", &Digest::of(&wasm)).unwrap();
    let signed = SignerEvidence::Key { key: key.public().id().clone(), bundle: Digest::of(&bundle) };
    let entry = Entry {
        id: "weather".to_owned(),
        file: "weather.wasm".to_owned(),
        from: "oci://ghcr.io/acme/weather".to_owned(),
        tag: Some(number.to_string()),
        manifest: None,
        wasm: Digest::of(&wasm),
        asks: asks.map(|asks| Digest::of(asks.as_bytes())),
        surface: Digest::of(b"surface"),
        licence: None,
        signed: Some(signed),
    };
    Version { entry, wasm, asks: asks.map(str::to_owned), bundle, key: key.public().clone() }
}

fn install(files: &Files, version: &Version, replaces: Option<&Entry>) -> Result<()> {
    files.install(&Installation {
        entry: &version.entry,
        wasm: &version.wasm,
        asks: version.asks.as_deref(),
        bundle: Some(&version.bundle),
        manifest: None,
        key: Some(&version.key),
        replaces,
    })
}

/// Returns the installed file if the host would serve it under the lock file.
fn is_served(files: &Files, mode: crate::LockMode) -> Option<Vec<u8>> {
    let wasm = read(&files.tools.join("weather.wasm"), 1_000).unwrap()?;
    let asks = digest_of(&files.tools.join("weather.toml"), 1_000).unwrap();
    let lock = files.read_lock().unwrap();
    let digest = Digest::of(&wasm);
    let checked = lock.check(mode, "weather.wasm", "weather", digest.hex(), asks.as_ref().map(Digest::hex));
    checked.is_ok().then_some(wasm)
}

#[test]
fn a_component_is_installed_replaced_and_removed_with_its_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let (files, key) = (files(folder.path()), key());
    let (one, two) = (version(1, Some("[asks]\n"), &key), version(2, None, &key));
    install(&files, &one, None).unwrap();
    assert_eq!(files.placement(&one.entry).unwrap(), Placement::InPlace);
    let kept = files.evidence(&one.entry).unwrap().unwrap();
    assert_eq!((kept.bundle, kept.key), (one.bundle.clone(), Some(one.key.clone())));
    install(&files, &two, Some(&one.entry)).unwrap();
    assert!(!files.tools.join("weather.toml").exists(), "the version asks for nothing");
    assert!(files.evidence(&one.entry).is_err() && files.evidence(&two.entry).is_ok());
    assert_eq!(install(&files, &one, Some(&one.entry)).unwrap_err().code, Code::LockMismatch);
    assert_eq!(files.remove("weather").unwrap(), two.entry);
    assert_eq!(files.read_lock().unwrap(), Lock::default());
    for dir in [&files.tools, &files.bundles] {
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "{}", dir.display());
    }
    assert_eq!(files.remove("weather").unwrap_err().code, Code::NotFound);
}

#[test]
fn a_program_that_is_killed_at_any_step_leaves_what_is_served_or_can_be_completed() {
    let key = key();
    let (one, two) = (version(1, Some("[asks]\n"), &key), version(2, Some("[asks]\nwhy = \"x\"\n"), &key));
    let mut kills = 0;
    for steps in 0.. {
        for replaces in [None, Some(&one)] {
            let folder = tempfile::tempdir().unwrap();
            let files = files(folder.path());
            if let Some(one) = replaces {
                install(&files, one, None).unwrap();
            }
            STEPS_LEFT.set(steps);
            let done = install(&files, &two, replaces.map(|one| &one.entry));
            STEPS_LEFT.set(u32::MAX);
            // With `all`, only a version in the lock file is ever served.
            let lock = files.read_lock().unwrap();
            let named = lock.of("weather").map(|entry| entry.wasm.clone());
            let served = is_served(&files, crate::LockMode::All);
            assert!(served.is_none() || served.map(|wasm| Digest::of(&wasm)) == named, "step {steps}");
            if let Some(entry) = lock.of("weather") {
                files.complete(entry).unwrap();
                assert_eq!(files.placement(entry).unwrap(), Placement::InPlace, "step {steps}");
                assert!(files.evidence(entry).unwrap().is_some());
            }
            kills += u32::from(done.is_err());
            if done.is_ok() && replaces.is_some() {
                assert!(kills > 8, "every step was tried");
                return;
            }
        }
    }
}

#[test]
fn a_removal_that_is_killed_leaves_no_file_without_its_entry() {
    let key = key();
    let one = version(1, Some("[asks]\n"), &key);
    for steps in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        install(&files, &one, None).unwrap();
        STEPS_LEFT.set(steps);
        let done = files.remove("weather");
        STEPS_LEFT.set(u32::MAX);
        let has_entry = files.read_lock().unwrap().of("weather").is_some();
        assert!(has_entry || !files.tools.join("weather.wasm").exists());
        if done.is_ok() {
            return;
        }
    }
    panic!("it was never removed");
}

#[test]
fn nothing_else_than_a_recorded_file_is_replaced() {
    let key = key();
    let one = version(1, Some("[asks]\n"), &key);
    type Make = fn(&Path);
    let make: [(&str, Make); 6] = [
        ("weather.wasm", |path| symlink("elsewhere", path).unwrap()),
        ("weather.wasm", |path| fs::create_dir(path).unwrap()),
        ("weather.toml", |path| symlink("elsewhere", path).unwrap()),
        ("weather.wasm", |path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        }),
        ("weather.wasm", |path| fs::write(path, "another person's").unwrap()),
        ("weather.toml", |path| fs::write(path, "another person's").unwrap()),
    ];
    for (name, make) in make {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        fs::create_dir(&files.tools).unwrap();
        make(&files.tools.join(name));
        let error = install(&files, &one, None).unwrap_err();
        assert!(matches!(error.code, Code::TargetRefused | Code::NameTaken), "{error}");
        assert!(!files.lock.exists() && !files.bundles.exists(), "nothing was written");
    }
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    symlink("elsewhere.lock", &files.lock).unwrap();
    assert_eq!(install(&files, &one, None).unwrap_err().code, Code::TargetRefused);
}

#[test]
fn evidence_that_was_exchanged_is_not_the_kept_one() {
    let folder = tempfile::tempdir().unwrap();
    let (files, key, other) = (files(folder.path()), key(), key());
    let one = version(1, None, &key);
    install(&files, &one, None).unwrap();
    fs::write(files.key_path(one.key.id()), other.public().to_pem()).unwrap();
    assert_eq!(files.evidence(&one.entry).unwrap_err().code, Code::LockMismatch);
    fs::write(files.key_path(one.key.id()), one.key.to_pem()).unwrap();
    fs::write(files.bundle_path(&Digest::of(&one.bundle)), b"{}").unwrap();
    assert_eq!(files.evidence(&one.entry).unwrap_err().code, Code::LockMismatch);
}

#[test]
fn what_killed_processes_left_is_removed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (files, key) = (files(folder.path()), key());
    let (one, two) = (version(1, Some("[asks]\n"), &key), version(2, None, &key));
    for dir in [&files.tools, &files.bundles] {
        fs::create_dir(dir).unwrap();
    }
    let hex = "0".repeat(64);
    let left = [
        folder.path().join(".tollgate-x.part"),
        files.tools.join(".tollgate-x.part"),
        files.bundles.join(".tollgate-x.part"),
        files.tools.join(format!(".staged-{hex}.wasm")),
        files.tools.join(format!(".staged-{hex}.toml")),
        files.bundles.join(format!("{hex}.json")),
        files.bundles.join(format!("{hex}.manifest.json")),
        files.bundles.join(format!("{hex}.pub")),
    ];
    let others = [
        files.bundles.join("notes.json"),
        files.bundles.join(format!("{hex}.txt")),
        files.tools.join("other.wasm"),
        files.tools.join(".staged"),
    ];
    let make = || left.iter().for_each(|file| fs::write(file, "left").unwrap());
    others.iter().for_each(|file| fs::write(file, "kept").unwrap());
    let check = |after: &str| {
        assert!(!left.iter().any(|file| file.exists()), "{after}");
        assert!(others.iter().all(|file| file.exists()), "{after}");
    };
    make();
    install(&files, &one, None).unwrap();
    check("an installation");
    assert!(files.evidence(&one.entry).unwrap().is_some(), "the evidence of the entry stays");
    make();
    install(&files, &two, Some(&one.entry)).unwrap();
    check("an update");
    make();
    files.tidy().unwrap();
    check("tidying");
    assert!(files.evidence(&two.entry).unwrap().is_some());
    make();
    files.remove("weather").unwrap();
    check("a removal");
    make();
    assert_eq!(files.remove("weather").unwrap_err().code, Code::NotFound);
    check("a removal of nothing");
}
