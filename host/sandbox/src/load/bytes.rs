//! Looks at a component's bytes before anything is made of them.

use super::{MAX_COMPONENT_BYTES, MAX_CUSTOM_BYTES};
use crate::error::Refusal;
use wasmparser::{Parser, Payload};
use wasmtime::Engine;

/// Bytes that look like a component.
pub(crate) struct Checked {
    pub(crate) bytes: Vec<u8>,
}

/// Refuses what is no component in binary form, and what carries too much beside
/// its code. Whether it is valid is for the compiler to say.
pub(crate) fn check(name: &str, bytes: Vec<u8>) -> Result<Checked, Refusal> {
    let refuse = |why: &str| Err(Refusal::new(format!("{name} {why}")));
    if bytes.is_empty() {
        return refuse("is empty");
    }
    if bytes.len() as u64 > MAX_COMPONENT_BYTES {
        return refuse(&format!("is larger than {} MiB", MAX_COMPONENT_BYTES >> 20));
    }
    if Engine::detect_precompiled(&bytes).is_some() {
        return refuse(
            "is compiled machine code, not a component; such code is taken from nobody, because it could do anything. \
             Put the component itself there",
        );
    }
    if Parser::is_core_wasm(&bytes) {
        return refuse(
            "is a core wasm module, not a component; build it for a component target (such as wasm32-wasip2), \
             or make one of it with wasm-tools component new",
        );
    }
    if !Parser::is_component(&bytes) {
        return refuse("is not a component in binary form (it does not begin as one); text is not read");
    }
    let custom = custom_bytes(&bytes).map_err(|why| {
        Refusal::new(format!(
            "{name} is not a valid component, it is damaged or cut off ({why}); copy or build it again"
        ))
    })?;
    if custom > MAX_CUSTOM_BYTES {
        return refuse(&format!(
            "carries {} KiB of custom sections (names and debug information); {} KiB are accepted. \
             Build it in release mode, or strip it: wasm-tools strip",
            custom >> 10,
            MAX_CUSTOM_BYTES >> 10
        ));
    }
    Ok(Checked { bytes })
}

/// The bytes of all custom sections, those of nested modules included.
fn custom_bytes(bytes: &[u8]) -> wasmparser::Result<u64> {
    let mut sum = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        if let Payload::CustomSection(section) = payload? {
            sum += section.data().len() as u64;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        check("x.wasm", bytes.to_vec()).err().unwrap().to_string()
    }

    #[test]
    fn what_is_no_component_is_refused_by_kind() {
        assert!(refusal(b"").contains("is empty"));
        assert!(refusal(b"(component)").contains("text is not read"));
        assert!(refusal(&wat::parse_str("(module)").unwrap()).contains("core wasm module"));
        let component = wat::parse_str("(component (core module (func)))").unwrap();
        assert!(refusal(&component[..component.len() - 3]).contains("damaged or cut off"));
        let engine = Engine::default();
        let compiled = engine.precompile_component(&component).unwrap();
        assert!(refusal(&compiled).contains("machine code"));
        assert!(check("x.wasm", component).is_ok());
    }

    #[test]
    fn custom_sections_are_bounded_however_deep_they_are() {
        let text = "x".repeat(usize::try_from(MAX_CUSTOM_BYTES).unwrap() / 2);
        let one = format!("(core module (@custom \"a\" \"{text}\"))");
        assert!(check("x", wat::parse_str(format!("(component {one})")).unwrap()).is_ok());
        let three = wat::parse_str(format!("(component {one} (component {one} {one}))")).unwrap();
        assert!(refusal(&three).contains("custom sections"));
    }
}
