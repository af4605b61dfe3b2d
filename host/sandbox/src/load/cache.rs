//! Compiled code that is kept for the next start.
//!
//! Machine code is trusted blindly by whoever loads it, so an entry is worth nothing
//! unless its keyed hash is right. The key is made once for an installation and never
//! leaves the directory, which is this user's alone. The hash covers the component's
//! digest, the engine's [`Compatibility`], what the component said of itself and the
//! code: an entry that is truncated, damaged, forged, of another component, another
//! engine or another installation is removed, and the component compiled again.

use super::native::Artefact;
use super::private::{PART, PrivateDir, random};
use crate::compile::Compatibility;
use rustix::fs::{Timespec, Timestamps, futimens};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::json;

/// Begins each entry: its form.
const MARK: &[u8; 16] = b"tollgate-entry1\n";
/// The file with the key.
const KEY: &str = "key";
/// How the names of entries end.
const ENTRY: &str = ".code";
/// The largest entry that is read, in bytes.
const MAX_ENTRY_BYTES: u64 = (1 << 30) + (64 << 20);
/// The most that a component's words may take in an entry, in bytes.
const MAX_WORDS_BYTES: usize = 16 << 20;
/// An entry's time of last use is noted when it is older than this.
const USE_IS_NOTED_AFTER: Duration = Duration::from_secs(3_600);
/// A file that has been in the making for so long is nobody's.
const PART_IS_STALE_AFTER_S: i64 = 3_600;

/// A directory of entries for one engine.
pub(crate) struct Cache {
    dir: PrivateDir,
    key: [u8; 32],
    compatibility: Compatibility,
    max_bytes: u64,
}

/// An authentic entry.
pub(crate) struct Found {
    pub(crate) artefact: Artefact,
    /// What the component says of itself; none where it never got to say it.
    pub(crate) descriptor: Option<ComponentDescriptor>,
}

impl Cache {
    /// Opens the cache, and makes it where it is missing. The error is a sentence: the
    /// host then works without one.
    pub(crate) fn open(path: &Path, compatibility: Compatibility, max_bytes: u64) -> Result<Self, String> {
        let dir = PrivateDir::open(path)?;
        let key = key_of(&dir).map_err(|why| format!("its key cannot be read or made: {why}"))?;
        Ok(Self { dir, key, compatibility, max_bytes })
    }

    /// The entry of the component with this digest, if there is an authentic one.
    pub(crate) fn find(&self, digest: &str) -> Option<Found> {
        let name = self.name_of(digest);
        let (file, bytes) = self.dir.read(&name, MAX_ENTRY_BYTES).ok()?;
        let found = self.authenticate(digest, bytes);
        match found {
            Some(_) => note_use(&file),
            None => self.dir.remove(&name),
        }
        found
    }

    /// Removes the entry of the component with this digest.
    pub(crate) fn forget(&self, digest: &str) {
        self.dir.remove(&self.name_of(digest));
    }

    /// Keeps an entry for the next start, and makes room for it.
    pub(crate) fn keep(
        &self,
        digest: &str,
        descriptor: Option<&ComponentDescriptor>,
        artefact: &Artefact,
    ) -> io::Result<()> {
        let words = descriptor.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let all_bytes = (words.len() + artefact.bytes().len()) as u64;
        if words.len() > MAX_WORDS_BYTES || all_bytes > self.max_bytes {
            return Ok(());
        }
        let length = (words.len() as u64).to_le_bytes();
        let tag = self.tag(digest, &[&length, &words, artefact.bytes()]);
        let parts = [MARK.as_slice(), &tag, &length, &words, artefact.bytes()];
        self.dir.write(&self.name_of(digest), &parts, true)?;
        self.make_room()
    }

    fn name_of(&self, digest: &str) -> String {
        format!("{digest}-{}{ENTRY}", self.compatibility.short())
    }

    /// The keyed hash of an entry's content, for this component and engine.
    fn tag(&self, digest: &str, content: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(MARK).update(&self.compatibility.0);
        hasher.update(&(digest.len() as u64).to_le_bytes()).update(digest.as_bytes());
        for part in content {
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// Works on the bytes that were read, which are those that are then loaded.
    fn authenticate(&self, digest: &str, entry: Vec<u8>) -> Option<Found> {
        const WORDS: usize = MARK.len() + 32 + 8;
        let rest = entry.strip_prefix(MARK)?;
        let (tag, content) = rest.split_first_chunk::<32>()?;
        // Equality of `blake3::Hash` takes the same time whatever differs.
        if blake3::Hash::from_bytes(self.tag(digest, &[content])) != blake3::Hash::from_bytes(*tag) {
            return None;
        }
        let (length, content) = content.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let words = std::str::from_utf8(content.get(..length)?).ok()?;
        let descriptor = if words.is_empty() { None } else { Some(json::from_record(words).ok()?) };
        let begins = WORDS + length;
        Some(Found { artefact: Artefact::authenticated(entry, begins), descriptor })
    }

    /// Removes the entries that were not used for longest, down to nine tenths of the
    /// bound, and what other processes left half written.
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
            return Ok(());
        }
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

/// The installation's key, made at first use. Of several processes that make one at
/// once, one wins, and all read that.
fn key_of(dir: &PrivateDir) -> io::Result<[u8; 32]> {
    let read = || -> io::Result<[u8; 32]> {
        let (_, bytes) = dir.read(KEY, 32)?;
        bytes.as_slice().try_into().map_err(|_| io::ErrorKind::InvalidData.into())
    };
    match read() {
        Ok(key) => return Ok(key),
        // One that is no key authenticates nothing: what was kept with it is compiled anew.
        Err(why) if why.kind() == io::ErrorKind::InvalidData => dir.remove(KEY),
        Err(_) => {}
    }
    match dir.write(KEY, &[&random::<32>()?], false) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => Err(why),
        _ => read(),
    }
}

/// Entries that are in use are kept longer than others.
fn note_use(file: &File) {
    let Ok(modified) = file.metadata().and_then(|metadata| metadata.modified()) else { return };
    if modified.elapsed().is_ok_and(|age| age > USE_IS_NOTED_AFTER) {
        let now = Timespec { tv_sec: seconds(SystemTime::now()), tv_nsec: 0 };
        // Where this fails the entry only looks older than it is.
        let _ = futimens(file, &Timestamps { last_access: now, last_modification: now });
    }
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
