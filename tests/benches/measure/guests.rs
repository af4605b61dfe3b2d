//! The guests to measure and their arguments.

use tollgate_artifacts::{c_guest_bytes, rust_guest_bytes};

/// A tool that returns its text.
#[derive(Clone)]
pub(crate) struct Echo {
    /// The language of its source.
    pub(crate) language: &'static str,
    /// The tool's name.
    pub(crate) tool: &'static str,
    /// The component.
    pub(crate) bytes: Vec<u8>,
}

/// Returns the guests that can be built here, and the reason why others cannot.
pub(crate) fn echoes() -> (Vec<Echo>, Option<String>) {
    let mut echoes = vec![Echo { language: "Rust", tool: "echo", bytes: rust_guest_bytes("echo") }];
    match c_guest_bytes("echo") {
        Ok(bytes) => {
            echoes.push(Echo { language: "C", tool: "echo_c", bytes });
            (echoes, None)
        }
        Err(why) => (echoes, Some(why)),
    }
}

/// The sizes of the one text field, with their names.
pub(crate) const PAYLOADS: [(&str, usize); 3] = [("100 B", 100), ("10 KiB", 10 << 10), ("1 MiB", 1 << 20)];

/// Returns arguments with one text field of `bytes` bytes.
pub(crate) fn arguments(bytes: usize) -> String {
    format!(r#"{{"text":"{}"}}"#, "ordinary words, ".repeat(bytes.div_ceil(16)).split_at(bytes).0)
}
