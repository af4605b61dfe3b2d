//! Assembles a guest's text into the bytes of a file that a host loads.
//!
//! A file that begins with `(module` or `(component` is complete; any other is put into its
//! frame. A module then becomes a component of its world. The directive `form` changes the
//! result: `text` keeps the file as it is written, `module` yields the core module, `truncated N`
//! a component cut after N bytes, `bytes 7f 45 ...` these bytes.

use anyhow::{Context as _, Result, anyhow, bail};
use wasm_encoder::ComponentSection as _;
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

use crate::header::Header;
use crate::lowering::string;
use crate::{frame, world};

/// Returns the bytes of the guest with this name.
pub(crate) fn assemble(name: &str, source: &str) -> Result<Vec<u8>> {
    let header = Header::parse(source).map_err(|why| anyhow!("{why}"))?;
    let form = header.form.clone().unwrap_or_default();
    let (kind, detail) = form.split_once(char::is_whitespace).unwrap_or((&form, ""));
    match kind {
        "" => with_docs(component(name, source, &header)?, &header),
        "text" => Ok(source.as_bytes().to_vec()),
        "module" => module(name, source, &header),
        "bytes" => detail
            .split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).with_context(|| format!("`{byte}`")))
            .collect(),
        "truncated" => {
            let mut bytes = component(name, source, &header)?;
            bytes.truncate(detail.parse().context("how many bytes?")?);
            Ok(bytes)
        }
        other => bail!("there is no form `{other}`"),
    }
}

fn component(name: &str, source: &str, header: &Header) -> Result<Vec<u8>> {
    let module = module(name, source, header)?;
    if Parser::is_component(&module) {
        return Ok(module);
    }
    let component = ComponentEncoder::default().validate(true).module(&module)?.encode()?;
    with_more_instances(component, header.more_instances)
}

/// Adds the section of documentation that the header describes.
fn with_docs(mut component: Vec<u8>, header: &Header) -> Result<Vec<u8>> {
    let Some(docs) = &header.docs else { return Ok(component) };
    let docs = string(&serde_json::from_str(docs).context("the docs")?)?;
    let section = wasm_encoder::CustomSection { name: "package-docs".into(), data: docs.into_bytes().into() };
    section.append_to_component(&mut component);
    Ok(component)
}

/// Returns the core module with its world embedded, or the component if the file contains one.
fn module(name: &str, source: &str, header: &Header) -> Result<Vec<u8>> {
    let (resolve, world) = world::resolve(header)?;
    let code: String =
        source.lines().skip_while(|line| line.starts_with(";;")).collect::<Vec<_>>().join("\n");
    let is_complete = ["(module", "(component"].iter().any(|start| code.trim_start().starts_with(start));
    let text = if is_complete { code } else { frame::around(&code, name, header, &resolve)? };
    let mut bytes = wat::parse_str(text)?;
    if Parser::is_core_wasm(&bytes) {
        embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8)?;
    }
    Ok(bytes)
}

/// Adds a component that instantiates a module with one page of memory `count` times, and
/// instantiates it.
fn with_more_instances(mut component: Vec<u8>, count: u32) -> Result<Vec<u8>> {
    if count == 0 {
        return Ok(component);
    }
    let mut instances = wasm_encoder::InstanceSection::new();
    for _ in 0..count {
        instances.instantiate::<_, &str>(0, []);
    }
    let mut crowd = wasm_encoder::Component::new();
    crowd.section(&wasm_encoder::RawSection { id: 1, data: &wat::parse_str("(module (memory 1))")? });
    crowd.section(&instances);
    let nested = wasm_encoder::RawSection { id: 4, data: &crowd.finish() };
    nested.append_to_component(&mut component);

    let mut instance = wasm_encoder::ComponentInstanceSection::new();
    instance.instantiate::<_, &str>(components_in(&component)? - 1, []);
    instance.append_to_component(&mut component);
    Ok(component)
}

fn components_in(component: &[u8]) -> Result<u32> {
    let mut depth = 0;
    let mut count = 0;
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::ModuleSection { .. } => depth += 1,
            Payload::ComponentSection { .. } => {
                count += u32::from(depth == 0);
                depth += 1;
            }
            Payload::End(_) => depth -= 1,
            _ => {}
        }
    }
    Ok(count)
}
