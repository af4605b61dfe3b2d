//! The sandbox: one engine, its ticker, its linkers, and the turns of its calls.

use crate::component::Component;
use crate::config::SandboxConfig;
use crate::error::{Refusal, SandboxError};
use crate::instance::Instance;
use crate::ticker::Ticker;
use crate::turns::Turns;
use crate::{engine, interfaces, load};
use std::path::Path;
use std::sync::Arc;
use wasmtime::Engine;
use wasmtime::component::Linker;

/// Loads components and runs their tools. Cloning is cheap.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

/// What all components of a sandbox share.
pub(crate) struct Inner {
    pub(crate) config: SandboxConfig,
    pub(crate) ticker: Ticker,
    pub(crate) turns: Turns,
    pub(crate) engine: Engine,
    pub(crate) real: Linker<Instance>,
    pub(crate) sealed: Linker<Instance>,
    notice: Option<String>,
}

impl Sandbox {
    /// Makes a sandbox, and the thread that interrupts its guests; the thread ends
    /// with the last clone of the sandbox and of its components.
    ///
    /// # Errors
    /// The engine or the thread cannot be made on this machine.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        let (engine, notice) = engine::engine(&config)?;
        let unlinked =
            |why: wasmtime::Error| SandboxError::new(format!("the host's interfaces do not link: {why:#}"));
        let inner = Inner {
            ticker: Ticker::start(engine.clone())
                .map_err(|why| SandboxError::new(format!("the system gives no thread: {why}")))?,
            turns: Turns::new(&config),
            real: interfaces::real(&engine).map_err(unlinked)?,
            sealed: interfaces::sealed(&engine).map_err(unlinked)?,
            config,
            engine,
            notice,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the operator should know of how it was made, such as why memory is
    /// not pooled.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.inner.notice.as_deref()
    }

    /// How large it is.
    #[must_use]
    pub fn config(&self) -> &SandboxConfig {
        &self.inner.config
    }

    /// The engine, for benches that compare a call with wasmtime's own.
    #[doc(hidden)]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Reads, checks and compiles a component, and lets it describe itself. The
    /// blocking parts happen on a thread where they block nobody. Needs a runtime of
    /// tokio with timers.
    ///
    /// # Errors
    /// The file is not a component of a tool, or breaks a rule of loading.
    pub async fn load(&self, path: impl AsRef<Path>) -> Result<Component, Refusal> {
        let path = path.as_ref().to_owned();
        let name = path.display().to_string();
        let bytes = blocking(move || load::read(&path)).await?;
        self.load_bytes(&name, bytes).await
    }

    /// Does what [`load`](Self::load) does with bytes that were read already.
    /// `name` stands for them in messages.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_bytes(&self, name: &str, bytes: Vec<u8>) -> Result<Component, Refusal> {
        let of_thread = (Arc::clone(&self.inner), name.to_owned());
        let linked = blocking(move || {
            let (inner, name) = of_thread;
            let checked = load::check(&name, bytes)?;
            let compiled = load::compile(&inner.engine, &name, &checked)?;
            Component::link(inner, name, checked.digest, &compiled)
        })
        .await?;
        linked.describe().await
    }
}

/// Runs what takes long on a thread for such things.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => Err(Refusal::new(format!("the host failed while it loaded the component: {panic}"))),
    }
}
