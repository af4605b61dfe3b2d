//! The sandbox: loads components, from their files or from the cache.

mod gates;

pub use gates::Guest;

use crate::admission::{Admission, Occupancy};
use crate::blocking::loading;
use crate::budget::MemoryBudget;
use crate::compile::CompilerPool;
use crate::component::{Component, ComponentDescription, LinkedComponent, MissingDescription};
use crate::config::SandboxConfig;
use crate::descriptors::Descriptors;
use crate::engine::Compatibility;
use crate::error::{Refusal, SandboxError};
use crate::load::{
    Artifact, Cache, CachedDescription, CodeMemory, DescriptionShare, FileShare, Fingerprint, Identity,
    Origin, ValidatedBytes,
};
use crate::plain::Docs;
use crate::shared::Shared;
use crate::ticker::Ticker;
use crate::{engine, interfaces, load};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use wasmtime::Engine;

/// Loads components and runs their tools. Cloning is cheap.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Shared>,
}

impl Sandbox {
    /// Creates a sandbox, and the thread that interrupts its guests. The thread ends with the
    /// last clone of the sandbox and of its components.
    ///
    /// # Errors
    /// Fails if this machine cannot create the engine or the thread.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        let engine::NewEngine { engine, layout, notice } = engine::engine(&config)?;
        let unlinked =
            |why: wasmtime::Error| SandboxError::new(format!("the host's interfaces do not link: {why:#}"));
        let compatibility = Compatibility::of(&engine);
        let mut notices = Vec::from_iter(notice);
        let sealed = interfaces::sealed(&engine).map_err(unlinked)?;
        let admission = Admission::new(&config);
        let code_memory = CodeMemory::new(
            config.loaded_code_bytes,
            admission.memory().clone(),
            Descriptors::of_process().clone(),
        );
        let inner = Shared {
            ticker: Ticker::start(engine.clone())
                .map_err(|why| SandboxError::new(format!("cannot start a thread: {why}")))?,
            admission,
            real: interfaces::serving_linker(&sealed).map_err(unlinked)?,
            sealed,
            compiling: CompilerPool::new(&config, compatibility, layout),
            cache: open_cache(&config, compatibility, &mut notices),
            code_memory,
            config,
            engine,
            notices: Mutex::new(notices),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns notices for the operator, such as why memory is not pooled or compiled code is not
    /// cached. Each is returned once.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.inner.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &SandboxConfig {
        &self.inner.config
    }

    /// Returns the bytes of the compiled forms of all loaded components.
    #[must_use]
    pub fn loaded_code_bytes(&self) -> u64 {
        self.inner.code_memory.used_bytes()
    }

    /// Starts the compiler process and has it attempt actions that confinement must prevent.
    /// Returns a sentence about what this system lacks to confine it; `None` if confinement is
    /// complete.
    pub async fn compiler_gaps(&self) -> Option<String> {
        self.inner.compiling.gaps().await
    }

    /// Returns the memory that the host may spend for guests, clients and remote servers together
    /// (`memory_budget_bytes`). Code that holds values on their behalf must reserve from it
    /// first.
    #[must_use]
    pub fn memory_budget(&self) -> &MemoryBudget {
        self.inner.admission.memory()
    }

