//! Fuzzes files written by people and strangers: the first byte selects the kind of file, the
//! rest is its contents. A file that can be read can be changed by `grant` and read again.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tollgate::config::{Config, Edit, FileValue, Powers};
use tollgate::grants::{Approvals, manifest_of, read_manifest};
use tollgate_sandbox::FileAccess;

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
        Ok(_) => {
            std::fs::write(&path, text).unwrap();
            let new = unknown_to(text);
            let powers = powers(&new);
            let has = |config: &Config| {
                let grants = config.grants_of("fuzzed");
                [
                    grants.environment.contains(&new),
                    grants.http.iter().any(|pattern| pattern.to_string().contains(&new)),
                    grants.settings.contains_key(&new),
                    grants.files.iter().any(|file| file.guest.contains(&new)),
                    grants.catalog.reads.iter().any(|key| key.contains(&new)),
                ]
            };
            let mut edit = Edit::open(&path).unwrap();
            edit.grant("fuzzed", &powers);
            let granted = edit.save().unwrap();
            assert_eq!(has(&granted), [true; 5], "what was granted is not there");
            keeps(text, &path);
            let mut edit = Edit::open(&path).unwrap();
            let absent = edit.revoke("fuzzed", &powers);
            assert!(absent.is_empty(), "{absent:?} was granted and cannot be revoked");
            assert_eq!(has(&edit.save().unwrap()), [false; 5], "what was revoked is there");
            keeps(text, &path);
            let mut edit = Edit::open(&path).unwrap();
            assert!(edit.revoke_all("fuzzed"));
            assert!(!edit.save().unwrap().grants.contains_key("fuzzed"));
        }
    }
}

/// Returns a name that does not occur in the text.
fn unknown_to(text: &str) -> String {
    let small = text.to_lowercase();
    let mut names = (0..).map(|number| format!("new{number}"));
    names.find(|name| !small.contains(name.as_str())).unwrap()
}

fn powers(new: &str) -> Powers {
    let file = FileValue {
        host: "notes".into(),
        guest: format!("/{new}"),
        access: FileAccess::ReadWrite,
        quota_bytes: Some(4096),
    };
    Powers {
        lists: vec![("environment", new.to_owned()), ("http", format!("https://{new}.invalid/"))],
        files: vec![file],
        settings: vec![(new.to_owned(), "a \"value\"".to_owned())],
        state: vec![("read", format!("other.{new}"))],
        ..Powers::default()
    }
}

/// Checks that the edited file keeps every comment and all other text, ignoring whitespace, in
/// order.
fn keeps(before: &str, path: &Path) {
    let after = std::fs::read_to_string(path).unwrap();
    let mut letters = after.chars();
    for letter in before.chars().filter(|letter| !letter.is_whitespace()) {
        assert!(letters.any(|there| there == letter), "of\n{before}\nsomething is lost in\n{after}");
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
