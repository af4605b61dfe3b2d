//! The tools in `example-tools` and the gates in `example-gates`, compiled once for all test
//! processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of the component of the example tool with this name, building it first if it
/// is out of date. The first caller of all processes builds all of `example-tools`; the others
/// wait for it.
///
/// # Panics
/// If the tools do not build, with cargo's output; or if there is no such tool.
#[must_use]
#[allow(clippy::panic, reason = "a test can do nothing without its guest")]
pub fn rust_guest(name: &str) -> PathBuf {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    found(name, BUILT.get_or_init(|| build("example-tools")))
}

/// Returns the path of the component of the gate with this name in `example-gates`, built like
/// the tools of [`rust_guest`].
///
/// # Panics
/// Like `rust_guest`.
#[must_use]
#[allow(clippy::panic, reason = "a test can do nothing without its guest")]
pub fn rust_gate_bytes(name: &str) -> Vec<u8> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let path = found(name, BUILT.get_or_init(|| build("example-gates")));
    fs::read(&path).unwrap_or_else(|why| panic!("cannot read {}: {why}", path.display()))
}

#[allow(clippy::panic, reason = "a test can do nothing without its guest")]
fn found(name: &str, built: &Result<PathBuf, String>) -> PathBuf {
    let folder = match built {
        Ok(folder) => folder,
        Err(why) => panic!("{why}"),
    };
    let path = folder.join(name.replace('-', "_")).with_extension("wasm");
    let also = folder.join(name).with_extension("wasm");
    match [path, also].into_iter().find(|path| path.is_file()) {
        Some(path) => path,
        None => panic!("there is no example `{name}`: nothing of that name in {}", folder.display()),
    }
}

/// Returns the bytes of the file of [`rust_guest`].
///
/// # Panics
/// Like `rust_guest`.
#[must_use]
#[allow(clippy::panic, reason = "a test can do nothing without its guest")]
pub fn rust_guest_bytes(name: &str) -> Vec<u8> {
    let path = rust_guest(name);
    fs::read(&path).unwrap_or_else(|why| panic!("cannot read {}: {why}", path.display()))
}

/// Runs cargo in the workspace with this name and returns the folder of the components. The guests'
/// workspaces share a target folder of their own, because the main one is locked by the cargo that may be
/// running this test. The lock file keeps cargo's messages about waiting out of the tests.
fn build(name: &str) -> Result<PathBuf, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools = workspace.join(name);
    let target = target_folder(&workspace).join("example-tools");
    fs::create_dir_all(&target).map_err(|why| format!("cannot make {}: {why}", target.display()))?;
    let lock = File::create(target.join("tests.lock"))
        .map_err(|why| format!("cannot lock {}: {why}", target.display()))?;
    lock.lock().map_err(|why| format!("cannot lock {}: {why}", target.display()))?;
    compile(&tools, &target)?;
    Ok(target.join("wasm32-wasip2/release"))
}

fn compile(tools: &Path, target: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--release", "--quiet", "--locked", "--target", "wasm32-wasip2"])
        .current_dir(tools)
        .env("CARGO_TARGET_DIR", target);
    // Flags for the build that runs the tests (such as coverage) do not fit wasm, and would
    // replace those of the tools' own configuration.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
    let output =
        command.output().map_err(|why| format!("cannot run cargo to build the example tools: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    if words.contains("target may not be installed") {
        return Err("the example tools need a target: rustup target add wasm32-wasip2".to_owned());
    }
    Err(format!("the example tools do not build:\n{words}"))
}

/// Returns `CARGO_TARGET_DIR`, or `target` in the workspace.
fn target_folder(workspace: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace.join("target"), |folder| workspace.join(folder))
}