    /// Returns the current usage.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.inner.admission.occupancy()
    }

    /// Returns the engine, for benchmarks that compare a call with wasmtime's own, and tests that
    /// count the used parts of its pool.
    #[doc(hidden)]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Reads, checks and compiles a component and asks it to describe itself, or uses the cached
    /// result for the same bytes. Blocking work runs on threads for it. Requires a tokio runtime
    /// with timers, and with I/O if the compiler is a child process.
    ///
    /// # Errors
    /// Fails if the file is not a tool component, or breaks a rule of loading.
    pub async fn load(&self, path: impl AsRef<Path>) -> Result<Component, Refusal> {
        let path = path.as_ref().to_owned();
        let inner = Arc::clone(&self.inner);
        self.go_on(loading(move || inner.begin_file(path)).await?).await
    }

    /// Loads a component like [`load`](Self::load), from bytes that were read already. Messages
    /// refer to them as `name`.
    ///
    /// # Errors
    /// The same as [`load`](Self::load).
    pub async fn load_bytes(&self, name: &str, bytes: Vec<u8>) -> Result<Component, Refusal> {
        let (inner, name) = (Arc::clone(&self.inner), name.to_owned());
        self.go_on(loading(move || inner.begin(name, None, bytes, None)).await?).await
    }

    async fn go_on(&self, begun: PartialLoad) -> Result<Component, Refusal> {
        match begun {
            PartialLoad::Known(component) => Ok(component),
            PartialLoad::Compiled(linked, docs, artifact) => self.describe(linked, docs, artifact).await,
            PartialLoad::New(origin, checked, room) => {
                let artifact =
                    self.inner.compile(&origin.name, &origin.identity.fingerprint, &checked).await?;
                let inner = Arc::clone(&self.inner);
                let (linked, docs, artifact) = loading(move || {
                    let docs = Docs::of(&checked.bytes);
                    drop((checked, room));
                    let compiled = inner.load(&origin.name, &artifact)?;
                    let linked = Component::link(Arc::clone(&inner), origin.clone(), compiled);
                    Ok((linked.map_err(|refusal| inner.refuse(&origin, refusal))?, docs, artifact))
                })
                .await?;
                self.describe(linked, docs, artifact).await
            }
        }
    }

    /// Asks the component to describe itself, and caches the descriptor and code for the next
    /// start. The code is cached even if the component does not answer, because compiling took the
    /// time. If the description is refused, only the reason is cached.
    async fn describe(
        &self,
        linked: Arc<LinkedComponent>,
        docs: Docs,
        artifact: Artifact,
    ) -> Result<Component, Refusal> {
        let Identity { digest, fingerprint } = linked.identity().clone();
        let name = linked.name().to_owned();
        let described = linked.describe(docs).await;
        let inner = Arc::clone(&self.inner);
        loading(move || match described {
            Ok(component) => {
                let words = CachedDescription {
                    digest,
                    descriptor: component.descriptor().clone(),
                    imports: component.imports().to_vec(),
                    left_out: component.left_out().map(<[_]>::to_vec),
                };
                inner.keep(&fingerprint, Some(&words), &artifact);
                Ok(component)
            }
            Err(MissingDescription::Invalid(why)) => {
                inner.keep_refusal(&fingerprint, &why);
                Err(Refusal::new(format!("{name} {why}")))
            }
            Err(MissingDescription::Refused(refusal)) => {
                inner.keep(&fingerprint, None, &artifact);
                Err(refusal)
            }
        })
        .await
    }
}

/// A component as far as it could be loaded without compiling.
enum PartialLoad {
    /// Its descriptor is cached; its code is loaded when needed.
    Known(Component),
    /// Its code is cached.
    Compiled(Arc<LinkedComponent>, Docs, Artifact),
    /// Only its bytes are available, with their memory.
    New(Origin, Arc<ValidatedBytes>, FileShare),
}

impl Shared {
    /// Begins to load a file. If the component is cached, its bytes are not even kept in memory.
    fn begin_file(self: Arc<Self>, path: PathBuf) -> Result<PartialLoad, Refusal> {
        let opened = load::OpenedFile::at(&path)?;
        opened.check_header()?;
        let name = path.display().to_string();
        if let Some(cache) = &self.cache {
            let fingerprint = opened.fingerprint()?;
            // Only checked bytes are ever stored under their fingerprint.
            if let Some((words, memory)) = self.kept_words(&name, &fingerprint)? {
                let identity = Identity { digest: words.digest, fingerprint };
                let origin = Origin { name, identity, file: Some(path) };
                let imports = load::known_imports(&origin.name, &words.imports)?;
                let described =
                    ComponentDescription { descriptor: words.descriptor, left_out: words.left_out, memory };
                return Component::known(self, origin, imports, described).map(PartialLoad::Known);
            }
            if let Some(why) = cache.refusal(&fingerprint) {
                return Err(Refusal::new(format!("{name} {why}")));
            }
        }
        let (bytes, room) = self.read(&name, opened)?;
        self.begin(name, Some(path), bytes, Some(room))
    }

