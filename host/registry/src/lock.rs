//! `tollgate.lock`: the digest, origin and signer of each component.

use crate::digest::Digest;
use crate::error::{Code, Error, Remedy, Result};
use crate::reference::is_tag;
use crate::signature::SignerEvidence;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tollgate_agent::name::{self, is_id};
use tollgate_agent::text::clean;
use toml::Spanned;

/// The longest lock file, in bytes.
pub const MAX_LOCK_BYTES: u64 = 4 << 20;
/// The version of the format.
const VERSION: u32 = 1;
/// The longest text in an entry, in bytes.
const MAX_TEXT_BYTES: usize = 2_000;
const HEAD: &str = "\
# Where each component came from and who signed it. Written by `tollgate add`, `update` and\n\
# `remove`; keep it in version control. `tollgate verify` checks it.\n";

/// The setting `locked` of `[tools]`: the checks at each load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockMode {
    /// A file that has an entry must match it.
    #[default]
    Recorded,
    /// A file without an entry is refused too.
    All,
    /// Nothing is checked.
    Off,
}

/// The entry of one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The component's id.
    pub id: String,
    /// The name of its file in the tools directory.
    pub file: String,
    /// Its origin, such as `oci://ghcr.io/acme/weather`.
    pub from: String,
    /// The tag that was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The digest of the manifest; `None` if the component does not come from a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Digest>,
    /// The digest of the component.
    pub wasm: Digest,
    /// The digest of the manifest of asks; `None` if the component has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Digest>,
    /// The digest of the component's surface: its tools and needs.
    pub surface: Digest,
    /// The licence, as the publisher states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// The signer; `None` if a person accepted it unsigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignerEvidence>,
}

impl Entry {
    /// Returns the source of exactly these bytes: the origin with the tag and the digest of the manifest.
    #[must_use]
    pub fn source(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
        let manifest = self.manifest.as_ref().map(|digest| format!("@{digest}")).unwrap_or_default();
        match self.from.strip_prefix("file:") {
            Some(name) => clean(name, 200),
            None => format!("{}{tag}{manifest}", self.from),
        }
    }
}

/// The lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    entries: BTreeMap<String, Entry>,
    /// The ids by their folded form, in which look-alikes are equal.
    folded: BTreeMap<String, String>,
    /// The ids by their file's name in lower case.
    files: BTreeMap<String, String>,
}

