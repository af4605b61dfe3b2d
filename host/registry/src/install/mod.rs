//! The files of a component: its lock entry, its kept bundle, and the component itself.
//!
//! The order of writes is such that a component is never served without its entry. The bundle and
//! a staged copy come first, then the lock file, then the renames. If the program is killed in
//! between, file and lock file disagree: the file is refused at load, and [`Files::complete`]
//! finishes from the staged copy, without a network.

mod disk;

use crate::client::MAX_MANIFEST_BYTES;
use crate::digest::Digest;
use crate::directory;
use crate::error::{Code, Error, Remedy, Result};
use crate::lock::{Entry, Lock, MAX_LOCK_BYTES, is_file_name};
use crate::signature::{MAX_BUNDLE_BYTES, MAX_KEY_BYTES, PublicKey, SignerEvidence};
use crate::{MAX_ASKS_BYTES, MAX_COMPONENT_BYTES};
use bytes::Bytes;
use disk::{check_replaceable, digest_of, directory_of, hold, make_dir, remove, sync_dir, write};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

pub(crate) use disk::read;

/// The beginning of the names of staged copies, which are not loaded.
const STAGED: &str = ".staged-";

/// The places of the files.
#[derive(Debug, Clone)]
pub struct Files {
    /// The lock file.
    pub lock: PathBuf,
    /// The directory of the kept bundles.
    pub bundles: PathBuf,
    /// The tools directory.
    pub tools: PathBuf,
}

/// A component that is to be installed.
#[derive(Debug, Clone, Copy)]
pub struct Installation<'a> {
    /// Its entry.
    pub entry: &'a Entry,
    /// The component.
    pub wasm: &'a [u8],
    /// The text of its manifest.
    pub asks: Option<&'a str>,
    /// The bundle that the entry names.
    pub bundle: Option<&'a [u8]>,
    /// The manifest that the entry names. It alone shows the files that a signature of it covers.
    pub manifest: Option<&'a [u8]>,
    /// The key that the entry names.
    pub key: Option<&'a PublicKey>,
    /// The entry that it replaces. If the lock file holds another one by now, nothing is written.
    pub replaces: Option<&'a Entry>,
}

/// The evidence that is kept about a component.
#[derive(Debug, Clone)]
pub struct KeptEvidence {
    /// The bundle.
    pub bundle: Vec<u8>,
    /// The key, if it was signed with one.
    pub key: Option<PublicKey>,
    /// The manifest, if it comes from a registry.
    pub manifest: Option<Vec<u8>>,
}

/// The state of a component's files, compared with its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The files are those of the entry.
    InPlace,
    /// The component or its manifest is missing.
    Missing,
    /// The component or its manifest is another one.
    Differs,
}

