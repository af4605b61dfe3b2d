//! The frame around a guest's own code, so that its file shows only the attack.
//!
//! A file's fields come first in the module. After them the frame adds these definitions, unless
//! the file contains them:
//!
//! - `(memory $memory)`. Its first 64 KiB are for the file to use.
//! - `$realloc`: an allocator that only grows, as `cabi_realloc`.
//! - `$describe`: returns the header's descriptor, or one tool named after the file.
//! - `$validate_args`: accepts everything. (A gate has `$check_settings`.)
//! - `$execute (param $call i32) (result i32)`: returns `$returns`. The call's
//!   arguments are the text at `$call`: an address, and a length 4 bytes on.
//!   (A gate has `$judge`, which allows.)
//!
//! It also adds, for the file to use: the global `$returns`, which points to the header's result
//! (success with no data by default), and `$data`, `$message`, `$mutations` and `$actions`, which
//! store an address and a length into a result that is ok.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use wit_parser::{Resolve, Type};

use crate::header::Header;
use crate::lowering::Image;

/// The exports of a kind of component beside `describe`.
struct Kind {
    interface: &'static str,
    /// The check function with its parameters; it accepts everything.
    check: (&'static str, &'static str),
    /// The main function, which takes one address.
    works: &'static str,
    /// The result of the main function by default.
    returns: &'static str,
}

const TOOL: Kind = Kind {
    interface: "tool",
    check: ("validate-args", "(param i32 i32 i32 i32)"),
    works: "execute",
    returns: r#"{"ok": {"result": {"data": "null"}}}"#,
};

const GATE: Kind = Kind {
    interface: "gate",
    check: ("check-settings", "(param i32 i32)"),
    works: "judge",
    returns: r#""allow""#,
};

const PAGE_BYTES: usize = 64 * 1024;

/// Returns the module's text: the guest's fields within their frame.
pub(crate) fn around(fields: &str, name: &str, header: &Header, resolve: &Resolve) -> Result<String> {
    let mut image = Image::new(resolve, PAGE_BYTES);
    let kind = if header.is_gate { &GATE } else { &TOOL };
    let returned = |function| returned_by(resolve, kind.interface, function);
    let descriptor = if header.is_gate { gate_descriptor(name, header) } else { descriptor(name, header) }?;
    let descriptor = image.lower(&returned("describe")?, &descriptor).context("in the descriptor")?;
    let returns = match &header.returns {
        Some(text) => serde_json::from_str(text).context("`returns` is not JSON")?,
        None => serde_json::from_str(kind.returns)?,
    };
    let (check, signature) = kind.check;
    let returns = image.lower(&returned(kind.works)?, &returns).context("in `returns`")?;
    let valid = image.lower(&returned(check)?, &"ok".into())?;

    let mut text = format!("(module\n{fields}\n(global $returns i32 (i32.const {returns}))\n");
    let _ = writeln!(text, "{}", setters());
    let heap = image.end().next_multiple_of(16);
    if !fields.contains("(memory $memory ") {
        let _ = writeln!(text, "(memory $memory {})", heap.div_ceil(PAGE_BYTES) + 1);
    }
    if !fields.contains("(func $realloc") {
        let _ = writeln!(text, "(global $heap (mut i32) (i32.const {heap}))\n{REALLOC}");
    }
    for (function, signature, address) in [
        ("describe", "", descriptor.to_string()),
        (check, signature, valid.to_string()),
        (kind.works, "(param $call i32)", returns.to_string()),
    ] {
        let (interface, export) = (kind.interface, function);
        let function = function.replace('-', "_");
        if !fields.contains(&format!("(func ${function} ")) {
            let _ = writeln!(text, "(func ${function} {signature} (result i32) (i32.const {address}))");
        }
        let _ = writeln!(text, "(export \"tollgate:tool/{interface}@0.1.0#{export}\" (func ${function}))");
    }
    text.push_str("(export \"memory\" (memory $memory))\n");
    text.push_str("(export \"cabi_realloc\" (func $realloc))\n");
    let _ = writeln!(text, "(data (memory $memory) (i32.const {PAGE_BYTES}) \"{}\"))", escaped(&image.bytes));
    Ok(text)
}