impl Lock {
    /// Reads the text of a lock file. An empty text is an empty lock file.
    ///
    /// # Errors
    /// The text is not a lock file of this version; the message names the line.
    pub fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let conflict =
            |line: &str| ["<<<<<<<", "=======", ">>>>>>>"].iter().any(|mark| line.starts_with(mark));
        if let Some(at) = text.lines().position(conflict) {
            let why =
                "a merge left a conflict; choose one side, or restore the file and add the component again";
            return Err(invalid(at + 1, why));
        }
        let at = |offset: usize| text[..offset.min(text.len())].lines().count().max(1);
        let wrong = |line: usize, why: &str| {
            let why = clean(why, 400);
            invalid(line, &format!("{why}; correct it, or restore the file from version control"))
        };
        let failed = |e: toml::de::Error| wrong(e.span().map_or(1, |span| at(span.end)), e.message());
        #[derive(Deserialize)]
        struct VersionedLock {
            version: u32,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            version: u32,
            #[serde(default)]
            component: Vec<Spanned<Entry>>,
        }
        let read = toml::from_str::<Raw>(text);
        // A later version may have keys that are unknown here, and its number is the better reason.
        let version = match &read {
            Ok(raw) => raw.version,
            Err(_) => toml::from_str::<VersionedLock>(text).map_or(VERSION, |read| read.version),
        };
        if version > VERSION {
            let why = format!(
                "it has version {version}, and this program reads version {VERSION}; update tollgate"
            );
            let line = text.lines().position(|line| line.trim_start().starts_with("version"));
            return Err(invalid(line.map_or(1, |at| at + 1), &why));
        }
        let raw = read.map_err(failed)?;
        let mut lock = Self::default();
        for entry in raw.component {
            let start = entry.span().start;
            let entry = entry.into_inner();
            lock.check_new(&entry).map_err(|why| wrong(at(start) + 1, &why))?;
            lock.insert(entry);
        }
        Ok(lock)
    }

    /// Returns the text of the lock file.
    #[must_use]
    pub fn to_text(&self) -> String {
        #[derive(Serialize)]
        struct LockFile<'a> {
            component: Vec<&'a Entry>,
        }
        let mut text = format!("{HEAD}version = {VERSION}\n");
        if !self.entries.is_empty() {
            let written = LockFile { component: self.entries.values().collect() };
            // Texts, digests and tables of texts can always be written.
            let _ = write!(text, "\n{}", toml::to_string(&written).unwrap_or_default());
        }
        text
    }

    /// Returns the entries, sorted by id.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Returns the entry of a component.
    #[must_use]
    pub fn of(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// Returns the entry of a file.
    #[must_use]
    pub fn of_file(&self, file: &str) -> Option<&Entry> {
        self.of(self.files.get(&file.to_ascii_lowercase())?).filter(|entry| entry.file == file)
    }

    /// Adds an entry, or replaces the one with the same id.
    ///
    /// # Errors
    /// The entry is not valid, its file belongs to another component, or its id is too similar to
    /// another.
    pub fn set(&mut self, entry: Entry) -> Result<()> {
        let before = self.remove(&entry.id);
        if let Err(why) = self.check_new(&entry) {
            before.into_iter().for_each(|before| self.insert(before));
            return Err(Error::new(Code::NameTaken, why));
        }
        self.insert(entry);
        Ok(())
    }

    /// Adds an entry that was checked.
    fn insert(&mut self, entry: Entry) {
        self.folded.insert(name::fold(&entry.id), entry.id.clone());
        self.files.insert(entry.file.to_ascii_lowercase(), entry.id.clone());
        self.entries.insert(entry.id.clone(), entry);
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: &str) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.folded.remove(&name::fold(id));
        self.files.remove(&entry.file.to_ascii_lowercase());
        Some(entry)
    }

    /// Checks a loaded file. `wasm` and `asks` are the SHA-256 of the component and of its
    /// manifest, in hexadecimal.
    ///
    /// # Errors
    /// The file may not be served; the message has the reason and the fix.
    pub fn check(&self, mode: LockMode, file: &str, id: &str, wasm: &str, asks: Option<&str>) -> Result<()> {
        if mode == LockMode::Off {
            return Ok(());
        }
        let Some(entry) = self.of_file(file) else {
            return match self.of(id) {
                Some(entry) => {
                    let what = format!(
                        "tollgate.lock records the id {id} for {}, and not for {file}; remove the file, or remove \
                         the entry",
                        entry.file
                    );
                    Err(mismatch(what, Remedy::Remove { id: entry.id.clone() }))
                }
                None if mode == LockMode::All => {
                    let what = format!(
                        "{file} is not in tollgate.lock, and `locked = \"all\"` serves nothing else; \
                         record it"
                    );
                    Err(mismatch(what, Remedy::Add))
                }
                None => Ok(()),
            };
        };
        let differs = |what: String| {
            Err(mismatch(format!("{what}; restore it"), Remedy::Restore { id: entry.id.clone() }))
        };
        if entry.id != id {
            let shown = clean(id, 64);
            return differs(format!(
                "{file} is the component {shown}, and tollgate.lock records {}",
                entry.id
            ));
        }
        if entry.wasm.hex() != wasm {
            return differs(format!("{file} is not the version that tollgate.lock records"));
        }
        if entry.asks.as_ref().map(Digest::hex) != asks {
            return differs(format!("the manifest of {file} is not the one that tollgate.lock records"));
        }
        Ok(())
    }

    /// Validates an entry and checks it against the others.
    fn check_new(&self, entry: &Entry) -> std::result::Result<(), String> {
        if !is_id(&entry.id) {
            return Err(format!("\"{}\" is not a valid id", clean(&entry.id, 64)));
        }
        if !is_file_name(&entry.file) {
            return Err(format!("\"{}\" is not a valid name of a component's file", clean(&entry.file, 200)));
        }
        if let Some(tag) = entry.tag.as_ref().filter(|tag| !is_tag(tag)) {
            return Err(format!("\"{}\" is not a valid tag", clean(tag, 200)));
        }
        if !entry.wasm.is_sha256() || entry.asks.as_ref().is_some_and(|asks| !asks.is_sha256()) {
            return Err("`wasm` and `asks` have to be sha256 digests".to_owned());
        }
        let texts = [Some(&entry.from), entry.tag.as_ref(), entry.licence.as_ref()];
        if texts.into_iter().flatten().any(|text| text.len() > MAX_TEXT_BYTES) {
            return Err(format!("a text of the entry is longer than {MAX_TEXT_BYTES} bytes"));
        }
        if let Some(other) = self.folded.get(&name::fold(&entry.id)).and_then(|id| self.of(id)) {
            return Err(format!("the id {} is recorded for {} from {}", other.id, other.file, other.from));
        }
        match self.files.get(&entry.file.to_ascii_lowercase()).and_then(|id| self.of(id)) {
            Some(other) => Err(format!("the file {} is recorded for {}", other.file, other.id)),
            None => Ok(()),
        }
    }
}

