//! Links the program with packed relative relocations if the system supports them.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if reads_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
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
