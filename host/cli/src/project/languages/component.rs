//! Turns a core module into a component: embeds its type and adapts imports of WASI preview 1.

use super::super::error::BuildError;
use super::work_dir::{CONTRACT, WORLD};
use std::fmt::Display;
use std::fs;
use std::path::Path;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, SourceMap};

/// Makes a component of a module of the contract's world.
///
/// # Errors
/// The module lacks an export that the world requires, or imports something that does not exist.
pub(super) fn of_module(module: &Path) -> Result<Vec<u8>, BuildError> {
    let bytes = fs::read(module).map_err(BuildError::file(module, "read"))?;
    without_debug_information(&bytes)
        .and_then(|mut bytes| encode(&mut bytes))
        .map_err(|e| failed(module, &format!("{e:#}")))
}

/// Makes a component of a file in the text format, which holds a component or a module of the
/// contract's world.
///
/// # Errors
/// The text is neither.
pub(super) fn of_text(source: &Path) -> Result<Vec<u8>, BuildError> {
    let mut bytes = wat::parse_file(source).map_err(|e| failed(source, &e))?;
    if is_component(&bytes) {
        return Ok(bytes);
    }
    encode(&mut bytes).map_err(|e| failed(source, &format!("{e:#}")))
}

/// Returns whether the header's layer field marks a component.
fn is_component(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(&[0x0d, 0x00, 0x01, 0x00])
}

/// Removes the debug information, which may be 20 times as large as the rest. The names of functions
/// remain.
fn without_debug_information(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (mut kept, mut start) = (Vec::new(), 0);
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        let range = match &payload {
            Payload::Version { range, .. } => Some(range.clone()),
            _ => payload.as_section().map(|(_, range)| range),
        };
        let Some(range) = range else { continue };
        let end = range.end;
        if !matches!(&payload, Payload::CustomSection(section) if section.name().starts_with(".debug_")) {
            kept.extend_from_slice(&module[start..end]);
        }
        start = end;
    }
    Ok(kept)
}

fn encode(module: &mut Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let mut contract = SourceMap::default();
    CONTRACT.iter().for_each(|(name, text)| contract.push_str(name, *text));
    let package = contract.parse().map_err(|(_, e)| e)?;
    let package = resolve.push_group(package)?;
    let world = resolve.select_world(&[package], Some(WORLD.rsplit('/').next().unwrap_or(WORLD)))?;
    embed_component_metadata(module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .validate(true)
        .module(module)?
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}

fn failed(file: &Path, why: &dyn Display) -> BuildError {
    BuildError::Failed(format!("{} cannot be made a component: {why}", file.display()))
}
