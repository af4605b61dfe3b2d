//! The sandbox: one engine, its ticker, and everything that is loaded into it.

use crate::component::Component;
use crate::config::SandboxConfig;
use crate::error::{Refusal, SandboxError};
use std::path::Path;
use std::sync::Arc;

/// Loads components and runs their tools. Cloning is cheap.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

struct Inner {
    config: SandboxConfig,
    notice: Option<String>,
}

impl Sandbox {
    /// Makes a sandbox, and the thread that interrupts its guests; the thread ends
    /// with the sandbox.
    ///
    /// # Errors
    /// The engine cannot be made on this machine.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                notice: None,
            }),
        })
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

    /// Reads, checks and compiles a component, and lets it describe itself. Reading
    /// and compiling happen on a thread of their own.
    ///
    /// # Errors
    /// The file is not a component of a tool, or breaks a rule of loading.
    pub async fn load(&self, path: impl AsRef<Path>) -> Result<Component, Refusal> {
        Err(Refusal::new(format!(
            "{} cannot be loaded yet",
            path.as_ref().display()
        )))
    }

    /// Does what [`load`](Self::load) does with bytes that were read already.
    /// `name` stands for them in messages.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_bytes(&self, name: &str, bytes: Vec<u8>) -> Result<Component, Refusal> {
        Err(Refusal::new(format!(
            "{name} ({} bytes) cannot be loaded yet",
            bytes.len()
        )))
    }
}
