//! `wasi:random/insecure-seed`, which is constant during an attempt and recorded with its seed.

use crate::instance::{GuestStore, Instance, WASI_VERSION};
use crate::nondeterminism::random::{INSECURE_SEED, numbers};
use rand::Rng as _;
use wasmtime::component::Linker;

/// Replaces the function that returns a seed.
pub(crate) fn add_seed(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    linker.instance(&format!("wasi:random/insecure-seed@{WASI_VERSION}"))?.func_wrap(
        "insecure-seed",
        |mut store: GuestStore<'_>, (): ()| {
            let mut numbers = numbers(store.data_mut().world(), INSECURE_SEED);
            Ok(((numbers.next_u64(), numbers.next_u64()),))
        },
    )
}
