//! The size of the sandbox: limits for all calls together.

use crate::component_places::most_of;
use crate::limits::Limits;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use tollgate_agent::limit_places::LimitPlaces;

/// The default limit on processor time for compiling a component, of all threads together.
pub const COMPILE_CPU: Duration = Duration::from_secs(60);
/// The default limit on wall-clock time for compiling a component. It is longer than the
/// processor time because a process gets little of a busy machine.
pub const COMPILE_WALL: Duration = Duration::from_secs(300);
/// The default limit on the address space of a compiler process, in bytes. A component of 53 MiB, close to the
/// largest that is accepted, takes 1.1 GiB; see docs/costs.md.
pub const COMPILE_MEMORY_BYTES: u64 = 2 << 30;
/// The default base size in bytes of a component's compiled form, in addition to the bytes
/// allowed for its size.
pub const COMPILED_BYTES: u64 = 64 << 20;
/// The default for bytes of the compiled forms of all loaded components.
pub const LOADED_CODE_BYTES: u64 = 2 << 30;

/// The resources for all tools together, and the ceiling for each call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Bytes that the host may spend for guests, clients and remote servers together: wasm
    /// memory, parsed values, bodies, listings. A running call reserves its own memory limit from
    /// it, and whatever the host holds for the call beyond that.
    pub memory_budget_bytes: u64,
    /// Calls that run at once; further calls wait.
    pub concurrent_calls: u32,
    /// Calls of one component that run at once; further calls wait. If unset, three quarters of
    /// `concurrent_calls`, rounded up, so that slots remain for other components.
    pub component_calls: Option<u32>,
    /// Calls that may wait for a slot; further calls fail with `overloaded`.
    pub waiting_calls: u32,
    /// The maximum for each limit of a call; higher limits are lowered to it.
    pub ceiling: Limits,
    /// The maximum timeout of one attempt.
    pub timeout_ceiling: Duration,
    /// Bytes of stack for wasm code.
    pub stack_bytes: usize,
    /// How instances get their memory.
    pub allocation: Allocation,
    /// Bytes of memory that stay resident between calls.
    pub warm_bytes: u64,
    /// The process in which components are compiled.
    pub compiler: Compiler,
    /// Processor time for compiling one component in a child process. The system counts whole
    /// seconds; the value is rounded up.
    pub compile_cpu: Duration,
    /// Wall-clock time for compiling one component in a child process, on a machine with other
    /// work.
    pub compile_wall: Duration,
    /// Bytes of address space for compiling one component in a child process.
    pub compile_memory_bytes: u64,
    /// Bytes of the compiled form of one component, plus 64 for each of its own bytes; at most a
    /// quarter of `cache_bytes`.
    pub compiled_bytes: u64,
    /// Bytes of the compiled forms of all loaded components.
    pub loaded_code_bytes: u64,
    /// The directory that keeps compiled code across starts, with a key that authenticates it.
    /// Only this user may access it. If `None`, each start compiles anew.
    pub cache_dir: Option<PathBuf>,
    /// The maximum size of that directory in bytes; the least recently used entries are removed
    /// first.
    pub cache_bytes: u64,
    /// The places where an operator changes limits, which messages about limits name.
    pub limit_places: &'static LimitPlaces,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            memory_budget_bytes: 6 << 30,
            concurrent_calls: 64,
            component_calls: None,
            waiting_calls: 1_024,
            ceiling: Limits {
                fuel: 1_000_000_000_000,
                memory_bytes: 1 << 30,
                host_memory_bytes: 256 << 20,
                table_elements: 1_000_000,
                open_files: 1_024,
                crossing_bytes: 64 << 20,
                boundary_bytes: 512 << 20,
                console_bytes: 1 << 20,
                reports: 100_000,
                report_bytes: 64 << 10,
                reports_bytes: 16 << 20,
                random_bytes: 1 << 20,
                http_requests: 10_000,
                http_body_bytes: 64 << 20,
                written_bytes: 4 << 30,
                ..Limits::default()
            },
            timeout_ceiling: Duration::from_secs(300),
            stack_bytes: 512 << 10,
            allocation: Allocation::Pooled,
            warm_bytes: 64 << 20,
            compiler: Compiler::InProcess,
            compile_cpu: COMPILE_CPU,
            compile_wall: COMPILE_WALL,
            compile_memory_bytes: COMPILE_MEMORY_BYTES,
            compiled_bytes: COMPILED_BYTES,
            loaded_code_bytes: LOADED_CODE_BYTES,
            cache_dir: None,
            cache_bytes: 1 << 30,
            limit_places: &LimitPlaces::NONE,
        }
    }
}

impl SandboxConfig {
    /// Returns how many calls of one component run at once, configured or derived.
    #[must_use]
    pub fn component_calls(&self) -> u32 {
        let calls = self.concurrent_calls.max(1);
        self.component_calls.unwrap_or(most_of(calls)).clamp(1, calls)
    }
}

/// The source of the memory of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// From a pool reserved at start, which is several times faster. Falls back to the system if
    /// no pool can be reserved.
    Pooled,
    /// From the system, anew for each call.
    OnDemand,
}

/// The place where components are compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Compiler {
    /// In this process, without limits: for trusted components and tests.
    #[default]
    InProcess,
    /// In a child process for each component, limited to the configured memory and times, and confined
    /// as far as the system allows. The program is started with these arguments and without the
    /// host's environment. It must do nothing before it returns the result of
    /// [`compile_child`](crate::compile_child):
    ///
    /// ```no_run
    /// # use std::process::ExitCode;
    /// fn main() -> ExitCode {
    ///     if std::env::args_os().nth(1).is_some_and(|verb| verb == "compile-child") {
    ///         return tollgate_sandbox::compile_child();
    ///     }
    ///     // The program's own work goes here.
    ///     ExitCode::SUCCESS
    /// }
    /// ```
    Child {
        /// The program to start; usually the current one, see
        /// [`this_program`](Compiler::this_program).
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<OsString>,
    },
}

impl Compiler {
    /// Returns a child that runs this very program with one argument, even if its file has been
    /// replaced since.
    ///
    /// # Errors
    /// Fails if the system does not report where this program is.
    pub fn this_program(argument: impl Into<OsString>) -> std::io::Result<Self> {
        let own = PathBuf::from("/proc/self/exe");
        let program = if own.exists() { own } else { std::env::current_exe()? };
        Ok(Self::Child { program, arguments: vec![argument.into()] })
    }
}
