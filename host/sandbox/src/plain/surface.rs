//! The tools that a plain component offers, read from the types of its exports.

use super::exported_function::{ExportedFunction, MAX_NAME_BYTES};
use super::function::Function;
use crate::description::OmittedFunction;
use std::collections::BTreeMap;
use std::path::Path;
use tollgate_agent::descriptor::{MAX_LABEL_BYTES, MAX_TOOLS};
use tollgate_agent::name;
use tollgate_agent::text::clean;
use wasmtime::Engine;
use wasmtime::component::Component as Compiled;
use wasmtime::component::types::{ComponentFunc, ComponentItem};

/// The maximum number of functions that are examined.
const MAX_FUNCTIONS: usize = 4 * MAX_TOOLS;

/// The functions that a component offers.
pub(super) struct PlainSurface {
    pub(super) version: String,
    pub(super) functions: BTreeMap<String, Function>,
    pub(super) left_out: Vec<OmittedFunction>,
}

/// A function that can be a tool.
struct ToolFunction {
    tool: String,
    full_name: String,
    /// Its interface with package and without version.
    interface: Option<String>,
    version: String,
    function: Function,
}

/// Reads the exports. The error continues a sentence that begins with the component's name.
pub(super) fn read(engine: &Engine, compiled: &Compiled) -> Result<PlainSurface, String> {
    let mut fitting: BTreeMap<String, ToolFunction> = BTreeMap::new();
    let mut left_out = Vec::new();
    for (exported, of_type) in exported(engine, compiled)? {
        let (full_name, tool) = (exported.full_name(), exported.tool_name());
        let (interface, version) = exported.split_version();
        match fit(compiled, exported, &of_type, &tool) {
            Ok(function) => {
                let one = ToolFunction { tool, full_name, interface, version, function };
                left_out.extend(add(&mut fitting, one)?);
            }
            Err(reason) => left_out.push(OmittedFunction { function: full_name, reason }),
        }
    }
    match fitting.len() {
        0 => Err(nothing_to_call(&left_out)),
        1..=MAX_TOOLS => {
            let version = version_of(fitting.values());
            let functions = fitting.into_values().map(|one| (one.tool, one.function)).collect();
            Ok(PlainSurface { version, functions, left_out })
        }
        many => Err(too_many(many)),
    }
}

/// Adds a function to the distinct ones. If a function exists in two versions of its interface,
/// the newer is kept and the other is returned.
fn add(
    fitting: &mut BTreeMap<String, ToolFunction>,
    one: ToolFunction,
) -> Result<Option<OmittedFunction>, String> {
    let folded = name::fold(&one.tool);
    let Some(other) = fitting.remove(&folded) else {
        fitting.insert(folded, one);
        return Ok(None);
    };
    if other.tool != one.tool || other.interface.is_none() || other.interface != one.interface {
        return Err(format!(
            "exports two functions whose tools would have names that look alike, {} and {}; rename one of the two",
            other.full_name, one.full_name
        ));
    }
    let newness = |of: &ToolFunction| semver::Version::parse(&of.version).ok();
    let (newer, older) = if newness(&one) > newness(&other) { (one, other) } else { (other, one) };
    let reason = format!("a newer version is used instead, {}", newer.full_name);
    fitting.insert(folded, newer);
    Ok(Some(OmittedFunction { function: older.full_name, reason }))
}

fn fit(
    compiled: &Compiled,
    exported: ExportedFunction,
    of_type: &ComponentFunc,
    tool: &str,
) -> Result<Function, String> {
    if let Some(reason) = exported.why_not_a_tool() {
        return Err(reason.to_owned());
    }
    if !name::is_tool_name(tool) || !name::is_id(&tool.to_ascii_lowercase()) {
        let shown = clean(tool, MAX_NAME_BYTES);
        return Err(format!(
            "the name of its tool would be \"{shown}\", and must fit [a-zA-Z][a-zA-Z0-9-]{{0,63}}"
        ));
    }
    if name::is_reserved_name(tool) {
        return Err(format!(
            "the name of its tool would be \"{}\", which is reserved for the host; rename the function",
            clean(tool, MAX_NAME_BYTES)
        ));
    }
    let function = Function::of(compiled, exported, of_type)?;
    if function.prepares_the_component() {
        return Err("its toolchain added it to build the component; the author did not write it".to_owned());
    }
    Ok(function)
}

