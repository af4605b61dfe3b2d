//! Files that people and strangers write: the first byte says which of them the rest
//! is. What can be read can be changed by `grant`, and read again.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tollgate::config::{Config, Edit, Powers};
use tollgate::powers::{Approvals, manifest_of, read_manifest};

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, text)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match choice % 4 {
        0 | 1 => configuration(text),
        2 => manifest(text),
        _ => approvals(text),
    }
}

fn configuration(text: &str) {
    let path = place().join("tollgate.toml");
    match Config::parse(&path, text) {
        Err(why) => assert!(!why.to_string().is_empty()),
        Ok(config) => {
            std::fs::write(&path, text).unwrap();
            let before = config.grants_of("fuzzed").environment.contains("FUZZED");
            let powers = Powers { lists: vec![("environment", "FUZZED".to_owned())], ..Powers::default() };
            let mut edit = Edit::open(&path).unwrap();
            edit.grant("fuzzed", &powers);
            let Ok(granted) = edit.save() else { return };
            assert!(
                granted.grants_of("fuzzed").environment.contains("FUZZED"),
                "what was granted is not there"
            );
            let mut edit = Edit::open(&path).unwrap();
            let absent = edit.revoke("fuzzed", &powers);
            assert!(absent.is_empty(), "{absent:?} was granted and cannot be revoked");
            let revoked = edit.save().unwrap();
            assert!(!revoked.grants_of("fuzzed").environment.contains("FUZZED"), "had it before: {before}");
        }
    }
}

fn manifest(text: &str) {
    let component = place().join("fuzzed.wasm");
    std::fs::write(manifest_of(&component), text).unwrap();
    match read_manifest(&component) {
        Ok(asks) => {
            let asks = asks.unwrap_or_default();
            assert!(asks.each().iter().all(|what| what.len() < 16 << 10), "more than a person reads");
            assert!(asks.beyond(&asks).is_empty(), "it asks for more than itself");
        }
        Err(why) => assert!(why.len() < 8 << 10, "a reason of {} bytes", why.len()),
    }
}

fn approvals(text: &str) {
    let config = Config::parse(&place().join("approved.toml"), "").unwrap();
    std::fs::write(Approvals::path(&config), text).unwrap();
    if let Ok(approvals) = Approvals::load(&config) {
        let _ = approvals.of("fuzzed");
    }
}

fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| crate::folder("configuration"))
}