/// Returns whether the text is a bare file name of a component, not a path.
pub(crate) fn is_file_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    name.len() <= 200
        && name.len() > 5
        && name.ends_with(".wasm")
        && !name.starts_with('.')
        && name.bytes().all(plain)
}

fn mismatch(what: String, remedy: Remedy) -> Error {
    Error::new(Code::LockMismatch, what).with_remedy(remedy)
}

fn invalid(line: usize, why: &str) -> Error {
    let why = clean(why, 500);
    Error::new(Code::InvalidLock, format!("tollgate.lock, line {line}: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(crate) fn entry(id: &str) -> Entry {
        Entry {
            id: id.to_owned(),
            file: format!("{id}.wasm"),
            from: format!("oci://ghcr.io/acme/{id}"),
            tag: Some("1.2".to_owned()),
            manifest: Some(Digest::of(b"manifest")),
            wasm: Digest::of(b"wasm"),
            asks: Some(Digest::of(b"asks")),
            surface: Digest::of(b"surface"),
            licence: Some("MIT".to_owned()),
            signed: Some(SignerEvidence::Key { key: Digest::of(b"key"), bundle: Digest::of(b"bundle") }),
        }
    }

    fn lock(ids: &[&str]) -> Lock {
        let mut lock = Lock::default();
        ids.iter().for_each(|id| lock.set(entry(id)).unwrap());
        lock
    }

    #[test]
    fn a_lock_file_reads_back_as_it_was_and_is_sorted() {
        let mut lock = lock(&["weather", "calendar"]);
        let github = SignerEvidence::Github {
            repository: "acme/tools".to_owned(),
            repository_id: "1234".to_owned(),
            workflow: ".github/workflows/release.yml".to_owned(),
            git_ref: "refs/tags/v1.2".to_owned(),
            commit: "ab12".to_owned(),
            at: "2026-11-02T09:00:00Z".to_owned(),
            bundle: Digest::of(b"bundle"),
        };
        lock.set(Entry { signed: Some(github), asks: None, ..entry("mail") }).unwrap();
        lock.set(Entry { signed: None, manifest: None, tag: None, ..entry("notes") }).unwrap();
        let text = lock.to_text();
        assert_eq!(Lock::parse(&text).unwrap(), lock, "{text}");
        let ids: Vec<_> = text.lines().filter(|line| line.starts_with("id = ")).collect();
        assert_eq!(ids, ["id = \"calendar\"", "id = \"mail\"", "id = \"notes\"", "id = \"weather\""]);
        assert_eq!(Lock::parse("").unwrap(), Lock::default());
        assert_eq!(Lock::parse(&Lock::default().to_text()).unwrap(), Lock::default());
    }

    #[test]
    fn a_lock_file_that_cannot_be_meant_is_refused_with_its_line() {
        let text = lock(&["weather"]).to_text();
        let line_of = |text: &str, what: &str| text.lines().position(|line| line.contains(what)).unwrap() + 1;
        let more = format!("{text}\n[[component]]\n");
        let other = |change: &dyn Fn(&mut Entry)| {
            let mut other = lock(&["calendar"]);
            let mut entry = other.remove("calendar").unwrap();
            change(&mut entry);
            let text = toml::to_string(&entry).unwrap();
            let (fields, signed) = text.split_once("[signed]").unwrap();
            format!("{fields}[component.signed]{signed}")
        };
        for (text, what) in [
            (text.replace("version = 1", "version = 2"), "line 3: it has version 2"),
            (text.replace("id = ", "colour = \"red\"\nid = "), "colour"),
            (text.replace("by = \"key\"", "by = \"king\""), "king"),
            (text.replace("by = \"key\"", "by = \"key\"\nlevel = 1"), "level"),
            (text.replace("[[component]]", "<<<<<<< HEAD\n[[component]]"), "conflict"),
            (format!("{more}{}", other(&|entry| entry.id = "weather".to_owned())), "the id weather"),
            (format!("{more}{}", other(&|entry| entry.id = "weatber".replace('b', "h"))), "the id weather"),
            (
                format!("{more}{}", other(&|entry| entry.file = "Weather.wasm".to_owned())),
                "the file weather.wasm",
            ),
            (format!("{more}{}", other(&|entry| entry.file = "../x.wasm".to_owned())), "not a valid name"),
            (format!("{more}{}", other(&|entry| entry.file = ".x.wasm".to_owned())), "not a valid name"),
            (format!("{more}{}", other(&|entry| entry.tag = Some("../x".to_owned()))), "not a valid tag"),
            (text.replace("wasm = \"sha256:", "wasm = \"md5:"), "not supported"),
            (text.replace("id = \"weather\"\n", ""), "id"),
        ] {
            let error = Lock::parse(&text).unwrap_err();
            assert_eq!(error.code, Code::InvalidLock);
            let message = error.to_string();
            assert!(message.starts_with("tollgate.lock, line ") && message.contains(what), "{message}");
        }
        let conflict = text.replace("[[component]]", "<<<<<<< HEAD\n[[component]]");
        let message = Lock::parse(&conflict).unwrap_err().to_string();
        assert!(message.contains(&format!("line {}:", line_of(&conflict, "<<<<<<<"))), "{message}");
        let unknown = text.replace("tag = ", "colour = \"red\"\ntag = ");
        let message = Lock::parse(&unknown).unwrap_err().to_string();
        assert!(message.contains(&format!("line {}:", line_of(&unknown, "colour"))), "{message}");
    }

    #[test]
    fn a_file_is_served_only_as_it_is_recorded() {
        let lock = lock(&["weather"]);
        let (wasm, asks) = (Digest::of(b"wasm"), Digest::of(b"asks"));
        let check = |mode, file, id, wasm: &[u8], asks: Option<&[u8]>| {
            let (wasm, asks) = (Digest::of(wasm), asks.map(Digest::of));
            lock.check(mode, file, id, wasm.hex(), asks.as_ref().map(Digest::hex))
        };
        assert_eq!(
            lock.check(LockMode::Recorded, "weather.wasm", "weather", wasm.hex(), Some(asks.hex())),
            Ok(())
        );
        for (file, id, wasm, asks) in [
            ("weather.wasm", "weather", &b"other"[..], Some(&b"asks"[..])),
            ("weather.wasm", "weather", b"wasm", Some(b"other")),
            ("weather.wasm", "weather", b"wasm", None),
            ("weather.wasm", "mail", b"wasm", Some(b"asks")),
            ("other.wasm", "weather", b"wasm", Some(b"asks")),
        ] {
            assert!(check(LockMode::Recorded, file, id, wasm, asks).is_err(), "{file} {id}");
            assert_eq!(check(LockMode::Off, file, id, wasm, asks), Ok(()));
        }
        assert_eq!(check(LockMode::Recorded, "mail.wasm", "mail", b"x", None), Ok(()));
        assert!(check(LockMode::All, "mail.wasm", "mail", b"x", None).is_err());
    }

    #[test]
    fn ids_that_look_alike_are_not_both_recorded() {
        let mut lock = lock(&["mail"]);
        let error = lock.set(Entry { file: "other.wasm".to_owned(), ..entry("mai1") }).unwrap_err();
        assert_eq!(error.code, Code::NameTaken);
        assert!(lock.of("mail").is_some());
    }
}
