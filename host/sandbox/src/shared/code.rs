//! Compiles components, caches their code, and loads it within the memory limits.

use super::Shared;
use crate::blocking::loading;
use crate::error::Refusal;
use crate::load::{self, Artifact, FileShare, Fingerprint, LoadedCode, OpenedFile, Origin, ValidatedBytes};
use std::sync::{Arc, PoisonError};
use tokio::runtime::Handle;
use tollgate_agent::text::clean;

impl Shared {
    /// Compiles a component, unless it is known to fail.
    pub(crate) async fn compile(
        self: &Arc<Self>,
        name: &str,
        of: &Fingerprint,
        checked: &Arc<ValidatedBytes>,
    ) -> Result<Artifact, Refusal> {
        let terms = self.compiling.terms();
        let (inner, of, asked) = (Arc::clone(self), *of, terms.clone());
        let failed = loading(move || Ok(inner.cache.as_ref().and_then(|cache| cache.failure(&of, &asked))));
        if let Some(why) = failed.await? {
            return Err(Refusal::new(format!("{name} {why} (as before; it was not compiled again)")));
        }
        let failure = match self.compiling.compile(&self.engine, checked).await {
            Ok(artifact) => return Ok(artifact),
            Err(failure) => failure,
        };
        let refusal = Refusal::new(format!("{name} {}", failure.why));
        let inner = Arc::clone(self);
        loading(move || {
            let kept = inner.cache.as_ref().map(|cache| cache.keep_failure(&of, &terms, &failure));
            inner.note_unkept(kept.and_then(Result::err));
            Ok(())
        })
        .await?;
        Err(refusal)
    }

    /// Returns the code of a component whose description is known: from the cache, or compiled
    /// again from the same bytes if the cache has lost it.
    pub(crate) async fn code_of(self: &Arc<Self>, origin: &Origin) -> Result<LoadedCode, Refusal> {
        let (inner, of_thread) = (Arc::clone(self), origin.clone());
        let kept = move || inner.kept_code(&of_thread.name, &of_thread.identity.fingerprint);
        if let Some((code, _)) = loading(kept).await? {
            return Ok(code);
        }
        let (inner, of_thread) = (Arc::clone(self), origin.clone());
        let (checked, room) = loading(move || {
            let Origin { name, identity, file } = of_thread;
            let lost =
                || Refusal::new(format!("the compiled code of {name} is lost, and its file has changed"));
            let opened = OpenedFile::at(file.as_deref().ok_or_else(lost)?)?;
            let (bytes, room) = inner.read(&name, opened)?;
            if Fingerprint::of(&bytes) != identity.fingerprint {
                return Err(lost());
            }
            Ok((Arc::new(load::check(&name, bytes)?), room))
        })
        .await?;
        let artifact = self.compile(&origin.name, &origin.identity.fingerprint, &checked).await?;
        drop((checked, room));
        let (inner, origin) = (Arc::clone(self), origin.clone());
        loading(move || {
            inner.keep(&origin.identity.fingerprint, None, &artifact);
            inner.load(&origin.name, &artifact)
        })
        .await
    }

    /// Reads a component's file. Its memory is reserved before, and held until it is compiled.
    pub(crate) fn read(&self, name: &str, file: OpenedFile<'_>) -> Result<(Vec<u8>, FileShare), Refusal> {
        let room = self.room_for_file(name, file.bytes(), None)?;
        Ok((file.read()?, room))
    }

    /// Returns the memory of a component that is about to be checked and compiled. It is reserved here
    /// unless that was done before its file was read.
    pub(crate) fn room_for_file(
        &self,
        name: &str,
        bytes: u64,
        reserved: Option<FileShare>,
    ) -> Result<FileShare, Refusal> {
        if let Some(room) = reserved {
            return Ok(room);
        }
        let room = self.code_memory.reserve_for_file(bytes);
        Handle::current().block_on(room).map_err(|why| why.refusal(name))
    }

    /// Returns the cached code of these bytes. Its memory is reserved before it is read.
    pub(crate) fn kept_code(
        &self,
        name: &str,
        of: &Fingerprint,
    ) -> Result<Option<(LoadedCode, Artifact)>, Refusal> {
        let Some(cache) = &self.cache else { return Ok(None) };
        let Some(bytes) = cache.entry_bytes(of) else { return Ok(None) };
        let share = self.code_memory.reserve(bytes).map_err(|why| why.refusal(name))?;
        let Some(artifact) = cache.code(of, bytes) else { return Ok(None) };
        match self.code_memory.load(&self.engine, &artifact, share).map_err(|why| why.refusal(name))? {
            Ok(code) => Ok(Some((code, artifact))),
            Err(_) => {
                // Authentic, but rejected by this engine, which is unexpected.
                cache.forget(of);
                Ok(None)
            }
        }
    }

    /// Makes newly compiled code callable.
    pub(crate) fn load(&self, name: &str, artifact: &Artifact) -> Result<LoadedCode, Refusal> {
        let bytes = artifact.bytes().len() as u64;
        let share = self.code_memory.reserve(bytes).map_err(|why| why.refusal(name))?;
        let loaded = self.code_memory.load(&self.engine, artifact, share).map_err(|why| why.refusal(name))?;
        loaded.map_err(|why| {
            let why = clean(&format!("{why:#}"), 1_000);
            Refusal::new(format!("{name} was compiled to code that this host cannot load: {why}"))
        })
    }

    /// Caches code for the next start.
    pub(crate) fn keep(
        &self,
        of: &Fingerprint,
        words: Option<&load::CachedDescription>,
        artifact: &Artifact,
    ) {
        let kept = self.cache.as_ref().map(|cache| cache.keep(of, words, artifact));
        self.note_unkept(kept.and_then(Result::err));
    }

    /// Caches why a component or its description is refused, so that the next start need not ask.
    pub(crate) fn keep_refusal(&self, of: &Fingerprint, why: &str) {
        let kept = self.cache.as_ref().map(|cache| cache.keep_refusal(of, why));
        self.note_unkept(kept.and_then(Result::err));
    }

    /// Returns a refusal that follows from a component's bytes alone, whose reason is cached, so that the next
    /// start neither checks nor compiles it.
    pub(crate) fn refuse(&self, origin: &Origin, refusal: Refusal) -> Refusal {
        if let Some(why) = refusal.to_string().strip_prefix(&origin.name) {
            self.keep_refusal(&origin.identity.fingerprint, why.trim_start());
        }
        refusal
    }

    fn note_unkept(&self, why: Option<std::io::Error>) {
        let Some(why) = why else { return };
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        // One notice is enough, and notices may never be read.
        if notices.is_empty() {
            notices.push(format!("compiled code cannot be kept for the next start: {why}"));
        }
    }
}
