//! Embeds the guest libraries in the program, and links it with packed relative relocations if the
//! system supports them.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories of the repository that hold guest libraries and the contract.
const EMBEDDED: [&str; 2] = ["guest-sdk", "wit"];
/// Directories that builds and tests leave, or that only tests need.
const LEFT_OUT: [&str; 6] = ["target", "node_modules", "__pycache__", "tests", "build", ".venv"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    embed_guest_libraries()?;
    if reads_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Writes `sdk.rs`, a list of all files of the guest libraries with their contents, and the manifest
/// of the workspace that they form elsewhere.
fn embed_guest_libraries() -> io::Result<()> {
    let variable =
        |name: &str| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(name.to_owned()));
    let root = variable("CARGO_MANIFEST_DIR")?.join("../..").canonicalize()?;
    let out = variable("OUT_DIR")?;
    let manifest = root.join("Cargo.toml");
    println!("cargo::rerun-if-changed={}", manifest.display());
    fs::write(out.join("workspace.toml"), workspace(&fs::read_to_string(&manifest)?))?;
    let mut files = Vec::new();
    for dir in EMBEDDED {
        println!("cargo::rerun-if-changed={}", root.join(dir).display());
        collect(&root.join(dir), &mut files)?;
    }
    files.sort();
    let mut text = String::from(
        "/// The files, by their paths, with their contents.\npub(super) const FILES: &[(&str, &[u8])] = &[\n",
    );
    let workspace = out.join("workspace.toml");
    let entries = files.iter().map(|file| (file.strip_prefix(&root).unwrap_or(file), file.as_path()));
    for (path, file) in entries.chain([(Path::new("Cargo.toml"), workspace.as_path())]) {
        writeln!(text, "    ({path:?}, include_bytes!({file:?})),").map_err(io::Error::other)?;
    }
    text.push_str("];\n");
    fs::write(out.join("sdk.rs"), text)
}

/// Returns the manifest of a workspace of the guest libraries alone, with this workspace's versions
/// and lints.
fn workspace(manifest: &str) -> String {
    let shared = manifest.find("[workspace.package]").map_or("", |at| &manifest[at..]);
    let shared = shared.find("[profile").map_or(shared, |end| &shared[..end]);
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"guest-sdk\", \"guest-sdk/macros\", \"guest-sdk/gate\"]\n\n{shared}"
    )
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if !LEFT_OUT.iter().any(|left| name == *left) {
                collect(&entry.path(), files)?;
            }
        } else if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Returns whether the system's loader reads packed relative relocations (`DT_RELR`). They take a
/// twentieth of the normal list, which is above a megabyte. glibc supports them since 2.36. For
/// another machine, the version is not known here.
fn reads_packed_relocations() -> bool {
    let native = env::var("TARGET").is_ok_and(|target| is("HOST", &target));
    let gnu_linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    native && gnu_linux && glibc().is_some_and(|version| version >= (2, 36))
}

fn is(name: &str, value: &str) -> bool {
    env::var(name).is_ok_and(|it| it == value)
}

/// Returns the version of this machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = version.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
