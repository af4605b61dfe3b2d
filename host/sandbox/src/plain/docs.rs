//! The documentation of a component's functions, from the `package-docs` section in which tools
//! that encode WIT store it.
//!
//! It is optional: an unreadable section is treated as absent.

use serde_json::Value;
use tollgate_agent::json;
use wasmparser::{Parser, Payload};

/// The name of the section.
const SECTION: &str = "package-docs";
/// The supported versions of the section: one byte before its JSON.
const VERSIONS: [u8; 2] = [0, 1];

/// The longest section that is read, in bytes.
const MAX_SECTION_BYTES: usize = 64 * 1024;
/// The most memory that the parsed section takes, in bytes.
const MAX_PARSED_BYTES: u64 = 8 << 20;

/// The section of one component, which is not parsed yet; empty if there is none.
#[derive(Default)]
pub(crate) struct Docs(Vec<u8>);

/// The documentation of one component.
pub(super) struct ComponentDocs(Value);

impl Docs {
    /// Finds the documentation of a component that passed [`check`](crate::load::check), in its
    /// own sections, not in those of nested components.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let section = section(bytes).filter(|section| section.len() <= MAX_SECTION_BYTES);
        Self(section.unwrap_or_default().to_vec())
    }

    /// Parses the documentation. Only plain components are described by it.
    pub(super) fn parse(&self) -> ComponentDocs {
        ComponentDocs(read(&self.0).unwrap_or_default())
    }
}

impl ComponentDocs {
    /// Returns the documentation of a function, in an interface (by name without package and
    /// version) or at the top level.
    pub(super) fn of_function(&self, interface: Option<&str>, function: &str) -> Option<&str> {
        let mut worlds = self.0["worlds"].as_object().into_iter().flat_map(|worlds| worlds.values());
        let Some(interface) = interface else {
            // The older version does not distinguish exports from imports.
            return worlds.find_map(|world| {
                ["func_exports", "funcs"].iter().find_map(|key| said(&world[key][function]))
            });
        };
        let named = said(&self.0["interfaces"][interface]["funcs"][function]);
        named.or_else(|| {
            let keys = ["interface_exports", "interfaces"];
            worlds
                .find_map(|world| keys.iter().find_map(|key| said(&world[key][interface]["funcs"][function])))
        })
    }
}

/// Returns the text, which may be nested in an object with more details.
fn said(of: &Value) -> Option<&str> {
    of.as_str().or_else(|| of["docs"].as_str()).map(str::trim).filter(|text| !text.is_empty())
}

fn read(section: &[u8]) -> Option<Value> {
    let (version, text) = section.split_first()?;
    if !VERSIONS.contains(version) || json::measure(text).parsed_bytes > MAX_PARSED_BYTES {
        return None;
    }
    json::parse(str::from_utf8(text).ok()?).ok()
}

fn section(bytes: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.ok()? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if depth == 0 && section.name() == SECTION => {
                return Some(section.data());
            }
            _ => {}
        }
    }
    None
}
