//! The imports and exports of a component, read from its type.

use crate::error::Refusal;
use crate::grants::{Import, Power};
use crate::instance::WASI_VERSION;
use crate::interfaces::config;
use crate::v0_1_0::{GATE, TOOL, TYPES, VERSION};
use tollgate_agent::text::clean;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

/// Every interface that this host provides, and the power needed to use it.
const KNOWN: &[(&str, Option<Power>)] = &[
    ("tollgate:tool/call", None),
    ("tollgate:tool/content", None),
    ("tollgate:tool/agents", Some(Power::Delegates)),
    ("tollgate:tool/http-client", Some(Power::Http)),
    ("tollgate:tool/settings", Some(Power::Settings)),
    ("wasi:io/error", None),
    ("wasi:io/poll", None),
    ("wasi:io/streams", None),
    ("wasi:clocks/wall-clock", None),
    ("wasi:clocks/monotonic-clock", None),
    ("wasi:random/random", None),
    ("wasi:random/insecure", None),
    ("wasi:random/insecure-seed", None),
    ("wasi:cli/environment", None),
    ("wasi:cli/exit", None),
    ("wasi:cli/stdin", None),
    ("wasi:cli/stdout", None),
    ("wasi:cli/stderr", None),
    ("wasi:cli/terminal-input", None),
    ("wasi:cli/terminal-output", None),
    ("wasi:cli/terminal-stdin", None),
    ("wasi:cli/terminal-stdout", None),
    ("wasi:cli/terminal-stderr", None),
    ("wasi:filesystem/types", Some(Power::Files)),
    ("wasi:filesystem/preopens", Some(Power::Files)),
    ("wasi:sockets/network", Some(Power::Sockets)),
    ("wasi:sockets/instance-network", Some(Power::Sockets)),
    ("wasi:sockets/ip-name-lookup", Some(Power::Sockets)),
    ("wasi:sockets/tcp", Some(Power::Sockets)),
    ("wasi:sockets/tcp-create-socket", Some(Power::Sockets)),
    ("wasi:sockets/udp", Some(Power::Sockets)),
    ("wasi:sockets/udp-create-socket", Some(Power::Sockets)),
    ("wasi:http/types", Some(Power::Http)),
    ("wasi:http/outgoing-handler", Some(Power::Http)),
    ("wasi:config/store", Some(Power::Settings)),
];

/// Returns the interfaces that a component imports, sorted. `name` names the component in errors.
///
/// # Errors
/// Fails if it imports an interface, or a version of one, that this host does not provide.
pub(crate) fn read_imports(
    engine: &Engine,
    name: &str,
    component: &Component,
) -> Result<Vec<Import>, Refusal> {
    let mut imports = component
        .component_type()
        .imports(engine)
        // This interface has types only, so it needs no implementation.
        .filter(|(interface, _)| split(interface) != (TYPES, VERSION))
        .map(|(interface, _)| import(name, interface))
        .collect::<Result<Vec<_>, _>>()?;
    imports.sort();
    Ok(imports)
}

/// Checks interfaces that were recorded when the component was compiled, in the same way.
pub(crate) fn known_imports(name: &str, imports: &[Import]) -> Result<Vec<Import>, Refusal> {
    imports.iter().map(|known| import(name, &known.interface)).collect()
}

/// The exports of a component that can be called.
pub(crate) enum Exports {
    /// The contract's tool interface, in a supported version.
    Contract,
    /// Arbitrary functions.
    Plain,
}

/// Determines the kind of a component.
///
/// # Errors
/// Fails if it is a tool of an unsupported version, or a gate.
pub(crate) fn read_exports(engine: &Engine, name: &str, component: &Component) -> Result<Exports, Refusal> {
    let component_type = component.component_type();
    let interfaces: Vec<(&str, &str)> = component_type
        .exports(engine)
        .filter(|(_, export)| matches!(export.ty, ComponentItem::ComponentInstance(_)))
        .map(|(export, _)| split(export))
        .collect();
    match interfaces.iter().find(|(interface, _)| *interface == TOOL) {
        Some((_, version)) if is_served(version, VERSION) => Ok(Exports::Contract),
        Some((_, version)) => Err(other_version(name, TOOL, version)),
        None if interfaces.iter().any(|(interface, _)| *interface == GATE) => Err(Refusal::new(format!(
            "{name} is a gate, not a tool: it exports {GATE}. Gates do not belong among the tools"
        ))),
        None => Ok(Exports::Plain),
    }
}

/// Returns whether a component exports the gate interface in any version.
pub(crate) fn exports_a_gate(engine: &Engine, component: &Component) -> bool {
    component.component_type().exports(engine).any(|(export, _)| split(export).0 == GATE)
}

/// Refuses a component that is not a gate of the supported contract version.
pub(crate) fn check_gate_exports(engine: &Engine, name: &str, component: &Component) -> Result<(), Refusal> {
    let component_type = component.component_type();
    let exports: Vec<(&str, &str)> =
        component_type.exports(engine).map(|(export, _)| split(export)).collect();
    match exports.iter().find(|(interface, _)| *interface == GATE) {
        Some((_, version)) if is_served(version, VERSION) => Ok(()),
        Some((_, version)) => Err(other_version(name, GATE, version)),
        None if exports.iter().any(|(interface, _)| *interface == TOOL) => Err(Refusal::new(format!(
            "{name} is a tool, not a gate: it exports {TOOL}. Tools do not belong among the gates"
        ))),
        None => Err(Refusal::new(format!(
            "{name} is not a gate: it does not export {GATE}@{VERSION}. Build it for the world tollgate:tool/gate-component"
        ))),
    }
}