    fn begin(
        self: Arc<Self>,
        name: String,
        file: Option<PathBuf>,
        bytes: Vec<u8>,
        room: Option<FileShare>,
    ) -> Result<PartialLoad, Refusal> {
        let origin = Origin { identity: Identity::of(&bytes), name, file };
        let fingerprint = &origin.identity.fingerprint;
        if let Some(why) = self.cache.as_ref().and_then(|cache| cache.refusal(fingerprint)) {
            return Err(Refusal::new(format!("{} {why}", origin.name)));
        }
        let Some((compiled, artifact)) = self.kept_code(&origin.name, fingerprint)? else {
            let room = self.room_for_file(&origin.name, bytes.len() as u64, room)?;
            let checked = load::check(&origin.name, bytes);
            let checked = checked.map_err(|refusal| self.refuse(&origin, refusal))?;
            return Ok(PartialLoad::New(origin, Arc::new(checked), room));
        };
        let words = self.kept_words(&origin.name, fingerprint)?;
        let linked = Component::link(self, origin, compiled)?;
        match words {
            Some((CachedDescription { descriptor, left_out, .. }, memory)) => linked
                .described(ComponentDescription { descriptor, left_out, memory })
                .map(PartialLoad::Known),
            None => Ok(PartialLoad::Compiled(linked, Docs::of(&bytes), artifact)),
        }
    }

    /// Returns the cached description of these bytes. Its memory is reserved before it is parsed.
    fn kept_words(
        &self,
        name: &str,
        of: &Fingerprint,
    ) -> Result<Option<(CachedDescription, DescriptionShare)>, Refusal> {
        let Some(text) = self.cache.as_ref().and_then(|cache| cache.words(of)) else { return Ok(None) };
        let reserved = self.code_memory.reserve_for_description(text.parsed_bytes());
        let memory = Handle::current().block_on(reserved).map_err(|why| why.refusal(name))?;
        Ok(text.parse().map(|words| (words, memory)))
    }
}

fn open_cache(
    config: &SandboxConfig,
    compatibility: Compatibility,
    notices: &mut Vec<String>,
) -> Option<Cache> {
    let dir = config.cache_dir.as_deref()?;
    match Cache::open(dir, compatibility, config.cache_bytes) {
        Ok(cache) => Some(cache),
        Err(why) => {
            notices.push(format!(
                "compiled code is not kept, so each start compiles again: cannot use the cache {}: {why}",
                dir.display()
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn z4_a_refused_component_is_not_checked_or_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache_dir = Some(folder.path().join("cache"));
        let sandbox = Sandbox::new(SandboxConfig { cache_dir, ..SandboxConfig::default() }).unwrap();
        let refused = async |name: &str, bytes: &[u8]| {
            sandbox.load_bytes(name, bytes.to_vec()).await.err().unwrap().to_string()
        };
        let module = wat::parse_str("(component (core module (func)))").unwrap();
        let damaged = &module[..module.len() - 3];
        let importing = wat::parse_str(r#"(component (import "a:b/c@1.0.0" (instance)))"#).unwrap();
        for (bytes, words) in [(damaged, "damaged or cut off"), (&importing[..], "imports a:b/c")] {
            let why = refused("first.wasm", bytes).await;
            assert!(why.contains(words), "{why}");
            let fingerprint = Fingerprint::of(bytes);
            let kept = sandbox.inner.cache.as_ref().unwrap().refusal(&fingerprint).unwrap();
            assert_eq!(why, format!("first.wasm {kept}"));
            // A new check would find the same words.
            sandbox.inner.keep_refusal(&fingerprint, "was refused before");
            assert_eq!(refused("second.wasm", bytes).await, "second.wasm was refused before");
        }
    }
}
