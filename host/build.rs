//! How the program is linked: so that less of it is read, and stays in memory.

use std::env;
use std::path::Path;
use std::process::Command;

/// The functions that calls and starts go through (`scripts/link-order`).
const ORDER: &str = "link-order.txt";
/// Where Rust links with its own lld.
const LLD_TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    if reads_packed_relocations() {
        link("-Wl,-z,pack-relative-relocs");
    }
    if orders_functions() {
        let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        link("-Xlinker");
        link(&format!("--symbol-ordering-file={}", Path::new(&directory).join(ORDER).display()));
        // A function that was renamed or taken apart since then stays where it would be.
        link("-Wl,--no-warn-symbol-ordering");
    }
}

fn link(argument: &str) {
    println!("cargo::rustc-link-arg-bins={argument}");
}

/// Whether the system that starts the program knows the short form of the list of its own
/// addresses (`DT_RELR`): a twentieth of the long one, which is above a megabyte. glibc
/// does since 2.36; which one another machine has is not known here.
fn reads_packed_relocations() -> bool {
    let native = env::var("TARGET").is_ok_and(|target| is("HOST", &target));
    let gnu_linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    native && gnu_linux && glibc().is_some_and(|version| version >= (2, 36))
}

/// Whether the functions are put in order: what calls go through lies scattered over
/// thirty megabytes otherwise. Their names are those of one profile on one target, where
/// the linker is Rust's own lld unless somebody names another.
fn orders_functions() -> bool {
    let output = env::var("OUT_DIR").unwrap_or_default();
    // target/<profile>/build/<package>/out
    let profile = Path::new(&output).ancestors().nth(3).and_then(Path::file_name);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let own_linker = env::var_os("RUSTC_LINKER").is_none() && !flags.contains("link");
    let usual = own_linker && is("TARGET", LLD_TARGET) && profile.is_some_and(|name| name == "dist");
    usual && brings_lld()
}

/// Whether this Rust has its own lld: not every build of it does, and other linkers do not
/// know the option.
fn brings_lld() -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Ok(told) = Command::new(rustc).args(["--print", "sysroot"]).output() else { return false };
    let Ok(sysroot) = String::from_utf8(told.stdout) else { return false };
    Path::new(sysroot.trim()).join("lib/rustlib").join(LLD_TARGET).join("bin/gcc-ld/ld.lld").exists()
}

fn is(name: &str, value: &str) -> bool {
    env::var(name).is_ok_and(|it| it == value)
}

/// The version of this machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
