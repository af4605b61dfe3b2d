//! The fuzz targets: one function for each way in which untrusted bytes reach the host.
//!
//! Each takes any bytes, handles them as the host does, and panics if a promise does not hold.
//! Fuzzing checks that nothing else panics, hangs or grows. Two things run the targets:
//! libFuzzer, for any length of time (`scripts/fuzz`), and a test that makes a bounded number of
//! mutations of the [`seeds`] with every change. Each finding of a fuzzer becomes a seed.
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

/// A fuzz target.
pub struct Target {
    /// The target's name, and that of the folder of its seeds.
    pub name: &'static str,
    /// Handles untrusted bytes.
    pub run: fn(&[u8]),
    /// The number of mutations of the seeds that the test tries with every change: as many as
    /// take a few seconds.
    pub mutations: u64,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "loader", run: loader::run, mutations: 400 },
    Target { name: "descriptors", run: descriptors::run, mutations: 3_000 },
    Target { name: "output", run: output::run, mutations: 3_000 },
    Target { name: "replies", run: replies::run, mutations: 2_000 },
    Target { name: "configuration", run: configuration::run, mutations: 2_000 },
    Target { name: "registry", run: registry::run, mutations: 500 },
    Target { name: "manifest", run: registry::manifest, mutations: 2_000 },
    Target { name: "referrers", run: registry::referrers, mutations: 2_000 },
    Target { name: "bundle", run: registry::bundle, mutations: 300 },
    Target { name: "lock", run: registry::lock, mutations: 1_000 },
    Target { name: "packages", run: registry::packages, mutations: 1_000 },
    Target { name: "store", run: store::run, mutations: 200 },
];

/// Returns the target with this name.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no target is named {name}"))
}

/// Returns the host's runtime.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tollgate_sandbox::runtime().unwrap())
}

/// Returns a folder of this process, in memory if the system has one there.
fn folder(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = base.join(format!("tollgate-fuzz-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
