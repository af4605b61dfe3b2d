//! How the program is linked: its start is part of what its users wait for.
//!
//! A position-independent program of this size has some ninety thousand addresses that
//! the loader sets before `main`. Where the C library can read them packed (glibc since
//! 2.36), they take some tens of KiB of the file instead of two MiB, all of which would
//! be read into memory.

use std::env;
use std::process::Command;

/// The first glibc whose loader reads packed relative relocations, as `(major, minor)`.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if is_for_this_machine() && glibc().is_some_and(|version| version >= PACKED_SINCE) {
        // A linker that does not know the option says so and goes on.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Another machine may have another C library.
fn is_for_this_machine() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    env::var("HOST").ok() == env::var("TARGET").ok()
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
}

/// This machine's glibc; none where it cannot be found out.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
