//! The input of registries, publishers and people who edit the lock file: the first byte says which
//! of them the rest is.

use std::sync::OnceLock;
use tollgate::tollgate_registry::{
    Code, Digest, Interfaces, Lock, LockMode, PublicKey, Reference, Subjects, TrustedRoot, described_by,
    verify,
};

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 5 {
        0 => lock(rest),
        1 => bundle(rest),
        2 => drop(described_by(rest)),
        3 => drop(Interfaces::of(rest)),
        _ => names(rest),
    }
}

/// A lock file that is read is written, and reads back as the same.
fn lock(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Lock::parse(text) {
        Err(why) => {
            assert!(why.code == Code::InvalidLock && why.to_string().starts_with("tollgate.lock, line "))
        }
        Ok(lock) => {
            assert_eq!(Lock::parse(&lock.to_text()).unwrap(), lock);
            for entry in lock.entries() {
                let asks = entry.asks.as_ref().map(Digest::hex);
                let checked = |wasm| lock.check(LockMode::All, &entry.file, &entry.id, wasm, asks);
                assert!(checked(entry.wasm.hex()).is_ok() && checked("other").is_err());
            }
        }
    }
}

/// No bundle that was changed vouches for another component.
fn bundle(bytes: &[u8]) {
    static ROOT: OnceLock<TrustedRoot> = OnceLock::new();
    let root = ROOT.get_or_init(|| TrustedRoot::embedded().unwrap());
    let component = Digest::of(b"a component that nobody signed");
    let subjects = Subjects { manifest: Some(b"a manifest that nobody signed"), component: &component };
    assert!(verify(bytes, subjects, &[], root).is_err());
    let signed = "54303491a8418fbed24344b513546182c29b43bf282ceb433af65e2299f9271f";
    let component = Digest::from_sha256_hex(signed).unwrap();
    // This one is signed, as long as nothing of importance was changed.
    drop(verify(bytes, Subjects { manifest: None, component: &component }, &[], root));
}

fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    drop(PublicKey::from_pem(&text));
    if let Ok(reference) = text.parse::<Reference>() {
        assert_eq!(reference.to_string().parse::<Reference>().unwrap(), reference);
    }
}