const REALLOC: &str = r"
(func $realloc (param $old i32) (param $old_size i32) (param $align i32) (param $size i32)
               (result i32) (local $start i32) (local $lack i32)
  (local.set $start
    (i32.and (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
             (i32.sub (i32.const 0) (local.get $align))))
  (global.set $heap (i32.add (local.get $start) (local.get $size)))
  (local.set $lack
    (i32.sub (i32.shr_u (i32.add (global.get $heap) (i32.const 65535)) (i32.const 16))
             (memory.size $memory)))
  (if (i32.gt_s (local.get $lack) (i32.const 0))
    (then (if (i32.eq (memory.grow $memory (local.get $lack)) (i32.const -1))
      (then unreachable))))
  (memory.copy $memory $memory (local.get $start) (local.get $old) (local.get $old_size))
  (local.get $start))";

/// The offsets of spans in `result<tool-output, tool-error>`, and of the tags that mark them as
/// present.
const SPANS: &[(&str, usize, Option<usize>)] =
    &[("data", 52, None), ("message", 64, Some(MESSAGE_TAG)), ("mutations", 72, None), ("actions", 80, None)];
const MESSAGE_TAG: usize = 60;

/// Returns functions that store a span into `$returns`.
fn setters() -> String {
    let mut text = String::new();
    for (name, offset, present) in SPANS {
        let _ = write!(text, "(func ${name} (param $address i32) (param $length i32)");
        if let Some(tag) = present {
            let _ = write!(text, "(i32.store8 $memory offset={tag} (global.get $returns) (i32.const 1))");
        }
        let _ = writeln!(
            text,
            "(i32.store $memory offset={offset} (global.get $returns) (local.get $address)) \
             (i32.store $memory offset={} (global.get $returns) (local.get $length)))",
            offset + 4
        );
    }
    text
}

fn returned_by(resolve: &Resolve, name: &str, function: &str) -> Result<Type> {
    let found = resolve.interfaces.iter().find(|(_, interface)| {
        interface.name.as_deref() == Some(name) && interface.functions.contains_key(function)
    });
    let (_, interface) = found.with_context(|| format!("the contract has no interface `{name}`"))?;
    interface.functions[function].result.context("the function returns nothing")
}

/// Returns the descriptor of a gate, like `descriptor`.
fn gate_descriptor(name: &str, header: &Header) -> Result<Value> {
    let mut descriptor = json!({ "id": name, "description": header.attack, "reads": [] });
    if let Some(text) = &header.descriptor {
        overlay(&mut descriptor, &serde_json::from_str(text).context("it is not JSON")?);
    }
    Ok(descriptor)
}

/// Returns the header's descriptor, with missing parts derived from the name.
fn descriptor(name: &str, header: &Header) -> Result<Value> {
    let mut descriptor = json!({ "id": name, "version": "1.0.0", "tools": [{}] });
    if let Some(text) = &header.descriptor {
        overlay(&mut descriptor, &serde_json::from_str(text).context("it is not JSON")?);
    }
    for tool in descriptor["tools"].as_array_mut().into_iter().flatten() {
        let mut whole = json!({
            "id": name,
            "name": name,
            "description": header.attack,
            "parameters": "{}",
            "execution": {},
        });
        overlay(&mut whole, tool);
        *tool = whole;
    }
    Ok(descriptor)
}

fn overlay(below: &mut Value, above: &Value) {
    if let (Some(below), Some(above)) = (below.as_object_mut(), above.as_object()) {
        below.extend(above.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 3), |mut text, byte| {
        let _ = write!(text, "\\{byte:02x}");
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn setters_store_where_the_lowering_puts_the_fields() {
        let (resolve, _) = crate::world::resolve(&Header::default()).unwrap();
        let mut image = Image::new(&resolve, 0);
        let mutations = json!({ "$repeat": [{ "key": "k", "update": "u" }, 3] });
        let value = json!({ "ok": {
            "result": { "data": "1", "message": "22" },
            "mutations": mutations,
            "actions": { "$repeat": ["escalate", 4] },
        } });
        let at = image.lower(&returned_by(&resolve, "tool", "execute").unwrap(), &value).unwrap();
        let lengths: Vec<u8> = SPANS.iter().map(|(_, offset, _)| image.bytes[at + offset + 4]).collect();
        assert_eq!(lengths, [1, 2, 3, 4]);
        assert_eq!(image.bytes[at + MESSAGE_TAG], 1);
    }
}
