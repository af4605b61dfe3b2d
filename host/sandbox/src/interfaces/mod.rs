//! The imports available to guests, with one file for each interface that differs from wasmtime's
//! own. The linkers created here list everything that a guest can reach.
//!
//! There are two linkers of the same shape. In the sealed one every power refuses; in the other
//! the granted powers work. A component is linked with both when it is loaded, so that a missing
//! import shows up then and not during a call.

pub(crate) mod agents;
pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod content;
pub(crate) mod filesystem;
pub(crate) mod http;
pub(crate) mod http_client;
pub(crate) mod poll;
pub(crate) mod random;
pub(crate) mod settings;
pub(crate) mod sockets;

use crate::instance::Instance;
use wasmtime::Engine;
use wasmtime::component::Linker;

/// Creates the linker for instances that serve a call: the sealed one plus the powers that can be
/// granted.
pub(crate) fn serving_linker(sealed: &Linker<Instance>) -> wasmtime::Result<Linker<Instance>> {
    let mut linker = sealed.clone();
    filesystem::add_granted(&mut linker)?;
    Ok(linker)
}

/// Creates the linker for instances that describe themselves or check arguments: every interface,
/// with every power refusing.
pub(crate) fn sealed(engine: &Engine) -> wasmtime::Result<Linker<Instance>> {
    let mut linker = Linker::new(engine);
    // Clocks, randomness, streams, and a command line without arguments, environment or
    // directories. Requests are refused in an instance without HTTP egress. Sockets are refused
    // by the context's configuration, and again below.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    http::add(&mut linker)?;
    config::add(&mut linker)?;
    http_client::add(&mut linker)?;
    settings::add(&mut linker)?;
    agents::add(&mut linker)?;
    call::add(&mut linker)?;
    content::add(&mut linker)?;
    // Interfaces added from here on may replace wasmtime's.
    linker.allow_shadowing(true);
    http::count_what_is_kept(&mut linker)?;
    sockets::add_refused(&mut linker)?;
    poll::add_recorded(&mut linker)?;
    random::add_seed(&mut linker)?;
    Ok(linker)
}
