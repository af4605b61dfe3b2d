//! A cache of compiled code and component descriptors, kept across starts.
//!
//! Loading machine code means trusting it completely, so an entry is used only if its keyed
//! hashes are correct. The key is created once per installation and never leaves the directory,
//! which only this user can access. The hashes cover the component's fingerprint, the engine's
//! [`Compatibility`], the descriptor and the code. An entry that is truncated, damaged or forged,
//! or that belongs to another component, engine or installation, is removed, and the component is
//! compiled again.
//!
//! An entry has two parts with separate hashes, because a host with many tools needs all
//! descriptors at start but the code of few.

mod failures;

use super::identity::Fingerprint;
use super::native::Artifact;
use super::private_dir::{PART, PrivateDir, random};
use crate::description::OmittedFunction;
use crate::engine::Compatibility;
use crate::grants::Import;
use rustix::fs::{Timespec, Timestamps, futimens};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::json;

/// The first bytes of each entry: its format.
const MARK: &[u8; 16] = b"tollgate-entry6\n";
/// The file that holds the key.
const KEY: &str = "key";
/// The file name suffix of entries.
const ENTRY: &str = ".code";
/// The maximum size of an entry that is read, in bytes.
const MAX_ENTRY_BYTES: u64 = (1 << 30) + (64 << 20);
/// The number of bytes read for an entry's first part, which is seldom longer.
const START_BYTES: u64 = 32 << 10;
/// The bytes of an entry before its first part.
const PREFIX_BYTES: usize = MARK.len() + 32 + 8 + 4 + 8 + 32;
/// The maximum size of a descriptor in an entry, in bytes.
const MAX_WORDS_BYTES: usize = 16 << 20;
/// An entry's time of last use is updated if it is older than this.
const USE_IS_NOTED_AFTER: Duration = Duration::from_secs(3_600);
/// A temporary file older than this is abandoned.
const PART_IS_STALE_AFTER_S: i64 = 3_600;

/// A directory of entries for one engine.
pub(crate) struct Cache {
    dir: PrivateDir,
    key: [u8; 32],
    compatibility: Compatibility,
    max_bytes: u64,
    /// Bytes of entries that may be written before the directory is listed again. Listing it for
    /// each entry would take quadratic time.
    room_bytes: AtomicU64,
}

/// The data that a host needs about a component before its code.
#[derive(Serialize, Deserialize)]
pub(crate) struct CachedDescription {
    /// The hexadecimal SHA-256 of its bytes.
    pub(crate) digest: String,
    /// Its descriptor.
    pub(crate) descriptor: ComponentDescriptor,
    /// Its imports.
    pub(crate) imports: Vec<Import>,
    /// For a plain component, its functions that are not tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<Vec<OmittedFunction>>,
}

/// The text of [`CachedDescription`] from an authentic entry, which is not parsed yet.
#[derive(Debug)]
pub(crate) struct CachedDescriptionText(String);

impl CachedDescriptionText {
    /// Returns how many bytes the parsed form takes.
    pub(crate) fn parsed_bytes(&self) -> u64 {
        json::measure(self.0.as_bytes()).parsed_bytes
    }

    /// Parses them; `None` if an earlier build of this host wrote them in another form.
    pub(crate) fn parse(&self) -> Option<CachedDescription> {
        json::from_record(&self.0).ok()
    }
}

/// The authenticated first part of an entry.
struct Head {
    /// Empty if the entry has none.
    words: String,
    /// The keyed hash of the second part.
    code_tag: [u8; 32],
    /// The maximum number of memory images of the code.
    images: u32,
    /// The host's memory for the types and names of the code, in bytes.
    metadata_bytes: u64,
    /// The beginning of the second part.
    code_begins: usize,
}

impl Cache {
    /// Opens the cache, creating it if missing. The error is a sentence; the host then works
    /// without a cache.
    pub(crate) fn open(path: &Path, compatibility: Compatibility, max_bytes: u64) -> Result<Self, String> {
        let dir = PrivateDir::open(path)?;
        let key = key_of(&dir).map_err(|why| format!("its key cannot be read or created: {why}"))?;
        Ok(Self { dir, key, compatibility, max_bytes, room_bytes: AtomicU64::new(0) })
    }

