//! Compiling components to machine code. Untrusted bytes meet the largest program in this project
//! here: the compiler.
//!
//! Compilation therefore runs in a separate process with limits on memory and time, so that a
//! component built to be expensive exhausts that process and not the host. Hosts that compile
//! only trusted components may do so in their own process. Either way, the result is an artifact
//! of the same engine, identified by its [`Compatibility`].

mod child;
mod confine;
mod failure;
mod message;
mod parent;

pub use child::compile_child;

use crate::config::{Compiler, SandboxConfig};
use crate::engine::{Compatibility, Layout};
use crate::error::{CompileFailure, FailureLifetime};
use crate::load::{Artifact, ValidatedBytes};
use failure::refused;
use message::{MAX_WORDS_BYTES, Purpose};
use parent::{CompilerJob, NoArtifact};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tollgate_agent::limit_places::LimitPlaces;
use wasmtime::Engine;

/// The number of components that are compiled at once.
pub const COMPILED_AT_ONCE: usize = 2;
/// Additional bytes of the compiled form for each byte of the component.
pub const COMPILED_BYTES_PER_BYTE: u64 = 64;

/// The limits for compiling one component, and the result.
#[derive(Debug)]
struct CompileLimits {
    cpu: Duration,
    wall: Duration,
    memory_bytes: u64,
    compiled_bytes: u64,
    cache_bytes: u64,
    places: &'static LimitPlaces,
}

impl CompileLimits {
    /// Returns the maximum size in bytes of the compiled form of a component of this size.
    fn artifact_bytes(&self, component_bytes: usize) -> u64 {
        let for_its_size = (component_bytes as u64).saturating_mul(COMPILED_BYTES_PER_BYTE);
        self.compiled_bytes.saturating_add(for_its_size).min(self.cache_bytes / 4)
    }
}

/// Compiles for one engine, two components at once.
pub(crate) struct CompilerPool {
    compiler: Compiler,
    compatibility: Compatibility,
    layout: Layout,
    limits: CompileLimits,
    permits: Semaphore,
}

impl CompilerPool {
    pub(crate) fn new(config: &SandboxConfig, compatibility: Compatibility, layout: Layout) -> Self {
        Self {
            compiler: config.compiler.clone(),
            compatibility,
            layout,
            limits: CompileLimits {
                cpu: config.compile_cpu,
                wall: config.compile_wall,
                memory_bytes: config.compile_memory_bytes,
                compiled_bytes: config.compiled_bytes,
                cache_bytes: config.cache_bytes,
                places: config.limit_places,
            },
            permits: Semaphore::new(COMPILED_AT_ONCE),
        }
    }

    /// Returns the limits that affect whether a component compiles, as text. If they change,
    /// failed components are retried.
    pub(crate) fn terms(&self) -> String {
        format!("{:?} {}", self.limits, matches!(self.compiler, Compiler::InProcess))
    }

    /// Compiles a component. The wait in the queue is bounded only by the number of components
    /// ahead, each of which has a time limit.
    pub(crate) async fn compile(
        &self,
        engine: &Engine,
        checked: &Arc<ValidatedBytes>,
    ) -> Result<Artifact, CompileFailure> {
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(CompileFailure::new(
                "is not compiled: the sandbox is shutting down",
                FailureLifetime::No,
            ));
        };
        let most_bytes = self.limits.artifact_bytes(checked.bytes.len());
        let artifact = match &self.compiler {
            Compiler::InProcess => {
                let (engine, bytes) = (engine.clone(), Arc::clone(checked));
                let compile = move || machine_code(&engine, bytes.to_compile());
                match tokio::task::spawn_blocking(compile).await {
                    Ok(compiled) => compiled.map_err(|why| refused(&why))?,
                    Err(panic) => {
                        let why = format!("cannot be compiled: the compiler failed: {panic}");
                        return Err(CompileFailure::new(why, FailureLifetime::No));
                    }
                }
            }
            Compiler::Child { program, arguments } => {
                let job = self.job(Purpose::Compile, checked.to_compile(), most_bytes);
                job.run(program, arguments).await.map_err(|why| self.failure(why, most_bytes))?
            }
        };
        if artifact.len() as u64 > most_bytes {
            return Err(self.failure(NoArtifact::TooLarge(artifact.len() as u64), most_bytes));
        }
        Ok(Artifact::compiled(artifact, checked.images, checked.metadata_bytes))
    }

    /// Starts the compiler process and has it attempt actions that confinement must prevent.
    /// Returns a description of those that succeed and of missing mechanisms; `None` if
    /// confinement is complete.
    pub(crate) async fn gaps(&self) -> Option<String> {
        let Compiler::Child { program, arguments } = &self.compiler else {
            return Some(
                "components are compiled in the host's own process, which is not confined".to_owned(),
            );
        };
        let gaps = match self.job(Purpose::Check, &[], 0).run(program, arguments).await {
            Err(NoArtifact::Refused(gaps)) => gaps,
            Err(NoArtifact::NotStarted(why) | NoArtifact::Broken(why)) => why,
            Ok(_) | Err(NoArtifact::Cpu | NoArtifact::Wall | NoArtifact::TooLarge(_)) => {
                "it does not answer".to_owned()
            }
        };
        (!gaps.is_empty()).then(|| format!("the compiler process is not fully confined: {gaps}"))
    }

    fn job<'a>(&'a self, purpose: Purpose, bytes: &'a [u8], artifact_bytes: u64) -> CompilerJob<'a> {
        CompilerJob {
            purpose,
            compatibility: &self.compatibility,
            layout: self.layout,
            bytes,
            cpu: self.limits.cpu,
            wall: self.limits.wall,
            memory_bytes: self.limits.memory_bytes,
            places: self.limits.places,
            artifact_bytes,
        }
    }
}

/// Compiles a component, which takes a core for milliseconds to seconds. The error is the
/// compiler's message about untrusted bytes, sanitized.
fn machine_code(engine: &Engine, bytes: &[u8]) -> Result<Vec<u8>, String> {
    engine
        .precompile_component(bytes)
        .map_err(|error| tollgate_agent::text::clean(&format!("{error:#}"), MAX_WORDS_BYTES))
}
