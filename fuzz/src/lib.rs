//! What is fuzzed: one function for each way by which a stranger's bytes come in.
//!
//! Each takes any bytes, does with them what the host does, and panics where a promise
//! does not hold; that nothing else panics, hangs or grows is what is tried. Two things
//! run them: libFuzzer, for as long as one likes (`scripts/fuzz`), and a test that
//! makes a bounded number of mutations of the [`seeds`] with every change. What a
//! fuzzer finds stays among the seeds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is a finding")]

mod configuration;
mod descriptors;
mod loader;
pub mod mutator;
mod output;
mod registry;
mod replies;
pub mod seeds;
mod store;

use std::path::PathBuf;
use std::sync::OnceLock;
use tokio::runtime::Runtime;

/// A way in.
pub struct Target {
    /// Its name, and that of the folder of its seeds.
    pub name: &'static str,
    /// Takes what a stranger may send.
    pub run: fn(&[u8]),
    /// Mutations of the seeds that the test tries with every change: as many as take
    /// some seconds.
    pub mutations: u64,
}

/// Every way in.
pub const TARGETS: &[Target] = &[
    Target { name: "loader", run: loader::run, mutations: 400 },
    Target { name: "descriptors", run: descriptors::run, mutations: 3_000 },
    Target { name: "output", run: output::run, mutations: 3_000 },
    Target { name: "replies", run: replies::run, mutations: 2_000 },
    Target { name: "configuration", run: configuration::run, mutations: 2_000 },
    Target { name: "registry", run: registry::run, mutations: 1_000 },
    Target { name: "store", run: store::run, mutations: 200 },
];

/// The target of this name.
///
/// # Panics
/// There is none.
#[must_use]
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no target is named {name}"))
}

/// The runtime of the host.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tollgate_sandbox::runtime().unwrap())
}

/// A folder of this process, in memory where the system has one there.
fn folder(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = base.join(format!("tollgate-fuzz-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
