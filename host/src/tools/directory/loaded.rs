//! The components of the tools directory, served or not.

use super::super::Toolbox;
use super::claims::Claims;
use super::files::Stamp;
use crate::config::{ComponentGrants, ToolLimits};
use crate::grants::{Approvals, RequestedGrants};
use crate::tools::toolbox::FileRemedy;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tollgate_agent::surface::Surface;
use tollgate_registry::Lock;
use tollgate_sandbox::OmittedFunction;

/// The result of loading the tools directory.
#[derive(Debug, Clone, Default)]
pub struct LoadedTools {
    /// The tools that can be called, and the files that were refused.
    pub toolbox: Toolbox,
    /// The components that are served, sorted by file.
    pub components: Vec<LoadedComponent>,
    /// Notices for the operator, such as configuration entries that match nothing.
    pub notices: Vec<Notice>,
    /// Sentences about grants and limits of the configuration that apply to nothing that is served.
    pub unused_settings: Vec<String>,
    /// The tools that the configuration names and that do not exist.
    pub unknown_tools: Vec<UnknownTool>,
    /// The state of every file when it was examined, served or not.
    pub(super) stamps: BTreeMap<PathBuf, Stamp>,
    /// The decisions of people about components.
    pub approvals: Approvals,
    /// Components that ask for more than was approved, and are not served.
    pub pending: Vec<PendingComponent>,
    /// Components that are not served because something that they were granted is unavailable.
    pub unopened: Vec<PendingComponent>,
    /// Components that are not served because another file claims their id.
    pub contested: Vec<PendingComponent>,
    /// The claims of all files that could be loaded.
    pub(super) claims: Claims,
    /// The record of the components' origins.
    pub lock: Lock,
}

/// A component that exists and is not served, for a person to decide about.
#[derive(Debug, Clone)]
pub struct PendingComponent {
    /// Its file.
    pub file: PathBuf,
    /// The component's id.
    pub id: String,
    /// The SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// The grants that it requests; `None` if it has no manifest.
    pub asks: Option<RequestedGrants>,
    /// Its visible surface and its needs.
    pub surface: Surface,
    /// The SHA-256 of its manifest, in hexadecimal; `None` if it has none.
    pub(super) manifest: Option<String>,
}

/// A component that is served.
#[derive(Debug, Clone)]
pub struct LoadedComponent {
    /// Its file.
    pub file: PathBuf,
    /// The component's id.
    pub id: String,
    /// The version that it declares.
    pub version: String,
    /// The SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// Its imports.
    pub imports: Vec<tollgate_sandbox::Import>,
    /// The functions of a plain component that are not tools.
    pub left_out: Vec<OmittedFunction>,
    /// The grants that it received.
    pub grants: ComponentGrants,
    /// The grants that it requests; `None` if it has no manifest.
    pub asks: Option<RequestedGrants>,
    /// The limits of each of its tools, by the tool's name.
    pub limits: BTreeMap<String, ToolLimits>,
    /// Its visible surface and its needs, which an approval covers.
    pub surface: Surface,
    /// Its tools whose text differs from the approved one, sorted by name.
    pub reworded: Vec<String>,
}

impl LoadedComponent {
    /// Returns the SHA-256 of its surface, in hexadecimal.
    #[must_use]
    pub fn surface_hash(&self) -> String {
        tollgate_agent::digest::digest(self.surface.text().as_bytes())
    }
}

/// A notice for the operator about the tools and their configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The text.
    pub text: String,
    /// The step that resolves what the notice is about; `None` if the text says all.
    pub remedy: Option<FileRemedy>,
}

/// A tool that the configuration names and that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownTool {
    /// The agent that lists it; `None` for a permission rule.
    pub agent: Option<String>,
    /// The sentence about it, with the nearest name.
    pub notice: String,
}