impl Files {
    /// Reads the lock file; one that does not exist is empty.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_lock(&self) -> Result<Lock> {
        match read(&self.lock, MAX_LOCK_BYTES)? {
            Some(text) => {
                let text = String::from_utf8(text)
                    .map_err(|_| Error::new(Code::InvalidLock, "tollgate.lock, line 1: it is not text"))?;
                Lock::parse(&text)
            }
            None => Ok(Lock::default()),
        }
    }

    /// Compares the files of a component with its entry.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn placement(&self, entry: &Entry) -> Result<Placement> {
        let (wasm, asks) = self.paths(entry);
        let Some(found) = digest_of(&wasm, MAX_COMPONENT_BYTES)? else { return Ok(Placement::Missing) };
        let found_asks = digest_of(&asks, MAX_ASKS_BYTES as u64)?;
        Ok(match (found == entry.wasm, found_asks == entry.asks) {
            (true, true) => Placement::InPlace,
            (true, false) if found_asks.is_none() => Placement::Missing,
            _ => Placement::Differs,
        })
    }

    /// Reads a component and the text of its manifest; `None` if they are not those of its entry.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn in_place(&self, entry: &Entry) -> Result<Option<(Bytes, Option<String>)>> {
        let (wasm, asks) = self.paths(entry);
        let Some(wasm) = read(&wasm, MAX_COMPONENT_BYTES)? else { return Ok(None) };
        let asks = read(&asks, MAX_ASKS_BYTES as u64)?.map(String::from_utf8).transpose();
        // A manifest that is not text is not the one that was installed.
        let Ok(asks) = asks else { return Ok(None) };
        let is_recorded = Digest::of(&wasm) == entry.wasm
            && asks.as_ref().map(|asks| Digest::of(asks.as_bytes())) == entry.asks;
        Ok(is_recorded.then_some((wasm.into(), asks)))
    }

    /// Installs a component, or replaces its version.
    ///
    /// # Errors
    /// The entry changed meanwhile, a file exists at a target path, or a write fails.
    pub fn install(&self, new: &Installation<'_>) -> Result<()> {
        let _held = hold(&self.lock)?;
        let mut lock = self.read_lock()?;
        if lock.of(&new.entry.id) != new.replaces {
            let what = format!("tollgate.lock has changed meanwhile about {}; try again", new.entry.id);
            return Err(Error::new(Code::LockMismatch, what));
        }
        lock.set(new.entry.clone())?;
        self.check_target(new)?;
        make_dir(&self.tools)?;
        self.keep(new)?;
        self.stage(new.entry, new.wasm, new.asks)?;
        step()?;
        write(&self.lock, lock.to_text().as_bytes())?;
        step()?;
        self.put_in_place(new.entry)?;
        if let Some(before) = new.replaces.filter(|before| before.file != new.entry.file) {
            self.remove_files(before)?;
        }
        self.sweep(&lock);
        Ok(())
    }

    /// Stages a component again that is recorded, and puts it in its place.
    ///
    /// # Errors
    /// It is not the recorded one, or something cannot be written.
    pub fn restore(&self, entry: &Entry, wasm: &[u8], asks: Option<&str>) -> Result<()> {
        let _held = hold(&self.lock)?;
        if Digest::of(wasm) != entry.wasm || asks.map(|asks| Digest::of(asks.as_bytes())) != entry.asks {
            let what = format!(
                "the component at {} differs from the one that tollgate.lock records for {}; look at the new version",
                entry.from, entry.id
            );
            return Err(
                Error::new(Code::LockMismatch, what).with_remedy(Remedy::Update { id: entry.id.clone() })
            );
        }
        make_dir(&self.tools)?;
        self.stage(entry, wasm, asks)?;
        self.put_in_place(entry).map(drop)
    }

    /// Finishes an installation that was interrupted: puts the staged copy of a component in its place.
    /// Whether there was one.
    ///
    /// # Errors
    /// Something other than a file exists at the target path, or it cannot be replaced.
    pub fn complete(&self, entry: &Entry) -> Result<bool> {
        let _held = hold(&self.lock)?;
        match self.read_lock()?.of(&entry.id) == Some(entry) {
            true => self.put_in_place(entry),
            false => Ok(false),
        }
    }

    /// Removes what killed processes left, and the evidence and staged copies that no entry names.
    ///
    /// # Errors
    /// The lock file cannot be read.
    pub fn tidy(&self) -> Result<()> {
        let _held = hold(&self.lock)?;
        self.sweep(&self.read_lock()?);
        Ok(())
    }

    /// Puts the staged copy of a component in its place. The caller holds the lock.
    fn put_in_place(&self, entry: &Entry) -> Result<bool> {
        let (wasm, asks) = self.paths(entry);
        let (staged, staged_asks) = self.staged(entry);
        let is_asks_done = digest_of(&asks, MAX_ASKS_BYTES as u64)? == entry.asks;
        let is_done = digest_of(&wasm, MAX_COMPONENT_BYTES)?.as_ref() == Some(&entry.wasm);
        let is_staged = digest_of(&staged, MAX_COMPONENT_BYTES)?.as_ref() == Some(&entry.wasm);
        let is_asks_staged =
            entry.asks.is_none() || digest_of(&staged_asks, MAX_ASKS_BYTES as u64)? == entry.asks;
        if !(is_done || is_staged) || !(is_asks_done || is_asks_staged) {
            return Ok(false);
        }
        check_replaceable(&wasm)?;
        check_replaceable(&asks)?;
        if !is_asks_done {
            match entry.asks {
                Some(_) => fs::rename(&staged_asks, &asks).map_err(Error::io("written", &asks))?,
                None => remove(&asks)?,
            }
        }
        step()?;
        if !is_done {
            fs::rename(&staged, &wasm).map_err(Error::io("written", &wasm))?;
        }
        step()?;
        remove(&staged)?;
        remove(&staged_asks)?;
        sync_dir(&self.tools)?;
        Ok(true)
    }

    /// Removes a component and its entry. The files go first: what is left of a removal that was
    /// interrupted is an entry without a file.
    ///
    /// # Errors
    /// There is no such entry, or something cannot be removed.
    pub fn remove(&self, id: &str) -> Result<Entry> {
        let _held = hold(&self.lock)?;
        let mut lock = self.read_lock()?;
        let Some(entry) = lock.remove(id) else {
            // A removal may have been interrupted right before its end.
            self.sweep(&lock);
            let what = format!("tollgate.lock records no component {id}");
            return Err(Error::new(Code::NotFound, what).with_remedy(Remedy::List));
        };
        self.remove_files(&entry)?;
        step()?;
        write(&self.lock, lock.to_text().as_bytes())?;
        step()?;
        self.sweep(&lock);
        Ok(entry)
    }

    /// Reads the evidence that is kept about a component; `None` if it was accepted unsigned.
    ///
    /// # Errors
    /// It is missing, or not what the entry names.
    pub fn evidence(&self, entry: &Entry) -> Result<Option<KeptEvidence>> {
        let Some(signed) = &entry.signed else { return Ok(None) };
        let missing = |what: &str| {
            let dir = self.bundles.display();
            let what = format!(
                "{what} of {} is missing or damaged in {dir}; restore it from version control, or record it again",
                entry.id
            );
            let remedy = Remedy::AddAgain { id: entry.id.clone(), source: entry.source() };
            Error::new(Code::LockMismatch, what).with_remedy(remedy)
        };
        let bundle = read(&self.bundle_path(signed.bundle()), MAX_BUNDLE_BYTES as u64)?;
        let bundle =
            bundle.filter(|bundle| signed.bundle().matches(bundle)).ok_or_else(|| missing("the bundle"))?;
        let manifest = match &entry.manifest {
            None => None,
            Some(digest) => {
                let kept = read(&self.manifest_path(digest), MAX_MANIFEST_BYTES)?;
                Some(kept.filter(|kept| digest.matches(kept)).ok_or_else(|| missing("the manifest"))?)
            }
        };
        let SignerEvidence::Key { key, .. } = signed else {
            return Ok(Some(KeptEvidence { bundle, key: None, manifest }));
        };
        let pem = read(&self.key_path(key), MAX_KEY_BYTES)?.unwrap_or_default();
        let public = PublicKey::from_pem(&String::from_utf8_lossy(&pem)).ok();
        let public = public.filter(|public| public.id() == key).ok_or_else(|| missing("the key"))?;
        Ok(Some(KeptEvidence { bundle, key: Some(public), manifest }))
    }

    /// Keeps the evidence about a component.
    fn keep(&self, new: &Installation<'_>) -> Result<()> {
        let Some(bundle) = new.bundle else { return Ok(()) };
        let key = new.key;
        make_dir(&self.bundles)?;
        if let (Some(manifest), Some(digest)) = (new.manifest, &new.entry.manifest) {
            write(&self.manifest_path(digest), manifest)?;
        }
        step()?;
        write(&self.bundle_path(&Digest::of(bundle)), bundle)?;
        key.map_or(Ok(()), |key| write(&self.key_path(key.id()), key.to_pem().as_bytes()))
    }

    fn stage(&self, entry: &Entry, wasm: &[u8], asks: Option<&str>) -> Result<()> {
        let (staged, staged_asks) = self.staged(entry);
        step()?;
        write(&staged, wasm)?;
        step()?;
        asks.map_or(Ok(()), |asks| write(&staged_asks, asks.as_bytes()))
    }

    /// Removes the evidence and the staged copies that no entry names, and what killed processes left.
    /// The caller holds the lock.
    fn sweep(&self, lock: &Lock) {
        for directory in [directory_of(&self.lock), self.bundles.as_path(), self.tools.as_path()] {
            directory::sweep_parts(directory);
        }
        let mut named = BTreeSet::new();
        for entry in lock.entries() {
            let (wasm, asks) = self.staged(entry);
            named.extend([wasm, asks]);
            named.extend(entry.manifest.as_ref().map(|digest| self.manifest_path(digest)));
            named.extend(entry.signed.as_ref().map(|signed| self.bundle_path(signed.bundle())));
            if let Some(SignerEvidence::Key { key, .. }) = &entry.signed {
                named.insert(self.key_path(key));
            }
        }
        let is_evidence = |name: &str| {
            let (hex, end) = name.split_once('.').unwrap_or_default();
            let is_hex = hex.len() >= 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex
                && matches!(end, "json" | "manifest.json" | "pub")
                && !named.contains(&self.bundles.join(name))
        };
        directory::sweep(&self.bundles, is_evidence);
        let is_staged = |name: &str| name.starts_with(STAGED) && !named.contains(&self.tools.join(name));
        directory::sweep(&self.tools, is_staged);
    }

    /// A file that is not recorded is never replaced.
    fn check_target(&self, new: &Installation<'_>) -> Result<()> {
        let (wasm, asks) = self.paths(new.entry);
        check_replaceable(&wasm)?;
        check_replaceable(&asks)?;
        if new.replaces.is_some_and(|before| before.file == new.entry.file) {
            return Ok(());
        }
        for (path, recorded, limit) in [
            (&wasm, Some(&new.entry.wasm), MAX_COMPONENT_BYTES),
            (&asks, new.entry.asks.as_ref(), MAX_ASKS_BYTES as u64),
        ] {
            let is_there = path.symlink_metadata().is_ok();
            if is_there && digest_of(path, limit).ok().flatten().as_ref() != recorded {
                let what = format!(
                    "{} exists and is not in tollgate.lock; remove it, or choose another name",
                    path.display()
                );
                return Err(Error::new(Code::NameTaken, what).with_remedy(Remedy::OtherName));
            }
        }
        Ok(())
    }

    fn remove_files(&self, entry: &Entry) -> Result<()> {
        let (wasm, asks) = self.paths(entry);
        check_replaceable(&wasm)?;
        check_replaceable(&asks)?;
        remove(&wasm)?;
        step()?;
        remove(&asks)?;
        let (staged, staged_asks) = self.staged(entry);
        remove(&staged)?;
        remove(&staged_asks)
    }

    /// The component and its manifest.
    fn paths(&self, entry: &Entry) -> (PathBuf, PathBuf) {
        // Entries are checked where they are read.
        debug_assert!(is_file_name(&entry.file));
        let wasm = self.tools.join(&entry.file);
        let asks = wasm.with_extension("toml");
        (wasm, asks)
    }

    /// The staged copies. Their names begin with a dot, so that they are not loaded.
    fn staged(&self, entry: &Entry) -> (PathBuf, PathBuf) {
        let asks = entry.asks.as_ref().map_or("none", Digest::hex);
        let staged = |hex: &str, end: &str| self.tools.join(format!("{STAGED}{hex}.{end}"));
        (staged(entry.wasm.hex(), "wasm"), staged(asks, "toml"))
    }

    fn bundle_path(&self, digest: &Digest) -> PathBuf {
        self.bundles.join(format!("{}.json", digest.hex()))
    }

    fn manifest_path(&self, digest: &Digest) -> PathBuf {
        self.bundles.join(format!("{}.manifest.json", digest.hex()))
    }

    fn key_path(&self, digest: &Digest) -> PathBuf {
        self.bundles.join(format!("{}.pub", digest.hex()))
    }
}

#[cfg(test)]
thread_local! {
    /// After how many steps the program is killed, as far as the tests are concerned.
    static STEPS_LEFT: std::cell::Cell<u32> = const { std::cell::Cell::new(u32::MAX) };
}

/// A moment at which the program could be killed.
fn step() -> Result<()> {
    #[cfg(test)]
    {
        let left = STEPS_LEFT.get();
        if left == 0 {
            return Err(Error::new(Code::Io, "killed"));
        }
        STEPS_LEFT.set(left - 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