/// Refuses a gate that imports functions: a gate without imports has no effects.
pub(crate) fn refuse_imports(engine: &Engine, name: &str, component: &Component) -> Result<(), Refusal> {
    let component_type = component.component_type();
    let mut imports = component_type.imports(engine).map(|(import, _)| import);
    match imports.find(|import| split(import) != (TYPES, VERSION)) {
        None => Ok(()),
        Some(import) if split(import).0 == TYPES => Err(other_version(name, TYPES, split(import).1)),
        Some(import) => Err(Refusal::new(format!(
            "{name} imports {}, and a gate imports nothing, so that it can only judge what it is shown. \
             Build it without what imports it; a gate in Rust is `#![no_std]`",
            clean(import, 200)
        ))),
    }
}

/// Returns a known import with its power, or the reason for refusing the component. `full` is the
/// interface with its version.
fn import(name: &str, full: &str) -> Result<Import, Refusal> {
    let (interface, version) = split(full);
    if interface == TYPES {
        return Err(other_version(name, interface, version));
    }
    let known = KNOWN.iter().find(|(known, _)| *known == interface);
    let Some((_, power)) = known else {
        return Err(unknown(name, full));
    };
    let served = match interface.split_once(':').map(|(namespace, _)| namespace) {
        Some("tollgate") if !is_served(version, VERSION) => {
            return Err(other_version(name, interface, version));
        }
        Some("tollgate") => true,
        _ if interface == "wasi:config/store" => config::VERSIONS.contains(&version),
        _ => is_served(version, WASI_VERSION),
    };
    if !served {
        return Err(Refusal::new(format!(
            "{name} imports {}, and this host serves WASI 0.2 (Preview 2); build it for wasm32-wasip2 or with a WASI 0.2 adapter",
            clean(full, 200)
        )));
    }
    Ok(Import { interface: full.to_owned(), power: *power })
}

fn unknown(name: &str, full: &str) -> Refusal {
    let shown = clean(full, 200);
    let hint = match full {
        _ if full.starts_with("wasi:http/") => {
            "; tools do not answer requests; leave out the incoming handler"
        }
        _ if full.starts_with("wasi:") => {
            "; build without what needs it (a tool has WASI 0.2 cli, http and config, and no more)"
        }
        _ => "; a tool can import tollgate:tool and WASI 0.2 interfaces, and no others",
    };
    Refusal::new(format!("{name} imports {shown}, which this host does not provide{hint}"))
}

fn other_version(name: &str, interface: &str, version: &str) -> Refusal {
    let shown = clean(version, 40);
    Refusal::new(format!(
        "{name} is built against version {shown} of {interface}, and this host serves {VERSION}; \
         build it against {VERSION}, or use a host that serves {shown}"
    ))
}

/// Returns whether a requested version is compatible with a supported one: the first two numbers
/// are equal, and the third is not higher.
fn is_served(asked: &str, served: &str) -> bool {
    let numbers = |version: &str| -> Option<[u64; 3]> {
        let mut parts = version.split('.').map(str::parse);
        let three = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
        parts.next().is_none().then_some(three)
    };
    match (numbers(asked), numbers(served)) {
        (Some(asked), Some(served)) => asked[..2] == served[..2] && asked[2] <= served[2],
        _ => false,
    }
}

/// Splits an interface into its name and its version, which is empty if there is none.
fn split(full: &str) -> (&str, &str) {
    full.split_once('@').unwrap_or((full, ""))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn versions_are_compatible_within_their_track() {
        for (asked, served, is) in [
            ("0.2.0", "0.2.12", true),
            ("0.2.12", "0.2.12", true),
            ("0.2.13", "0.2.12", false),
            ("0.3.0", "0.2.12", false),
            ("0.2.0-rc.1", "0.2.12", false),
            ("", "0.2.12", false),
            ("0.1.0", "0.1.0", true),
        ] {
            assert_eq!(is_served(asked, served), is, "{asked} by {served}");
        }
    }

    #[test]
    fn imports_are_known_by_interface_and_version() {
        let of = |full: &str| import("x.wasm", full);
        assert_eq!(of("wasi:clocks/wall-clock@0.2.3").unwrap().power, None);
        assert_eq!(of("wasi:http/types@0.2.3").unwrap().power, Some(Power::Http));
        assert_eq!(of("wasi:config/store@0.2.0-rc.1").unwrap().power, Some(Power::Settings));
        let version = of("tollgate:tool/call@0.9.0").unwrap_err().to_string();
        assert!(version.contains("0.9.0") && version.contains("0.1.0"), "{version}");
        for (full, words) in [
            ("evil:thing/doit", "evil:thing/doit"),
            ("wasi:clocks/wall-clock@0.3.0", "WASI 0.2"),
            ("wasi:http/incoming-handler@0.2.0", "incoming handler"),
            ("wasi:nn/graph@0.2.0", "wasi:nn/graph"),
        ] {
            let refusal = of(full).unwrap_err().to_string();
            assert!(refusal.contains(words), "{refusal}");
        }
    }
}
