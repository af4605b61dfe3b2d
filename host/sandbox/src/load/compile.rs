//! Compiles a component. Everything that loads one goes through this function.

use super::Checked;
use crate::error::Refusal;
use wasmtime::Engine;
use wasmtime::component::Component;

/// What toolchains turn on by default and this host leaves out, with what to type.
const HINTS: &[(&str, &str)] = &[
    (
        "component model async",
        "it uses component-model async, which this host leaves out; with jco componentize add --backend-qjs-disable-async",
    ),
    ("threads", "it uses threads, which this host leaves out; build it for one thread"),
    ("shared", "it uses shared memory, which this host leaves out; build it for one thread"),
    (
        "gc ",
        "it uses garbage-collected types, which this host leaves out; build it for a target without them",
    ),
    ("memory64", "it uses 64-bit memory, which this host leaves out; build it for wasm32"),
];

/// Compiles, which takes a core for milliseconds to seconds: call it where that
/// blocks nobody.
pub(crate) fn compile(engine: &Engine, name: &str, checked: &Checked) -> Result<Component, Refusal> {
    Component::from_binary(engine, &checked.bytes).map_err(|error| {
        let why = tollgate_agent::text::clean(&format!("{error:#}"), 1_000);
        let hint = HINTS.iter().find(|(sign, _)| why.contains(sign));
        match hint {
            Some((_, hint)) => Refusal::new(format!("{name} cannot be compiled: {hint} ({why})")),
            None => Refusal::new(format!("{name} cannot be compiled: {why}")),
        }
    })
}