    /// Returns the descriptor of the component of these bytes, if an authentic entry has it.
    pub(crate) fn words(&self, of: &Fingerprint) -> Option<CachedDescriptionText> {
        let name = self.name_of(of);
        let (file, mut start) = self.dir.read_start(&name, START_BYTES).ok()?;
        // The length is not authenticated yet, so it is bounded.
        let words_bytes = words_bytes(&start).filter(|bytes| *bytes <= MAX_WORDS_BYTES).unwrap_or_default();
        let wanted = (PREFIX_BYTES + words_bytes) as u64;
        if wanted > START_BYTES {
            start = self.dir.read_start(&name, wanted).ok()?.1;
        }
        let Some(head) = self.head(of, &start) else {
            self.dir.remove(&name);
            return None;
        };
        note_use(&file);
        Some(CachedDescriptionText(head.words)).filter(|words| !words.0.is_empty())
    }

    /// Returns the size in bytes of the entry of the component of these bytes, if there is one.
    pub(crate) fn entry_bytes(&self, of: &Fingerprint) -> Option<u64> {
        self.dir.bytes_of(&self.name_of(of)).ok()
    }

    /// Returns the code of the component of these bytes, if there is an authentic entry of at
    /// most this many bytes.
    pub(crate) fn code(&self, of: &Fingerprint, most_bytes: u64) -> Option<Artifact> {
        let name = self.name_of(of);
        let (_, entry) = self.dir.read(&name, most_bytes.min(MAX_ENTRY_BYTES)).ok()?;
        let code = self.authenticate(of, entry);
        if code.is_none() {
            self.dir.remove(&name);
        }
        code
    }

    /// Removes the entry of the component of these bytes.
    pub(crate) fn forget(&self, of: &Fingerprint) {
        self.dir.remove(&self.name_of(of));
    }

    /// Stores an entry for the next start, and makes room for it.
    pub(crate) fn keep(
        &self,
        of: &Fingerprint,
        words: Option<&CachedDescription>,
        artifact: &Artifact,
    ) -> io::Result<()> {
        let words = words.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        // One entry must not displace all others.
        let code_bytes = artifact.bytes().len() as u64;
        if words.len() > MAX_WORDS_BYTES || code_bytes > self.max_bytes / 4 {
            return Ok(());
        }
        let length = (words.len() as u64).to_le_bytes();
        let code_tag = self.tag(of, &[b"code", artifact.bytes()]);
        let images = artifact.images().to_le_bytes();
        let metadata = artifact.metadata_bytes().to_le_bytes();
        let tag = self.tag(of, &[b"head", &length, &images, &metadata, &code_tag, &words]);
        let parts = [MARK.as_slice(), &tag, &length, &images, &metadata, &code_tag, &words, artifact.bytes()];
        self.dir.write(&self.name_of(of), &parts, true)?;
        self.dir.remove(&self.failure_name(of));
        let written: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let left = |room: u64| room.checked_sub(written);
        match self.room_bytes.fetch_update(Relaxed, Relaxed, left) {
            Ok(_) => Ok(()),
            Err(_) => self.make_room(),
        }
    }

    fn name_of(&self, of: &Fingerprint) -> String {
        format!("{of}-{}{ENTRY}", self.compatibility.short())
    }

