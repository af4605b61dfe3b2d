//! Gives the guest a larger stack than the other tools: parsing and running a jq
//! filter recurses.

/// 1 MiB. The last size on a linker's command line applies.
const STACK_BYTES: u32 = 1 << 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default();
    if target.starts_with("wasm32") {
        println!("cargo::rustc-link-arg-cdylib=-zstack-size={STACK_BYTES}");
    }
}
