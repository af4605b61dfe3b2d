//! Strict parsing of JSON from models and guests.
//!
//! The value that is checked must be the value that runs. Two readers of `{"path":"a","path":"b"}`
//! may disagree on its meaning, so a repeated key is refused. So is a number that this host would
//! pass on as a different number.

mod lazy;
mod measure;
mod numbers;
mod reader;

pub use lazy::LazyJson;
pub(crate) use lazy::{WrittenJson, raw};
pub use measure::{
    JsonError, MAX_DEPTH, MAX_NODES, Measure, NodesLeft, is_reserved_key, measure, written_bytes,
};
pub use numbers::check_numbers;
pub(crate) use numbers::unify_integers;
pub(crate) use reader::check_recordable;
pub use reader::{from_record, parse, parse_exact};

use serde_json::Value;

/// Returns how deep a value nests; a number or string has depth 0.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