    /// Returns the keyed hash of a part of an entry, for this component and engine.
    fn tag(&self, of: &Fingerprint, content: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(MARK).update(&self.compatibility.0);
        hasher.update(of.bytes());
        for part in content {
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// Reads the first part of an entry; the rest may be missing.
    fn head(&self, of: &Fingerprint, entry: &[u8]) -> Option<Head> {
        let rest = entry.strip_prefix(MARK)?;
        let (tag, rest) = rest.split_first_chunk::<32>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (images, rest) = rest.split_first_chunk::<4>()?;
        let (metadata, rest) = rest.split_first_chunk::<8>()?;
        let (code_tag, rest) = rest.split_first_chunk::<32>()?;
        let words = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        if !same(&self.tag(of, &[b"head", length, images, metadata, code_tag, words]), tag) {
            return None;
        }
        Some(Head {
            words: str::from_utf8(words).ok()?.to_owned(),
            code_tag: *code_tag,
            images: u32::from_le_bytes(*images),
            metadata_bytes: u64::from_le_bytes(*metadata),
            code_begins: PREFIX_BYTES + words.len(),
        })
    }

    /// Authenticates the bytes in memory, which are the ones that are then loaded.
    fn authenticate(&self, of: &Fingerprint, entry: Vec<u8>) -> Option<Artifact> {
        let head = self.head(of, &entry)?;
        let code = entry.get(head.code_begins..)?;
        same(&self.tag(of, &[b"code", code]), &head.code_tag)
            .then(|| Artifact::authenticated(entry, head.code_begins, head.images, head.metadata_bytes))
    }

    /// Removes the least recently used entries, down to nine tenths of the limit, and files that
    /// other processes left incomplete.
    fn make_room(&self) -> io::Result<()> {
        let now_s = seconds(SystemTime::now());
        let (mut entries, parts): (Vec<_>, Vec<_>) = self
            .dir
            .list()?
            .into_iter()
            .filter(|file| file.name != KEY)
            .partition(|file| file.name.ends_with(ENTRY));
        let stale = |modified_s: i64| now_s.saturating_sub(modified_s) > PART_IS_STALE_AFTER_S;
        for part in parts.iter().filter(|part| part.name.starts_with(PART) && stale(part.modified_s)) {
            self.dir.remove(&part.name);
        }
        let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        if bytes <= self.max_bytes {
            // Other processes write to it too.
            self.room_bytes.store((self.max_bytes - bytes) / 2, Relaxed);
            return Ok(());
        }
        self.room_bytes.store(0, Relaxed);
        entries.sort_by_key(|entry| entry.modified_s);
        for entry in entries {
            if bytes <= self.max_bytes / 10 * 9 {
                break;
            }
            self.dir.remove(&entry.name);
            bytes -= entry.bytes;
        }
        Ok(())
    }
}

/// Returns the length of an entry's first part, which the entry states.
fn words_bytes(entry: &[u8]) -> Option<usize> {
    let length = entry.get(MARK.len() + 32..)?.first_chunk::<8>()?;
    usize::try_from(u64::from_le_bytes(*length)).ok()
}

/// Compares in constant time.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    blake3::Hash::from_bytes(*a) == blake3::Hash::from_bytes(*b)
}

/// Returns the installation's key, creating it at first use. If several processes create one at
/// once, one wins and all use that one.
fn key_of(dir: &PrivateDir) -> io::Result<[u8; 32]> {
    let read = || -> io::Result<[u8; 32]> {
        let (_, bytes) = dir.read(KEY, 32)?;
        bytes.as_slice().try_into().map_err(|_| io::ErrorKind::InvalidData.into())
    };
    match read() {
        Ok(key) => return Ok(key),
        // An invalid key authenticates nothing: entries stored with it are compiled again.
        Err(why) if why.kind() == io::ErrorKind::InvalidData => dir.remove(KEY),
        Err(_) => {}
    }
    match dir.write(KEY, &[&random::<32>()?], false) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => Err(why),
        _ => read(),
    }
}

/// Recently used entries are kept longer than others.
fn note_use(file: &File) {
    let Ok(modified) = file.metadata().and_then(|metadata| metadata.modified()) else { return };
    if modified.elapsed().is_ok_and(|age| age > USE_IS_NOTED_AFTER) {
        let now = Timespec { tv_sec: seconds(SystemTime::now()), tv_nsec: 0 };
        // On failure the entry only looks older than it is.
        let _ = futimens(file, &Timestamps { last_access: now, last_modification: now });
    }
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
