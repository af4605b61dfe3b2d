//! How the benches are linked where `scripts/bench` names an order: like those of the
//! program, their functions lie in the order in which calls go through them.

use std::env;

/// The file with one symbol a line; without it, functions lie where they happen to.
const ORDER: &str = "TOLLGATE_BENCH_ORDER";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={ORDER}");
    if let Ok(order) = env::var(ORDER) {
        println!("cargo::rerun-if-changed={order}");
        for argument in
            ["-Xlinker", &format!("--symbol-ordering-file={order}"), "-Wl,--no-warn-symbol-ordering"]
        {
            println!("cargo::rustc-link-arg-benches={argument}");
        }
    }
}
