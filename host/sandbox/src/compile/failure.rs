//! Reasons why compiling a component failed, and whether to retry.

use super::parent::NoArtifact;
use super::{COMPILED_BYTES_PER_BYTE, CompilerPool};
use crate::error::{CompileFailure, FailureLifetime};
use crate::load::census::ASYNC;
use tollgate_agent::limit_places::LimitScope;

/// Features that toolchains enable by default and this host does not support, with the command
/// that disables them. The words continue a sentence that begins with the component's name.
const HINTS: &[(&str, &str)] = &[
    ("component model async", ASYNC),
    ("threads", "uses threads, which this host does not support; build it for one thread"),
    ("shared", "uses shared memory, which this host does not support; build it for one thread"),
    (
        "gc ",
        "uses garbage-collected types, which this host does not support; build it for a target without them",
    ),
    ("memory64", "uses 64-bit memory, which this host does not support; build it for wasm32"),
];

/// Returns the failure for a component that the compiler rejected with this message.
pub(super) fn refused(why: &str) -> CompileFailure {
    let why = match HINTS.iter().find(|(sign, _)| why.contains(sign)) {
        Some((_, hint)) => format!("{hint} ({why})"),
        None => format!("cannot be compiled: {why}"),
    };
    CompileFailure::new(why, FailureLifetime::Always)
}

impl CompilerPool {
    pub(super) fn failure(&self, failed: NoArtifact, most_bytes: u64) -> CompileFailure {
        let limits = &self.limits;
        let place = limits.places.of(LimitScope::Host);
        let limited = |what: &str, limit: &str, ms: u128, lasts| {
            let why = format!(
                "cannot be compiled: it takes longer than {ms} ms of {what} ({limit} = {ms}); make it smaller, \
                 or raise {limit}{place}"
            );
            CompileFailure::new(why, lasts)
        };
        match failed {
            NoArtifact::Refused(why) => refused(&why),
            NoArtifact::NotStarted(why) => {
                CompileFailure::new(format!("cannot be compiled: {why}"), FailureLifetime::No)
            }
            NoArtifact::Cpu => {
                limited("processor time", "compile_cpu_ms", limits.cpu.as_millis(), FailureLifetime::Always)
            }
            NoArtifact::Wall => {
                limited("time", "compile_wall_ms", limits.wall.as_millis(), FailureLifetime::ForNow)
            }
            NoArtifact::TooLarge(bytes) => {
                let why = format!(
                    "cannot be compiled: its compiled form takes {} MiB, and the limit for a component of its size \
                     is {} MiB (compiled_bytes = {} and {COMPILED_BYTES_PER_BYTE} for each of its bytes, at most a \
                     quarter of the cache's {} MiB); make it smaller, or raise compiled_bytes{place}",
                    bytes.div_ceil(1 << 20),
                    most_bytes >> 20,
                    limits.compiled_bytes,
                    limits.cache_bytes >> 20,
                );
                CompileFailure::new(why, FailureLifetime::Always)
            }
            NoArtifact::Broken(why) => {
                CompileFailure::new(format!("cannot be compiled: {why}"), FailureLifetime::ForNow)
            }
        }
    }
}
