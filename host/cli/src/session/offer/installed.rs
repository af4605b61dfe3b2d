//! The version of a component that is in place, which an update is compared with.

use crate::session::origin::{Origins, surface_of};
use tollgate::grants::{RequestedGrants, parse_manifest};
use tollgate_agent::surface::Surface;
use tollgate_registry::{Entry, Metadata};
use tollgate_sandbox::{Component, Guest, Sandbox};

/// The request of a component without a manifest.
pub(super) const WHATEVER: &str = "do whatever it is granted";

/// A version of a component, as far as it is compared with another.
#[derive(Debug, Clone)]
pub(super) struct Version {
    /// The version that the component names.
    pub(super) version: String,
    pub(super) surface: Surface,
    /// The requests of its manifest; `None` if it has none.
    pub(super) asks: Option<RequestedGrants>,
    /// The interfaces that it imports, sorted.
    pub(super) imports: Vec<String>,
    pub(super) metadata: Metadata,
    /// The size of the component.
    pub(super) bytes: u64,
}

impl Version {
    pub(super) fn new(
        component: &Component,
        asks: Option<RequestedGrants>,
        metadata: Metadata,
        bytes: usize,
    ) -> Self {
        let mut imports: Vec<_> =
            component.imports().iter().map(|import| import.interface.to_string()).collect();
        imports.sort();
        Self {
            version: component.descriptor().version.clone(),
            surface: surface_of(component),
            asks,
            imports,
            metadata,
            bytes: bytes as u64,
        }
    }

    /// Describes the requests and needs of another version beyond those of this one.
    pub(super) fn excess_over(&self, asks: Option<&RequestedGrants>, surface: &Surface) -> Vec<String> {
        let asked = match (asks, &self.asks) {
            (Some(asks), Some(known)) => asks.excess_over(known),
            (None, Some(_)) => vec![format!("{WHATEVER}: its manifest is gone")],
            (_, None) => Vec::new(),
        };
        asked.into_iter().chain(surface.needs().excess_over(&self.surface.needs())).collect()
    }
}

/// Loads the version that is in place; `None` if the files are not those of the lock file, or do
/// not load.
pub(super) async fn installed(sandbox: &Sandbox, origins: &Origins, before: &Entry) -> Option<Version> {
    let (wasm, asks) = origins.files.in_place(before).ok()??;
    let (bytes, metadata) = (wasm.len(), Metadata::of(&wasm));
    let asks = asks.as_deref().map(parse_manifest).transpose().ok()?;
    match sandbox.load_either(&before.file, wasm).await.ok()? {
        Guest::Tools(component) => Some(Version::new(&component, asks, metadata, bytes)),
        Guest::Gate(_) => None,
    }
}
