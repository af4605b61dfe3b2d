//! The input of registries, publishers and people who edit the lock file.

use std::sync::OnceLock;
use tollgate_registry::{
    Code, Digest, Interfaces, Lock, LockMode, Metadata, PublicKey, Reference, Subjects, TrustedRoot,
    bundle_in, described_by, listed_in, verify,
};

/// A component, a key or a reference: the first byte says which of them the rest is.
pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 2 {
        0 => drop(Interfaces::of(rest)),
        _ => names(rest),
    }
}

/// A manifest that is read has one component, which is named by a digest.
pub(crate) fn manifest(bytes: &[u8]) {
    if let Ok((wasm, asks)) = described_by(bytes) {
        assert_eq!(wasm.as_str().parse::<Digest>().unwrap(), wasm);
        assert!(asks.is_none_or(|asks| asks.len() <= 64 << 10));
    }
}

/// A list of referrers, or one of them: the first byte says which. One that is read is about the
/// subject.
pub(crate) fn referrers(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    if choice % 2 == 0 {
        for digest in listed_in(rest).into_iter().flatten() {
            assert_eq!(digest.as_str().parse::<Digest>().unwrap(), digest);
        }
        return;
    }
    let (subject, other) = (Digest::of(b"a manifest"), Digest::of(b"another manifest"));
    if let Ok(Some(_)) = bundle_in(rest, &subject) {
        assert!(bundle_in(rest, &other).is_err());
    }
}

/// The statements of a component, or the text of its list of packages: the first byte says which. A
/// list that is read is written, and reads back as the same.
pub(crate) fn packages(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    const COMPONENT: &[u8] = &[0, b'a', b's', b'm', 0x0d, 0, 1, 0];
    let read = match choice % 2 {
        0 => Metadata::of(rest),
        _ => Metadata::of(&[COMPONENT, &section(b".dep-v0", &stored(rest))].concat()),
    };
    assert!(read.packages.is_none() || read.fault.is_none());
    if let Ok(sections) = read.to_sections(("package", "1.0.0")) {
        let again = Metadata::of(&[COMPONENT, &sections].concat());
        assert_eq!(again.packages, read.packages);
    }
}

/// A custom section.
fn section(name: &[u8], data: &[u8]) -> Vec<u8> {
    let length = |mut number: usize| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let content = [&length(name.len())[..], name, data].concat();
    [&[0][..], &length(content.len()), &content].concat()
}

/// The bytes in the format of zlib, without compression.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(0xffff).peekable();
    if bytes.is_empty() {
        packed.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = (block.len() as u16).to_le_bytes();
        packed.push(u8::from(blocks.peek().is_none()));
        packed.extend(length);
        packed.extend(length.map(|byte| !byte));
        packed.extend(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    packed.extend((b << 16 | a).to_be_bytes());
    packed
}

/// A lock file that is read is written, and reads back as the same.
pub(crate) fn lock(bytes: &[u8]) {
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
pub(crate) fn bundle(bytes: &[u8]) {
    static ROOT: OnceLock<TrustedRoot> = OnceLock::new();
    let root = ROOT.get_or_init(|| TrustedRoot::embedded().unwrap());
    let component = Digest::of(b"an unsigned component");
    let subjects = Subjects { manifest: Some(b"an unsigned manifest"), component: &component };
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
