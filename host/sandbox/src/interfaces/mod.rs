//! What guests can import, one file for each interface that is more than wasmtime's
//! own. The linkers made here are the list of everything that a guest can reach.
//!
//! Two linkers of one shape: in the sealed one every power refuses, in the other
//! those powers work that the call was granted. A component is linked with both
//! when it is loaded, so that what is missing shows then and not in a call.

pub(crate) mod agents;
pub(crate) mod call;
pub(crate) mod clocks;
pub(crate) mod config;
pub(crate) mod filesystem;
pub(crate) mod http;
pub(crate) mod poll;
pub(crate) mod random;
pub(crate) mod sockets;

use crate::instance::Instance;
use wasmtime::Engine;
use wasmtime::component::Linker;

/// The linker for instances that serve a call: the sealed one, with the powers that can be
/// granted.
pub(crate) fn real(sealed: &Linker<Instance>) -> wasmtime::Result<Linker<Instance>> {
    let mut linker = sealed.clone();
    filesystem::add_granted(&mut linker)?;
    Ok(linker)
}

/// The linker for instances that describe themselves or check arguments: every interface,
/// with every power refusing.
pub(crate) fn sealed(engine: &Engine) -> wasmtime::Result<Linker<Instance>> {
    let mut linker = Linker::new(engine);
    // Clocks, randomness, streams, and a command line without arguments,
    // environment and directories. Requests are refused in an instance that has no
    // way out. Sockets refuse by how the context is built, and once more below.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    http::add(&mut linker)?;
    config::add(&mut linker)?;
    agents::add(&mut linker)?;
    call::add(&mut linker)?;
    // An interface may take the place of what wasmtime brings.
    linker.allow_shadowing(true);
    http::count_what_is_kept(&mut linker)?;
    sockets::add_refused(&mut linker)?;
    poll::add_recorded(&mut linker)?;
    random::add_seed(&mut linker)?;
    Ok(linker)
}