/// Returns the functions of the world, followed by those of its interfaces.
fn exported(engine: &Engine, compiled: &Compiled) -> Result<Vec<(ExportedFunction, ComponentFunc)>, String> {
    let mut found = Vec::new();
    let component_type = compiled.component_type();
    let mut add = |interface: Option<&str>, function: &str, of_type| {
        let interface = interface.map(str::to_owned);
        found.push((ExportedFunction { interface, function: function.to_owned() }, of_type));
        if found.len() > MAX_FUNCTIONS {
            Err(format!(
                "exports more than {MAX_FUNCTIONS} functions; a component offers at most {MAX_TOOLS} tools"
            ))
        } else {
            Ok(())
        }
    };
    for (export, item) in component_type.exports(engine) {
        match item.ty {
            ComponentItem::ComponentFunc(of_type) => add(None, export, of_type)?,
            ComponentItem::ComponentInstance(instance) => {
                for (function, item) in instance.exports(engine) {
                    if let ComponentItem::ComponentFunc(of_type) = item.ty {
                        add(Some(export), function, of_type)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the version of the package of its interfaces; `None` if they are from several.
fn version_of<'a>(fitting: impl Iterator<Item = &'a ToolFunction>) -> String {
    let mut versions = fitting.filter(|one| !one.version.is_empty()).map(|one| &one.version);
    let Some(first) = versions.next() else { return String::new() };
    if versions.all(|version| version == first) { clean(first, MAX_LABEL_BYTES) } else { String::new() }
}

fn nothing_to_call(left_out: &[OmittedFunction]) -> String {
    let mut words =
        "is not a tool: it exports neither tollgate:tool/tool nor a function that can be one".to_owned();
    for OmittedFunction { function, reason } in left_out.iter().take(3) {
        words.push_str(&format!("; {function}: {reason}"));
    }
    if left_out.len() > 3 {
        words.push_str(&format!("; and {} more", left_out.len() - 3));
    }
    words
}

fn too_many(functions: usize) -> String {
    format!(
        "exports {functions} functions; a component offers at most {MAX_TOOLS} tools. Leave some out of its world"
    )
}

/// Returns the id of a plain component. It is derived from the file name, because the component
/// declares none.
///
/// # Errors
/// Fails if the name has no letter to begin with.
pub(crate) fn id_of(name: &str) -> Result<String, String> {
    let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
    let mut id = String::new();
    for c in stem.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            id.push(c);
        } else if !id.ends_with('-') {
            id.push('-');
        }
    }
    let id = id.trim_matches('-');
    match name::is_id(id) && !name::is_reserved_id(id) {
        true => Ok(id.to_owned()),
        false => Err(format!(
            "takes its id from its file's name, and \"{}\" is not a valid id: rename the file to begin with a letter, \
             with at most 64 letters, digits and hyphens, not host or tollgate",
            clean(&stem, MAX_NAME_BYTES)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_from_the_names_of_files() {
        for (name, id) in [
            ("tools/My_Adder.wasm", "my-adder"),
            ("adder@0.1.0.wasm", "adder-0-1-0"),
            ("the kept component 1f/notes.wasm", "notes"),
            ("plain", "plain"),
        ] {
            assert_eq!(id_of(name).as_deref(), Ok(id));
        }
        for name in ["7.wasm", "", "..", "host.wasm", &format!("{}.wasm", "a".repeat(65))] {
            assert!(id_of(name).is_err(), "{name}");
        }
    }
}
