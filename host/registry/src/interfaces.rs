//! The interfaces that a component imports and exports.

use crate::error::{Code, Error, Result};
use wasmparser::{Encoding, Parser, Payload};

/// The most imports and exports that a component may have.
const MAX_NAMES: usize = 10_000;

/// The names of a component's imports and exports, in the order of the component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// The imports.
    pub imports: Vec<String>,
    /// The exports.
    pub exports: Vec<String>,
}

impl Interfaces {
    /// Reads the names, without those of nested components.
    ///
    /// # Errors
    /// The bytes are not a component.
    pub fn of(wasm: &[u8]) -> Result<Self> {
        let invalid =
            |why: &str| Error::new(Code::NotWasm, format!("the file is not a Wasm component: {why}"));
        let malformed = |e: wasmparser::BinaryReaderError| invalid(e.message());
        if !wasm.starts_with(b"\0asm") {
            return Err(invalid("it does not begin as one"));
        }
        let mut names = Self::default();
        let mut depth = 0_u32;
        for payload in Parser::new(0).parse_all(wasm) {
            match payload.map_err(malformed)? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                    return Err(invalid("it is a core module"));
                }
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        names.imports.push(import.map_err(malformed)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        names.exports.push(export.map_err(malformed)?.name.name.to_owned());
                    }
                }
                _ => {}
            }
            if names.imports.len() + names.exports.len() > MAX_NAMES {
                return Err(invalid(&format!("it has more than {MAX_NAMES} imports and exports")));
            }
        }
        Ok(names)
    }
}
