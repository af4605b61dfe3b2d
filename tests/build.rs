//! How the benches are linked: as the program is, whose functions lie in the order in
//! which calls go through them. `scripts/bench` finds that order and names its file.

use std::env;

/// The file with one symbol a line; without it, functions lie where they happen to.
const ORDER: &str = "TOLLGATE_BENCH_ORDER";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={ORDER}");
    if let Ok(order) = env::var(ORDER) {
        for argument in
            ["-Xlinker", &format!("--symbol-ordering-file={order}"), "-Wl,--no-warn-symbol-ordering"]
        {
            println!("cargo::rustc-link-arg-benches={argument}");
        }
    }
}
