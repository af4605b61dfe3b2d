//! The worlds that guests' modules claim to implement.

use std::path::Path;

use anyhow::{Context as _, Result};
use wit_parser::{Resolve, WorldId};

use crate::header::Header;

/// The WASI packages, in the order of their dependencies.
const WASI: &[(&str, &str)] = &[
    ("io.wit", include_str!("../../guests/wit/io.wit")),
    ("clocks.wit", include_str!("../../guests/wit/clocks.wit")),
    ("random.wit", include_str!("../../guests/wit/random.wit")),
    ("filesystem.wit", include_str!("../../guests/wit/filesystem.wit")),
    ("sockets.wit", include_str!("../../guests/wit/sockets.wit")),
    ("cli.wit", include_str!("../../guests/wit/cli.wit")),
    ("http.wit", include_str!("../../guests/wit/http.wit")),
];

/// The version of the packages in [`WASI`].
const WASI_VERSION: &str = "0.2.12";

/// Resolves the contract's types and the guest's world.
pub(crate) fn resolve(header: &Header) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    resolve.push_dir(&contract).context("the contract in wit/ does not parse")?;
    if !header.imports.is_empty() || header.world.is_some() {
        for (name, text) in WASI {
            resolve.push_str(name, text)?;
        }
    }
    let package = resolve.push_str("guest.wit", &text(header)).context("the guest's world")?;
    let world = resolve.select_world(&[package], Some("guest"))?;
    Ok((resolve, world))
}

fn text(header: &Header) -> String {
    let kind = match header.is_gate {
        true => "include tollgate:tool/gate-component@0.1.0;",
        false => "include tollgate:tool/tool-component@0.1.0;",
    };
    let body = header.world.as_deref().unwrap_or(kind);
    let imports: String =
        header.imports.iter().map(|interface| format!("import {interface}@{WASI_VERSION};\n")).collect();
    format!("package tollgate:guest;\nworld guest {{\n{body}\n{imports}}}\n{}", header.wit)
}
