//! The limits of one call, one number for each resource that a guest can use up.
//!
//! A call runs under [`Limits`]. An operator writes [`LimitOverrides`], for all tools or for one;
//! limits that are left out keep their value.

use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr,)*) => {
        /// The limits of one attempt of a call. Reaching one ends the attempt with a stable code
        /// and a message that names the limit and its value.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Limits { $($(#[$doc])* pub $name: $kind,)* }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// Limits as an operator writes them; absent ones are unchanged.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct LimitOverrides {
            $($(#[$doc])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $name: Option<$kind>,)*
        }

        impl Limits {
            /// Returns these limits with the operator's values applied.
            #[must_use]
            pub fn with(mut self, overrides: &LimitOverrides) -> Self {
                $(if let Some(value) = overrides.$name { self.$name = value; })*
                self
            }

            /// Returns the lower of the two, limit by limit.
            #[must_use]
            pub fn at_most(mut self, ceiling: &Limits) -> Self {
                $(self.$name = self.$name.min(ceiling.$name);)*
                self
            }
        }
    };
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

limits! {
    /// Units of wasm fuel for one attempt, instantiation included. One unit is about one
    /// instruction; bytes that cross the boundary cost fuel too.
    fuel: u64 = 20_000_000_000,
    /// Bytes of all linear memories together.
    memory_bytes: u64 = 64 * MIB,
    /// Bytes by which the guest's memory and the host's memory for the call, such as the parsed
    /// form of its result, may together exceed `memory_bytes`. Requests and header fields of
    /// `wasi:http` may take a third of them, and the part of `memory_bytes` that is not used.
    host_memory_bytes: u64 = 24 * MIB,
    /// JSON values in all texts that the call returns, nested ones included. More than 500,000
    /// are never read.
    json_nodes: u32 = 500_000,
    /// Elements of all tables together.
    table_elements: u64 = 100_000,
    /// Core instances. Tools in Python use about 40.
    instances: u32 = 128,
    /// Tables.
    tables: u32 = 64,
    /// Linear memories.
    memories: u32 = 8,
    /// Handles to resources (streams, files, pollables) that are open at once.
    handles: u32 = 4_096,
    /// Directory listings that are open at once.
    listings: u32 = 16,
    /// Files, directories and listings that are open at once. A stream keeps its file open.
    open_files: u32 = 64,
    /// Bytes that may cross the boundary in one crossing, in one direction.
    crossing_bytes: u64 = 16 * MIB,
    /// Bytes that may cross the boundary in the whole call, in one direction.
    boundary_bytes: u64 = 64 * MIB,
    /// Bytes of standard output and error that are kept; the rest is counted.
    console_bytes: u64 = 64 * KIB,
    /// Reports (activity, progress, streamed output, log lines) that are passed on.
    reports: u32 = 1_000,
    /// Bytes of one report.
    report_bytes: u64 = 4 * KIB,
    /// Bytes of all reports of the call.
    reports_bytes: u64 = MIB,
    /// Random bytes in one request for them.
    random_bytes: u64 = 64 * KIB,
    /// HTTP requests.
    http_requests: u32 = 100,
    /// HTTP requests in progress at once, until their responses were read or dropped; further
    /// ones wait.
    http_exchanges: u32 = 8,
    /// Bytes of the body of one request, and of one response.
    http_body_bytes: u64 = 8 * MIB,
    /// Growth of granted directories. Each write counts as its length or the growth of
    /// the file, whichever is larger, in blocks of 4 KiB; a new file or directory counts
    /// as one block.
    written_bytes: u64 = 64 * MIB,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn overrides_change_what_they_name_and_nothing_else() {
        let overrides: LimitOverrides = serde_json::from_str(r#"{"fuel": 7}"#).unwrap();
        let limits = Limits::default().with(&overrides);
        assert_eq!(limits.fuel, 7);
        assert_eq!(limits.memory_bytes, Limits::default().memory_bytes);
        assert!(serde_json::from_str::<LimitOverrides>(r#"{"memory": 7}"#).is_err());
    }

    #[test]
    fn a_ceiling_lowers_and_never_raises() {
        let ceiling = Limits { fuel: 10, ..Limits::default() };
        let asked = Limits { fuel: 20, memory_bytes: 5, ..Limits::default() };
        let limits = asked.at_most(&ceiling);
        assert_eq!((limits.fuel, limits.memory_bytes), (10, 5));
    }

    #[test]
    fn limits_read_back_as_they_were_written() {
        let text = serde_json::to_string(&Limits::default()).unwrap();
        assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), Limits::default());
    }
}
