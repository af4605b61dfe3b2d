//! Turning a component into machine code, which is where a stranger's bytes meet the
//! largest program in this project: a compiler.
//!
//! So it happens in a process of its own, with bounds on memory and time, which a
//! component that is made to be expensive meets instead of the host. Whoever compiles
//! only their own components may do it in their own process. Either way the result is
//! an artefact of the same engine, told apart by its [`Compatibility`].

mod child;
mod compatibility;
mod message;
mod parent;

pub use child::compile_child;
pub(crate) use compatibility::Compatibility;

use crate::config::SandboxConfig;
use crate::engine::Layout;
use crate::error::Refusal;
use crate::load::{Artefact, Checked};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use wasmtime::Engine;

/// How long a component may be compiled, unless the configuration says otherwise.
pub const COMPILE_TIME: Duration = Duration::from_secs(60);
/// The address space of a process that compiles, in bytes.
pub const COMPILE_MEMORY_BYTES: u64 = 2 << 30;
/// How many components are compiled at once.
pub const COMPILED_AT_ONCE: usize = 2;
/// The largest artefact that is taken from the process that compiled it, in bytes.
const MAX_ARTEFACT_BYTES: u64 = 1 << 30;

/// Where components are compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Compiler {
    /// In this process, without bounds: for components that are one's own, and for
    /// tests.
    #[default]
    InProcess,
    /// In a child process for each component, held to [`COMPILE_MEMORY_BYTES`] and
    /// [`COMPILE_TIME`]. The program is started with these arguments, without any
    /// environment, and must do nothing before it returns what
    /// [`compile_child`] gives:
    ///
    /// ```no_run
    /// # use std::process::ExitCode;
    /// fn main() -> ExitCode {
    ///     if std::env::args_os().nth(1).is_some_and(|verb| verb == "compile-child") {
    ///         return tollgate_sandbox::compile_child();
    ///     }
    ///     // What the program is for follows here.
    ///     ExitCode::SUCCESS
    /// }
    /// ```
    Child {
        /// What is started; usually this very program, see
        /// [`this_program`](Compiler::this_program).
        program: PathBuf,
        /// With which arguments.
        arguments: Vec<OsString>,
    },
}

impl Compiler {
    /// A child that is this very program, even where its file has been replaced
    /// meanwhile, started with one argument.
    ///
    /// # Errors
    /// The system does not say where this program lies.
    pub fn this_program(argument: impl Into<OsString>) -> std::io::Result<Self> {
        let own = PathBuf::from("/proc/self/exe");
        let program = if own.exists() { own } else { std::env::current_exe()? };
        Ok(Self::Child { program, arguments: vec![argument.into()] })
    }
}

/// Compiles for one engine, so many at once and no more.
pub(crate) struct Compiling {
    compiler: Compiler,
    compatibility: Compatibility,
    layout: Layout,
    time: Duration,
    turns: Semaphore,
}

impl Compiling {
    pub(crate) fn new(config: &SandboxConfig, compatibility: Compatibility, layout: Layout) -> Self {
        Self {
            compiler: config.compiler.clone(),
            compatibility,
            layout,
            time: config.compile_time,
            turns: Semaphore::new(COMPILED_AT_ONCE),
        }
    }

    /// Compiles a component. The wait for its turn has no bound but the number of those
    /// before it, each of which has one.
    pub(crate) async fn compile(
        &self,
        engine: &Engine,
        name: &str,
        checked: &Arc<Checked>,
    ) -> Result<Artefact, Refusal> {
        let Ok(_turn) = self.turns.acquire().await else {
            return Err(Refusal::new(format!("{name} is not compiled: the sandbox is shutting down")));
        };
        match &self.compiler {
            Compiler::InProcess => {
                let (engine, of_thread) = (engine.clone(), Arc::clone(checked));
                let compiled = tokio::task::spawn_blocking(move || machine_code(&engine, &of_thread.bytes));
                match compiled.await {
                    Ok(Ok(artefact)) => Ok(Artefact::compiled(artefact)),
                    Ok(Err(why)) => Err(refused(name, &why)),
                    Err(panic) => Err(Refusal::new(format!("the compiler failed on {name}: {panic}"))),
                }
            }
            Compiler::Child { program, arguments } => {
                let job = parent::Job {
                    compatibility: &self.compatibility,
                    layout: self.layout,
                    bytes: &checked.bytes,
                };
                match job.run(program, arguments, self.time).await {
                    Ok(artefact) => Ok(Artefact::compiled(artefact)),
                    Err(parent::Failed::Refused(why)) => Err(refused(name, &why)),
                    Err(parent::Failed::Broken(why)) => {
                        Err(Refusal::new(format!("{name} cannot be compiled: {why}")))
                    }
                }
            }
        }
    }
}

/// What toolchains turn on by default and this host leaves out, with what to type.
const HINTS: &[(&str, &str)] = &[
    (
        "component model async",
        "it uses component-model async, which this host leaves out; with jco componentize add --backend-qjs-disable-async",
    ),
    ("threads", "it uses threads, which this host leaves out; build it for one thread"),
    ("shared", "it uses shared memory, which this host leaves out; build it for one thread"),
    (
        "gc ",
        "it uses garbage-collected types, which this host leaves out; build it for a target without them",
    ),
    ("memory64", "it uses 64-bit memory, which this host leaves out; build it for wasm32"),
];

/// Compiles, which takes a core for milliseconds to seconds. The error is the
/// compiler's words about a stranger's bytes, cleaned.
fn machine_code(engine: &Engine, bytes: &[u8]) -> Result<Vec<u8>, String> {
    engine
        .precompile_component(bytes)
        .map_err(|error| tollgate_agent::text::clean(&format!("{error:#}"), MAX_WORDS_BYTES))
}

/// The longest that the compiler's words may be.
const MAX_WORDS_BYTES: usize = 1_000;

fn refused(name: &str, why: &str) -> Refusal {
    match HINTS.iter().find(|(sign, _)| why.contains(sign)) {
        Some((_, hint)) => Refusal::new(format!("{name} cannot be compiled: {hint} ({why})")),
        None => Refusal::new(format!("{name} cannot be compiled: {why}")),
    }
}
