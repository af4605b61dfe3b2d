//! Fuzzes files written by people and strangers: the first byte selects the kind of file, the
//! rest is its contents. A file that can be read can be changed by `grant` and read again.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tollgate::config::{Config, Edit, Grant, GrantKind};
use tollgate::grants::{Approvals, manifest_of, read_manifest};
use tollgate_sandbox::FileAccess;
use toml_edit::DocumentMut;

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
            let grants = grants(&new);
            let has = |config: &Config| {
                let granted = config.grants_of("fuzzed");
                grants.each_ref().map(|new| granted.has(new.kind, &new.name))
            };
            let mut edit = Edit::open(&path).unwrap();
            edit.grant("fuzzed", &grants);
            let granted = edit.save().unwrap();
            assert_eq!(has(&granted), [true; 5], "what was granted is not there");
            keeps(text, &path);
            let mut edit = Edit::open(&path).unwrap();
            let absent = edit.revoke("fuzzed", &grants);
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

fn grants(new: &str) -> [Grant; 5] {
    [
        Grant::named(GrantKind::Environment, new),
        Grant::named(GrantKind::Http, &format!("https://{new}.invalid/")),
        Grant::files(Path::new("notes"), &format!("/{new}"), FileAccess::ReadWrite, Some(4096)),
        Grant::setting(new, "a \"value\""),
        Grant::named(GrantKind::StateRead, &format!("other.{new}")),
    ]
}

/// Checks that the edited file keeps every comment and all other text, ignoring whitespace. The
/// order is that of toml_edit, which groups the dotted keys of one table.
fn keeps(before: &str, path: &Path) {
    let after = std::fs::read_to_string(path).unwrap();
    let grouped = before.parse::<DocumentMut>().unwrap().to_string();
    let sorted = |text: &str| {
        let mut letters: Vec<_> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        letters.sort_unstable();
        letters
    };
    assert_eq!(sorted(before.trim_start_matches('\u{feff}')), sorted(&grouped));
    assert_eq!(before.starts_with('\u{feff}'), after.starts_with('\u{feff}'));
    let mut letters = after.chars();
    for letter in grouped.chars().filter(|letter| !letter.is_whitespace()) {
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
            assert!(asks.excess_over(&asks).is_empty(), "it asks for more than itself");
        }
        Err(why) => {
            let bytes = why.to_string().len();
            assert!(bytes < 8 << 10, "a reason of {bytes} bytes");
        }
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
